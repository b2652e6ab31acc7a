// SPDX-License-Identifier: Apache-2.0

// What the accounts say of a made-up server on a made-up clock, where what
// happened is known exactly. Above all: a server that stalls must show in the
// percentiles of an open loop ("coordinated omission" is when it does not).

#include "client/load/bench_driver.h"

#include <gtest/gtest.h>

#include <deque>

namespace planb::client {
namespace {

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
  absl::Status CloseSend() override { return absl::OkStatus(); }
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
  absl::Status Finish() override { return absl::OkStatus(); }
  void Cancel() override {}

 private:
  // As the supervisor of RunBench cancels.
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

// Over a second, a thousand batches come due. Each waits to its end and for
// those before it: from 1 s down to 0.1 s.
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
  // The client was not what they waited for.
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

// What the open loop is for: here the same stall is one in many.
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
  // Each waits for the seven before it.
  EXPECT_NEAR(Seconds(counts.latency, 0.5), 8e-4, 1e-5);
  EXPECT_NEAR(static_cast<double>(counts.batches), 100'000, 1000);
}

// Twice of what the server can: of the 10 s offered it answers 5.5 s worth in
// 11 s, and then the run ends.
TEST_F(BenchDriverTest, SaturationShowsAndEnds) {
  port_.service = absl::Milliseconds(1);
  port_.cancel_at = kStart + absl::Seconds(11);
  const BenchCounts counts = RunOpen(2000, 100);
  EXPECT_EQ(counts.offered, 20'000U);
  EXPECT_NEAR(static_cast<double>(counts.batches), 10'000, 10);
  EXPECT_NEAR(static_cast<double>(counts.unanswered), 9000, 10);
  EXPECT_EQ(counts.latency.count(), 20'000U);
  EXPECT_NEAR(absl::ToDoubleSeconds(counts.latency.Max()), 5.5, 0.01);
  // Those due last waited for a second at least, though never answered.
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
