// SPDX-License-Identifier: Apache-2.0

// Parsing uses inet_pton, which is strict about both grammars, and adds
// messages that say what is wrong. Printing follows RFC 5952.

#include "lpm/address.h"

#include <arpa/inet.h>
#include <endian.h>

#include <array>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace planb {
namespace {

// Longest text of an address: INET6_ADDRSTRLEN counts the final NUL.
constexpr size_t kMaxText = INET6_ADDRSTRLEN - 1;

absl::Status Malformed(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("address \"", absl::CHexEscape(text.substr(0, kMaxText + 9)),
                   "\": ", why));
}

uint64_t Load64(const char* from) {
  uint64_t value;
  std::memcpy(&value, from, sizeof(value));
  return be64toh(value);
}

uint32_t Load32(const char* from) {
  uint32_t value;
  std::memcpy(&value, from, sizeof(value));
  return be32toh(value);
}

std::string FormatV4(uint32_t value) {
  return absl::StrCat(value >> 24, ".", (value >> 16) & 255, ".",
                      (value >> 8) & 255, ".", value & 255);
}

// RFC 5952 section 4: lower case, no leading zeros, "::" for the longest run
// of two or more zero groups, the first of equals.
std::string FormatV6(absl::uint128 value) {
  if (value >> 32 == 0xffff) {  // IPv4-mapped: section 5
    return absl::StrCat("::ffff:", FormatV4(static_cast<uint32_t>(value)));
  }
  std::array<uint16_t, 8> groups;
  for (size_t i = 0; i < groups.size(); ++i) {
    groups[i] = static_cast<uint16_t>(value >> static_cast<int>(112 - 16 * i));
  }
  size_t best = groups.size();
  size_t best_length = 1;  // a run must be longer than this
  for (size_t i = 0; i < groups.size();) {
    size_t end = i;
    while (end < groups.size() && groups[end] == 0) ++end;
    if (end - i > best_length) {
      best = i;
      best_length = end - i;
    }
    i = end + 1;
  }
  std::string text;
  for (size_t i = 0; i < groups.size();) {
    if (i == best) {
      text += "::";
      i += best_length;
      continue;
    }
    if (!text.empty() && text.back() != ':') text += ':';
    absl::StrAppend(&text, absl::Hex(groups[i]));
    ++i;
  }
  return text;
}

}  // namespace

absl::string_view FamilyName(Family family) {
  return family == Family::kIpv4 ? "IPv4" : "IPv6";
}

absl::StatusOr<Address> Address::Parse(absl::string_view text) {
  if (text.empty()) return Malformed(text, "is empty");
  if (text.size() > kMaxText) return Malformed(text, "is too long");
  if (text.find('%') != absl::string_view::npos) {
    return Malformed(text, "has a zone id, which a routing table cannot hold");
  }
  if (text.find('\0') != absl::string_view::npos) {
    return Malformed(text, "has a NUL character");
  }
  const std::string terminated(text);
  std::array<char, 16> bytes;
  if (text.find(':') != absl::string_view::npos) {
    if (inet_pton(AF_INET6, terminated.c_str(), bytes.data()) != 1) {
      return Malformed(text, "is not an IPv6 address (RFC 4291)");
    }
    return FromPacked(absl::string_view(bytes.data(), 16));
  }
  if (inet_pton(AF_INET, terminated.c_str(), bytes.data()) != 1) {
    return Malformed(text, text.find('.') == absl::string_view::npos
                               ? "is neither an IPv6 nor an IPv4 address"
                               : "is not an IPv4 address (four decimal "
                                 "numbers of 0..255, no leading zeros)");
  }
  return FromPacked(absl::string_view(bytes.data(), 4));
}

absl::StatusOr<Address> Address::FromPacked(absl::string_view bytes) {
  if (bytes.size() == 16) {
    return V6(
        absl::MakeUint128(Load64(bytes.data()), Load64(bytes.data() + 8)));
  }
  if (bytes.size() == 4) return V4(Load32(bytes.data()));
  return absl::InvalidArgumentError(absl::StrCat(
      "a packed address has 16 bytes (IPv6) or 4 (IPv4), not ", bytes.size()));
}

std::string Address::ToString() const {
  return family_ == Family::kIpv4 ? FormatV4(static_cast<uint32_t>(high_ >> 32))
                                  : FormatV6(bits());
}

std::string Address::ToPacked() const {
  const std::array<uint64_t, 2> words = {htobe64(high_), htobe64(low_)};
  std::string bytes(sizeof(words), '\0');
  std::memcpy(bytes.data(), words.data(), sizeof(words));
  bytes.resize(static_cast<size_t>(AddressBytes(family_)));
  return bytes;
}

}  // namespace planb
