// SPDX-License-Identifier: Apache-2.0

// The buckets of every histogram of durations: 1-2-5 from 1 us to 10 s. All
// histograms have the same, so they can be compared.

#ifndef PLANB_SERVER_BASE_DURATION_BUCKETS_H_
#define PLANB_SERVER_BASE_DURATION_BUCKETS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace planb::server {

// Inclusive upper bounds in nanoseconds.
inline constexpr std::array<int64_t, 22> kDurationBounds = [] {
  std::array<int64_t, 22> bounds = {};
  int64_t decade = 1'000;
  for (size_t i = 0; i < bounds.size(); ++i) {
    constexpr int64_t kSteps[] = {1, 2, 5};
    bounds[i] = decade * kSteps[i % 3];
    if (i % 3 == 2) decade *= 10;
  }
  return bounds;
}();

// The last bucket counts durations above all bounds.
inline constexpr size_t kDurationBuckets = kDurationBounds.size() + 1;

inline size_t DurationBucket(int64_t nanoseconds) {
  return static_cast<size_t>(std::lower_bound(kDurationBounds.begin(),
                                              kDurationBounds.end(),
                                              nanoseconds) -
                             kDurationBounds.begin());
}

// The bounds in seconds, as metrics show them.
inline constexpr std::array<double, kDurationBounds.size()>
    kDurationBoundsSeconds = [] {
      std::array<double, kDurationBounds.size()> seconds = {};
      for (size_t i = 0; i < seconds.size(); ++i) {
        seconds[i] = static_cast<double>(kDurationBounds[i]) / 1e9;
      }
      return seconds;
    }();

}  // namespace planb::server

#endif  // PLANB_SERVER_BASE_DURATION_BUCKETS_H_
