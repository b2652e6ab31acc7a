// SPDX-License-Identifier: Apache-2.0

// The benchmark counts batches and answers, and detects wrong answers.

#include "client/load/bench.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <deque>
#include <thread>

#include "absl/time/clock.h"
#include "base/testing/await.h"
#include "client/call.h"
#include "client/testing/misbehaving_proxy.h"
#include "client/testing/real_server_fixture.h"

namespace planb::client {

namespace {

// CPU time and pinned threads.

TEST(CpuTimeOf, CountsWorkAndNotSleep) {
  const absl::Duration before = *CpuTimeOf(0);
  absl::SleepFor(absl::Milliseconds(200));
  const absl::Duration slept = *CpuTimeOf(getpid()) - before;
  EXPECT_LT(slept, absl::Milliseconds(150));
  std::thread([&] {
    while (*CpuTimeOf(0) < before + slept + absl::Milliseconds(50)) continue;
  }).join();
  // The time of an ended thread still counts.
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
  // Runs until a batch is answered in time: on a machine that is held up for
  // as long as a run takes, none is.
  template <typename Bench>
  static absl::StatusOr<BenchResult> RunAnswered(const Bench& bench) {
    absl::StatusOr<BenchResult> result;
    SucceedsInThree([&] {
      result = bench();
      return !absl::IsDeadlineExceeded(result.status());
    });
    return result;
  }

  testing::MisbehavingProxy proxy_{testing::SharedServer()};
  const Trace trace_{
      Family::kIpv6,
      {*Address::Parse("2001:db8::1"), *Address::Parse("2001:db9::1"),
       *Address::Parse("2001:db8::2")},
      3};
  BenchOptions options_ = {
      .duration = absl::Milliseconds(500),
      .drain = absl::Minutes(1),
      .expected = trace_.Expect(ReferenceTable(testing::ManyRoutes()))};
};

TEST_F(BenchTest, CountsWhatHappened) {
  uint64_t before = 0;
  const auto result = RunAnswered([&] {
    before = proxy_.requests();
    return RunBench({proxy_.Channel(), proxy_.Channel()}, trace_, options_);
  });
  ASSERT_TRUE(result.ok()) << result.status();
  const BenchCounts& counts = result->counts;
  EXPECT_GE(counts.offered, 2U);
  EXPECT_EQ(counts.offered, proxy_.requests() - before);
  EXPECT_EQ(counts.latency.count(), counts.offered);
  EXPECT_EQ(counts.unanswered, 0U);
  // The last answers of each stream may come after the window.
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

// With one thread for a stream and with two, on one connection.
TEST_F(BenchTest, OpenLoopOffersItsRate) {
  options_.rate = 600;  // 200 batches a second, 100 in half a second
  for (bool spin : {false, true}) {
    for (ArrivalKind kind : {ArrivalKind::kEven, ArrivalKind::kPoisson}) {
      options_.spin = spin;
      options_.arrivals = kind;
      uint64_t before = 0;
      const auto channel = proxy_.Channel();
      const auto result = RunAnswered([&] {
        before = proxy_.requests();
        return RunBench({channel, channel}, trace_, options_);
      });
      ASSERT_TRUE(result.ok()) << result.status();
      const BenchCounts& counts = result->counts;
      if (kind == ArrivalKind::kEven) {
        EXPECT_EQ(counts.offered, 100U);
      } else {
        EXPECT_NEAR(static_cast<double>(counts.offered), 100, 50);
      }
      EXPECT_EQ(counts.offered, proxy_.requests() - before);
      EXPECT_EQ(counts.latency.count(), counts.offered);
      EXPECT_EQ(counts.send_delay.count(), counts.offered);
      EXPECT_EQ(counts.unanswered, 0U);
      EXPECT_EQ(counts.mismatches, 0U);
    }
  }
}

// Coordinated omission, with a real stream: the server does not answer for 300
// of 500 ms, and the median must show it.
TEST_F(BenchTest, StallsShow) {
  options_.rate = 600;
  for (bool spin : {false, true}) {
    options_.spin = spin;
    proxy_.Hold();
    const uint64_t streams = proxy_.calls();
    std::thread releaser([&] {
      // The stall begins with the load, whenever that starts.
      while (proxy_.calls() == streams) {
        absl::SleepFor(absl::Milliseconds(1));
      }
      absl::SleepFor(absl::Milliseconds(300));
      proxy_.Release();
    });
    const auto result = RunBench({proxy_.Channel()}, trace_, options_);
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
  options_.duration = absl::Hours(1);
  options_.drain = absl::Milliseconds(200);
  std::atomic<bool> stop;
  options_.stop = &stop;
  for (double rate : {0.0, 600.0}) {
    for (bool spin : {false, true}) {
      options_.rate = rate;
      options_.spin = spin;
      stop = false;
      const uint64_t before = proxy_.requests();
      absl::Time held;
      std::thread holder([&] {
        // Some are answered, however long that takes: no more than `depth` wait
        // for their answers.
        while (proxy_.requests() < before + 3 * options_.depth) {
          absl::SleepFor(absl::Milliseconds(1));
        }
        proxy_.Hold();
        absl::SleepFor(absl::Milliseconds(250));
        held = absl::Now();
        stop = true;
      });
      const auto result = RunBench({proxy_.Channel()}, trace_, options_);
      holder.join();
      EXPECT_LT(absl::Now() - held, absl::Seconds(30));
      proxy_.Release();
      ASSERT_TRUE(result.ok()) << result.status();
      const BenchCounts& counts = result->counts;
      EXPECT_GT(counts.batches, 0U);
      EXPECT_GE(counts.unanswered, options_.depth);
      EXPECT_EQ(counts.latency.count(), counts.offered);
      if (rate > 0) {
        EXPECT_NEAR(static_cast<double>(counts.offered),
                    200 * absl::ToDoubleSeconds(result->elapsed), 1);
      }
      EXPECT_GE(counts.latency.Max(), absl::Milliseconds(200));
    }
  }
}

TEST_F(BenchTest, NoAnswerAtAllIsAnError) {
  proxy_.Hold();
  options_.duration = options_.drain = absl::Milliseconds(100);
  EXPECT_EQ(RunBench({proxy_.Channel()}, trace_, options_).status().code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST_F(BenchTest, CanBeStoppedBeforeItsTime) {
  options_.duration = absl::Hours(1);
  for (absl::Duration warmup : {absl::ZeroDuration(), absl::Hours(1)}) {
    options_.warmup = warmup;
    std::atomic<bool> stop{false};
    options_.stop = &stop;
    std::thread stopper([&, before = proxy_.requests()] {
      // Some are answered: no more than `depth` wait for their answers.
      while (proxy_.requests() < before + 3 * options_.depth) {
        absl::SleepFor(absl::Milliseconds(1));
      }
      stop = true;
    });
    const auto result = RunBench({proxy_.Channel()}, trace_, options_);
    stopper.join();
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_LT(result->elapsed, absl::Minutes(10));
    EXPECT_EQ(result->counts.offered > 0, warmup == absl::ZeroDuration());
  }
}

TEST_F(BenchTest, FailuresEndIt) {
  options_.duration = absl::Hours(1);
  for (double rate : {0.0, 600.0}) {
    options_.rate = rate;
    options_.table = "none";
    EXPECT_EQ(
        ErrorReason(RunBench({proxy_.Channel()}, trace_, options_).status()),
        "TABLE_NOT_FOUND");
  }
  options_.table = "";
  options_.cpus = {CPU_SETSIZE - 1};
  options_.duration = absl::Milliseconds(100);
  EXPECT_EQ(RunBench({proxy_.Channel()}, trace_, options_).status().code(),
            absl::StatusCode::kInvalidArgument);
  options_.cpus = {};
  options_.duration = absl::Hours(1);
  proxy_.Die();
  EXPECT_FALSE(RunBench({proxy_.Channel()}, trace_, options_).ok());
}

// The counts for a simulated server and clock, where the results are known
// exactly. A stall of the server must show in the percentiles of an open loop;
// if it does not, that is called coordinated omission.

constexpr absl::Duration kTick = absl::Microseconds(1);
const absl::Time kStart = absl::FromUnixSeconds(1000);

// Answers one batch after the other, each in `service`, except that it starts
// none between `stall_from` and `stall_to`. Time passes when the driver looks
// at the clock or waits. Waiting ends at `cancel_at`.
class MadeUpPort : public BenchPort {
 public:
  absl::Duration service = absl::Microseconds(100);
  absl::Time stall_from = absl::InfiniteFuture();
  absl::Time stall_to = absl::InfiniteFuture();
  absl::Duration send_cost = absl::ZeroDuration();
  absl::Time cancel_at = absl::InfiniteFuture();
  BenchWindow* window = nullptr;

  absl::Time Now() override { return now_ += kTick; }
  void SleepUntil(absl::Time time) override { now_ = std::max(now_, time); }

  absl::Status Send(const Batch& batch) override {
    now_ += send_cost;
    if (Cancelled()) return absl::CancelledError("");
    EXPECT_EQ(batch.addresses_v6.size(), 2 * 16U);
    absl::Time begin = std::max(now_, free_at_);
    if (stall_from <= begin && begin < stall_to) begin = stall_to;
    free_at_ = begin + service;
    answers_.push_back(free_at_);
    return absl::OkStatus();
  }
  void CloseSend() override {}
  bool Ready() override {
    now_ += kTick;
    return !answers_.empty() && answers_.front() <= now_;
  }
  absl::StatusOr<bool> Receive(BatchResult& result) override {
    if (answers_.empty()) return false;
    now_ = std::max(now_, std::min(answers_.front(), cancel_at));
    if (Cancelled()) return absl::CancelledError("");
    answers_.pop_front();
    result.next_hops = {7, kNoRoute};
    return true;
  }
  void Cancel() override {}

 private:
  // Cancels as the supervisor of RunBench does.
  bool Cancelled() {
    if (now_ < cancel_at) return false;
    window->Abandon();
    return true;
  }

  absl::Time now_ = kStart;
  absl::Time free_at_ = kStart;
  std::deque<absl::Time> answers_;
};

class BenchDriverTest : public ::testing::Test {
 protected:
  // An open loop of `rate` batches a second.
  BenchCounts RunOpen(double rate, size_t depth) {
    options_.depth = depth;
    options_.arrivals.batches_per_second = rate;
    port_.window = &window_;
    BenchDriver driver(port_, trace_, window_, options_);
    driver.RunOpen();
    driver.CountUnanswered(port_.Now());
    EXPECT_TRUE(driver.status().ok()) << driver.status();
    return driver.counts();
  }

  BenchCounts RunClosed(size_t depth) {
    options_.depth = depth;
    BenchDriver driver(port_, trace_, window_, options_);
    driver.RunClosed();
    EXPECT_TRUE(driver.status().ok()) << driver.status();
    return driver.counts();
  }

  const Trace trace_{
      Family::kIpv6,
      {*Address::Parse("2001:db8::1"), *Address::Parse("2001:db9::1")},
      2};
  BenchWindow window_{kStart, kStart + absl::Seconds(10)};
  MadeUpPort port_;
  DriverOptions options_ = {.start = kStart};
};

double Seconds(const LatencyHistogram& histogram, double quantile) {
  return absl::ToDoubleSeconds(histogram.Quantile(quantile));
}

TEST_F(BenchDriverTest, OpenLoopCountsWhatIsDue) {
  const BenchCounts counts = RunOpen(1000, 10);
  EXPECT_EQ(counts.offered, 10'000U);
  EXPECT_EQ(counts.latency.count(), 10'000U);
  EXPECT_EQ(counts.send_delay.count(), 10'000U);
  EXPECT_EQ(counts.unanswered, 0U);
  EXPECT_EQ(counts.batches, 10'000U);
  EXPECT_EQ(counts.lookups, 20'000U);
  EXPECT_EQ(counts.misses, 10'000U);
  EXPECT_GE(counts.latency.Quantile(0), port_.service);
  // Sent and received within a few looks at the clock.
  EXPECT_LE(counts.latency.Max(), port_.service + 10 * kTick);
  EXPECT_LE(counts.send_delay.Max(), 5 * kTick);
}

// A thousand batches are due during a stall of a second. Each waits for its end
// and for the batches before it: from 1 s down to 0.1 s.
TEST_F(BenchDriverTest, StallsShowInEveryBatchDueMeanwhile) {
  port_.stall_from = kStart + absl::Seconds(4);
  port_.stall_to = kStart + absl::Seconds(5);
  const BenchCounts counts = RunOpen(1000, 5000);
  EXPECT_EQ(counts.latency.count(), 10'000U);
  EXPECT_NEAR(Seconds(counts.latency, 0.5), 1e-4, 1e-5);
  EXPECT_NEAR(Seconds(counts.latency, 0.9), 0.1, 0.02);
  EXPECT_NEAR(Seconds(counts.latency, 0.95), 0.55, 0.01);
  EXPECT_NEAR(Seconds(counts.latency, 0.99), 0.91, 0.01);
  EXPECT_NEAR(Seconds(counts.latency, 0.9999), 1.0, 0.01);
  // The client did not delay them.
  EXPECT_LE(counts.send_delay.Max(), 5 * kTick);
}

TEST_F(BenchDriverTest, WaitingForRoomCounts) {
  port_.stall_from = kStart + absl::Seconds(4);
  port_.stall_to = kStart + absl::Seconds(5);
  const BenchCounts counts = RunOpen(1000, 4);
  EXPECT_EQ(counts.latency.count(), 10'000U);
  EXPECT_NEAR(Seconds(counts.latency, 0.95), 0.55, 0.01);
  EXPECT_NEAR(Seconds(counts.latency, 0.99), 0.91, 0.01);
  EXPECT_NEAR(Seconds(counts.send_delay, 0.99), 0.91, 0.01);
}

// The purpose of the open loop: here the same stall is one latency of many.
TEST_F(BenchDriverTest, ClosedLoopOmitsTheStall) {
  port_.stall_from = kStart + absl::Seconds(4);
  port_.stall_to = kStart + absl::Seconds(5);
  const BenchCounts counts = RunClosed(1);
  EXPECT_NEAR(static_cast<double>(counts.batches), 90'000, 3000);
  EXPECT_EQ(counts.latency.count(), counts.offered);
  EXPECT_NEAR(Seconds(counts.latency, 0.9999), 1e-4, 1e-5);
  EXPECT_NEAR(absl::ToDoubleSeconds(counts.latency.Max()), 1.0, 0.01);
}

TEST_F(BenchDriverTest, ClosedLoopKeepsItsDepth) {
  const BenchCounts counts = RunClosed(8);
  // Each batch waits for the seven before it.
  EXPECT_NEAR(Seconds(counts.latency, 0.5), 8e-4, 1e-5);
  EXPECT_NEAR(static_cast<double>(counts.batches), 100'000, 1000);
}

// Twice the server's capacity: it answers 5.5 s of the offered 10 s in 11 s,
// and then the run ends.
TEST_F(BenchDriverTest, SaturationShowsAndEnds) {
  port_.service = absl::Milliseconds(1);
  port_.cancel_at = kStart + absl::Seconds(11);
  const BenchCounts counts = RunOpen(2000, 100);
  EXPECT_EQ(counts.offered, 20'000U);
  EXPECT_NEAR(static_cast<double>(counts.batches), 10'000, 10);
  EXPECT_NEAR(static_cast<double>(counts.unanswered), 9000, 10);
  EXPECT_EQ(counts.latency.count(), 20'000U);
  EXPECT_NEAR(absl::ToDoubleSeconds(counts.latency.Max()), 5.5, 0.01);
  // The batches due last were never answered, and waited for at least a second.
  EXPECT_NEAR(Seconds(counts.latency, 0.5), 2.75, 0.3);
  EXPECT_GE(window_.end() - window_.begin(), absl::Seconds(10));
}

TEST_F(BenchDriverTest, SlowClientsShow) {
  port_.send_cost = absl::Milliseconds(1);
  port_.cancel_at = kStart + absl::Seconds(11);
  const BenchCounts counts = RunOpen(2000, 100);
  EXPECT_EQ(counts.latency.count(), 20'000U);
  EXPECT_GT(counts.latency.Max(), absl::Seconds(5));
  EXPECT_GT(counts.send_delay.Max(), absl::Seconds(5));
}

TEST_F(BenchDriverTest, WarmUpIsLeftOut) {
  BenchWindow late(kStart + absl::Seconds(4), kStart + absl::Seconds(10));
  port_.stall_from = kStart + absl::Seconds(1);
  port_.stall_to = kStart + absl::Seconds(2);
  options_.depth = 100;
  options_.arrivals.batches_per_second = 1000;
  BenchDriver driver(port_, trace_, late, options_);
  driver.RunOpen();
  const BenchCounts counts = driver.counts();
  EXPECT_EQ(counts.offered, 6000U);
  EXPECT_NEAR(static_cast<double>(counts.batches), 6000, 1);
  EXPECT_LE(counts.latency.Max(), port_.service + 10 * kTick);
}

TEST_F(BenchDriverTest, AnswersAreComparedAlsoInTheWarmUp) {
  const std::vector<NextHopId> expected = {7, 5};
  options_.expected = &expected;
  BenchWindow never(kStart + absl::Seconds(1), kStart + absl::Seconds(1));
  options_.arrivals.batches_per_second = 10;
  BenchDriver driver(port_, trace_, never, options_);
  driver.RunOpen();
  EXPECT_EQ(driver.counts().mismatches, 10U);
  EXPECT_EQ(driver.counts().batches, 0U);
}

}  // namespace
}  // namespace planb::client
