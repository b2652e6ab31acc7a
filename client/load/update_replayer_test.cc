// SPDX-License-Identifier: Apache-2.0

// A replay makes every change of its trace, in order, and not before its time.

#include "client/load/update_replayer.h"

#include <gtest/gtest.h>

#include <vector>

#include "absl/time/clock.h"
#include "client/status.h"
#include "client/testing/fake_server.h"

namespace planb::client {
namespace {

TraceChange Change(absl::Duration at, uint32_t i, NextHopId next_hop) {
  return {.at = absl::UnixEpoch() + absl::Hours(500'000) + at,
          .route = {*Prefix::Create(Address::V4(i << 8), 24), next_hop}};
}

class UpdateReplayerTest : public ::testing::Test {
 protected:
  testing::FakeServer server_{};
};

TEST_F(UpdateReplayerTest, WithoutGaps) {
  UpdateReplayer replayer(server_.Channel(), {.speed = 0, .batch = 10});
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
  EXPECT_EQ(server_.table().routes().size(), 25U);
  EXPECT_EQ(server_.table().next_hops().size(), 1U);
}

TEST_F(UpdateReplayerTest, KeepsTheGapsInProportion) {
  const absl::Time start = absl::Now();
  UpdateReplayer replayer(server_.Channel(), {.speed = 100});
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

TEST_F(UpdateReplayerTest, EveryChangeOfAPrefixIsMade) {
  UpdateReplayer replayer(server_.Channel(), {.speed = 0});
  for (NextHopId next_hop : {1U, 2U, kNoRoute, 3U}) {
    ASSERT_TRUE(
        replayer.OnChanges({Change(absl::ZeroDuration(), 1, next_hop)}).ok());
  }
  ASSERT_TRUE(replayer.OnChanges({Change(absl::ZeroDuration(), 2, 9)}).ok());
  const auto report = replayer.Finish();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->batches, 4U);
  EXPECT_EQ(report->generation, 4U);
  EXPECT_EQ(server_.table().routes().size(), 2U);
}

TEST_F(UpdateReplayerTest, RefusalsAreCounted) {
  UpdateReplayer replayer(server_.Channel(),
                          {.stream = {.ack = v1::ACK_PERSISTED}, .speed = 0});
  ASSERT_TRUE(replayer.OnChanges({Change(absl::ZeroDuration(), 1, 9)}).ok());
  const auto report = replayer.Finish();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->refused, 1U);
  EXPECT_EQ(report->first_refusal.code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(report->generation, 0U);
}

TEST_F(UpdateReplayerTest, TheStreamsEndEndsIt) {
  server_.EndStreams(0, grpc::Status(grpc::StatusCode::UNAVAILABLE, "away"));
  UpdateReplayer replayer(server_.Channel(), {.speed = 0});
  ASSERT_TRUE(replayer.OnChanges({Change(absl::ZeroDuration(), 1, 9)}).ok());
  EXPECT_TRUE(absl::IsUnavailable(replayer.Finish().status()));
}

TEST_F(UpdateReplayerTest, AnEmptyTraceStillAsksTheServer) {
  const auto report = UpdateReplayer(server_.Channel(), {}).Finish();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->batches, 0U);
  UpdateReplayer lost(server_.Channel(), {.stream = {.table = "none"}});
  EXPECT_EQ(ErrorReason(lost.Finish().status()), "TABLE_NOT_FOUND");
}

}  // namespace
}  // namespace planb::client
