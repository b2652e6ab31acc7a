// SPDX-License-Identifier: Apache-2.0

#include "server/table/waiters.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <vector>

#include "absl/synchronization/notification.h"
#include "base/monotonic_time.h"
#include "server/base/error.h"

namespace planb::server {
namespace {

TEST(Waiters, AnswerAtOnceWhatIsVisible) {
  Waiters waiters(10);
  waiters.Advance(5);
  bool called = false;
  EXPECT_TRUE(waiters
                  .Wait(5, SteadyNow(),
                        [&](const absl::Status& status) {
                          EXPECT_TRUE(status.ok());
                          called = true;
                        })
                  .ok());
  EXPECT_TRUE(called);
}

TEST(Waiters, CallBackWhenTheGenerationCame) {
  std::vector<int> called;
  std::latch two(1);  // which TSan understands, unlike packaged abseil's
  std::latch three(1);
  Waiters waiters(10);
  for (int generation : {3, 1, 2}) {
    EXPECT_TRUE(waiters
                    .Wait(static_cast<uint64_t>(generation),
                          SteadyAfter(absl::InfiniteDuration()),
                          [&, generation](const absl::Status& status) {
                            EXPECT_TRUE(status.ok());
                            called.push_back(generation);
                            if (generation == 2) two.count_down();
                            if (generation == 3) three.count_down();
                          })
                    .ok());
  }
  waiters.Advance(2);
  two.wait();
  EXPECT_EQ(called, (std::vector<int>{1, 2}));
  EXPECT_EQ(waiters.size(), 1U);
  waiters.Advance(1);  // never goes back
  waiters.Advance(7);
  three.wait();
  EXPECT_EQ(called, (std::vector<int>{1, 2, 3}));
}

TEST(Waiters, GiveUpAtTheDeadline) {
  Waiters waiters(10);
  absl::Notification late;
  EXPECT_TRUE(waiters
                  .Wait(1, SteadyAfter(absl::Milliseconds(20)),
                        [&](const absl::Status& status) {
                          EXPECT_TRUE(absl::IsDeadlineExceeded(status));
                          late.Notify();
                        })
                  .ok());
  // One that waits longer must not keep it.
  EXPECT_TRUE(
      waiters.Wait(1, SteadyAfter(absl::InfiniteDuration()), [](const auto&) {})
          .ok());
  late.WaitForNotification();
  EXPECT_EQ(waiters.size(), 1U);
}

TEST(Waiters, AreBounded) {
  Waiters waiters(2);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(
        waiters
            .Wait(1, SteadyAfter(absl::InfiniteDuration()), [](const auto&) {})
            .ok());
  }
  const absl::Status refused =
      waiters.Wait(1, SteadyAfter(absl::InfiniteDuration()),
                   [](const auto&) { FAIL() << "must not be called"; });
  EXPECT_EQ(ErrorReason(refused), "TOO_MANY_WAITERS");
}

TEST(Waiters, CloseEndsAllWaiting) {
  int called = 0;
  {
    Waiters waiters(10);
    const auto count = [&](const absl::Status& status) {
      EXPECT_TRUE(absl::IsUnavailable(status));
      ++called;
    };
    EXPECT_TRUE(
        waiters.Wait(1, SteadyAfter(absl::InfiniteDuration()), count).ok());
    waiters.Close(DrainingError());
    EXPECT_EQ(called, 1);
    EXPECT_TRUE(
        waiters.Wait(1, SteadyAfter(absl::InfiniteDuration()), count).ok());
  }
  EXPECT_EQ(called, 2);
}

TEST(Waiters, ASlowOneHoldsUpNobodyWhoPublishes) {
  absl::Notification go;
  absl::Notification called;
  Waiters waiters(10);
  EXPECT_TRUE(waiters
                  .Wait(1, SteadyAfter(absl::InfiniteDuration()),
                        [&](const absl::Status&) {
                          go.WaitForNotification();
                          called.Notify();
                        })
                  .ok());
  waiters.Advance(1);
  waiters.Advance(2);  // both return, though the first is not done
  go.Notify();
  called.WaitForNotification();
}

TEST(Waiters, EveryoneIsCalledExactlyOnceUnderStress) {
  std::atomic<int> called{0};
  constexpr int kThreads = 4;
  constexpr int kEach = 2000;
  {
    Waiters waiters(kThreads * kEach);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < kEach; ++i) {
          const auto deadline = i % 3 == 0
                                    ? SteadyAfter(absl::Microseconds(i % 500))
                                    : SteadyAfter(absl::InfiniteDuration());
          EXPECT_TRUE(waiters
                          .Wait(static_cast<uint64_t>(i), deadline,
                                [&](const auto&) { called.fetch_add(1); })
                          .ok());
          if (t == 0) waiters.Advance(static_cast<uint64_t>(i / 2));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(called.load(), kThreads * kEach);
}

}  // namespace
}  // namespace planb::server
