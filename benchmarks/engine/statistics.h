// SPDX-License-Identifier: Apache-2.0

// What many measured values come to.

#ifndef PLANB_BENCHMARKS_ENGINE_STATISTICS_H_
#define PLANB_BENCHMARKS_ENGINE_STATISTICS_H_

#include <cstddef>
#include <vector>

namespace planb {

struct Percentiles {
  size_t count = 0;
  double median = 0, p90 = 0, p99 = 0, p999 = 0, max = 0;
};

// By nearest rank: each is one of `values`, the least that so many of them do
// not exceed. With fewer than 1,000 values p999 is therefore the most, with
// fewer than 100 p99 is. All 0 for no values. O(n log n).
Percentiles PercentilesOf(std::vector<double> values);

// The middle one (of two, their mean). REQUIRES: not empty.
double Median(std::vector<double> values);

}  // namespace planb

#endif  // PLANB_BENCHMARKS_ENGINE_STATISTICS_H_
