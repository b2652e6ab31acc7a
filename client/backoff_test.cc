// Waits grow, stay within their bounds, and differ.

#include "client/backoff.h"

#include <gtest/gtest.h>

#include <set>

namespace planb::client {
namespace {

TEST(Backoff, DoublesUpToItsBoundAndStartsAnew) {
  Backoff backoff({.initial = absl::Milliseconds(10),
                   .max = absl::Milliseconds(70),
                   .jitter = 0});
  for (int round = 0; round < 2; ++round) {
    for (const int due : {10, 20, 40, 70, 70, 70}) {
      EXPECT_EQ(backoff.Next(), absl::Milliseconds(due));
    }
    backoff.Reset();
  }
}

TEST(Backoff, JitterShortensByAtMostItsShare) {
  std::set<absl::Duration> waits;
  Backoff backoff(
      {.initial = absl::Seconds(1), .max = absl::Seconds(1), .jitter = 0.25});
  for (int i = 0; i < 1000; ++i) waits.insert(backoff.Next());
  EXPECT_GE(*waits.begin(), absl::Milliseconds(750));
  EXPECT_LE(*waits.rbegin(), absl::Seconds(1));
  // Both ends are reached nearly, and hardly any wait comes twice.
  EXPECT_LT(*waits.begin(), absl::Milliseconds(780));
  EXPECT_GT(*waits.rbegin(), absl::Milliseconds(970));
  EXPECT_GT(waits.size(), 900U);
}

TEST(Backoff, NonsenseIsMadeSense) {
  Backoff backoff(
      {.initial = -absl::Seconds(1), .max = absl::ZeroDuration(), .jitter = 7});
  for (int i = 0; i < 100; ++i) {
    const absl::Duration wait = backoff.Next();
    EXPECT_GE(wait, absl::ZeroDuration());
    EXPECT_LE(wait, absl::Microseconds(100));
  }
}

TEST(Backoff, NeverOverflows) {
  Backoff backoff({.max = absl::InfiniteDuration(), .jitter = 0});
  for (int i = 0; i < 200; ++i) backoff.Next();
  EXPECT_GE(backoff.Next(), absl::Hours(24));
}

}  // namespace
}  // namespace planb::client
