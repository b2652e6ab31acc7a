// SPDX-License-Identifier: Apache-2.0

#include "client/load/soak.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "client/load/update_replayer.h"
#include "client/testing/misbehaving_proxy.h"
#include "client/testing/real_server_fixture.h"
#include "lpm/synthetic/reference_table.h"

namespace planb::client {

namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::MakeError;
using testing::ManyRoutes;
using ::testing::Pair;

class SoakTest : public ::testing::Test {
 protected:
  SoakTest() {
    options_.duration = absl::Minutes(5);  // stop_ ends it
    options_.timeout = absl::Minutes(2);
    options_.stop = &stop_;
    options_.expected = trace_.Expect(ReferenceTable(ManyRoutes()));
  }

  static std::vector<Address> Addresses() {
    std::vector<Address> addresses;
    for (uint64_t i = 0; i < 40; ++i) {
      addresses.push_back(*Address::FromPacked(testing::V6(i)));
    }
    return addresses;
  }

  // Soaks while `meanwhile` runs.
  template <typename Meanwhile>
  SoakCounts SoakDuring(Meanwhile meanwhile) {
    stop_ = false;
    SoakCounts counts;
    std::thread soak([&] {
      counts = RunSoak(*ChannelsTo(proxy_.target()), trace_, options_);
    });
    meanwhile();
    stop_ = true;
    soak.join();
    return counts;
  }

  void AwaitBatches(uint64_t more) const {
    const uint64_t enough = proxy_.requests() + more;
    while (proxy_.requests() < enough) {
      absl::SleepFor(absl::Milliseconds(1));
    }
  }

