// SPDX-License-Identifier: Apache-2.0

#include "benchmarks/engine/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace planb {
namespace {

// 1, 2, ..., count, largest first.
std::vector<double> Descending(int count) {
  std::vector<double> values;
  for (int i = count; i > 0; --i) values.push_back(i);
  return values;
}

TEST(Percentiles, OfManyAreRanks) {
  const Percentiles p = PercentilesOf(Descending(10'000));
  EXPECT_EQ(p.count, 10'000U);
  EXPECT_EQ(p.median, 5000);
  EXPECT_EQ(p.p90, 9000);
  EXPECT_EQ(p.p99, 9900);
  EXPECT_EQ(p.p999, 9990);
  EXPECT_EQ(p.max, 10'000);
}

TEST(Percentiles, OfFewRoundUp) {
  const Percentiles p = PercentilesOf(Descending(10));
  EXPECT_EQ(p.median, 5);
  EXPECT_EQ(p.p90, 9);
  EXPECT_EQ(p.p99, 10);
  EXPECT_EQ(p.p999, 10);
}

TEST(Percentiles, OneOutlierIsTheMaximumOnly) {
  std::vector<double> values(1000, 1);
  values[17] = 500;
  const Percentiles p = PercentilesOf(values);
  EXPECT_EQ(p.p999, 1);
  EXPECT_EQ(p.max, 500);
}

TEST(Percentiles, OfOneAndOfNone) {
  EXPECT_EQ(PercentilesOf({3}).median, 3);
  EXPECT_EQ(PercentilesOf({3}).p999, 3);
  EXPECT_EQ(PercentilesOf({}).count, 0U);
  EXPECT_EQ(PercentilesOf({}).max, 0);
}

TEST(Median, OfOddAndEven) {
  EXPECT_EQ(Median({3}), 3);
  EXPECT_EQ(Median({3, 1, 2}), 2);
  EXPECT_EQ(Median({4, 1, 2, 3}), 2.5);
}

}  // namespace
}  // namespace planb
