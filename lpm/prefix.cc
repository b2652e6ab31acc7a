// SPDX-License-Identifier: Apache-2.0

#include "lpm/prefix.h"

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace planb {
namespace {

// The host bits of a prefix: ones after the first `length` of 128.
constexpr absl::uint128 HostBits(int length) {
  return length == 128 ? absl::uint128(0) : absl::Uint128Max() >> length;
}

// Ones where an address of this family can have bits at all.
constexpr absl::uint128 FamilyBits(Family family) {
  return absl::Uint128Max() << (128 - AddressBits(family));
}

// True if a prefix of this length keeps something of the address. Else the
// length is the mistake: 10.0.0.1/0 without host bits is the default route, and
// ::ffff:10.0.0.1/24 the first part of IPv6.
bool KeepsMeaning(const Address& address, int length) {
  if (address.family() == Family::kIpv6 && address.bits() >> 32 == 0xffff) {
    return length >= 96;
  }
  return (address.bits() & ~HostBits(length)) != 0;
}

absl::Status Malformed(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(
      "prefix \"", absl::CHexEscape(text.substr(0, 64)), "\": ", why));
}

}  // namespace

absl::StatusOr<Prefix> Prefix::Create(const Address& address, int length) {
  const int bits = AddressBits(address.family());
  if (length < 0 || length > bits) {
    return absl::InvalidArgumentError(absl::StrCat("prefix length ", length,
                                                   " of ", address.ToString(),
                                                   " is not in 0..", bits));
  }
  const Prefix truncated = Truncate(address, length);
  if (truncated.address() != address) {
    return absl::InvalidArgumentError(absl::StrCat(
        "prefix ", address.ToString(), "/", length, " has host bits set",
        KeepsMeaning(address, length)
            ? absl::StrCat("; did you mean ", truncated.ToString(), "?")
            : ""));
  }
  return truncated;
}

Prefix Prefix::Truncate(const Address& address, int length) {
  return Prefix(
      Address::FromBits(address.family(), address.bits() & ~HostBits(length)),
      length);
}

absl::StatusOr<Prefix> Prefix::Parse(absl::string_view text) {
  const size_t slash = text.find('/');
  if (slash == absl::string_view::npos) {
    return Malformed(text, "has no \"/LENGTH\"");
  }
  absl::StatusOr<Address> address = Address::Parse(text.substr(0, slash));
  if (!address.ok()) return Malformed(text, address.status().message());
  const absl::string_view digits = text.substr(slash + 1);
  const std::optional<uint32_t> length = ParseDecimal(digits);
  if (!length.has_value() || *length > 128) {
    return Malformed(text, absl::StrCat("the length must be a plain number of "
                                        "0..",
                                        AddressBits(address->family())));
  }
  return Create(*address, static_cast<int>(*length));
}

absl::uint128 Prefix::last() const {
  return first() | (HostBits(length_) & FamilyBits(family()));
}

bool Prefix::Contains(const Address& address) const {
  return address.family() == family() && address.bits() >= first() &&
         address.bits() <= last();
}

bool Prefix::Covers(const Prefix& other) const {
  return other.length_ >= length_ && Contains(other.address_);
}

std::string Prefix::ToString() const {
  return absl::StrCat(address_.ToString(), "/", length_);
}

std::optional<uint32_t> ParseDecimal(absl::string_view text) {
  uint32_t number = 0;
  // SimpleAtoi allows signs and blanks.
  if (text.find_first_not_of("0123456789") != absl::string_view::npos ||
      (text.size() > 1 && text[0] == '0') || !absl::SimpleAtoi(text, &number)) {
    return std::nullopt;
  }
  return number;
}

std::optional<NextHopId> ParseNextHopId(absl::string_view text) {
  const std::optional<NextHopId> id = ParseDecimal(text);
  return id.has_value() && IsNextHop(*id) ? id : std::nullopt;
}

bool NamesNeighbor(const NextHop& next_hop) {
  if (!next_hop.interface.empty()) return true;
  if (!next_hop.gateway.has_value()) return false;
  const Address& gateway = *next_hop.gateway;
  return gateway.family() == Family::kIpv6
             ? gateway.bits() >> 118 != 0xfe80 >> 6
             : gateway.bits() >> 112 != 0xa9fe;
}

}  // namespace planb
