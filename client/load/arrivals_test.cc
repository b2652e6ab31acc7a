// Arrivals come at their rate, in order, and the same each time.

#include "client/load/arrivals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace planb::client {
namespace {

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
