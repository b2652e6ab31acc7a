// SPDX-License-Identifier: Apache-2.0

#include "server/base/grpc_time.h"

#include <gtest/gtest.h>

namespace planb::server {
namespace {

TEST(GrpcTime, RoundTrips) {
  for (const absl::Duration wait :
       {absl::Minutes(10), absl::ZeroDuration(), -absl::Minutes(10)}) {
    const gpr_timespec deadline = GrpcAfter(wait);
    EXPECT_EQ(deadline.clock_type, GPR_CLOCK_MONOTONIC);
    const absl::Duration left = TimeUntil(deadline);
    EXPECT_LE(left, wait);
    EXPECT_GT(left, wait - absl::Minutes(1));
  }
}

TEST(GrpcTime, InfiniteStaysFarAway) {
  EXPECT_GT(TimeUntil(gpr_inf_future(GPR_CLOCK_MONOTONIC)), absl::Hours(1'000));
  EXPECT_GT(TimeUntil(GrpcAfter(absl::InfiniteDuration())), absl::Hours(1'000));
  EXPECT_LT(TimeUntil(gpr_inf_past(GPR_CLOCK_MONOTONIC)), -absl::Hours(1'000));
}

}  // namespace
}  // namespace planb::server
