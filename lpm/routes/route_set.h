// SPDX-License-Identifier: Apache-2.0

// The routes of one family, ordered by prefix. A FIB is compiled from them, and
// they explain its answers. Share() makes another set of the same routes in
// constant time; the two share all memory that neither changes.

#ifndef PLANB_LPM_ROUTES_ROUTE_SET_H_
#define PLANB_LPM_ROUTES_ROUTE_SET_H_

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/numeric/int128.h"
#include "absl/types/span.h"
#include "lpm/address.h"
#include "lpm/prefix.h"
#include "lpm/routes/persistent_map.h"

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

// A route in 24 bytes: its prefix is whole where the family is known.
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
  static constexpr uint64_t Lead(const Key& key) { return key.high; }
};

// Invariants: prefixes are distinct and of family(); IsNextHop of each next
// hop. Thread-compatible, each set by itself: while one thread changes a set,
// others may read, share and destroy sets that were shared from it before.
// About 25 bytes a route where routes came in order, 28 after much change.
class RouteSet {
  using Map = PersistentMap<PackedRouteOrder>;

 public:
  // Yields routes by value. Good until the set is changed or destroyed.
  class const_iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using iterator_concept = std::bidirectional_iterator_tag;
    using value_type = Route;
    using difference_type = ptrdiff_t;
    using reference = Route;
    // Holds the route for as long as `it->prefix` is evaluated.
    class pointer {
     public:
      explicit pointer(const Route& route) : route_(route) {}
      const Route* operator->() const { return &route_; }

     private:
      Route route_;
    };

    const_iterator() = default;
    Route operator*() const { return it_->Unpack(family_); }
    pointer operator->() const { return pointer(**this); }
    // The same, quicker to look at.
    const PackedRoute& packed() const { return *it_; }
    const_iterator& operator++() {
      ++it_;
      return *this;
    }
    const_iterator operator++(int) { return {family_, it_++}; }
    const_iterator& operator--() {
      --it_;
      return *this;
    }
    const_iterator operator--(int) { return {family_, it_--}; }
    friend bool operator==(const const_iterator& a, const const_iterator& b) {
      return a.it_ == b.it_;
    }

   private:
    friend class RouteSet;
    const_iterator(Family family, const Map::const_iterator& it)
        : it_(it), family_(family) {}

    Map::const_iterator it_;
    Family family_ = Family::kIpv4;
  };

  explicit RouteSet(Family family) : family_(family) {}
  // REQUIRES: routes of `family`, distinct. O(routes) if they ascend.
  RouteSet(Family family, absl::Span<const Route> routes);
  RouteSet(RouteSet&&) noexcept = default;
  RouteSet& operator=(RouteSet&&) noexcept = default;

  // Another set of the same routes. Later changes of one do not show in the
  // other: each copies, before it changes it, memory that both hold (about 10
  // KB for the first change to a million routes). O(1).
  RouteSet Share() const { return RouteSet(family_, routes_.Share()); }

  // Announces: adds the route, or changes its next hop. False if nothing
  // changed. O(log size).
  // REQUIRES: a prefix of family(), IsNextHop(next_hop).
  bool Announce(const Prefix& prefix, NextHopId next_hop);

  // Withdraws. False if there is no such route. O(log size).
  bool Withdraw(const Prefix& prefix);

  // Announces; or withdraws, where `next_hop` is kNoRoute. Returns the next hop
  // that there was before, or kNoRoute. O(log size), in one search.
  // REQUIRES: a prefix of family(), `next_hop` not kUndecided.
  NextHopId Exchange(const Prefix& prefix, NextHopId next_hop);

  // Loads what Exchange of these prefixes reads: in a large set, one after the
  // other would wait for memory. For some dozens that are changed next.
  // O(prefixes * log size).
  void Prefetch(absl::Span<const PackedPrefix> prefixes) const {
    routes_.Prefetch(prefixes);
  }

  // The next hop of exactly this prefix, or kNoRoute. O(log size).
  NextHopId Find(const Prefix& prefix) const;

  // The route with the longest prefix that holds `address`: the one that
  // decides. Takes one search for each of the few prefixes that it shares a
  // beginning with, 128 at most, O(log size) each.
  std::optional<Route> Match(const Address& address) const;

  // The route with the longest prefix that covers `prefix` and is shorter.
  std::optional<Route> Cover(const Prefix& prefix) const;
  // The same, found sooner. REQUIRES: `at` is LowerBound(prefix).
  std::optional<Route> Cover(const Prefix& prefix,
                             const const_iterator& at) const;

  // Ascending by prefix.
  const_iterator begin() const { return {family_, routes_.begin()}; }
  const_iterator end() const { return {family_, routes_.end()}; }
  // The first route not before `prefix`.
  const_iterator LowerBound(const Prefix& prefix) const;

  Family family() const { return family_; }
  size_t size() const { return routes_.size(); }
  bool empty() const { return routes_.empty(); }
  // Bytes of memory; what other sets hold too counts in full. O(1).
  size_t bytes() const { return routes_.bytes(); }

 private:
  RouteSet(Family family, Map routes)
      : family_(family), routes_(std::move(routes)) {}

  std::optional<Route> LongestBefore(Map::const_iterator it,
                                     const Prefix& inside) const;

  Family family_;
  Map routes_;
};

}  // namespace planb

#endif  // PLANB_LPM_ROUTES_ROUTE_SET_H_
