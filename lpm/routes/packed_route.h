// SPDX-License-Identifier: Apache-2.0

// A route in 24 bytes: what it is where the family is known.

#ifndef PLANB_LPM_ROUTES_PACKED_ROUTE_H_
#define PLANB_LPM_ROUTES_PACKED_ROUTE_H_

#include <cstdint>

#include "absl/numeric/int128.h"
#include "lpm/address.h"
#include "lpm/prefix.h"

namespace planb {

// A prefix without its family. Plain values.
struct PackedPrefix {
  explicit constexpr PackedPrefix(const Prefix& prefix)
      : high(absl::Uint128High64(prefix.first())),
        low(absl::Uint128Low64(prefix.first())),
        length(static_cast<uint8_t>(prefix.length())) {}
  constexpr PackedPrefix(uint64_t first_high, uint64_t first_low, uint8_t bits)
      : high(first_high), low(first_low), length(bits) {}

  uint64_t high;
  uint64_t low;
  uint8_t length;
};

struct PackedRoute {
  constexpr PackedRoute(const Prefix& prefix, NextHopId hop)
      : high(absl::Uint128High64(prefix.first())),
        low(absl::Uint128Low64(prefix.first())),
        next_hop(hop),
        length(static_cast<uint8_t>(prefix.length())) {}

  // REQUIRES: the family of the prefix that was packed.
  constexpr Route Unpack(Family family) const {
    const absl::uint128 first = absl::MakeUint128(high, low);
    return {Prefix(Address::FromBits(family, first), length), next_hop};
  }

  uint64_t high;
  uint64_t low;
  NextHopId next_hop;
  uint8_t length;
};
static_assert(sizeof(PackedRoute) == 24);

// The order of Prefix, as PersistentMap wants it.
struct PackedRouteOrder {
  using Entry = PackedRoute;
  using Key = PackedPrefix;

  static constexpr Key KeyOf(const PackedRoute& route) {
    return {route.high, route.low, route.length};
  }
  static constexpr bool Less(const Key& a, const Key& b) {
    const bool below = a.low != b.low ? a.low < b.low : a.length < b.length;
    return a.high != b.high ? a.high < b.high : below;
  }
};

}  // namespace planb

#endif  // PLANB_LPM_ROUTES_PACKED_ROUTE_H_
