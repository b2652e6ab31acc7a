// The routes of one family, ordered by prefix: what a FIB is compiled from, and
// what explains its answers.

#ifndef PLANB_LPM_ROUTE_SET_H_
#define PLANB_LPM_ROUTE_SET_H_

#include <cstddef>
#include <optional>

#include "absl/container/btree_map.h"
#include "absl/types/span.h"
#include "lpm/address.h"
#include "lpm/prefix.h"

namespace planb {

// Invariants: prefixes are distinct and of family(); IsNextHop of each next
// hop. Thread-compatible. About 55 octets a route.
class RouteSet {
 public:
  using Map = absl::btree_map<Prefix, NextHopId>;
  using const_iterator = Map::const_iterator;

  explicit RouteSet(Family family) : family_(family) {}
  // REQUIRES: routes of `family`, distinct. O(routes) if they ascend.
  RouteSet(Family family, absl::Span<const Route> routes);

  // Announces: adds the route, or changes its next hop. False if nothing
  // changed. O(log size).
  // REQUIRES: a prefix of family(), IsNextHop(next_hop).
  bool Announce(const Prefix& prefix, NextHopId next_hop);

  // Withdraws. False if there is no such route. O(log size).
  bool Withdraw(const Prefix& prefix);

  // The next hop of exactly this prefix, or kNoRoute. O(log size).
  NextHopId Find(const Prefix& prefix) const;

  // The route with the longest prefix that holds `address`: the one that
  // decides. Takes one search for each of the few prefixes that it shares a
  // beginning with, 128 at most, O(log size) each.
  std::optional<Route> Match(const Address& address) const;

  // The route with the longest prefix that covers `prefix` and is shorter.
  std::optional<Route> Cover(const Prefix& prefix) const;

  // Ascending by prefix.
  const_iterator begin() const { return routes_.begin(); }
  const_iterator end() const { return routes_.end(); }
  // The first route not before `prefix`.
  const_iterator LowerBound(const Prefix& prefix) const {
    return routes_.lower_bound(prefix);
  }

  Family family() const { return family_; }
  size_t size() const { return routes_.size(); }
  bool empty() const { return routes_.empty(); }

 private:
  std::optional<Route> LongestUpTo(Prefix bound, const Prefix& inside) const;

  Family family_;
  Map routes_;
};

}  // namespace planb

#endif  // PLANB_LPM_ROUTE_SET_H_