  testing::MisbehavingProxy proxy_{testing::SharedServer()};
  const Trace trace_{Family::kIpv6, Addresses(), 8};
  std::atomic<bool> stop_ = false;
  SoakOptions options_;
};

TEST_F(SoakTest, AllIsWell) {
  options_.streams = 3;
  const SoakCounts counts = SoakDuring([&] { AwaitBatches(50); });
  EXPECT_TRUE(counts.sound());
  EXPECT_GE(counts.batches, 50U - 3);
  EXPECT_EQ(counts.lookups, 8 * counts.batches);
  EXPECT_EQ(counts.latency.count(), counts.batches);
  EXPECT_EQ(counts.disconnects, 0U);
  EXPECT_EQ(counts.reconnects, 0U);
  EXPECT_EQ(proxy_.calls(), 3U);
}

TEST_F(SoakTest, ARestartFailsNoBatch) {
  constexpr absl::Duration kDown = absl::Milliseconds(300);
  const SoakCounts counts = SoakDuring([&] {
    AwaitBatches(5);
    proxy_.Die();
    absl::SleepFor(kDown);
    proxy_.Restart();
    AwaitBatches(5);
  });
  EXPECT_TRUE(counts.sound());
  EXPECT_GE(counts.disconnects, 1U);
  EXPECT_GE(counts.reconnects, 1U);
  EXPECT_GE(counts.latency.Max(), kDown);
}

TEST_F(SoakTest, WrongAnswersAreCounted) {
  options_.expected[3] += 1;  // of 40 addresses, 8 a batch
  const SoakCounts counts = SoakDuring([&] { AwaitBatches(20); });
  EXPECT_FALSE(counts.sound());
  EXPECT_THAT(counts.failures, IsEmpty());
  EXPECT_GE(counts.mismatches, counts.batches / 5);
  EXPECT_LE(counts.mismatches, counts.batches / 5 + 1);
}

TEST_F(SoakTest, NoAnswerInTimeIsAFailure) {
  options_.timeout = absl::Milliseconds(50);
  proxy_.Hold();
  const SoakCounts counts = SoakDuring([&] { AwaitBatches(1); });
  proxy_.Release();
  EXPECT_FALSE(counts.sound());
  EXPECT_EQ(counts.batches, 0U);
  EXPECT_THAT(counts.failures,
              ElementsAre(Pair("DEADLINE_EXCEEDED", ::testing::Ge(1U))));
}

TEST_F(SoakTest, PermanentErrorsAreFailures) {
  proxy_.EndCalls(
      2, MakeError(grpc::StatusCode::INVALID_ARGUMENT, "MESSAGE_MALFORMED"), 3);
  const SoakCounts counts = SoakDuring([&] { AwaitBatches(3 * 3 + 10); });
  EXPECT_THAT(counts.failures, ElementsAre(Pair("INVALID_ARGUMENT", 3)));
  EXPECT_EQ(counts.mismatches, 0U);
  EXPECT_EQ(proxy_.calls(), 4U) << "a new handle each time";
}

TEST_F(SoakTest, KeepsItsPaceAndItsTime) {
  options_.period = absl::Milliseconds(100);
  options_.duration = absl::Seconds(1);
  const SoakCounts counts =
      RunSoak(*ChannelsTo(proxy_.target()), trace_, options_);
  EXPECT_TRUE(counts.sound());
  EXPECT_GE(counts.batches, 1U);
  EXPECT_LE(counts.batches, 10U);
  EXPECT_GE(counts.elapsed, options_.duration);
}

// A replay applies every change of its trace, in order, not before its time.

TraceChange Change(absl::Duration at, uint32_t i, NextHopId next_hop) {
  return {.at = absl::UnixEpoch() + absl::Hours(500'000) + at,
          .route = {*Prefix::Create(Address::V4(i << 8), 24), next_hop}};
}

class UpdateReplayerTest : public testing::RealServerFixture {
 protected:
  testing::MisbehavingProxy proxy_{target_};
};

TEST_F(UpdateReplayerTest, WithoutGaps) {
  UpdateReplayer replayer(proxy_.Channel(), {.speed = 0, .batch = 10});
  NextHop next_hop;
  next_hop.id = 7;
  ASSERT_TRUE(replayer.OnNextHop(next_hop).ok());
  std::vector<TraceChange> changes;
  for (uint32_t i = 0; i < 25; ++i) {
    changes.push_back(Change(absl::Hours(i), i, 7));
  }
  ASSERT_TRUE(replayer.OnChanges(changes).ok());
  const auto report = replayer.Finish();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->changes, 25U);
  EXPECT_EQ(report->next_hops, 1U);
  EXPECT_EQ(report->batches, 3U);
  EXPECT_EQ(report->refused, 0U);
  EXPECT_EQ(report->recorded, absl::Hours(24));
  EXPECT_LT(report->took, absl::Minutes(1));
  EXPECT_EQ(report->generation, 3U);
  EXPECT_EQ(report->answer_lag.count(), 3U);
  EXPECT_EQ(ServedRoutes().size(), 25U);
  EXPECT_EQ(TableClient(Channel()).ListNextHops("")->next_hops.size(), 1U);
}

TEST_F(UpdateReplayerTest, KeepsTheGapsInProportion) {
  const absl::Time start = absl::Now();
  UpdateReplayer replayer(proxy_.Channel(), {.speed = 100});
  ASSERT_TRUE(replayer.OnChanges({Change(absl::Seconds(0), 1, 7)}).ok());
  ASSERT_TRUE(replayer.OnChanges({Change(absl::Seconds(10), 2, 7)}).ok());
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(100));
  ASSERT_TRUE(replayer.OnChanges({Change(absl::Seconds(5), 3, 7)}).ok());
  ASSERT_TRUE(replayer.OnChanges({Change(absl::Seconds(20), 4, 7)}).ok());
  const auto report = replayer.Finish();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_GE(report->took, absl::Milliseconds(200));
  EXPECT_LT(report->took, absl::Seconds(20));
  EXPECT_EQ(report->recorded, absl::Seconds(20));
  // The third was due with the second.
  EXPECT_EQ(report->batches, 3U);
  EXPECT_GT(report->answer_lag.Max(), absl::ZeroDuration());
}

TEST_F(UpdateReplayerTest, AppliesEveryChangeOfAPrefix) {
  UpdateReplayer replayer(proxy_.Channel(), {.speed = 0});
  for (NextHopId next_hop : {1U, 2U, kNoRoute, 3U}) {
    ASSERT_TRUE(
        replayer.OnChanges({Change(absl::ZeroDuration(), 1, next_hop)}).ok());
  }
  ASSERT_TRUE(replayer.OnChanges({Change(absl::ZeroDuration(), 2, 9)}).ok());
  const auto report = replayer.Finish();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->batches, 4U);
  EXPECT_EQ(report->generation, 4U);
  EXPECT_EQ(ServedRoutes().size(), 2U);
}

TEST_F(UpdateReplayerTest, EndsWithTheStream) {
  proxy_.EndCalls(1, grpc::Status(grpc::StatusCode::UNAVAILABLE, "away"), 1,
                  "StreamUpdates");
  UpdateReplayer replayer(proxy_.Channel(), {.speed = 0});
  ASSERT_TRUE(replayer.OnChanges({Change(absl::ZeroDuration(), 1, 9)}).ok());
  EXPECT_TRUE(absl::IsUnavailable(replayer.Finish().status()));
}

}  // namespace
}  // namespace planb::client
