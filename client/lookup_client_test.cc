// SPDX-License-Identifier: Apache-2.0

// Answers with extras and flows, and errors with reasons.

#include "client/lookup_client.h"

#include <gtest/gtest.h>

#include <utility>

#include "absl/time/clock.h"
#include "client/call.h"
#include "client/channel.h"
#include "client/table_client.h"
#include "client/testing/fake_server.h"

namespace planb::client {

namespace {

class LookupClientTest : public ::testing::Test {
 protected:
  testing::FakeServer server_{{.routes = {{*Prefix::Parse("2001:db8::/32"), 5},
                                          {*Prefix::Parse("10.0.0.0/8"), 6}},
                               .max_lookup_addresses = 3}};
  LookupClient client_{server_.Channel()};
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
  ASSERT_TRUE(TableClient(server_.Channel()).UpdateRoutes(update).ok());

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
  testing::FakeServer server{
      {.routes = {{*Prefix::Parse("10.0.0.0/8"), testing::kFirstGroup},
                  {*Prefix::Parse("2001:db8::/32"), 5}}}};
  const LookupClient client(server.Channel());
  const auto answers =
      client.Lookup({v6_, v4_, v4_}, {.flow_hashes = {1, 2, 0xffffffff}});
  ASSERT_TRUE(answers.ok()) << answers.status();
  EXPECT_EQ(answers->answers[0].next_hop, 5U);
  EXPECT_EQ(answers->answers[0].member, kNoRoute);
  EXPECT_EQ(answers->answers[1].next_hop, testing::kFirstGroup);
  EXPECT_EQ(answers->answers[1].member, 3U);
  EXPECT_EQ(answers->answers[2].member, 0xffffffff % 100 + 1);
  EXPECT_EQ(client.Lookup({v4_})->answers[0].member, kNoRoute);
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
                  "TOO_MANY_ADDRESSES")}) {
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
