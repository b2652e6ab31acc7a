// The benchmark counts what was asked and answered, and notices wrong answers.

#include "client/bench.h"

#include <gtest/gtest.h>

#include "client/status.h"
#include "client/testing/fake_server.h"

namespace planb::client {
namespace {

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
  EXPECT_GE(result->batches, 2U);
  EXPECT_EQ(result->batches, server_.batches_read());
  EXPECT_EQ(result->lookups, result->batches * 3);
  EXPECT_EQ(result->misses, result->batches);
  EXPECT_EQ(result->mismatches, 0U);
  EXPECT_EQ(result->latency.count(), result->batches);
  EXPECT_GE(result->elapsed, options_.duration);
  EXPECT_GT(result->latency.Max(), absl::ZeroDuration());
}

TEST_F(BenchTest, NoticesWrongAnswers) {
  server_.SpoilReplies(testing::Spoil::kWrongNextHop);
  const auto result = RunBench({server_.Channel()}, trace_, options_);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_GT(result->batches, 0U);
  EXPECT_EQ(result->mismatches, result->batches);
}

TEST_F(BenchTest, CanBeStoppedBeforeItsTime) {
  std::atomic<bool> stop{true};
  options_.stop = &stop;
  options_.duration = absl::Hours(1);
  const auto result = RunBench({server_.Channel()}, trace_, options_);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_LT(result->elapsed, absl::Minutes(10));
}

TEST_F(BenchTest, FailuresEndIt) {
  options_.table = "none";
  EXPECT_EQ(
      ErrorReason(RunBench({server_.Channel()}, trace_, options_).status()),
      "TABLE_NOT_FOUND");
  options_.table = "";
  server_.Die();
  EXPECT_FALSE(RunBench({server_.Channel()}, trace_, options_).ok());
}

}  // namespace
}  // namespace planb::client
