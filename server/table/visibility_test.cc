// SPDX-License-Identifier: Apache-2.0

#include "server/table/visibility.h"

#include <gtest/gtest.h>

#include <thread>

#include "absl/time/clock.h"
#include "base/monotonic_time.h"
#include "server/base/error.h"

namespace planb::server {
namespace {

absl::Time At(int64_t seconds) { return absl::FromUnixSeconds(seconds); }

TEST(Visibility, AwaitsAGeneration) {
  Visibility visibility(7);
  EXPECT_TRUE(visibility.Await(7, SteadyAfter(absl::InfiniteDuration())).ok());
  EXPECT_TRUE(visibility.Await(7, SteadyNow()).ok());
  EXPECT_EQ(ErrorReason(visibility.Await(8, SteadyNow())),
            "GENERATION_NOT_VISIBLE");
  std::thread publisher([&] {
    visibility.Advance(8, At(1));
    visibility.Advance(10, At(2));
    visibility.Close(DrainingError());
  });
  EXPECT_TRUE(visibility.Await(9, SteadyAfter(absl::InfiniteDuration())).ok());
  EXPECT_EQ(
      ErrorReason(visibility.Await(11, SteadyAfter(absl::InfiniteDuration()))),
      "DRAINING");
  publisher.join();
  EXPECT_TRUE(visibility.Await(10, SteadyAfter(absl::InfiniteDuration())).ok());
  EXPECT_EQ(visibility.generation(), 10U);
}

TEST(Visibility, RemembersWhenAGenerationCame) {
  Visibility visibility(0);
  visibility.Advance(2, At(10));
  visibility.Advance(5, At(20));
  EXPECT_EQ(visibility.Since(1), At(10));
  EXPECT_EQ(visibility.Since(2), At(10));
  EXPECT_EQ(visibility.Since(3), At(20));
  EXPECT_EQ(visibility.Since(5), At(20));
  EXPECT_EQ(visibility.Since(6), absl::InfinitePast());
  // What is forgotten is not taken for the oldest that is known.
  for (uint64_t g = 6; g < 6 + Visibility::kTimes; ++g) {
    visibility.Advance(g, At(static_cast<int64_t>(g)));
  }
  EXPECT_EQ(visibility.Since(5), absl::InfinitePast());
  EXPECT_EQ(visibility.Since(7), At(7));
}

}  // namespace
}  // namespace planb::server
