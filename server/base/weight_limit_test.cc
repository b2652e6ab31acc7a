// SPDX-License-Identifier: Apache-2.0

#include "server/base/weight_limit.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace planb::server {
namespace {

TEST(WeightLimit, GrantsWhatFitsAndReusesReturnedShares) {
  WeightLimit limit(10);
  const auto four = limit.Take(4);
  ASSERT_TRUE(four.granted());
  {
    const auto six = limit.Take(6);
    EXPECT_TRUE(six.granted());
    EXPECT_FALSE(limit.Take(1).granted());
  }
  EXPECT_FALSE(limit.Take(7).granted());
  EXPECT_TRUE(limit.Take(6).granted());
}

TEST(WeightLimit, GrantsAnyWeightAlone) {
  WeightLimit limit(10);
  const auto heavy = limit.Take(11);
  EXPECT_TRUE(heavy.granted());
  EXPECT_FALSE(limit.Take(1).granted());
}

TEST(WeightLimit, SharesShrink) {
  WeightLimit limit(10);
  std::optional<WeightLimit::Share> share(limit.Take(10));
  share->Shrink(4);
  share->Shrink(7);  // no less than it has
  {
    const auto six = limit.Take(6);
    EXPECT_TRUE(six.granted());
    EXPECT_FALSE(limit.Take(1).granted());
  }
  share.reset();
  const auto all = limit.Take(10);
  EXPECT_TRUE(all.granted());
}

TEST(WeightLimit, MovedShareIsReturnedOnce) {
  WeightLimit limit(1);
  std::optional<WeightLimit::Share> second;
  {
    auto first = limit.Take(1);
    second.emplace(std::move(first));
  }
  EXPECT_FALSE(limit.Take(1).granted());
  second.reset();
  EXPECT_TRUE(limit.Take(1).granted());
}

TEST(WeightLimit, HoldsBetweenThreads) {
  constexpr int kThreads = 4;
  constexpr size_t kLimit = 3;
  WeightLimit limit(kLimit);
  std::atomic<size_t> used{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 10'000; ++n) {
        const auto share = limit.Take(1);
        if (!share.granted()) continue;
        EXPECT_LE(used.fetch_add(1) + 1, kLimit);
        used.fetch_sub(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto all = limit.Take(kLimit);
  EXPECT_TRUE(all.granted());
}

}  // namespace
}  // namespace planb::server
