#include "lpm/io/testing/bytes.h"

#include <arpa/inet.h>
#include <bzlib.h>
#include <zlib.h>

#include <cstddef>
#include <cstdlib>

#include "absl/base/internal/raw_logging.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace planb::testing {
namespace {

std::string BigEndian(uint64_t value, size_t size) {
  std::string octets(size, '\0');
  for (size_t i = size; i-- > 0; value >>= 8) {
    octets[i] = static_cast<char>(value & 255);
  }
  return octets;
}

}  // namespace

std::string U8(uint64_t value) { return BigEndian(value, 1); }
std::string U16(uint64_t value) { return BigEndian(value, 2); }
std::string U32(uint64_t value) { return BigEndian(value, 4); }

std::string Packed(absl::string_view address) {
  char octets[16];
  const std::string text(address);
  if (inet_pton(AF_INET, text.c_str(), octets) == 1) {
    return std::string(octets, 4);
  }
  ABSL_RAW_CHECK(inet_pton(AF_INET6, text.c_str(), octets) == 1, text.c_str());
  return std::string(octets, 16);
}

std::string Mrt(uint16_t type, uint16_t subtype, absl::string_view body) {
  constexpr uint32_t kTimestamp = 1785420000;
  return absl::StrCat(U32(kTimestamp), U16(type), U16(subtype),
                      U32(body.size()), body);
}

std::string TableDump(uint16_t subtype, absl::string_view body) {
  return Mrt(13, subtype, body);
}

std::string PeerEntry(absl::string_view address, uint32_t as_number,
                      bool narrow_as) {
  const std::string octets = Packed(address);
  const int type = (octets.size() == 16 ? 1 : 0) + (narrow_as ? 0 : 2);
  return absl::StrCat(U8(static_cast<uint64_t>(type)), U32(0xc0000201), octets,
                      narrow_as ? U16(as_number) : U32(as_number));
}

std::string PeerTableBody(const std::vector<std::string>& peers) {
  constexpr absl::string_view kView = "view";
  return absl::StrCat(U32(0xc0000202), U16(kView.size()), kView,
                      U16(peers.size()), absl::StrJoin(peers, ""));
}

std::string Attribute(uint8_t type, absl::string_view value, bool extended) {
  extended = extended || value.size() > 255;
  return absl::StrCat(U8(extended ? 0x50 : 0x40), U8(type),
                      extended ? U16(value.size()) : U8(value.size()), value);
}

std::string Origin(uint8_t origin) { return Attribute(1, U8(origin)); }

std::string AsPath(const std::vector<uint32_t>& as_numbers) {
  std::string segment = absl::StrCat(U8(2), U8(as_numbers.size()));
  for (const uint32_t number : as_numbers) segment += U32(number);
  return Attribute(2, segment);
}

std::string NextHop4(absl::string_view address) {
  return Attribute(3, Packed(address));
}

std::string MpReach(absl::string_view next_hop) {
  const std::string octets = Packed(next_hop);
  return Attribute(14, absl::StrCat(U8(octets.size()), octets));
}

std::string Entry(uint16_t peer, absl::string_view attributes,
                  int64_t path_id) {
  return absl::StrCat(U16(peer), U32(1785000000),
                      path_id < 0 ? "" : U32(static_cast<uint64_t>(path_id)),
                      U16(attributes.size()), attributes);
}

std::string RibBody(absl::string_view prefix,
                    const std::vector<std::string>& entries) {
  const std::vector<std::string> parts = absl::StrSplit(prefix, '/');
  size_t length = 0;
  ABSL_RAW_CHECK(parts.size() == 2 && absl::SimpleAtoi(parts[1], &length),
                 "not a prefix");
  return absl::StrCat(U32(7), U8(length),
                      Packed(parts[0]).substr(0, (length + 7) / 8),
                      U16(entries.size()), absl::StrJoin(entries, ""));
}

std::string Gzip(absl::string_view plain) {
  z_stream stream = {};
  ABSL_RAW_CHECK(deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 8,
                              Z_DEFAULT_STRATEGY) == Z_OK,
                 "deflateInit2");
  std::string out(deflateBound(&stream, plain.size()) + 32, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(plain.data()));
  stream.avail_in = static_cast<unsigned int>(plain.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<unsigned int>(out.size());
  ABSL_RAW_CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END, "deflate");
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string Bzip2(absl::string_view plain) {
  unsigned int size =
      static_cast<unsigned int>(plain.size() + plain.size() / 50 + 600);
  std::string out(size, '\0');
  ABSL_RAW_CHECK(BZ2_bzBuffToBuffCompress(
                     out.data(), &size, const_cast<char*>(plain.data()),
                     static_cast<unsigned int>(plain.size()),
                     /*blockSize100k=*/1, 0, 0) == BZ_OK,
                 "BZ2_bzBuffToBuffCompress");
  out.resize(size);
  return out;
}

}  // namespace planb::testing
