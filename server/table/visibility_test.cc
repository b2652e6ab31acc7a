// SPDX-License-Identifier: Apache-2.0

#include "server/table/visibility.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/monotonic_time.h"
#include "server/base/error.h"

namespace planb::server {
namespace {

absl::Time At(int64_t seconds) { return absl::FromUnixSeconds(seconds); }

SteadyInstant Never() { return SteadyAfter(absl::InfiniteDuration()); }

TEST(Visibility, AwaitBlocksUntilVisibleOrClosed) {
  Executor executor(2);
  Visibility visibility(executor, 7, 10);
  EXPECT_TRUE(visibility.Await(7, Never()).ok());
  EXPECT_TRUE(visibility.Await(7, SteadyNow()).ok());
  EXPECT_EQ(ErrorReason(visibility.Await(8, SteadyNow())),
            "GENERATION_NOT_VISIBLE");
  std::thread publisher([&] {
    visibility.Advance(8, At(1));
    visibility.Advance(10, At(2));
    visibility.Close(DrainingError());
  });
  EXPECT_TRUE(visibility.Await(9, Never()).ok());
  EXPECT_EQ(ErrorReason(visibility.Await(11, Never())), "DRAINING");
  publisher.join();
  EXPECT_TRUE(visibility.Await(10, Never()).ok());
  EXPECT_EQ(visibility.generation(), 10U);
}

TEST(Visibility, SinceIsTheTimeOfTheFirstPublicationWithAGeneration) {
  Executor executor(2);
  Visibility visibility(executor, 0, 10);
  visibility.Advance(2, At(10));
  visibility.Advance(5, At(20));
  visibility.Advance(4, At(30));  // not newer: ignored
  EXPECT_EQ(visibility.Since(0), absl::InfinitePast());
  EXPECT_EQ(visibility.Since(1), At(10));
  EXPECT_EQ(visibility.Since(2), At(10));
  EXPECT_EQ(visibility.Since(3), At(20));
  EXPECT_EQ(visibility.Since(5), At(20));
  EXPECT_EQ(visibility.Since(6), absl::InfinitePast());
  // A time that was dropped is unknown, not the oldest one kept.
  for (uint64_t g = 6; g < 6 + Visibility::kTimes; ++g) {
    visibility.Advance(g, At(static_cast<int64_t>(g)));
  }
  EXPECT_EQ(visibility.Since(5), absl::InfinitePast());
  EXPECT_EQ(visibility.Since(7), At(7));
}

TEST(Visibility, CallsAtOnceForAVisibleGeneration) {
  Executor executor(2);
  Visibility visibility(executor, 0, 10);
  visibility.Advance(5, At(1));
  bool called = false;
  EXPECT_TRUE(visibility
                  .CallWhenVisible(5, SteadyNow(),
                                   [&](const absl::Status& status) {
                                     EXPECT_TRUE(status.ok());
                                     called = true;
                                   })
                  .ok());
  EXPECT_TRUE(called);
}

TEST(Visibility, CallsBackWhenTheGenerationIsVisible) {
  std::vector<int> called;
  std::latch two(1);  // TSan sees it, unlike the packaged abseil's
  std::latch three(1);
  Executor executor(2);
  Visibility visibility(executor, 0, 10);
  for (int generation : {3, 1, 2}) {
    EXPECT_TRUE(visibility
                    .CallWhenVisible(static_cast<uint64_t>(generation), Never(),
                                     [&, generation](const absl::Status& s) {
                                       EXPECT_TRUE(s.ok());
                                       called.push_back(generation);
                                       if (generation == 2) two.count_down();
                                       if (generation == 3) three.count_down();
                                     })
                    .ok());
  }
  visibility.Advance(2, At(1));
  two.wait();
  EXPECT_EQ(called, (std::vector<int>{1, 2}));
  EXPECT_EQ(visibility.waiting(), 1U);
  visibility.Advance(1, At(2));
  EXPECT_EQ(visibility.generation(), 2U);  // never goes back
  visibility.Advance(7, At(3));
  three.wait();
  EXPECT_EQ(called, (std::vector<int>{1, 2, 3}));
}

TEST(Visibility, CallsBackAtTheDeadline) {
  Executor executor(2);
  Visibility visibility(executor, 0, 10);
  absl::Notification late;
  // The second one has a later deadline and must not delay the first.
  EXPECT_TRUE(visibility
                  .CallWhenVisible(1, SteadyAfter(absl::Milliseconds(20)),
                                   [&](const absl::Status& status) {
                                     EXPECT_TRUE(
                                         absl::IsDeadlineExceeded(status));
                                     late.Notify();
                                   })
                  .ok());
  EXPECT_TRUE(visibility.CallWhenVisible(1, Never(), [](const auto&) {}).ok());
  late.WaitForNotification();
  EXPECT_EQ(visibility.waiting(), 1U);
}

TEST(Visibility, KeepsABoundedNumberOfCallbacks) {
  Executor executor(2);
  Visibility visibility(executor, 0, 2);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(
        visibility.CallWhenVisible(1, Never(), [](const auto&) {}).ok());
  }
  const absl::Status refused = visibility.CallWhenVisible(
      1, Never(), [](const auto&) { FAIL() << "must not be called"; });
  EXPECT_EQ(ErrorReason(refused), "TOO_MANY_WAITERS");
}

TEST(Visibility, CloseEndsAllWaiting) {
  int called = 0;
  {
    Executor executor(2);
    Visibility visibility(executor, 0, 10);
    const auto count = [&](const absl::Status& status) {
      EXPECT_TRUE(absl::IsUnavailable(status));
      ++called;
    };
    EXPECT_TRUE(visibility.CallWhenVisible(1, Never(), count).ok());
    visibility.Close(DrainingError());
    EXPECT_EQ(called, 1);
    EXPECT_TRUE(visibility.CallWhenVisible(1, Never(), count).ok());
  }
  EXPECT_EQ(called, 2);
}

TEST(Visibility, ASlowCallbackDoesNotDelayPublication) {
  absl::Notification go;
  absl::Notification called;
  Executor executor(2);
  Visibility visibility(executor, 0, 10);
  EXPECT_TRUE(visibility
                  .CallWhenVisible(1, Never(),
                                   [&](const absl::Status&) {
                                     go.WaitForNotification();
                                     called.Notify();
                                   })
                  .ok());
  visibility.Advance(1, At(1));
  visibility.Advance(2, At(2));  // both return, though the callback has not
  EXPECT_TRUE(visibility.Await(2, Never()).ok());
  go.Notify();
  called.WaitForNotification();
}

TEST(Visibility, EachCallbackRunsExactlyOnceUnderStress) {
  std::atomic<int> called{0};
  constexpr int kThreads = 4;
  constexpr int kEach = 2000;
  {
    Executor executor(2);
    Visibility visibility(executor, 0, kThreads * kEach);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < kEach; ++i) {
          const auto deadline =
              i % 3 == 0 ? SteadyAfter(absl::Microseconds(i % 500)) : Never();
          EXPECT_TRUE(
              visibility
                  .CallWhenVisible(static_cast<uint64_t>(i), deadline,
                                   [&](const auto&) { called.fetch_add(1); })
                  .ok());
          if (t == 0) visibility.Advance(static_cast<uint64_t>(i / 2), At(i));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(called.load(), kThreads * kEach);
}

}  // namespace
}  // namespace planb::server
