// SPDX-License-Identifier: Apache-2.0

#include "server/base/periodic.h"

#include <gtest/gtest.h>

#include <atomic>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/monotonic_time.h"

namespace planb::server {
namespace {

TEST(Periodic, RunsUntilDestroyed) {
  std::atomic<int> runs = 0;
  absl::Notification several;
  {
    const Periodic periodic(absl::Milliseconds(1), [&] {
      if (++runs == 5) several.Notify();
    });
    several.WaitForNotification();
  }
  const int at_the_end = runs.load();
  absl::SleepFor(absl::Milliseconds(20));
  EXPECT_EQ(runs.load(), at_the_end);
}

TEST(Periodic, WaitsBeforeFirstRun) {
  const absl::Duration interval = absl::Milliseconds(50);
  absl::Notification ran;
  const SteadyInstant start = SteadyNow();
  const Periodic periodic(interval, [&] {
    if (!ran.HasBeenNotified()) ran.Notify();
  });
  ran.WaitForNotification();
  EXPECT_GE(ElapsedSince(start), interval);
}

// This test would hang otherwise.
TEST(Periodic, DestructorDoesNotWaitForInterval) {
  for (const absl::Duration interval :
       {absl::Hours(1), absl::InfiniteDuration()}) {
    const Periodic periodic(interval, [] { ADD_FAILURE(); });
    absl::SleepFor(absl::Milliseconds(10));
  }
}

TEST(Periodic, DestructorWaitsForRunningCall) {
  absl::Notification began;
  std::atomic<bool> returned = false;
  {
    const Periodic periodic(absl::Milliseconds(1), [&] {
      if (began.HasBeenNotified()) return;
      began.Notify();
      absl::SleepFor(absl::Milliseconds(50));
      returned = true;
    });
    began.WaitForNotification();
  }
  EXPECT_TRUE(returned.load());
}

}  // namespace
}  // namespace planb::server
