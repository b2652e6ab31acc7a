#include "lpm/interval.h"

#include <array>

#include "absl/base/internal/raw_logging.h"

namespace planb {
namespace {

// The last of the 128-bit values whose first bits are the prefix's. Unlike
// Prefix::last() it also fills the bits an IPv4 address does not have, so that
// the next interval starts right after it.
absl::uint128 LastBits(const Prefix& prefix) {
  return prefix.length() == 128
             ? prefix.first()
             : prefix.first() | (absl::Uint128Max() >> prefix.length());
}

// Collects interval starts in ascending order, where a later word about the
// same start overrides the earlier, and drops those that change nothing.
class IntervalList {
 public:
  explicit IntervalList(size_t routes) {
    intervals_.reserve(2 * routes + 1);
    intervals_.push_back({0, kNoRoute});
  }

  void Add(absl::uint128 start, NextHopId next_hop) {
    if (intervals_.back().start == start) {
      intervals_.back().next_hop = next_hop;
      const size_t n = intervals_.size();
      if (n > 1 && intervals_[n - 2].next_hop == next_hop) {
        intervals_.pop_back();
      }
    } else if (intervals_.back().next_hop != next_hop) {
      intervals_.push_back({start, next_hop});
    }
  }

  std::vector<Interval> Take() && { return std::move(intervals_); }

 private:
  std::vector<Interval> intervals_;
};

// A prefix the sweep is inside of.
struct Open {
  absl::uint128 last;
  NextHopId next_hop;
};

}  // namespace

std::vector<Interval> ElementaryIntervals(absl::Span<const Route> routes) {
  IntervalList intervals(routes.size());
  // Prefixes nest, so the open ones form a stack, one for each length at most.
  // The bottom is the whole space without a route; it never closes.
  std::array<Open, 130> open;
  size_t depth = 0;
  open[depth++] = {absl::Uint128Max(), kNoRoute};

  // Ends come before starts at the same address, unlike in the paper's
  // Algorithm 2: a prefix that ends where the next begins must not close it.
  const auto close_before = [&](absl::uint128 start) {
    while (depth > 1 && open[depth - 1].last < start) {
      const absl::uint128 last = open[--depth].last;
      intervals.Add(last + 1, open[depth - 1].next_hop);
    }
  };
  const Route* previous = nullptr;
  for (const Route& route : routes) {
    ABSL_RAW_CHECK(previous == nullptr || previous->prefix < route.prefix,
                   "routes must ascend strictly by prefix");
    ABSL_RAW_CHECK(route.next_hop != kNoRoute, "next hop 0 is reserved");
    previous = &route;
    close_before(route.prefix.first());
    intervals.Add(route.prefix.first(), route.next_hop);
    open[depth++] = {LastBits(route.prefix), route.next_hop};
  }
  // What reaches the last address of all closes nowhere: `last < max` is false.
  close_before(absl::Uint128Max());
  return std::move(intervals).Take();
}

}  // namespace planb
