// The masks are made here, not taken from Prefix, so that a mistake there
// would show as a difference.

#include "client/reference_table.h"

#include <functional>
#include <map>
#include <utility>

namespace planb::client {

ReferenceTable::ReferenceTable(absl::Span<const Route> routes)
    : ipv4_(Build(Family::kIpv4, routes)),
      ipv6_(Build(Family::kIpv6, routes)) {}

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

}  // namespace planb::client
