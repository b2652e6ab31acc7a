#include "lpm/io/testing/table_bytes.h"

#include <xxhash.h>

#include <cstddef>

#include "absl/strings/str_cat.h"

namespace planb::testing {
namespace {

constexpr size_t kPreamble = 12;
constexpr size_t kHead = 8;
constexpr size_t kSum = 8;
constexpr uint32_t kEndType = 6;
constexpr size_t kEndPayload = 40;

std::string Little(uint64_t value, size_t size) {
  std::string octets;
  for (; size > 0; --size, value >>= 8) {
    octets += static_cast<char>(value & 255);
  }
  return octets;
}

uint32_t Load32(const std::string& octets, size_t at) {
  uint32_t value = 0;
  for (size_t i = 4; i-- > 0;) {
    value = value << 8 | static_cast<unsigned char>(octets[at + i]);
  }
  return value;
}

std::string Sum(const std::string& octets, size_t at, size_t size,
                uint64_t seed) {
  return Little64(XXH3_64bits_withSeed(octets.data() + at, size, seed));
}

Prefix P(absl::string_view text) { return *Prefix::Parse(text); }

}  // namespace

std::string Little16(uint64_t value) { return Little(value, 2); }
std::string Little32(uint64_t value) { return Little(value, 4); }
std::string Little64(uint64_t value) { return Little(value, 8); }

std::string TableFileOf(
    const std::vector<std::pair<uint32_t, std::string>>& blocks,
    uint32_t version) {
  std::string file = absl::StrCat("\x89PLB\r\n\x1a\n", Little32(version));
  for (const auto& [type, given] : blocks) {
    std::string payload = given;
    if (type == kEndType && payload.size() == kEndPayload - 8) {
      payload += Little64(0);
    }
    absl::StrAppend(&file, Little32(type), Little32(payload.size()), payload,
                    Little64(0));
  }
  return RepairTableFile(file);
}

std::string RepairTableFile(std::string octets) {
  uint64_t ordinal = 0;
  for (size_t at = kPreamble; at + kHead <= octets.size(); ++ordinal) {
    const size_t size = Load32(octets, at + 4);
    if (size > octets.size() - at - kHead) break;
    const size_t end = at + kHead + size;
    if (octets.size() - end < kSum) break;
    if (Load32(octets, at) == kEndType && size == kEndPayload) {
      octets.replace(end - 8, 8, Sum(octets, 0, at, 0));
    }
    octets.replace(end, kSum, Sum(octets, at, end - at, ordinal));
    at = end + kSum;
  }
  return octets;
}

TableContents SmallTable() {
  TableContents table;
  table.header = {"default", 0x0102030405060708, "0123456789abcdef"};
  NextHop full{7, *Address::Parse("2001:db8::1"), "eth0", 3, "upstream"};
  NextHop four{9, *Address::Parse("192.0.2.1"), "", 1, ""};
  NextHop bare{4294967294, std::nullopt, "", 0, ""};
  table.next_hops = {full, four, bare};
  table.groups = {{8, {{7, 2}, {9, 1}}, "both"}, {10, {}, ""}};
  table.routes = {
      {P("0.0.0.0/0"), 7},          {P("192.0.2.0/25"), 9},
      {P("192.0.2.0/32"), 1},       {P("::/0"), 8},
      {P("2001:db8::/32"), 7},      {P("2001:db8::/48"), 4294967294},
      {P("2001:db8::ffff/128"), 2},
  };
  return table;
}

}  // namespace planb::testing
