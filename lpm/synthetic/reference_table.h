// SPDX-License-Identifier: Apache-2.0

// A second implementation of longest-prefix match, to check answers of the
// engine and of servers, and the addresses to check them with. It is a hash map
// for each prefix length, searched from the longest to the shortest. Shares no
// code and no algorithm with the engine, and is fast enough for millions of
// lookups, unlike the oracle of tests, against which it is tested.

#ifndef PLANB_LPM_SYNTHETIC_REFERENCE_TABLE_H_
#define PLANB_LPM_SYNTHETIC_REFERENCE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/numeric/int128.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "lpm/address.h"
#include "lpm/prefix.h"

namespace planb {

// Routes of both families. Thread-safe, because const after construction.
class ReferenceTable {
 public:
  // Of a repeated prefix, the last route counts. O(routes).
  explicit ReferenceTable(absl::Span<const Route> routes);

  // The route with the longest prefix that contains `address`, or none.
  // Searches one hash map for each prefix length of the address's family.
  std::optional<Route> Lookup(const Address& address) const;

  // The next hop of that route, or kNoRoute.
  NextHopId NextHop(const Address& address) const;
  std::vector<NextHopId> NextHops(absl::Span<const Address> addresses) const;

  // The next hop of all IPv6 addresses with the upper half of `address`;
  // kUndecided if they have different next hops.
  NextHopId NextHopOfHalf(const Address& address) const;

 private:
  // All routes of one length: first address to next hop.
  struct Length {
    int length;
    absl::uint128 mask;
    absl::flat_hash_map<absl::uint128, NextHopId> next_hops;
  };
  // Of one family, longest first.
  using Half = std::vector<Length>;

  static Half Build(Family family, absl::Span<const Route> routes);

  Half ipv4_;
  Half ipv6_;
  // By upper half: the first addresses of routes longer than /64, and the
  // addresses after their last ones.
  absl::flat_hash_map<uint64_t, std::vector<absl::uint128>> changes_;
};

// Passes to `on_address`, for every route, the addresses around the two
// boundaries at which the answer may change: its first address and the one
// after its last, each with both neighbours that exist. At most six for a
// route, with repetitions. O(routes). An error of `on_address` ends it and is
// returned.
absl::Status VisitBoundaries(
    absl::Span<const Route> routes,
    absl::FunctionRef<absl::Status(const Address&)> on_address);

// Passes `count` random addresses to `on_address`: most within routes, the
// others anywhere, and of both families if `routes` (sorted) has both. Memory
// is independent of `count`. An error of `on_address` ends it and is returned.
absl::Status VisitSamples(
    absl::Span<const Route> routes, size_t count, uint64_t seed,
    absl::FunctionRef<absl::Status(const Address&)> on_address);

}  // namespace planb

#endif  // PLANB_LPM_SYNTHETIC_REFERENCE_TABLE_H_
