// SPDX-License-Identifier: Apache-2.0

// Counts durations in bounded memory. Percentiles are exact to within 1%: there
// are 128 buckets for each power of two of nanoseconds.

#ifndef PLANB_CLIENT_LOAD_LATENCY_HISTOGRAM_H_
#define PLANB_CLIENT_LOAD_LATENCY_HISTOGRAM_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"

namespace planb::client {

// Thread-compatible.
class LatencyHistogram {
 public:
  LatencyHistogram();

  // Negative durations count as zero. O(1).
  void Add(absl::Duration latency);

  // Adds the counts of `other`.
  void Merge(const LatencyHistogram& other);

  uint64_t count() const { return count_; }

  // The smallest duration that a share of at least `quantile` (0..1) did not
  // exceed, rounded up by less than 1% and at most Max(). Zero if there are no
  // counts.
  absl::Duration Quantile(double quantile) const;

  // The longest duration, exactly.
  absl::Duration Max() const { return absl::Nanoseconds(max_); }

 private:
  static size_t BucketOf(uint64_t nanoseconds);
  // The largest number of nanoseconds in a bucket.
  static uint64_t LastOf(size_t bucket);

  std::vector<uint64_t> buckets_;
  uint64_t count_ = 0;
  uint64_t max_ = 0;
};

}  // namespace planb::client

#endif  // PLANB_CLIENT_LOAD_LATENCY_HISTOGRAM_H_
