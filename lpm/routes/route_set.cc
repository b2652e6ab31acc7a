// SPDX-License-Identifier: Apache-2.0

#include "lpm/routes/route_set.h"

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
  return LongestBefore(routes_.UpperBound(PackedPrefix(host)), host);
}

std::optional<Route> RouteSet::Cover(const Prefix& prefix) const {
  if (prefix.family() != family_) return std::nullopt;
  return LongestBefore(routes_.LowerBound(PackedPrefix(prefix)), prefix);
}

std::optional<Route> RouteSet::Cover(const Prefix& prefix,
                                     const const_iterator& at) const {
  return LongestBefore(at.it_, prefix);
}

// The longest route before `it` that covers `inside`, which is behind all of
// these or the last of them.
//
// The last of them that covers it is the longest. It is often the last or the
// one before. Otherwise it covers these, too, and so is no longer than the bits
// that the first of them shares with it: the search goes on from there.
std::optional<Route> RouteSet::LongestBefore(Map::const_iterator it,
                                             const Prefix& inside) const {
  constexpr int kFew = 2;
  const Map::const_iterator begin = routes_.begin();
  for (;;) {
    int common = 0;
    for (int i = 0; i < kFew; ++i) {
      if (it == begin) return std::nullopt;
      --it;
      common = CommonBits(absl::MakeUint128(it->high, it->low), inside.first());
      // What is before `inside` and begins like it is no longer.
      if (it->length <= common) return it->Unpack(family_);
    }
    it = routes_.UpperBound(
        PackedPrefix(Prefix::Truncate(inside.address(), common)), it);
  }
}

}  // namespace planb
