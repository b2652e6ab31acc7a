// SPDX-License-Identifier: Apache-2.0

#include "lpm/routes/route_set.h"

#include <algorithm>

#include "absl/base/internal/raw_logging.h"

namespace planb {

RouteSet::RouteSet(Family family, absl::Span<const Route> routes)
    : family_(family) {
  const Prefix* last = nullptr;  // of the prefixes, as long as they ascend
  bool ascending = true;
  for (const Route& route : routes) {
    ABSL_RAW_CHECK(route.prefix.family() == family, "route of another family");
    ABSL_RAW_CHECK(IsNextHop(route.next_hop), "a reserved next hop");
    ascending = ascending && (last == nullptr || *last < route.prefix);
    last = &route.prefix;
    const PackedRoute packed(route.prefix, route.next_hop);
    if (ascending) {
      routes_.Append(packed);
    } else {
      ABSL_RAW_CHECK(routes_.InsertOrAssign(packed), "a prefix appears twice");
    }
  }
}

bool RouteSet::Announce(const Prefix& prefix, NextHopId next_hop) {
  ABSL_RAW_CHECK(next_hop != kNoRoute, "a reserved next hop");
  return Exchange(prefix, next_hop) != next_hop;
}

bool RouteSet::Withdraw(const Prefix& prefix) {
  return prefix.family() == family_ && Exchange(prefix, kNoRoute) != kNoRoute;
}

NextHopId RouteSet::Exchange(const Prefix& prefix, NextHopId next_hop) {
  ABSL_RAW_CHECK(prefix.family() == family_, "prefix of another family");
  ABSL_RAW_CHECK(next_hop != kUndecided, "a reserved next hop");
  const Map::Position at = routes_.Locate(PackedPrefix(prefix));
  const NextHopId before = at.found ? routes_.At(at).next_hop : kNoRoute;
  if (before == next_hop) return before;
  if (next_hop == kNoRoute) {
    routes_.Remove(at);
  } else {
    routes_.Put(at, PackedRoute(prefix, next_hop));
  }
  return before;
}

NextHopId RouteSet::Find(const Prefix& prefix) const {
  if (prefix.family() != family_) return kNoRoute;
  const PackedRoute* route = routes_.Find(PackedPrefix(prefix));
  return route == nullptr ? kNoRoute : route->next_hop;
}

RouteSet::const_iterator RouteSet::LowerBound(const Prefix& prefix) const {
  if (prefix.family() != family_) {
    return prefix.family() < family_ ? begin() : end();
  }
  return {family_, routes_.LowerBound(PackedPrefix(prefix))};
}

std::optional<Route> RouteSet::Match(const Address& address) const {
  if (address.family() != family_) return std::nullopt;
  const Prefix host = Prefix::Truncate(address, AddressBits(family_));
  return LongestUpTo(host, host);
}

std::optional<Route> RouteSet::Cover(const Prefix& prefix) const {
  if (prefix.family() != family_ || prefix.length() == 0) return std::nullopt;
  return LongestUpTo(Prefix::Truncate(prefix.address(), prefix.length() - 1),
                     prefix);
}

// The longest route that covers `bound`, which covers `inside`.
//
// The last route not after `bound` either covers it, and then nothing longer
// does; or it lies before, and a route that covers both is no longer than the
// bits they share: the search goes on from there.
std::optional<Route> RouteSet::LongestUpTo(Prefix bound,
                                           const Prefix& inside) const {
  for (;;) {
    auto it = routes_.UpperBound(PackedPrefix(bound));
    if (it == routes_.begin()) return std::nullopt;
    const Route route = (--it)->Unpack(family_);
    if (route.prefix.Covers(inside)) return route;
    bound = Prefix::Truncate(
        inside.address(),
        std::min(bound.length(),
                 CommonBits(route.prefix.first(), inside.first())));
  }
}

}  // namespace planb
