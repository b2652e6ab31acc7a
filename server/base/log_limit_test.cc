// SPDX-License-Identifier: Apache-2.0

#include "server/base/log_limit.h"

#include <gtest/gtest.h>

namespace planb::server {
namespace {

const absl::Time kStart = absl::UnixEpoch() + absl::Hours(1);

TEST(LogLimit, LetsSoManyThroughInASecond) {
  LogLimit limit(2);
  EXPECT_EQ(limit.Admit(kStart), 0u);
  EXPECT_EQ(limit.Admit(kStart), 0u);
  EXPECT_EQ(limit.Admit(kStart + absl::Milliseconds(999)), std::nullopt);
}

TEST(LogLimit, TellsOnceHowManyWereLeftOut) {
  LogLimit limit(1);
  EXPECT_EQ(limit.Admit(kStart), 0u);
  for (int i = 0; i < 7; ++i) EXPECT_EQ(limit.Admit(kStart), std::nullopt);
  EXPECT_EQ(limit.Admit(kStart + absl::Seconds(1)), 7u);
  EXPECT_EQ(limit.Admit(kStart + absl::Seconds(2)), 0u);
}

TEST(LogLimit, SpeaksOnWhenTheClockIsSetBack) {
  LogLimit limit(1);
  EXPECT_EQ(limit.Admit(kStart), 0u);
  EXPECT_EQ(limit.Admit(kStart - absl::Minutes(30)), 0u);
}

}  // namespace
}  // namespace planb::server
