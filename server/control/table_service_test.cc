// SPDX-License-Identifier: Apache-2.0

// RouteTable through a real channel: what a controller sees.

#include <gtest/gtest.h>

#include "lpm/synthetic/synthetic.h"
#include "server/testing/running_server.h"

namespace planb::server {
namespace {

v1::UpdateRoutesRequest Request(v1::RouteUpdate::Op op, const char* prefix,
                                uint32_t next_hop) {
  v1::UpdateRoutesRequest request;
  auto& update = *request.add_updates();
  update.set_op(op);
  update.mutable_prefix()->set_text(prefix);
  update.set_next_hop_id(next_hop);
  return request;
}

struct Answer {
  grpc::Status status;
  v1::UpdateRoutesResponse response;
};

Answer Update(RunningServer& running, const v1::UpdateRoutesRequest& request) {
  Answer answer;
  grpc::ClientContext context;
  answer.status =
      running.table().UpdateRoutes(&context, request, &answer.response);
  return answer;
}

v1::Table GetTable(RunningServer& running) {
  grpc::ClientContext context;
  v1::Table table;
  EXPECT_TRUE(running.table().GetTable(&context, {}, &table).ok());
  return table;
}

uint32_t LookUp(RunningServer& running, const char* address) {
  v1::LookupRequest request;
  request.add_addresses()->set_text(address);
  grpc::ClientContext context;
  v1::LookupResponse response;
  EXPECT_TRUE(running.lookup().Lookup(&context, request, &response).ok());
  return response.results(0).next_hop_id();
}

TEST(UpdateRoutes, VisibleMeansTheNextLookupSeesIt) {
  RunningServer running;
  for (uint32_t i = 1; i <= 50; ++i) {
    const Answer answer =
        Update(running, Request(v1::RouteUpdate::OP_UPSERT, "::/0", i));
    ASSERT_TRUE(answer.status.ok());
    EXPECT_EQ(answer.response.generation(), i);
    EXPECT_GE(answer.response.visible_generation(), i);
    EXPECT_GT(answer.response.visible_unix_nanos(), 0U);
    ASSERT_EQ(LookUp(running, "2001:db8::1"), i);
  }
}

TEST(UpdateRoutes, AcceptedThenReadYourWrites) {
  RunningServer running;
  for (uint32_t i = 1; i <= 50; ++i) {
    auto update = Request(v1::RouteUpdate::OP_UPSERT, "10.0.0.0/8", i);
    update.set_ack(v1::ACK_ACCEPTED);
    const Answer answer = Update(running, update);
    ASSERT_TRUE(answer.status.ok());
    v1::LookupRequest request;
    request.add_addresses()->set_text("10.0.0.1");
    request.set_min_generation(answer.response.generation());
    grpc::ClientContext context;
    v1::LookupResponse response;
    ASSERT_TRUE(running.lookup().Lookup(&context, request, &response).ok());
    EXPECT_GE(response.generation(), answer.response.generation());
    ASSERT_EQ(response.results(0).next_hop_id(), i);
  }
}

TEST(UpdateRoutes, RefusesWithTheCodeTheContractNames) {
  ServerOptions options;
  options.tables.table.limits.max_routes = 1;
  options.control.max_update_routes = 2;
  RunningServer running(options);
  ASSERT_EQ(running.Announce({{"::/0", 1}}), 1U);
  const auto expect = [&](const v1::UpdateRoutesRequest& request,
                          grpc::StatusCode code, const char* reason,
                          const char* field) {
    const grpc::Status status = Update(running, request).status;
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    EXPECT_EQ(ReasonOf(status), reason);
    EXPECT_EQ(FieldOf(status), field);
    EXPECT_EQ(DetailOf<google::rpc::ErrorInfo>(status).domain(), "planb");
  };
  using Op = v1::RouteUpdate;
  using Code = grpc::StatusCode;
  expect(Request(Op::OP_UPSERT, "::1/64", 1), Code::INVALID_ARGUMENT,
         "UPDATE_INVALID", "updates[0].prefix");
  expect(Request(Op::OP_INSERT, "::/0", 1), Code::ALREADY_EXISTS,
         "ROUTE_EXISTS", "updates[0].prefix");
  expect(Request(Op::OP_DELETE_STRICT, "::/1", 0), Code::NOT_FOUND,
         "ROUTE_NOT_FOUND", "updates[0].prefix");
  expect(Request(Op::OP_UPSERT, "8000::/1", 1), Code::RESOURCE_EXHAUSTED,
         "TABLE_FULL", "");
  auto request = Request(Op::OP_UPSERT, "::/0", 3);
  *request.add_updates() = request.updates(0);
  expect(request, Code::INVALID_ARGUMENT, "PREFIX_REPEATED",
         "updates[1].prefix");
  *request.add_updates() = request.updates(0);
  expect(request, Code::RESOURCE_EXHAUSTED, "BATCH_TOO_LARGE", "");
  request = Request(Op::OP_UPSERT, "::/0", 3);
  request.set_table("nope");
  expect(request, Code::NOT_FOUND, "TABLE_NOT_FOUND", "table");
  request.set_table("");
  request.set_expected_generation(7);
  expect(request, Code::ABORTED, "GENERATION_MISMATCH", "expected_generation");
  request.clear_expected_generation();
  request.set_ack(v1::ACK_PERSISTED);
  expect(request, Code::FAILED_PRECONDITION, "STORE_VOLATILE", "ack");
  request.set_ack(static_cast<v1::Ack>(42));
  expect(request, Code::INVALID_ARGUMENT, "ACK_INVALID", "ack");
  request.set_ack(v1::ACK_VISIBLE);
  request.set_require_next_hops(true);
  expect(request, Code::NOT_FOUND, "NEXT_HOP_NOT_FOUND",
         "updates[0].next_hop_id");
  // None of it changed anything.
  EXPECT_EQ(GetTable(running).accepted_generation(), 1U);
  EXPECT_EQ(LookUp(running, "::1"), 1U);
}

TEST(UpdateRoutes, RepeatedRequestIdIsAnsweredOnce) {
  RunningServer running;
  auto request = Request(v1::RouteUpdate::OP_UPSERT, "::/0", 1);
  request.set_request_id("once");
  EXPECT_EQ(Update(running, request).response.generation(), 1U);
  running.Announce({{"::/0", 2}});
  const Answer again = Update(running, request);
  EXPECT_EQ(again.response.generation(), 1U);
  EXPECT_EQ(again.response.added(), 1U);
  EXPECT_EQ(LookUp(running, "::1"), 2U);
  request.mutable_updates(0)->set_next_hop_id(5);
  EXPECT_EQ(ReasonOf(Update(running, request).status), "REQUEST_ID_REUSED");
}

TEST(UpdateRoutes, ManyMistakesAreCountedAndSixteenListed) {
  RunningServer running;
  v1::UpdateRoutesRequest request;
  for (int i = 0; i < 5000; ++i) {
    auto& update = *request.add_updates();
    update.set_op(v1::RouteUpdate::OP_UPSERT);
    update.mutable_prefix()->set_text("no prefix at all");
  }
  const grpc::Status status = Update(running, request).status;
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_NE(status.error_message().find("4999 more"), std::string::npos);
  EXPECT_EQ(DetailOf<google::rpc::BadRequest>(status).field_violations_size(),
            16);
}

TEST(GetTable, TellsTheState) {
  ServerOptions options;
  options.simd = "scalar";
  RunningServer running(options);
  v1::Table table = GetTable(running);
  EXPECT_EQ(table.name(), "default");
  EXPECT_EQ(table.digest(), std::string(16, '\0'));
  EXPECT_EQ(table.kernel(), "scalar");
  EXPECT_GE(table.available_kernels_size(), 1);
  EXPECT_EQ(table.store(), "none");
  running.Announce(
      {{"2001:db8::/32", 1}, {"10.0.0.0/8", 2}, {"10.0.0.0/9", 2}});
  table = GetTable(running);
  EXPECT_EQ(table.accepted_generation(), 1U);
  EXPECT_EQ(table.visible_generation(), 1U);
  EXPECT_EQ(table.routes_v6(), 1U);
  EXPECT_EQ(table.routes_v4(), 2U);
  EXPECT_EQ(table.intervals_v6(), 3U);
  EXPECT_EQ(table.intervals_v4(), 3U);  // 10/8 and 10/9 agree
  EXPECT_NE(table.digest(), std::string(16, '\0'));
  EXPECT_GT(table.fib_bytes(), 0U);
  EXPECT_GT(table.last_build_nanos(), 0U);
  EXPECT_EQ(table.length_counts_size(), 3);

  grpc::ClientContext context;
  v1::ListTablesResponse tables;
  ASSERT_TRUE(running.table().ListTables(&context, {}, &tables).ok());
  ASSERT_EQ(tables.tables_size(), 1);
  EXPECT_EQ(tables.tables(0).digest(), table.digest());
}

TEST(ListRoutes, ShowsOneGenerationInChunksInOrder) {
  ServerOptions options;
  options.initial.generate_v6 = 9000;
  options.initial.generate_v4 = 1000;
  RunningServer running(options);
  const auto expected =
      SyntheticTable({.ipv6_routes = 9000, .ipv4_routes = 1000, .seed = 1});
  grpc::ClientContext context;
  const auto reader = running.table().ListRoutes(&context, {});
  v1::ListRoutesResponse chunk;
  size_t at = 0;
  int chunks = 0;
  while (reader->Read(&chunk)) {
    ++chunks;
    EXPECT_EQ(chunk.generation(), 1U);
    EXPECT_LT(chunk.ByteSizeLong(), 80U << 10);
    for (const v1::Route& route : chunk.routes()) {
      ASSERT_LT(at, expected.size());
      const auto address = Address::FromPacked(route.prefix().address());
      ASSERT_EQ(
          *Prefix::Create(*address, static_cast<int>(route.prefix().length())),
          expected[at].prefix);
      ASSERT_EQ(route.next_hop_id(), expected[at].next_hop);
      ++at;
    }
    // Changes made meanwhile do not show.
    if (chunks == 1) running.Announce({{"2001:db8::/48", 1}});
  }
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(at, expected.size());
  EXPECT_GT(chunks, 1);
}

TEST(ListRoutes, AreBoundedAtOnce) {
  ServerOptions options;
  options.control.max_lists = 1;
  options.initial.generate_v6 = 50'000;  // more than fits between the two
  RunningServer running(options);
  v1::ListRoutesResponse chunk;
  grpc::ClientContext first_context;
  const auto first = running.table().ListRoutes(&first_context, {});
  ASSERT_TRUE(first->Read(&chunk));
  grpc::ClientContext second_context;
  const auto second = running.table().ListRoutes(&second_context, {});
  v1::ListRoutesResponse none;
  EXPECT_FALSE(second->Read(&none));
  const grpc::Status refused = second->Finish();
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ReasonOf(refused), "TOO_MANY_STREAMS");
  // The first goes on to its end.
  size_t routes = static_cast<size_t>(chunk.routes_size());
  while (first->Read(&chunk)) {
    routes += static_cast<size_t>(chunk.routes_size());
  }
  EXPECT_TRUE(first->Finish().ok());
  EXPECT_EQ(routes, GetTable(running).routes_v6());
}

TEST(ListRoutes, Selects) {
  RunningServer running;
  running.Announce({{"::/0", 1},
                    {"2001:db8::/32", 2},
                    {"2001:db8:1::/48", 3},
                    {"2001:db8:2::/48", 3},
                    {"10.0.0.0/8", 3}});
  const auto list = [&](v1::ListRoutesRequest::Match match, const char* prefix,
                        uint32_t next_hop) {
    v1::ListRoutesRequest request;
    request.set_match(match);
    if (prefix != nullptr) request.mutable_prefix()->set_text(prefix);
    request.set_next_hop_id(next_hop);
    grpc::ClientContext context;
    const auto reader = running.table().ListRoutes(&context, request);
    std::vector<uint32_t> lengths;
    v1::ListRoutesResponse chunk;
    while (reader->Read(&chunk)) {
      for (const auto& r : chunk.routes())
        lengths.push_back(r.prefix().length());
    }
    const grpc::Status status = reader->Finish();
    if (!status.ok()) lengths = {static_cast<uint32_t>(status.error_code())};
    return lengths;
  };
  using List = v1::ListRoutesRequest;
  using Lengths = std::vector<uint32_t>;
  EXPECT_EQ(list(List::MATCH_UNSPECIFIED, nullptr, 0),
            (Lengths{8, 0, 32, 48, 48}));
  EXPECT_EQ(list(List::MATCH_UNSPECIFIED, nullptr, 3), (Lengths{8, 48, 48}));
  EXPECT_EQ(list(List::MATCH_EXACT, "2001:db8::/32", 0), Lengths{32});
  EXPECT_EQ(list(List::MATCH_COVERING, "2001:db8:1::/64", 0),
            (Lengths{0, 32, 48}));
  EXPECT_EQ(list(List::MATCH_SUBTREE, "2001:db8::/32", 0),
            (Lengths{32, 48, 48}));
  EXPECT_EQ(list(List::MATCH_EXACT, nullptr, 0), Lengths{3});
  EXPECT_EQ(list(static_cast<List::Match>(9), "::/0", 0), Lengths{3});
}

TEST(GetRoute, IsExact) {
  RunningServer running;
  running.Announce({{"2001:db8::/32", 2}});
  v1::GetRouteRequest request;
  request.mutable_prefix()->set_text("2001:db8::/32");
  v1::Route route;
  {
    grpc::ClientContext context;
    ASSERT_TRUE(running.table().GetRoute(&context, request, &route).ok());
    EXPECT_EQ(route.next_hop_id(), 2U);
  }
  request.mutable_prefix()->set_text("2001:db8::/33");
  grpc::ClientContext context;
  const grpc::Status absent =
      running.table().GetRoute(&context, request, &route);
  EXPECT_EQ(absent.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(ReasonOf(absent), "ROUTE_NOT_FOUND");
}

// Each list is counted in and out once, whichever it is.
TEST(ListNextHops, LeavesRoomForOtherLists) {
  ServerOptions options;
  options.control.max_lists = 1;
  RunningServer running(options);
  for (int i = 0; i < 3; ++i) {
    grpc::ClientContext hops_context, routes_context;
    v1::ListNextHopsResponse hops;
    const auto list = running.table().ListNextHops(&hops_context, {});
    while (list->Read(&hops)) continue;
    EXPECT_TRUE(list->Finish().ok());
    v1::ListRoutesResponse routes;
    const auto other = running.table().ListRoutes(&routes_context, {});
    while (other->Read(&routes)) continue;
    EXPECT_TRUE(other->Finish().ok());
  }
}

TEST(ListNextHops, ShowsObjects) {
  RunningServer running;
  v1::UpdateRoutesRequest request;
  for (uint32_t id : {3U, 1U, 2U}) {
    auto& next_hop = *request.add_next_hops();
    next_hop.set_id(id);
    next_hop.set_interface("eth0");
  }
  ASSERT_TRUE(Update(running, request).status.ok());
  grpc::ClientContext context;
  const auto reader = running.table().ListNextHops(&context, {});
  v1::ListNextHopsResponse chunk;
  ASSERT_TRUE(reader->Read(&chunk));
  ASSERT_EQ(chunk.next_hops_size(), 3);
  EXPECT_EQ(chunk.next_hops(0).id(), 1U);
  EXPECT_EQ(chunk.next_hops(2).interface(), "eth0");
  EXPECT_FALSE(reader->Read(&chunk));
  EXPECT_TRUE(reader->Finish().ok());
}

}  // namespace
}  // namespace planb::server
