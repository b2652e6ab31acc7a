// SPDX-License-Identifier: Apache-2.0

// The thread of a queue: what runs on it, on which core, and when it ends.

#include "server/lookup/lookup_queue.h"

#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <time.h>

#include <functional>
#include <set>
#include <thread>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"

namespace planb::server {
namespace {

// A queue of a server that is never built, which counts as shut down.
class ServerlessQueue {
 public:
  explicit ServerlessQueue(const QueueOptions& options = {})
      : queue_(builder_.AddCompletionQueue(), options) {}

  LookupQueue& operator*() { return queue_; }
  LookupQueue* operator->() { return &queue_; }

  // Runs `action` on the queue's thread and waits for it.
  void Do(const std::function<void()>& action) {
    absl::Notification done;
    ASSERT_TRUE(queue_.Post([&] {
      action();
      done.Notify();
    }));
    done.WaitForNotification();
  }

  // The processor time that the queue's thread has used.
  absl::Duration CpuTime() {
    timespec used = {};
    Do([&] { clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used); });
    return absl::DurationFromTimespec(used);
  }

 private:
  grpc::ServerBuilder builder_;
  LookupQueue queue_;
};

TEST(LookupQueue, RunsPostedActionsOnItsThread) {
  ServerlessQueue queue;
  ASSERT_TRUE(queue->Start().ok());
  constexpr int kThreads = 4;
  constexpr int kPosts = 500;
  std::set<std::thread::id> ids;  // without a lock: one thread touches it
  int ran = 0;
  absl::BlockingCounter left(kThreads * kPosts);
  std::vector<std::thread> posters;
  for (int t = 0; t < kThreads; ++t) {
    posters.emplace_back([&] {
      for (int i = 0; i < kPosts; ++i) {
        EXPECT_TRUE(queue->Post([&] {
          ids.insert(std::this_thread::get_id());
          ++ran;
          left.DecrementCount();
        }));
      }
    });
  }
  for (std::thread& poster : posters) poster.join();
  left.Wait();
  queue->Shutdown();
  EXPECT_EQ(ran, kThreads * kPosts);
  EXPECT_EQ(ids.size(), 1u);
  EXPECT_EQ(ids.count(std::this_thread::get_id()), 0u);
}

TEST(LookupQueue, ActionsPostActions) {
  ServerlessQueue queue;
  ASSERT_TRUE(queue->Start().ok());
  absl::Notification done;
  int left = 100;
  std::function<void()> action = [&] {
    if (--left > 0) {
      EXPECT_TRUE(queue->Post(action));
    } else {
      done.Notify();
    }
  };
  ASSERT_TRUE(queue->Post(action));
  done.WaitForNotification();
  EXPECT_EQ(left, 0);
}

TEST(LookupQueue, ServesEventsBetweenSlices) {
  for (const absl::Duration spin : {absl::ZeroDuration(), absl::Hours(1)}) {
    ServerlessQueue queue({.spin = spin});
    ASSERT_TRUE(queue->Start().ok());
    bool served = false;
    int64_t steps = 0;
    absl::Notification second;
    queue.Do([&] {
      queue->RunInSlices([&] {
        if (++steps == 1) {
          EXPECT_TRUE(queue->Post([&] { served = true; }));
        }
        return !served && steps < 1'000'000'000;
      });
      queue->RunInSlices([&] {
        EXPECT_TRUE(served);  // the first has ended
        second.Notify();
        return false;
      });
    });
    second.WaitForNotification();
    queue->Shutdown();
    EXPECT_TRUE(served);
  }
}

TEST(LookupQueue, ShutdownEndsSlices) {
  ServerlessQueue queue;
  ASSERT_TRUE(queue->Start().ok());
  int ended = 0;
  queue.Do([&] {
    for (int i = 0; i < 3; ++i) {
      queue->RunInSlices([&] {
        ended += queue->ended() ? 1 : 0;
        return !queue->ended();
      });
    }
  });
  queue->Shutdown();
  EXPECT_EQ(ended, 3);
}

TEST(LookupQueue, ShutdownRunsPostedActionsAndRefusesNewOnes) {
  for (const bool started : {true, false}) {
    ServerlessQueue queue;
    if (started) {
      ASSERT_TRUE(queue->Start().ok());
    }
    int ran = 0;
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(queue->Post([&] { ++ran; }));
    queue->Shutdown();
    EXPECT_EQ(ran, 100);
    EXPECT_FALSE(queue->Post([&] { ++ran; }));
    queue->Shutdown();  // does nothing
    EXPECT_EQ(ran, 100);
  }
}

TEST(LookupQueue, RunsOnItsCore) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    ServerlessQueue queue({.cpu = cpu});
    ASSERT_TRUE(queue->Start().ok());
    queue.Do([&] {
      EXPECT_EQ(sched_getcpu(), cpu);
      cpu_set_t mine;
      EXPECT_EQ(sched_getaffinity(0, sizeof(mine), &mine), 0);
      EXPECT_EQ(CPU_COUNT(&mine), 1);
    });
  }
}

TEST(LookupQueue, RefusesMissingCore) {
  for (const int cpu : {CPU_SETSIZE - 1, CPU_SETSIZE, 1 << 30}) {
    ServerlessQueue queue({.cpu = cpu});
    EXPECT_EQ(queue->Start().code(), absl::StatusCode::kInvalidArgument) << cpu;
  }
}

TEST(LookupQueue, SpinsOnlyIfToldTo) {
  constexpr absl::Duration kPause = absl::Milliseconds(300);
  // A sleeping thread uses almost nothing.
  constexpr absl::Duration kLittle = absl::Milliseconds(15);
  const auto used = [&](absl::Duration spin, absl::Duration pause) {
    ServerlessQueue queue({.spin = spin});
    EXPECT_TRUE(queue->Start().ok());
    const absl::Duration start = queue.CpuTime();
    absl::SleepFor(pause);
    return queue.CpuTime() - start;
  };
  EXPECT_LT(used(absl::ZeroDuration(), kPause), kLittle);
  // On a busy machine a spinning thread gets a small part of a core.
  absl::Duration pause = kPause;
  while (used(absl::Hours(1), pause) <= kLittle && pause < absl::Minutes(1)) {
    pause *= 2;
  }
  EXPECT_LT(pause, absl::Minutes(1));
  // It stops spinning in time.
  EXPECT_LT(used(absl::Milliseconds(1), kPause), kLittle);
}

TEST(LookupQueue, ShutdownEndsSpinning) {
  ServerlessQueue queue({.spin = absl::Hours(1)});
  ASSERT_TRUE(queue->Start().ok());
  queue.CpuTime();
  const absl::Time start = absl::Now();
  queue->Shutdown();
  EXPECT_LT(absl::Now() - start, absl::Seconds(30));
}

}  // namespace
}  // namespace planb::server
