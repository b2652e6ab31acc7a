// SPDX-License-Identifier: Apache-2.0

// Answers with extras and flows, and errors with reasons.

#include "client/lookup_client.h"

#include <gtest/gtest.h>

#include <utility>

#include "absl/time/clock.h"
#include "client/call.h"
#include "client/channel.h"
#include "client/table_client.h"
#include "client/testing/real_server_fixture.h"
#include "lpm/table/group_table.h"

namespace planb::client {

namespace {

class LookupClientTest : public testing::RealServerFixture {
 protected:
  void SetUp() override {
    Start("none",
          testing::RoutesFile({{*Prefix::Parse("2001:db8::/32"), 5},
                               {*Prefix::Parse("10.0.0.0/8"), 6}}),
          {"--max_lookup_addresses=3", "--max_generation_wait=0s"});
  }

  LookupClient client_{Channel()};
  const Address v6_ = *Address::Parse("2001:db8::1");
  const Address v4_ = *Address::Parse("10.1.2.3");
  const Address stray_ = *Address::Parse("9.9.9.9");
};

TEST_F(LookupClientTest, AnswersInOrder) {
  const auto answers = client_.Lookup({v4_, stray_, v6_});
  ASSERT_TRUE(answers.ok()) << answers.status();
  EXPECT_EQ(answers->generation, 1U);
  ASSERT_EQ(answers->answers.size(), 3U);
  EXPECT_EQ(answers->answers[0].next_hop, 6U);
  EXPECT_EQ(answers->answers[1].next_hop, kNoRoute);
  EXPECT_EQ(answers->answers[2].next_hop, 5U);
  EXPECT_FALSE(answers->answers[0].prefix.has_value());
  EXPECT_TRUE(client_.Lookup({})->answers.empty());
}

TEST_F(LookupClientTest, ExtrasWhenAskedFor) {
  v1::UpdateRoutesRequest update;
  v1::NextHop* next_hop = update.add_next_hops();
  next_hop->set_id(6);
  next_hop->set_label("core");
  ASSERT_TRUE(TableClient(Channel()).UpdateRoutes(update).ok());

  const auto answers = client_.Lookup(
      {v4_, stray_, v6_}, {.want_prefix = true, .want_next_hop = true});
  ASSERT_TRUE(answers.ok()) << answers.status();
  EXPECT_EQ(answers->answers[0].prefix, *Prefix::Parse("10.0.0.0/8"));
  ASSERT_TRUE(answers->answers[0].next_hop_object.has_value());
  EXPECT_EQ(answers->answers[0].next_hop_object->label, "core");
  EXPECT_FALSE(answers->answers[1].prefix.has_value());
  EXPECT_EQ(answers->answers[2].prefix, *Prefix::Parse("2001:db8::/32"));
  EXPECT_FALSE(answers->answers[2].next_hop_object.has_value());
}

TEST_F(LookupClientTest, FlowsTakeMembersOfGroups) {
  const NextHopGroup group = {
      .id = 99, .members = {{1, 1}, {2, 1}, {3, 5}, {4, 1}}, .label = ""};
  v1::UpdateRoutesRequest update;
  *update.add_groups() = ToProto(group);
  *update.add_updates() = ToUpdate({*Prefix::Parse("10.0.0.0/8"), 99});
  ASSERT_TRUE(TableClient(Channel()).UpdateRoutes(update).ok());
  const auto groups = GroupTable::Make({group}, nullptr);
  ASSERT_NE(groups->Choose(99, 2), groups->Choose(99, 0xffffffff));
  const auto answers =
      client_.Lookup({v6_, v4_, v4_}, {.flow_hashes = {1, 2, 0xffffffff}});
  ASSERT_TRUE(answers.ok()) << answers.status();
  EXPECT_EQ(answers->answers[0].next_hop, 5U);
  EXPECT_EQ(answers->answers[0].member, kNoRoute);
  EXPECT_EQ(answers->answers[1].next_hop, 99U);
  EXPECT_EQ(answers->answers[1].member, groups->Choose(99, 2));
  EXPECT_EQ(answers->answers[2].member, groups->Choose(99, 0xffffffff));
  EXPECT_EQ(client_.Lookup({v4_})->answers[0].member, kNoRoute);
}

TEST_F(LookupClientTest, ErrorsComeWithReasons) {
  for (const auto& [status, reason] :
       {std::pair(client_.Lookup({v4_}, {.table = "none"}).status(),
                  "TABLE_NOT_FOUND"),
        std::pair(client_.Lookup({v4_}, {.flow_hashes = {1, 2}}).status(),
                  "FLOW_HASHES_LENGTH"),
        std::pair(client_.Lookup({v4_}, {.min_generation = 2}).status(),
                  "GENERATION_NOT_VISIBLE"),
        std::pair(client_.Lookup({v4_, v4_, v4_, v4_}).status(),
                  "BATCH_TOO_LARGE")}) {
    EXPECT_EQ(ErrorReason(status), reason) << status;
  }
}

TEST_F(LookupClientTest, DeadlineAndAbsence) {
  EXPECT_EQ(client_.Lookup({v4_}, {.deadline = absl::Now() - absl::Seconds(1)})
                .status()
                .code(),
            absl::StatusCode::kDeadlineExceeded);
  const LookupClient lost(*MakeChannel("unix:///nonexistent/planb.sock"));
  EXPECT_EQ(lost.Lookup({v4_}).status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace planb::client
