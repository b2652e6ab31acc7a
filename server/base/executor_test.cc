// SPDX-License-Identifier: Apache-2.0

#include "server/base/executor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

#include "absl/time/time.h"

namespace planb::server {
namespace {

TEST(Executor, RunsAJobOnceForEachTimeThatItIsDue) {
  Executor executor(2);
  std::atomic<int> runs = 0;
  Executor::Job job(executor, [&] {
    ++runs;
    runs.notify_all();
  });
  for (int i = 0; i < 1000; ++i) {
    job.ScheduleNow();
    runs.wait(i);
  }
  EXPECT_EQ(runs, 1000);
}

TEST(Executor, NeverRunsAJobTwiceAtOnceAndMissesNoSchedule) {
  Executor executor(4);
  std::atomic<int> inside = 0;
  std::atomic<uint64_t> asked = 0;
  std::atomic<uint64_t> seen = 0;
  Executor::Job job(executor, [&] {
    EXPECT_EQ(++inside, 1);
    seen = asked.load();
    seen.notify_all();
    --inside;
  });
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 1000; ++j) {
        ++asked;
        job.ScheduleNow();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (uint64_t at = seen; at < 4000; at = seen) seen.wait(at);
}

TEST(Executor, RunsAtTheEarlierOfTwoTimes) {
  Executor executor(1);
  std::latch ran(1);
  Executor::Job job(executor, [&] { ran.count_down(); });
  job.Schedule(SteadyAfter(absl::Hours(1)));
  job.ScheduleNow();
  job.Schedule(SteadyAfter(absl::Hours(1)));
  ran.wait();
}

TEST(Executor, ALateJobDoesNotHoldUpAnEarlierOne) {
  Executor executor(2);
  Executor::Job late(executor, [] {});
  late.Schedule(SteadyAfter(absl::Hours(1)));
  const SteadyInstant at = SteadyAfter(absl::Milliseconds(5));
  std::latch ran(1);
  Executor::Job early(executor, [&] {
    EXPECT_GE(SteadyNow(), at);
    ran.count_down();
  });
  early.Schedule(at);
  ran.wait();
}

TEST(Executor, AJobThatTakesLongDoesNotHoldUpOthers) {
  Executor executor(2);
  std::latch blocked(1);
  std::latch release(1);
  Executor::Job slow(executor, [&] {
    blocked.count_down();
    release.wait();
  });
  slow.ScheduleNow();
  blocked.wait();
  std::latch ran(10);
  std::deque<Executor::Job> others;
  for (int i = 0; i < 10; ++i) {
    others.emplace_back(executor, [&] { ran.count_down(); });
    others.back().Schedule(SteadyAfter(absl::Milliseconds(i)));
  }
  ran.wait();
  release.count_down();
}

TEST(Executor, DestroyingAJobWaitsForItsRun) {
  Executor executor(1);
  for (int i = 0; i < 200; ++i) {
    std::atomic<bool> inside = false;
    std::latch begun(1);
    auto job = std::make_unique<Executor::Job>(executor, [&] {
      inside = true;
      begun.count_down();
      std::this_thread::yield();
      inside = false;
    });
    job->ScheduleNow();
    begun.wait();
    job->ScheduleNow();
    job.reset();
    EXPECT_FALSE(inside);
  }
}

}  // namespace
}  // namespace planb::server
