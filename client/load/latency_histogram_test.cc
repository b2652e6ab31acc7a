// SPDX-License-Identifier: Apache-2.0

// Percentiles are those of the sorted durations, to within 1%.

#include "client/load/latency_histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "client/load/arrivals.h"

namespace planb::client {
namespace {

TEST(LatencyHistogram, SmallNumbersAreExact) {
  LatencyHistogram histogram;
  for (int i = 1; i <= 100; ++i) histogram.Add(absl::Nanoseconds(i));
  EXPECT_EQ(histogram.count(), 100U);
  EXPECT_EQ(histogram.Quantile(0), absl::Nanoseconds(1));
  EXPECT_EQ(histogram.Quantile(0.5), absl::Nanoseconds(50));
  EXPECT_EQ(histogram.Quantile(0.99), absl::Nanoseconds(99));
  EXPECT_EQ(histogram.Quantile(1), absl::Nanoseconds(100));
}

TEST(LatencyHistogram, WithinOnePercentOverTenPowers) {
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> exponent(0, 10);
  LatencyHistogram halves[2];
  std::vector<int64_t> sorted;
  for (int i = 0; i < 20'000; ++i) {
    const auto nanoseconds =
        static_cast<int64_t>(std::pow(10.0, exponent(random)));
    sorted.push_back(nanoseconds);
    halves[i % 2].Add(absl::Nanoseconds(nanoseconds));
  }
  halves[0].Merge(halves[1]);
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(halves[0].count(), sorted.size());
  EXPECT_EQ(halves[0].Max(), absl::Nanoseconds(sorted.back()));
  for (const double quantile :
       {0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0}) {
    const auto rank = static_cast<size_t>(
        std::ceil(quantile * static_cast<double>(sorted.size())));
    const auto exact = static_cast<double>(sorted[rank - 1]);
    const double got = absl::ToDoubleNanoseconds(halves[0].Quantile(quantile));
    EXPECT_GE(got, exact);
    EXPECT_LE(got, exact * 1.01);
  }
}

// One in ten thousand is there from ten thousand on.
TEST(LatencyHistogram, TheTailIsNotLost) {
  LatencyHistogram histogram;
  for (int i = 0; i < 99'980; ++i) histogram.Add(absl::Microseconds(10));
  LatencyHistogram slow;
  for (int i = 0; i < 20; ++i) slow.Add(absl::Milliseconds(10));
  histogram.Merge(slow);
  const auto near = [&](double quantile) {
    return absl::ToDoubleMicroseconds(histogram.Quantile(quantile));
  };
  EXPECT_NEAR(near(0.999), 10, 0.1);
  EXPECT_NEAR(near(0.9998), 10, 0.1);
  EXPECT_NEAR(near(0.9999), 10'000, 100);
  EXPECT_NEAR(near(1), 10'000, 100);
}

TEST(LatencyHistogram, ExtremesAndNothing) {
  LatencyHistogram histogram;
  EXPECT_EQ(histogram.Quantile(0.5), absl::ZeroDuration());
  EXPECT_EQ(histogram.Max(), absl::ZeroDuration());
  histogram.Add(-absl::Seconds(1));
  EXPECT_EQ(histogram.Quantile(1), absl::ZeroDuration());
  histogram.Add(absl::InfiniteDuration());
  EXPECT_EQ(histogram.Quantile(1), histogram.Max());
  EXPECT_GT(histogram.Max(), absl::Hours(24 * 365 * 200));
}

// Arrivals come at their rate, in order, and the same each time.

const absl::Time kStart = absl::FromUnixSeconds(1'800'000'000);

std::vector<double> Offsets(const ArrivalOptions& options, size_t count) {
  Arrivals arrivals(options, kStart);
  std::vector<double> seconds;
  for (size_t i = 0; i < count; ++i) {
    seconds.push_back(absl::ToDoubleSeconds(arrivals.next() - kStart));
    arrivals.Pop();
  }
  return seconds;
}

TEST(Arrivals, EvenOnesDoNotDrift) {
  // A third of a second is no whole number of nanoseconds.
  Arrivals arrivals({.batches_per_second = 3}, kStart);
  for (int64_t i = 0; i < 300'000; ++i) {
    if (i % 3 == 0) {
      ASSERT_EQ(arrivals.next(), kStart + absl::Seconds(i / 3));
    }
    arrivals.Pop();
  }
}

TEST(Arrivals, StreamsTakeTurns) {
  std::vector<double> all;
  for (size_t stream = 0; stream < 4; ++stream) {
    const auto own = Offsets(
        {.batches_per_second = 250, .stream = stream, .streams = 4}, 100);
    all.insert(all.end(), own.begin(), own.end());
  }
  std::sort(all.begin(), all.end());
  for (size_t i = 0; i < all.size(); ++i) {
    ASSERT_NEAR(all[i], static_cast<double>(i) * 1e-3, 1e-9);
  }
}

TEST(Arrivals, PoissonOnesHaveExponentialGaps) {
  constexpr size_t kCount = 100'000;
  const auto offsets = Offsets(
      {.kind = ArrivalKind::kPoisson, .batches_per_second = 1000}, kCount);
  EXPECT_TRUE(std::is_sorted(offsets.begin(), offsets.end()));
  EXPECT_NEAR(offsets.back(), kCount / 1000.0, kCount / 1000.0 * 0.02);
  // A share 1/e of the gaps exceeds the mean, 1/e^3 three times the mean.
  size_t above = 0;
  size_t far_above = 0;
  for (size_t i = 1; i < offsets.size(); ++i) {
    if (offsets[i] - offsets[i - 1] > 1e-3) ++above;
    if (offsets[i] - offsets[i - 1] > 3e-3) ++far_above;
  }
  EXPECT_NEAR(static_cast<double>(above) / kCount, std::exp(-1), 0.01);
  EXPECT_NEAR(static_cast<double>(far_above) / kCount, std::exp(-3), 0.005);
}

TEST(Arrivals, SeedsAndStreamsDiffer) {
  const ArrivalOptions options = {.kind = ArrivalKind::kPoisson};
  EXPECT_EQ(Offsets(options, 10), Offsets(options, 10));
  ArrivalOptions other = options;
  other.seed = 2;
  EXPECT_NE(Offsets(options, 10), Offsets(other, 10));
  other = options;
  other.stream = 1;
  EXPECT_NE(Offsets(options, 10), Offsets(other, 10));
}

}  // namespace

}  // namespace planb::client
