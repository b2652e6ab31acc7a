// SPDX-License-Identifier: Apache-2.0

// The masks are made here, not taken from Prefix, so that a mistake there
// would show as a difference.

#include "client/load/reference_table.h"

#include <functional>
#include <map>
#include <utility>

namespace planb::client {

ReferenceTable::ReferenceTable(absl::Span<const Route> routes)
    : ipv4_(Build(Family::kIpv4, routes)), ipv6_(Build(Family::kIpv6, routes)) {
  for (const Route& route : routes) {
    if (route.prefix.length() <= 64) continue;
    const absl::uint128 first = route.prefix.address().bits();
    auto& changes = changes_[absl::Uint128High64(first)];
    changes.push_back(first);
    changes.push_back(first +
                      (absl::uint128(1) << (128 - route.prefix.length())));
  }
}

ReferenceTable::Half ReferenceTable::Build(Family family,
                                           absl::Span<const Route> routes) {
  std::map<int, Length, std::greater<>> lengths;
  for (const Route& route : routes) {
    if (route.prefix.family() != family) continue;
    const int length = route.prefix.length();
    Length& slot = lengths[length];
    slot.length = length;
    // Shifting a 128-bit number by 128 is undefined.
    slot.mask =
        length == 0 ? absl::uint128(0) : absl::Uint128Max() << (128 - length);
    slot.next_hops[route.prefix.address().bits()] = route.next_hop;
  }
  Half half;
  half.reserve(lengths.size());
  for (auto& [length, slot] : lengths) half.push_back(std::move(slot));
  return half;
}

std::optional<Route> ReferenceTable::Lookup(const Address& address) const {
  const Half& half = address.family() == Family::kIpv4 ? ipv4_ : ipv6_;
  for (const Length& slot : half) {
    const auto found = slot.next_hops.find(address.bits() & slot.mask);
    if (found != slot.next_hops.end()) {
      return Route{Prefix::Truncate(address, slot.length), found->second};
    }
  }
  return std::nullopt;
}

NextHopId ReferenceTable::NextHop(const Address& address) const {
  const std::optional<Route> route = Lookup(address);
  return route.has_value() ? route->next_hop : kNoRoute;
}

NextHopId ReferenceTable::NextHopOfHalf(const Address& address) const {
  const uint64_t half = absl::Uint128High64(address.bits());
  const NextHopId first = NextHop(Address::V6(absl::MakeUint128(half, 0)));
  const auto changes = changes_.find(half);
  if (changes == changes_.end()) return first;
  for (const absl::uint128 bits : changes->second) {
    // What follows the last address of the half is of no concern.
    if (absl::Uint128High64(bits) == half &&
        NextHop(Address::V6(bits)) != first) {
      return kUndecided;
    }
  }
  return first;
}

}  // namespace planb::client
