// SPDX-License-Identifier: Apache-2.0

// From prefixes to elementary intervals (PlanB paper, sections 3.1 and 3.6),
// with the choice of what becomes a boundary.

#ifndef PLANB_BENCHMARKS_RIVALS_ELEMENTARY_INTERVALS_H_
#define PLANB_BENCHMARKS_RIVALS_ELEMENTARY_INTERVALS_H_

#include <vector>

#include "absl/numeric/int128.h"
#include "absl/types/span.h"
#include "lpm/prefix.h"

namespace planb::paper {

enum class Boundaries {
  // Each route's start and the address after its end are an entry each, as in
  // Algorithm 2: 2 * routes, whether or not others lie at the same address.
  kAll,
  // One entry an address: the disjoint intervals of section 3.1.
  kDistinct,
  // And none where the next hop stays the same.
  kMerged,
};

// The addresses from `start`, left-aligned in 128 bits, up to the next start
// all take `next_hop`. An interval may be empty: of several with one start the
// last counts.
struct Interval {
  absl::uint128 start;
  NextHopId next_hop;

  friend bool operator==(const Interval&, const Interval&) = default;
};

// Cuts the whole space along `routes`; starts ascend, and the first, alone in
// that, is 0. At most 2 * routes + 1 intervals, O(routes).
// Deviates from Algorithm 2 as printed, which sorts the starts at an address
// before the ends there: such an end then closes what has just begun, and the
// answer is wrong. Here ends come first.
// REQUIRES: one family, strictly ascending by prefix.
std::vector<Interval> Sweep(absl::Span<const Route> routes,
                            Boundaries boundaries);

}  // namespace planb::paper

#endif  // PLANB_BENCHMARKS_RIVALS_ELEMENTARY_INTERVALS_H_
