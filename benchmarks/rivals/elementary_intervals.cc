// SPDX-License-Identifier: Apache-2.0

#include "benchmarks/rivals/elementary_intervals.h"

#include <array>

#include "absl/base/internal/raw_logging.h"

namespace planb::paper {
namespace {

// The last of the 128-bit values whose first bits are the prefix's, so that
// what follows starts right after it in either family.
absl::uint128 LastBits(const Prefix& prefix) {
  return prefix.length() == 128
             ? prefix.first()
             : prefix.first() | (absl::Uint128Max() >> prefix.length());
}

class Cutter {
 public:
  Cutter(size_t routes, Boundaries boundaries) : boundaries_(boundaries) {
    intervals_.reserve(2 * routes + 1);
    intervals_.push_back({0, kNoRoute});
  }

  // REQUIRES: starts do not descend from call to call.
  void Cut(absl::uint128 start, NextHopId next_hop) {
    Interval& last = intervals_.back();
    if (start == last.start &&
        (boundaries_ != Boundaries::kAll || start == 0)) {
      last.next_hop = next_hop;
      const size_t n = intervals_.size();
      if (boundaries_ == Boundaries::kMerged && n > 1 &&
          intervals_[n - 2].next_hop == next_hop) {
        intervals_.pop_back();
      }
    } else if (boundaries_ != Boundaries::kMerged ||
               last.next_hop != next_hop) {
      intervals_.push_back({start, next_hop});
    }
  }

  std::vector<Interval> Take() && { return std::move(intervals_); }

 private:
  const Boundaries boundaries_;
  std::vector<Interval> intervals_;
};

// A prefix the sweep is inside of.
struct Open {
  absl::uint128 last;
  NextHopId next_hop;
};

}  // namespace

std::vector<Interval> Sweep(absl::Span<const Route> routes,
                            Boundaries boundaries) {
  Cutter cutter(routes.size(), boundaries);
  // The open prefixes nest: one for each length at most, on top of the whole
  // space without a route, which never closes.
  std::array<Open, 130> open;
  size_t depth = 0;
  open[depth++] = {absl::Uint128Max(), kNoRoute};
  const auto close_before = [&](absl::uint128 start) {
    while (depth > 1 && open[depth - 1].last < start) {
      const absl::uint128 last = open[--depth].last;
      cutter.Cut(last + 1, open[depth - 1].next_hop);
    }
  };
  const Route* previous = nullptr;
  for (const Route& route : routes) {
    ABSL_RAW_CHECK(previous == nullptr || previous->prefix < route.prefix,
                   "routes must ascend strictly by prefix");
    previous = &route;
    close_before(route.prefix.first());
    cutter.Cut(route.prefix.first(), route.next_hop);
    open[depth++] = {LastBits(route.prefix), route.next_hop};
  }
  close_before(absl::Uint128Max());
  return std::move(cutter).Take();
}

}  // namespace planb::paper
