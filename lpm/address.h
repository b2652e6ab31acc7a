// SPDX-License-Identifier: Apache-2.0

// Addresses of both families, as values.
//
// An address is kept left-aligned in 128 bits, so that one search structure
// serves both families: an IPv4 address fills the top 32 bits, the rest is 0.

#ifndef PLANB_LPM_ADDRESS_H_
#define PLANB_LPM_ADDRESS_H_

#include <compare>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/numeric/bits.h"
#include "absl/numeric/int128.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace planb {

enum class Family : uint8_t { kIpv4 = 4, kIpv6 = 6 };

// Number of bits of an address: 32 or 128.
constexpr int AddressBits(Family family) {
  return family == Family::kIpv4 ? 32 : 128;
}

// Number of bytes of a packed address: 4 or 16.
constexpr int AddressBytes(Family family) { return AddressBits(family) / 8; }

// How many first bits two left-aligned addresses share: 0..128.
inline int CommonBits(absl::uint128 a, absl::uint128 b) {
  const absl::uint128 differ = a ^ b;
  const uint64_t high = absl::Uint128High64(differ);
  return high != 0 ? absl::countl_zero(high)
                   : 64 + absl::countl_zero(absl::Uint128Low64(differ));
}

// "IPv4" or "IPv6".
absl::string_view FamilyName(Family family);

// An IPv4 or IPv6 address. A plain value: copyable, ordered by family (IPv4
// first) and then numerically. Thread-compatible.
class Address {
 public:
  // The IPv4 address 0.0.0.0.
  constexpr Address() = default;

  static constexpr Address V4(uint32_t value) {
    return Address(Family::kIpv4, uint64_t{value} << 32, 0);
  }
  static constexpr Address V6(absl::uint128 value) {
    return Address(Family::kIpv6, absl::Uint128High64(value),
                   absl::Uint128Low64(value));
  }
  // From left-aligned bits; for IPv4 the low 96 bits must be 0.
  static constexpr Address FromBits(Family family, absl::uint128 bits) {
    return Address(family, absl::Uint128High64(bits), absl::Uint128Low64(bits));
  }

  // Parses RFC 4291 section 2.2 text or a dotted quad. Zone ids, leading
  // zeros in quads, and blanks are refused.
  // Errors: INVALID_ARGUMENT, saying what is wrong with which text.
  static absl::StatusOr<Address> Parse(absl::string_view text);

  // Reads network byte order: 16 bytes are IPv6, 4 are IPv4.
  // Errors: INVALID_ARGUMENT for any other size.
  static absl::StatusOr<Address> FromPacked(absl::string_view bytes);

  constexpr Family family() const { return family_; }

  // The address, left-aligned in 128 bits.
  constexpr absl::uint128 bits() const {
    return absl::MakeUint128(high_, low_);
  }

  // Canonical text (RFC 5952; IPv4-mapped addresses in mixed notation).
  std::string ToString() const;

  // AddressBytes(family()) bytes in network byte order.
  std::string ToPacked() const;

  friend constexpr auto operator<=>(const Address&, const Address&) = default;

  template <typename H>
  friend H AbslHashValue(H state, const Address& address) {
    return H::combine(std::move(state), address.family_, address.high_,
                      address.low_);
  }

 private:
  constexpr Address(Family family, uint64_t high, uint64_t low)
      : family_(family), high_(high), low_(low) {}

  Family family_ = Family::kIpv4;
  uint64_t high_ = 0;
  uint64_t low_ = 0;
};

}  // namespace planb

#endif  // PLANB_LPM_ADDRESS_H_
