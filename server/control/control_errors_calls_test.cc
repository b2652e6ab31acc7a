// SPDX-License-Identifier: Apache-2.0

// What every other call of RouteTable refuses: those that show, watch, replace
// and import, and those that make and delete tables.

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "server/testing/control_calls.h"

namespace planb::server {
namespace {

TEST(ControlErrors, NoSuchTable) {
  RunningServer running;
  const auto expect = [](const char* what, const auto& reply) {
    SCOPED_TRACE(what);
    ExpectError(reply.status, Code::NOT_FOUND, "TABLE_NOT_FOUND", "table");
  };
  const auto with = [](auto request) {
    request.set_table("no such table");
    return request;
  };
  expect("ListRoutes",
         Call(running, &Stub::ListRoutes, with(v1::ListRoutesRequest())));
  expect("ListNextHops",
         Call(running, &Stub::ListNextHops, with(v1::ListNextHopsRequest())));
  expect("WatchRoutes",
         Call(running, &Stub::WatchRoutes, with(v1::WatchRoutesRequest())));
  expect("ExportSnapshot", Call(running, &Stub::ExportSnapshot,
                                with(v1::ExportSnapshotRequest())));
  expect("GetTable",
         Call(running, &Stub::GetTable, with(v1::GetTableRequest())));
  expect("DeleteTable",
         Call(running, &Stub::DeleteTable, with(v1::DeleteTableRequest())));
  v1::GetRouteRequest route;
  route.mutable_prefix()->set_text("::/0");
  expect("GetRoute", Call(running, &Stub::GetRoute, with(route)));
  v1::ExplainLookupRequest explain;
  explain.set_text("::1");
  expect("ExplainLookup", Call(running, &Stub::ExplainLookup, with(explain)));
  expect("ReplaceRoutes", Call(running, &Stub::ReplaceRoutes,
                               {with(v1::ReplaceRoutesRequest())}));
  expect("ImportSnapshot", Call(running, &Stub::ImportSnapshot,
                                {with(v1::ImportSnapshotRequest())}));
  CallContext context;
  const auto stream = running.table().StreamUpdates(&context);
  stream->Write(with(v1::StreamUpdatesRequest()));
  v1::StreamUpdatesResponse none;
  EXPECT_FALSE(stream->Read(&none));
  ExpectError(stream->Finish(), Code::NOT_FOUND, "TABLE_NOT_FOUND", "table");
}

TEST(ControlErrors, TablesNames) {
  ServerOptions options;
  options.tables.max_tables = 3;
  RunningServer running(options);
  const auto create = [&](const std::string& name) {
    v1::CreateTableRequest request;
    request.set_table(name);
    return Call(running, &Stub::CreateTable, request).status;
  };
  for (const std::string& bad :
       {std::string(), std::string("Red"), std::string("a_b"),
        std::string("a b"), std::string("\xc3\xbc"), std::string(64, 'a')}) {
    ExpectError(create(bad), Code::INVALID_ARGUMENT, "TABLE_NAME_INVALID",
                "table");
  }
  ExpectError(create("default"), Code::ALREADY_EXISTS, "TABLE_EXISTS", "table");
  EXPECT_TRUE(create(std::string(63, '-')).ok());
  EXPECT_TRUE(create("red").ok());
  ExpectError(create("red"), Code::ALREADY_EXISTS, "TABLE_EXISTS", "table");
  ExpectQuota(create("blue"), "TOO_MANY_TABLES", false);
  for (const char* name : {"default", ""}) {
    ExpectError(DeleteTable(running, name), Code::FAILED_PRECONDITION,
                "TABLE_PERMANENT", "table");
  }
}

TEST(ControlErrors, Reading) {
  RunningServer running;
  running.Announce({{"10.0.0.0/8", 1}});
  constexpr Code kBad = Code::INVALID_ARGUMENT;
  v1::ListRoutesRequest list;
  for (const auto match : {v1::ListRoutesRequest::MATCH_EXACT,
                           v1::ListRoutesRequest::MATCH_SUBTREE,
                           v1::ListRoutesRequest::MATCH_COVERING}) {
    list.set_match(match);
    list.clear_prefix();
    ExpectError(Call(running, &Stub::ListRoutes, list).status, kBad,
                "PREFIX_INVALID", "prefix");
    list.mutable_prefix()->set_text("10.0.0.1/8");
    ExpectError(Call(running, &Stub::ListRoutes, list).status, kBad,
                "PREFIX_INVALID", "prefix");
  }
  list.set_match(static_cast<v1::ListRoutesRequest::Match>(9));
  ExpectError(Call(running, &Stub::ListRoutes, list).status, kBad,
              "MATCH_INVALID", "match");

  v1::GetRouteRequest route;
  ExpectError(Call(running, &Stub::GetRoute, route).status, kBad,
              "PREFIX_INVALID", "prefix");
  route.mutable_prefix()->set_text("10.0.0.0/9");
  ExpectError(Call(running, &Stub::GetRoute, route).status, Code::NOT_FOUND,
              "ROUTE_NOT_FOUND", "prefix");

  v1::ExplainLookupRequest explain;
  ExpectError(Call(running, &Stub::ExplainLookup, explain).status, kBad,
              "ADDRESS_INVALID", "address");
  explain.set_address("12345");
  ExpectError(Call(running, &Stub::ExplainLookup, explain).status, kBad,
              "ADDRESS_INVALID", "address");
  explain.set_text("fe80::1%eth0");
  ExpectError(Call(running, &Stub::ExplainLookup, explain).status, kBad,
              "ADDRESS_INVALID", "text");
  explain.clear_address();
  ExpectError(Call(running, &Stub::ExplainLookup, explain).status, kBad,
              "ADDRESS_INVALID", "text");
}

TEST(ControlErrors, Watching) {
  ServerOptions options;
  options.tables.table.history_bytes = 4096;
  RunningServer running(options);
  for (uint32_t i = 1; i <= 100; ++i) running.Announce({{"::/0", i}});
  const v1::Table table = GetTable(running);
  const uint64_t oldest = table.oldest_watch_generation();
  ASSERT_GT(oldest, 1U);
  ASSERT_LT(oldest, 100U);
  // Older than what is kept, and newer than what there is.
  for (const uint64_t start : {uint64_t{0}, oldest - 1, uint64_t{101}}) {
    v1::WatchRoutesRequest request;
    request.set_start_generation(start);
    const auto status = Call(running, &Stub::WatchRoutes, request).status;
    ExpectError(status, Code::OUT_OF_RANGE, "HISTORY_COMPACTED",
                "start_generation");
    EXPECT_NE(status.error_message().find(absl::StrCat("oldest is ", oldest)),
              std::string::npos)
        << status.error_message();
  }
  for (const uint64_t start : {oldest, uint64_t{100}}) {
    v1::WatchRoutesRequest request;
    request.set_start_generation(start);
    request.set_start_digest(std::string(16, 'd'));
    ExpectError(Call(running, &Stub::WatchRoutes, request).status,
                Code::OUT_OF_RANGE, "HISTORY_DIVERGED", "start_digest");
  }
}

TEST(ControlErrors, Replacing) {
  RunningServer running;
  running.Announce({{"10.0.0.0/8", 1}});
  constexpr Code kBad = Code::INVALID_ARGUMENT;
  const auto expect = [&](v1::ReplaceRoutesRequest first, Code code,
                          const char* reason, const char* field) {
    ExpectError(Call(running, &Stub::ReplaceRoutes, {first}).status, code,
                reason, field);
    EXPECT_EQ(GetTable(running).accepted_generation(), 1U);
  };
  ExpectError(Call(running, &Stub::ReplaceRoutes, {}).status, kBad,
              "COMMIT_MISSING", "commit");
  v1::ReplaceRoutesRequest request;
  expect(request, kBad, "COMMIT_MISSING", "commit");
  request.set_commit(true);
  request.set_ack(static_cast<v1::Ack>(9));
  expect(request, kBad, "ACK_INVALID", "ack");
  request.set_ack(v1::ACK_PERSISTED);
  expect(request, Code::FAILED_PRECONDITION, "STORE_VOLATILE", "ack");
  request.clear_ack();
  request.set_expected_generation(0);
  expect(request, Code::ABORTED, "GENERATION_MISMATCH", "expected_generation");
  request.clear_expected_generation();
  request.add_routes()->mutable_prefix()->set_text("::/0");
  expect(request, kBad, "ROUTE_INVALID", "routes[0]");
  request.mutable_routes(0)->set_next_hop_id(1);
  *request.add_routes() = request.routes(0);
  expect(request, kBad, "PREFIX_REPEATED", "routes");
  request.clear_routes();
  request.add_next_hops();
  expect(request, kBad, "NEXT_HOP_INVALID", "next_hops[0]");
  request.clear_next_hops();
  AddGroup(7, {{3, 1}, {7, 1}}, *request.mutable_groups());
  expect(request, kBad, "GROUP_NESTED", "groups[0].id");
  request.mutable_groups(0)->clear_members();
  expect(request, kBad, "GROUP_INVALID", "groups[0]");
}

TEST(ControlErrors, Importing) {
  RunningServer running;
  running.Announce({{"10.0.0.0/8", 1}});
  const auto file = Call(running, &Stub::ExportSnapshot, {});
  ASSERT_TRUE(file.status.ok());
  const auto import = [&](auto change) {
    std::vector<v1::ImportSnapshotRequest> requests(1);
    for (const auto& chunk : file.all) {
      *requests[0].mutable_data() += chunk.data();
    }
    change(requests[0]);
    return Call(running, &Stub::ImportSnapshot, requests).status;
  };
  using Request = v1::ImportSnapshotRequest;
  ExpectError(Call(running, &Stub::ImportSnapshot, {}).status, Code::DATA_LOSS,
              "SNAPSHOT_CORRUPT", "");
  ExpectError(import([](Request& r) { r.mutable_data()->pop_back(); }),
              Code::DATA_LOSS, "SNAPSHOT_CORRUPT", "");
  ExpectError(import([](Request& r) { r.mutable_data()->push_back('x'); }),
              Code::DATA_LOSS, "SNAPSHOT_CORRUPT", "");
  ExpectError(import([](Request& r) { r.set_data("10.0.0.0/8 1\n"); }),
              Code::INVALID_ARGUMENT, "SNAPSHOT_INVALID", "data");
  // A version that is yet to come.
  ExpectError(import([](Request& r) { (*r.mutable_data())[8] = 2; }),
              Code::INVALID_ARGUMENT, "SNAPSHOT_INVALID", "data");
  ExpectError(import([](Request& r) { r.set_expected_generation(9); }),
              Code::ABORTED, "GENERATION_MISMATCH", "expected_generation");
  ExpectError(import([](Request& r) { r.set_ack(v1::ACK_PERSISTED); }),
              Code::FAILED_PRECONDITION, "STORE_VOLATILE", "ack");
  EXPECT_EQ(GetTable(running).accepted_generation(), 1U);
  EXPECT_TRUE(import([](Request&) {}).ok());
}

}  // namespace
}  // namespace planb::server
