// SPDX-License-Identifier: Apache-2.0

#include "base/monotonic_time.h"

#include <gtest/gtest.h>

#include <chrono>

#include "absl/time/clock.h"

namespace planb {
namespace {

TEST(MonotonicTime, ConvertsTimesOfTheWallClock) {
  const absl::Time hour = ToMonotonic(absl::Now() + absl::Hours(1));
  const absl::Duration left = hour - MonotonicNow();
  EXPECT_LE(left, absl::Hours(1));
  EXPECT_GT(left, absl::Minutes(59));
  EXPECT_LT(ToMonotonic(absl::InfinitePast()), MonotonicNow());
  EXPECT_EQ(ToMonotonic(absl::InfiniteFuture()), absl::InfiniteFuture());
}

TEST(MonotonicTime, IsTheSteadyClock) {
  const absl::Time now = MonotonicNow();
  const SteadyInstant steady = SteadyNow();
  EXPECT_LE(ToSteady(now), steady);
  EXPECT_GT(ToSteady(now), steady - std::chrono::minutes(1));
}

TEST(Deadline, IsAfterATimeOrNever) {
  EXPECT_EQ(Deadline().time(), absl::InfiniteFuture());
  EXPECT_EQ(Deadline::After(absl::InfiniteDuration()).time(),
            absl::InfiniteFuture());
  const absl::Time now = MonotonicNow();
  const absl::Time soon = Deadline::After(absl::Hours(1)).time();
  EXPECT_GE(soon, now + absl::Hours(1));
  EXPECT_LT(soon, now + absl::Hours(2));
  const absl::Time wall = Deadline(absl::Now() + absl::Hours(1)).time();
  EXPECT_GT(wall, now);
  EXPECT_LT(wall, now + absl::Hours(2));
}

TEST(MonotonicTime, CutsInfinities) {
  const absl::Time now = MonotonicNow();
  EXPECT_GT(ToSteady(absl::InfiniteFuture()),
            ToSteady(now) + std::chrono::hours(24 * 365));
  EXPECT_LT(ToSteady(absl::InfinitePast()), ToSteady(now));
}

}  // namespace
}  // namespace planb
