// SPDX-License-Identifier: Apache-2.0

// Numbers below 256 have a bucket each. Above, a number's bucket is its power
// of two and the seven bits after the leading one.

#include "client/load/latency_histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace planb::client {
namespace {

constexpr int kBits = 7;
constexpr uint64_t kSteps = 1 << kBits;

}  // namespace

LatencyHistogram::LatencyHistogram() : buckets_(BucketOf(UINT64_MAX) + 1) {}

size_t LatencyHistogram::BucketOf(uint64_t nanoseconds) {
  const int shift =
      std::max(0, static_cast<int>(std::bit_width(nanoseconds)) - kBits - 1);
  return static_cast<uint64_t>(shift) * kSteps + (nanoseconds >> shift);
}

uint64_t LatencyHistogram::LastOf(size_t bucket) {
  if (bucket < 2 * kSteps) return bucket;
  const uint64_t shift = bucket / kSteps - 1;
  return ((kSteps + bucket % kSteps + 1) << shift) - 1;
}

void LatencyHistogram::Add(absl::Duration latency) {
  const auto nanoseconds = static_cast<uint64_t>(
      std::max<int64_t>(0, absl::ToInt64Nanoseconds(latency)));
  ++buckets_[BucketOf(nanoseconds)];
  ++count_;
  max_ = std::max(max_, nanoseconds);
}

void LatencyHistogram::Merge(const LatencyHistogram& other) {
  for (size_t i = 0; i < buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
  count_ += other.count_;
  max_ = std::max(max_, other.max_);
}

absl::Duration LatencyHistogram::Quantile(double quantile) const {
  const auto rank = std::max<uint64_t>(
      1,
      static_cast<uint64_t>(std::ceil(quantile * static_cast<double>(count_))));
  uint64_t seen = 0;
  for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    seen += buckets_[bucket];
    if (seen >= rank) {
      return absl::Nanoseconds(std::min(LastOf(bucket), max_));
    }
  }
  return absl::ZeroDuration();
}

}  // namespace planb::client
