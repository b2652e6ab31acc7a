// SPDX-License-Identifier: Apache-2.0

// The benchmark counts what was asked and answered, and notices wrong answers.

#include "client/load/bench.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "absl/time/clock.h"
#include "client/status.h"
#include "client/testing/fake_server.h"

namespace planb::client {
namespace {

// Processor time is counted, and threads stay where they are put.

TEST(CpuTimeOf, CountsWorkAndNotSleep) {
  const absl::Duration before = *CpuTimeOf(0);
  absl::SleepFor(absl::Milliseconds(200));
  const absl::Duration slept = *CpuTimeOf(getpid()) - before;
  EXPECT_LT(slept, absl::Milliseconds(150));
  std::thread([&] {
    while (*CpuTimeOf(0) < before + slept + absl::Milliseconds(50)) continue;
  }).join();
  // The thread has ended; what it used stays.
  EXPECT_GE(*CpuTimeOf(0) - before, absl::Milliseconds(50));
}

TEST(CpuTimeOf, OtherProcesses) {
  const pid_t child = fork();
  if (child == 0) {
    while (*CpuTimeOf(0) < absl::Milliseconds(50)) continue;
    pause();
  }
  const absl::Time patience = absl::Now() + absl::Minutes(1);
  while (*CpuTimeOf(child) < absl::Milliseconds(50)) {
    ASSERT_LT(absl::Now(), patience);
    absl::SleepFor(absl::Milliseconds(1));
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(CpuTimeOf(child).status().code(), absl::StatusCode::kNotFound);
}

TEST(RunOn, PinsTheThreadAndItsChildren) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  int cpu = 0;
  while (!CPU_ISSET(static_cast<unsigned>(cpu), &allowed)) ++cpu;
  std::thread([cpu] {
    ASSERT_TRUE(RunOn({cpu}).ok());
    EXPECT_EQ(sched_getcpu(), cpu);
    std::thread([cpu] { EXPECT_EQ(sched_getcpu(), cpu); }).join();
  }).join();
  EXPECT_FALSE(RunOn({CPU_SETSIZE - 1}).ok());
}

class BenchTest : public ::testing::Test {
 protected:
  const std::vector<Route> routes_ = {{*Prefix::Parse("2001:db8::/32"), 5}};
  testing::FakeServer server_{{.routes = routes_}};
  const Trace trace_{
      Family::kIpv6,
      {*Address::Parse("2001:db8::1"), *Address::Parse("2001:db9::1"),
       *Address::Parse("2001:db8::2")},
      3};
  BenchOptions options_ = {.duration = absl::Milliseconds(500),
                           .expected = trace_.Expect(ReferenceTable(routes_))};
};

TEST_F(BenchTest, CountsWhatHappened) {
  const auto result =
      RunBench({server_.Channel(), server_.Channel()}, trace_, options_);
  ASSERT_TRUE(result.ok()) << result.status();
  const BenchCounts& counts = result->counts;
  EXPECT_GE(counts.offered, 2U);
  EXPECT_EQ(counts.offered, server_.batches_read());
  EXPECT_EQ(counts.latency.count(), counts.offered);
  EXPECT_EQ(counts.unanswered, 0U);
  // The last of each stream may come after the window.
  EXPECT_LE(counts.batches, counts.offered);
  EXPECT_GE(counts.batches, counts.offered - 2 * options_.depth);
  EXPECT_EQ(counts.lookups, counts.batches * 3);
  EXPECT_EQ(counts.misses, counts.batches);
  EXPECT_EQ(counts.mismatches, 0U);
  EXPECT_EQ(result->elapsed, options_.duration);
  EXPECT_GT(counts.latency.Max(), absl::ZeroDuration());
  EXPECT_GT(result->client_cpu, absl::ZeroDuration());
  EXPECT_FALSE(result->server_cpu.has_value());
}

TEST_F(BenchTest, WarmUpDoesNotCount) {
  options_.warmup = absl::Milliseconds(300);
  options_.server = getpid();
  const auto result = RunBench({server_.Channel()}, trace_, options_);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->elapsed, options_.duration);
  EXPECT_GT(result->counts.offered, 0U);
  EXPECT_LT(result->counts.offered, server_.batches_read());
  ASSERT_TRUE(result->server_cpu.has_value());
  // The same process here.
  EXPECT_GE(*result->server_cpu, result->client_cpu * 0.5);
}

// By one thread a stream and by two, on one connection.
TEST_F(BenchTest, OpenLoopOffersItsRate) {
  options_.rate = 600;  // 200 batches a second, 100 in half a second
  for (bool spin : {false, true}) {
    for (ArrivalKind kind : {ArrivalKind::kEven, ArrivalKind::kPoisson}) {
      options_.spin = spin;
      options_.arrivals = kind;
      const uint64_t before = server_.batches_read();
      const auto channel = server_.Channel();
      const auto result = RunBench({channel, channel}, trace_, options_);
      ASSERT_TRUE(result.ok()) << result.status();
      const BenchCounts& counts = result->counts;
      if (kind == ArrivalKind::kEven) {
        EXPECT_EQ(counts.offered, 100U);
      } else {
        EXPECT_NEAR(static_cast<double>(counts.offered), 100, 50);
      }
      EXPECT_EQ(counts.offered, server_.batches_read() - before);
      EXPECT_EQ(counts.latency.count(), counts.offered);
      EXPECT_EQ(counts.send_delay.count(), counts.offered);
      EXPECT_EQ(counts.unanswered, 0U);
      EXPECT_EQ(counts.mismatches, 0U);
    }
  }
}

// Coordinated omission, with a real stream: the server answers nothing for
// 300 of 500 ms, and the median must say so.
TEST_F(BenchTest, StallsShow) {
  options_.rate = 600;
  options_.drain = absl::Minutes(1);
  for (bool spin : {false, true}) {
    options_.spin = spin;
    server_.Hold();
    std::thread releaser([this] {
      absl::SleepFor(absl::Milliseconds(300));
      server_.Release();
    });
    const auto result = RunBench({server_.Channel()}, trace_, options_);
    releaser.join();
    ASSERT_TRUE(result.ok()) << result.status();
    const BenchCounts& counts = result->counts;
    EXPECT_EQ(counts.latency.count(), 100U);
    EXPECT_GE(counts.latency.Quantile(0.5), absl::Milliseconds(45));
    EXPECT_GE(counts.latency.Max(), absl::Milliseconds(250));
    // All but the first four waited here for room.
    EXPECT_GE(counts.send_delay.Quantile(0.9), absl::Milliseconds(200));
  }
}

TEST_F(BenchTest, EndsOnTimeWhatIsNotDrained) {
  options_.drain = absl::Milliseconds(200);
  for (double rate : {0.0, 600.0}) {
    for (bool spin : {false, true}) {
      options_.rate = rate;
      options_.spin = spin;
      std::thread holder([this] {
        absl::SleepFor(absl::Milliseconds(250));
        server_.Hold();
      });
      const absl::Time start = absl::Now();
      const auto result = RunBench({server_.Channel()}, trace_, options_);
      EXPECT_LT(absl::Now() - start, absl::Seconds(30));
      holder.join();
      server_.Release();
      ASSERT_TRUE(result.ok()) << result.status();
      const BenchCounts& counts = result->counts;
      EXPECT_GT(counts.batches, 0U);
      EXPECT_GE(counts.unanswered, options_.depth);
      EXPECT_EQ(counts.latency.count(), counts.offered);
      if (rate > 0) {
        EXPECT_EQ(counts.offered, 100U);
      }
      EXPECT_GE(counts.latency.Max(), absl::Milliseconds(200));
    }
  }
}

TEST_F(BenchTest, NoAnswerAtAllIsAnError) {
  server_.Hold();
  options_.duration = options_.drain = absl::Milliseconds(100);
  EXPECT_EQ(RunBench({server_.Channel()}, trace_, options_).status().code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST_F(BenchTest, NoticesWrongAnswers) {
  server_.SpoilReplies(testing::Spoil::kWrongNextHop);
  const auto result = RunBench({server_.Channel()}, trace_, options_);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_GT(result->counts.offered, 0U);
  EXPECT_EQ(result->counts.mismatches, result->counts.offered);
}

TEST_F(BenchTest, CanBeStoppedBeforeItsTime) {
  options_.duration = absl::Hours(1);
  for (absl::Duration warmup : {absl::ZeroDuration(), absl::Hours(1)}) {
    options_.warmup = warmup;
    std::atomic<bool> stop{false};
    options_.stop = &stop;
    std::thread stopper([&stop] {
      absl::SleepFor(absl::Milliseconds(200));
      stop = true;
    });
    const auto result = RunBench({server_.Channel()}, trace_, options_);
    stopper.join();
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_LT(result->elapsed, absl::Minutes(10));
    EXPECT_EQ(result->counts.offered > 0, warmup == absl::ZeroDuration());
  }
}

TEST_F(BenchTest, ReportsProgress) {
  options_.duration = absl::Milliseconds(2500);
  std::vector<uint64_t> batches;
  options_.progress = [&](absl::Duration elapsed, const BenchCounts& counts) {
    batches.push_back(counts.batches);
    EXPECT_EQ(elapsed, absl::Seconds(batches.size()));
  };
  const auto result = RunBench({server_.Channel()}, trace_, options_);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(batches.size(), 2U);
  EXPECT_GT(batches[0], 0U);
  EXPECT_GT(batches[1], batches[0]);
  EXPECT_GT(result->counts.batches, batches[1]);
}

TEST_F(BenchTest, FailuresEndIt) {
  options_.duration = absl::Hours(1);
  for (double rate : {0.0, 600.0}) {
    options_.rate = rate;
    options_.table = "none";
    EXPECT_EQ(
        ErrorReason(RunBench({server_.Channel()}, trace_, options_).status()),
        "TABLE_NOT_FOUND");
  }
  options_.table = "";
  options_.cpus = {CPU_SETSIZE - 1};
  options_.duration = absl::Milliseconds(100);
  EXPECT_EQ(RunBench({server_.Channel()}, trace_, options_).status().code(),
            absl::StatusCode::kInvalidArgument);
  options_.cpus = {};
  options_.duration = absl::Hours(1);
  server_.Die();
  EXPECT_FALSE(RunBench({server_.Channel()}, trace_, options_).ok());
}

}  // namespace

}  // namespace planb::client
