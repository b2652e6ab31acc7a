#include "lpm/route_set.h"

#include <algorithm>
#include <iterator>

#include "absl/base/internal/raw_logging.h"
#include "lpm/bits.h"

namespace planb {

RouteSet::RouteSet(Family family, absl::Span<const Route> routes)
    : family_(family) {
  for (const Route& route : routes) {
    ABSL_RAW_CHECK(route.prefix.family() == family, "route of another family");
    ABSL_RAW_CHECK(IsNextHop(route.next_hop), "a reserved next hop");
    routes_.emplace_hint(routes_.end(), route.prefix, route.next_hop);
  }
  ABSL_RAW_CHECK(routes_.size() == routes.size(), "a prefix appears twice");
}

bool RouteSet::Announce(const Prefix& prefix, NextHopId next_hop) {
  ABSL_RAW_CHECK(prefix.family() == family_, "prefix of another family");
  ABSL_RAW_CHECK(IsNextHop(next_hop), "a reserved next hop");
  const auto [it, fresh] = routes_.try_emplace(prefix, next_hop);
  if (!fresh && it->second == next_hop) return false;
  it->second = next_hop;
  return true;
}

bool RouteSet::Withdraw(const Prefix& prefix) {
  return routes_.erase(prefix) > 0;
}

NextHopId RouteSet::Find(const Prefix& prefix) const {
  const auto it = routes_.find(prefix);
  return it == routes_.end() ? kNoRoute : it->second;
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
// does; or it lies before, and whatever covers both is no longer than the bits
// they share: the search goes on from there.
std::optional<Route> RouteSet::LongestUpTo(Prefix bound,
                                           const Prefix& inside) const {
  for (;;) {
    auto it = routes_.upper_bound(bound);
    if (it == routes_.begin()) return std::nullopt;
    --it;
    if (it->first.Covers(inside)) return Route{it->first, it->second};
    bound = Prefix::Truncate(
        inside.address(), std::min(bound.length(), CommonBits(it->first.first(),
                                                              inside.first())));
  }
}

}  // namespace planb
