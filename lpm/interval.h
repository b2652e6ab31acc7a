// From prefixes to elementary intervals (PlanB paper, section 3.1): the address
// space cut at every place where the answer may change, with the next hop of
// each piece. Longest-prefix match becomes a search in one dimension.

#ifndef PLANB_LPM_INTERVAL_H_
#define PLANB_LPM_INTERVAL_H_

#include <vector>

#include "absl/numeric/int128.h"
#include "absl/types/span.h"
#include "lpm/prefix.h"

namespace planb {

// The addresses from `start`, left-aligned in 128 bits, up to the next
// interval's start all take `next_hop`.
struct Interval {
  absl::uint128 start;
  NextHopId next_hop;

  friend bool operator==(const Interval&, const Interval&) = default;
};

// Cuts the address space along `routes`: one sweep with a stack, O(routes).
// The result starts at 0, ascends strictly, covers the whole space, and no two
// neighbours have the same next hop; at most 2 * routes + 1 intervals.
// REQUIRES: one family, strictly ascending by prefix.
std::vector<Interval> ElementaryIntervals(absl::Span<const Route> routes);

}  // namespace planb

#endif  // PLANB_LPM_INTERVAL_H_
