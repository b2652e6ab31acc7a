// SPDX-License-Identifier: Apache-2.0

#include "server/table/backpressure_clock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/monotonic_time.h"

namespace planb::server {
namespace {

using std::chrono::seconds;

SteadyInstant At(int64_t second) { return SteadyInstant(seconds(second)); }

TEST(BackpressureClock, TotalIncludesStreamsHeldUpNow) {
  BackpressureClock held;
  EXPECT_EQ(held.Total(At(100)), seconds(0));
  held.Begin(At(100));
  EXPECT_EQ(held.Total(At(103)), seconds(3));
  held.Begin(At(105));  // another one
  EXPECT_EQ(held.Total(At(106)), seconds(7));
  held.End(At(110));
  EXPECT_EQ(held.Total(At(110)), seconds(15));
  held.End(At(111));
  EXPECT_EQ(held.Total(At(111)), seconds(16));
  EXPECT_EQ(held.Total(At(500)), seconds(16));
}

TEST(BackpressureClock, TotalIgnoresATimeBeforeTheLastChange) {
  BackpressureClock held;
  held.Begin(At(1));
  held.End(At(4));
  held.Begin(At(6));
  // This caller read its clock before the last change.
  EXPECT_EQ(held.Total(At(5)), seconds(3));
}

// While another thread changes the clock, each total is of one moment: one
// stream held up for a million seconds, or two streams, one of them for a
// moment. A total from numbers of different moments would be out of these
// bounds.
TEST(BackpressureClock, TotalIsConsistentDuringChanges) {
  BackpressureClock held;
  std::atomic<bool> stop{false};
  held.Begin(At(0));
  std::thread changer([&] {
    for (int64_t i = 1; !stop.load(std::memory_order_relaxed); ++i) {
      const SteadyInstant now = At(0) + BackpressureClock::Nanoseconds(i);
      held.Begin(now);
      held.End(now);
    }
  });
  constexpr seconds kLong(1'000'000);
  for (int i = 0; i < 100'000; ++i) {
    const BackpressureClock::Nanoseconds total = held.Total(At(kLong.count()));
    if (total == kLong) continue;
    EXPECT_GT(total, 1.5 * kLong);
    EXPECT_LT(total, 2 * kLong);
  }
  stop.store(true);
  changer.join();
}

}  // namespace
}  // namespace planb::server
