// SPDX-License-Identifier: Apache-2.0

#include "server/lookup/lookup_metrics.h"

#include <gtest/gtest.h>

#include <string>

#include "base/monotonic_time.h"
#include "lpm/testing/instruction_count.h"

namespace planb::server {
namespace {

TEST(LookupCounters, SizesCountInBucketOfTheirBound) {
  EXPECT_EQ(SizeBucket(0), 0U);
  for (size_t bucket = 0; bucket < kSizeBounds; ++bucket) {
    EXPECT_EQ(SizeBucket(SizeBound(bucket)), bucket);
    EXPECT_EQ(SizeBucket(SizeBound(bucket) + 1), bucket + 1);
  }
  EXPECT_EQ(SizeBucket(~size_t{0}), kSizeBounds);
}

TEST(LookupCounters, DurationsCountInBucketOfTheirBound) {
  EXPECT_EQ(DurationBucket(0), 0U);
  EXPECT_EQ(kDurationBounds.front(), 1'000);
  EXPECT_EQ(kDurationBounds.back(), 10'000'000'000);
  for (size_t bucket = 0; bucket < kDurationBounds.size(); ++bucket) {
    EXPECT_EQ(DurationBucket(kDurationBounds[bucket]), bucket);
    EXPECT_EQ(DurationBucket(kDurationBounds[bucket] + 1), bucket + 1);
  }
  EXPECT_EQ(kDurationBoundsSeconds[0], 1e-6);
  EXPECT_EQ(kDurationBoundsSeconds[7], 2e-4);
}

// Instructions for each batch, with two readings of the clock. A message needs
// some 10,000 within gRPC.
TEST(LookupCounters, CountingCostsFewInstructions) {
  LookupCounters counters;
  for (const size_t addresses : {1, 262'144}) {
    const auto batch = [&] {
      const SteadyInstant received = SteadyNow();
      counters.Add(LookupCount::kReceived, 100);
      counters.Answered(addresses, 0, SteadyNow() - received);
      counters.Add(LookupCount::kSent, 100);
    };
    batch();
    const auto instructions = CountInstructions(batch);
    if (!instructions.ok()) GTEST_SKIP() << instructions.status();
    EXPECT_LE(*instructions, 500U) << addresses << " addresses";
    RecordProperty("instructions", std::to_string(*instructions));
  }
}

}  // namespace
}  // namespace planb::server
