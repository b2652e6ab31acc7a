// SPDX-License-Identifier: Apache-2.0

// Unary calls: tables and lookups, with errors and reasons.

#include "client/table_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "absl/time/clock.h"
#include "client/call.h"
#include "client/channel.h"
#include "client/lookup_client.h"
#include "client/testing/fake_server.h"

namespace planb::client {

namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

// Sorted, and several chunks of the fake server's lists.
std::vector<Route> EightRoutes() {
  std::vector<Route> routes;
  for (uint32_t i = 1; i <= 8; ++i) {
    routes.push_back({*Prefix::Create(Address::V4(i << 24), 8), i});
  }
  return routes;
}

class TableClientTest : public ::testing::Test {
 protected:
  testing::FakeServer server_{{.routes = EightRoutes()}};
  TableClient client_{server_.Channel()};
};

TEST_F(TableClientTest, UpdatesAndDescribes) {
  v1::UpdateRoutesRequest request;
  v1::RouteUpdate* update = request.add_updates();
  update->set_op(v1::RouteUpdate::OP_UPSERT);
  *update->mutable_prefix() = ToProto(*Prefix::Parse("2001:db8::/32"));
  update->set_next_hop_id(9);
  const auto response = client_.UpdateRoutes(request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->generation(), 2U);
  EXPECT_EQ(response->added(), 1U);
  const auto table = client_.GetTable("");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->routes_v4(), 8U);
  EXPECT_EQ(table->routes_v6(), 1U);
}

TEST_F(TableClientTest, ListsEveryRouteInOrder) {
  std::vector<Route> routes;
  const auto generation = client_.ListRoutes({}, [&](const Route& route) {
    routes.push_back(route);
    return absl::OkStatus();
  });
  ASSERT_TRUE(generation.ok()) << generation.status();
  EXPECT_EQ(*generation, 1U);
  EXPECT_THAT(routes, ElementsAreArray(EightRoutes()));
}

TEST_F(TableClientTest, TheCallerMayEndAList) {
  int seen = 0;
  const auto generation = client_.ListRoutes({}, [&](const Route&) {
    return ++seen < 4 ? absl::OkStatus() : absl::AbortedError("enough");
  });
  EXPECT_EQ(generation.status(), absl::AbortedError("enough"));
  EXPECT_EQ(seen, 4);
}

TEST_F(TableClientTest, ErrorsComeWithReasons) {
  v1::UpdateRoutesRequest update;
  update.set_expected_generation(7);
  EXPECT_EQ(ErrorReason(client_.UpdateRoutes(update).status()),
            "GENERATION_MISMATCH");
  EXPECT_EQ(ErrorReason(client_.GetTable("none").status()), "TABLE_NOT_FOUND");
  v1::ListRoutesRequest list;
  list.set_table("none");
  const auto ignore = [](const Route&) { return absl::OkStatus(); };
  EXPECT_EQ(ErrorReason(client_.ListRoutes(list, ignore).status()),
            "TABLE_NOT_FOUND");
  EXPECT_EQ(
      client_.GetTable("", absl::Now() - absl::Seconds(1)).status().code(),
      absl::StatusCode::kDeadlineExceeded);
}

TEST_F(TableClientTest, GetsExactlyThePrefix) {
  const auto route = client_.GetRoute("", *Prefix::Parse("3.0.0.0/8"));
  ASSERT_TRUE(route.ok()) << route.status();
  EXPECT_EQ(*route, EightRoutes()[2]);
  EXPECT_EQ(
      ErrorReason(client_.GetRoute("", *Prefix::Parse("3.0.0.0/9")).status()),
      "ROUTE_NOT_FOUND");
}

TEST_F(TableClientTest, NextHopsAndGroupsGoRound) {
  v1::UpdateNextHopsRequest request;
  std::vector<NextHop> next_hops;
  for (NextHopId id = 1; id <= 7; ++id) {  // several chunks
    next_hops.push_back({.id = id,
                         .gateway = *Address::Parse("192.0.2.1"),
                         .interface = "eth0",
                         .weight = id,
                         .label = "transit"});
    *request.add_upserts() = ToProto(next_hops.back());
  }
  const NextHopGroup group = {
      .id = 100, .members = {{1, 3}, {7, 1}}, .label = "both"};
  *request.add_group_upserts() = ToProto(group);
  const auto updated = client_.UpdateNextHops(request);
  ASSERT_TRUE(updated.ok()) << updated.status();
  EXPECT_EQ(updated->added(), 8U);
  EXPECT_EQ(updated->generation(), 2U);
  const auto list = client_.ListNextHops("");
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(list->generation, 2U);
  EXPECT_THAT(list->next_hops, ElementsAreArray(next_hops));
  EXPECT_THAT(list->groups, ElementsAre(group));
  EXPECT_EQ(ErrorReason(client_.ListNextHops("none").status()),
            "TABLE_NOT_FOUND");
}

TEST_F(TableClientTest, ExplainsALookup) {
  v1::ExplainLookupRequest request;
  request.set_address(Address::V4(0x03000001).ToPacked());
  const auto explained = client_.ExplainLookup(request);
  ASSERT_TRUE(explained.ok()) << explained.status();
  ASSERT_EQ(explained->matches_size(), 1);
  EXPECT_EQ(*FromProto(explained->matches(0)), EightRoutes()[2]);
  EXPECT_EQ(explained->next_hop_id(), 3U);
}

TEST_F(TableClientTest, CreatesAndDeletesTables) {
  const auto created = client_.CreateTable("blue");
  ASSERT_TRUE(created.ok()) << created.status();
  EXPECT_EQ(created->name(), "blue");
  const auto tables = client_.ListTables();
  ASSERT_TRUE(tables.ok()) << tables.status();
  ASSERT_EQ(tables->size(), 2U);
  EXPECT_EQ((*tables)[0].name(), "blue");
  EXPECT_EQ((*tables)[1].routes_v4(), 8U);
  EXPECT_EQ(ErrorReason(client_.CreateTable("blue").status()), "TABLE_EXISTS");
  EXPECT_TRUE(client_.DeleteTable("blue").ok());
  EXPECT_EQ(ErrorReason(client_.DeleteTable("blue")), "TABLE_NOT_FOUND");
}

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
  const auto stub = v1::RouteTable::NewStub(server_.Channel());
  grpc::ClientContext context;
  v1::UpdateRoutesResponse response;
  ASSERT_TRUE(stub->UpdateRoutes(&context, update, &response).ok());

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
