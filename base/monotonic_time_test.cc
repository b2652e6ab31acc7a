#include "base/monotonic_time.h"

#include <gtest/gtest.h>

#include <chrono>

#include "absl/time/clock.h"

namespace planb::client {
namespace {

TEST(MonotonicTime, TheWallClocksMomentsAreAsFarAway) {
  const absl::Time hour = ToMonotonic(absl::Now() + absl::Hours(1));
  const absl::Duration left = hour - MonotonicNow();
  EXPECT_LE(left, absl::Hours(1));
  EXPECT_GT(left, absl::Minutes(59));
  EXPECT_LT(ToMonotonic(absl::InfinitePast()), MonotonicNow());
  EXPECT_EQ(ToMonotonic(absl::InfiniteFuture()), absl::InfiniteFuture());
}

// Both read the same clock as the functions that take them.
TEST(MonotonicTime, OthersReadTheSameClock) {
  const absl::Time now = MonotonicNow();
  const gpr_timespec grpc = gpr_now(GPR_CLOCK_MONOTONIC);
  const auto steady = std::chrono::steady_clock::now();
  const gpr_timespec ago =
      gpr_time_sub(grpc, gpr_time_from_seconds(60, GPR_TIMESPAN));
  EXPECT_LE(gpr_time_cmp(ToGrpc(now), grpc), 0);
  EXPECT_GT(gpr_time_cmp(ToGrpc(now), ago), 0);
  EXPECT_LE(ToSteady(now), steady);
  EXPECT_GT(ToSteady(now), steady - std::chrono::minutes(1));
}

TEST(MonotonicTime, InfinitiesAreFarAway) {
  const absl::Time now = MonotonicNow();
  EXPECT_GT(ToSteady(absl::InfiniteFuture()),
            ToSteady(now) + std::chrono::hours(24 * 365));
  EXPECT_LT(ToSteady(absl::InfinitePast()), ToSteady(now));
  EXPECT_GT(gpr_time_cmp(ToGrpc(absl::InfiniteFuture()), ToGrpc(now)), 0);
  EXPECT_LT(gpr_time_cmp(ToGrpc(absl::InfinitePast()), ToGrpc(now)), 0);
}

}  // namespace
}  // namespace planb::client
