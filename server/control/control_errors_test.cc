// SPDX-License-Identifier: Apache-2.0

// What RouteTable refuses, and with which code, reason and field: every reason
// of the contract, through a real channel.

#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/testing/control_calls.h"

namespace planb::server {
namespace {

// UpdateRoutes and UpdateNextHops.

using Op = v1::RouteUpdate;

v1::UpdateRoutesRequest One(Op::Op op, const char* prefix, uint32_t next_hop) {
  v1::UpdateRoutesRequest request = Updates({{prefix, next_hop}});
  request.mutable_updates(0)->set_op(op);
  return request;
}

// Refused requests. None of them changes the table.
class ControlErrors : public testing::Test {
 protected:
  ControlErrors() {
    // Generation 1: a route to 1, which group 9 has as a member.
    v1::UpdateRoutesRequest request =
        Updates({{"2001:db8::/32", 1}, {"10.0.0.0/8", 9}});
    request.add_next_hops()->set_id(1);
    AddGroup(9, {{1, 1}, {2, 1}}, *request.mutable_groups());
    EXPECT_EQ(
        Call(running_, &Stub::UpdateRoutes, request).response.generation(), 1U);
    before_ = GetTable(running_);
  }

  ~ControlErrors() override {
    const v1::Table after = GetTable(running_);
    EXPECT_EQ(after.accepted_generation(), before_.accepted_generation());
    EXPECT_EQ(after.digest(), before_.digest());
    EXPECT_EQ(after.next_hops(), 1U);
    EXPECT_EQ(after.groups(), 1U);
    EXPECT_EQ(ListAll(running_).size(), 2U);
  }

  void Expect(const v1::UpdateRoutesRequest& request, Code code,
              const char* reason, const char* field) {
    SCOPED_TRACE(request.ShortDebugString());
    ExpectError(Call(running_, &Stub::UpdateRoutes, request).status, code,
                reason, field);
  }
  void Expect(const v1::UpdateNextHopsRequest& request, Code code,
              const char* reason, const char* field) {
    SCOPED_TRACE(request.ShortDebugString());
    ExpectError(Call(running_, &Stub::UpdateNextHops, request).status, code,
                reason, field);
  }

  RunningServer running_;
  v1::Table before_;
};

TEST_F(ControlErrors, PrefixesAndNextHopsOfUpdates) {
  constexpr Code kBad = Code::INVALID_ARGUMENT;
  const char* const kReason = "UPDATE_INVALID";
  Expect(One(Op::OP_UNSPECIFIED, "::/0", 1), kBad, kReason, "updates[0].op");
  Expect(One(static_cast<Op::Op>(77), "::/0", 1), kBad, kReason,
         "updates[0].op");
  for (const char* prefix :
       {"2001:db8::1/32", "10.1.0.0/8", "::/129", "0.0.0.0/33", "::", "",
        "1.2.3/8", "fe80::%1/64"}) {
    Expect(One(Op::OP_UPSERT, prefix, 1), kBad, kReason, "updates[0].prefix");
  }
  for (const uint32_t reserved : {0U, 4294967295U}) {
    Expect(One(Op::OP_UPSERT, "::/0", reserved), kBad, kReason,
           "updates[0].next_hop_id");
  }
  Expect(One(Op::OP_DELETE, "::/0", 1), kBad, kReason,
         "updates[0].next_hop_id");
  Expect(One(Op::OP_DELETE_STRICT, "::/0", 1), kBad, kReason,
         "updates[0].next_hop_id");

  // The packed form.
  const auto packed = [](std::string address, uint32_t length,
                         const char* text) {
    v1::UpdateRoutesRequest request = One(Op::OP_UPSERT, text, 1);
    request.mutable_updates(0)->mutable_prefix()->set_address(address);
    request.mutable_updates(0)->mutable_prefix()->set_length(length);
    return request;
  };
  for (const auto& [address, length, text] :
       {std::tuple(std::string(5, '\0'), 8U, ""),
        std::tuple(std::string(16, '\1'), 8U, ""),
        std::tuple(std::string(4, '\0'), 33U, ""),
        std::tuple(std::string(16, '\0'), 4294967295U, ""),
        std::tuple(std::string(16, '\0'), 0U, "::/0")}) {
    Expect(packed(address, length, text), kBad, kReason, "updates[0].prefix");
  }
}

TEST_F(ControlErrors, FieldNamesTheEntry) {
  v1::UpdateRoutesRequest request;
  for (uint32_t i = 0; i < 20; ++i) {
    AddUpdate(absl::StrCat("10.", i, ".0.0/16"), 1, request);
  }
  request.mutable_updates(17)->mutable_prefix()->set_text("10.17.0.1/16");
  Expect(request, Code::INVALID_ARGUMENT, "UPDATE_INVALID",
         "updates[17].prefix");
  request.mutable_updates(17)->mutable_prefix()->set_text("10.3.0.0/16");
  Expect(request, Code::INVALID_ARGUMENT, "PREFIX_REPEATED",
         "updates[17].prefix");
}

TEST_F(ControlErrors, StrictOperations) {
  Expect(One(Op::OP_INSERT, "10.0.0.0/8", 1), Code::ALREADY_EXISTS,
         "ROUTE_EXISTS", "updates[0].prefix");
  Expect(One(Op::OP_REPLACE, "10.0.0.0/9", 1), Code::NOT_FOUND,
         "ROUTE_NOT_FOUND", "updates[0].prefix");
  Expect(One(Op::OP_DELETE_STRICT, "10.0.0.0/9", 0), Code::NOT_FOUND,
         "ROUTE_NOT_FOUND", "updates[0].prefix");
  // Valid changes of the same batch are not applied.
  v1::UpdateRoutesRequest request = Updates({{"::/0", 1}, {"10.0.0.0/9", 1}});
  request.mutable_updates(1)->set_op(Op::OP_REPLACE);
  Expect(request, Code::NOT_FOUND, "ROUTE_NOT_FOUND", "updates[1].prefix");
  request = Updates({{"::/0", 1}, {"8000::/1", 77}});
  request.set_require_next_hops(true);
  Expect(request, Code::NOT_FOUND, "NEXT_HOP_NOT_FOUND",
         "updates[1].next_hop_id");
}

TEST_F(ControlErrors, Terms) {
  v1::UpdateRoutesRequest request = Updates({{"::/0", 1}});
  request.set_table("nope");
  Expect(request, Code::NOT_FOUND, "TABLE_NOT_FOUND", "table");
  request.clear_table();
  for (const uint64_t other : {0U, 2U}) {
    request.set_expected_generation(other);
    Expect(request, Code::ABORTED, "GENERATION_MISMATCH",
           "expected_generation");
  }
  request.clear_expected_generation();
  request.set_ack(v1::ACK_PERSISTED);
  Expect(request, Code::FAILED_PRECONDITION, "STORE_VOLATILE", "ack");
  request.set_ack(static_cast<v1::Ack>(9));
  Expect(request, Code::INVALID_ARGUMENT, "ACK_INVALID", "ack");
  request.set_ack(v1::ACK_REPLICATED);
  Expect(request, Code::FAILED_PRECONDITION, "STORE_NOT_SHARED", "ack");
  request.clear_ack();
  request.set_ack_replicas(2);
  Expect(request, Code::INVALID_ARGUMENT, "ACK_INVALID", "ack_replicas");
  request.clear_ack_replicas();
  request.set_request_id(std::string(129, 'x'));
  Expect(request, Code::INVALID_ARGUMENT, "REQUEST_ID_INVALID", "request_id");

  v1::UpdateRoutesRequest named;  // changes nothing
  named.set_request_id(std::string(128, 'x'));
  EXPECT_TRUE(Call(running_, &Stub::UpdateRoutes, named).status.ok());
  request.set_request_id(named.request_id());
  Expect(request, Code::INVALID_ARGUMENT, "REQUEST_ID_REUSED", "request_id");

  named.clear_request_id();
  named.set_writer_epoch(7);  // takes effect without any change
  EXPECT_TRUE(Call(running_, &Stub::UpdateRoutes, named).status.ok());
  EXPECT_EQ(GetTable(running_).writer_epoch(), 7U);
  request.clear_request_id();
  request.set_writer_epoch(6);
  Expect(request, Code::FAILED_PRECONDITION, "WRITER_FENCED", "writer_epoch");
  v1::UpdateNextHopsRequest hops;
  hops.add_upserts()->set_id(5);
  Expect(hops, Code::FAILED_PRECONDITION, "WRITER_FENCED", "writer_epoch");
}

TEST_F(ControlErrors, NextHopObjects) {
  constexpr Code kBad = Code::INVALID_ARGUMENT;
  const auto expect = [&](auto change) {
    v1::UpdateNextHopsRequest request;
    request.add_upserts()->set_id(5);
    request.add_upserts()->set_id(6);
    change(*request.mutable_upserts(1));
    Expect(request, kBad, "NEXT_HOP_INVALID", "upserts[1]");
    v1::UpdateRoutesRequest beside;
    *beside.mutable_next_hops() = request.upserts();
    Expect(beside, kBad, "NEXT_HOP_INVALID", "next_hops[1]");
  };
  expect([](v1::NextHop& hop) { hop.set_id(0); });
  expect([](v1::NextHop& hop) { hop.set_id(4294967295U); });
  expect([](v1::NextHop& hop) { hop.set_gateway("12345"); });
  expect([](v1::NextHop& hop) { hop.set_interface(std::string(65, 'e')); });
  expect([](v1::NextHop& hop) { hop.set_label(std::string(257, 'l')); });

  v1::UpdateNextHopsRequest request;
  request.add_delete_ids(2);  // a member, with no object
  Expect(request, Code::NOT_FOUND, "NEXT_HOP_NOT_FOUND", "delete_ids[0]");
  request.set_delete_ids(0, 0);
  Expect(request, kBad, "NEXT_HOP_INVALID", "delete_ids[0]");
  request.Clear();
  request.add_delete_group_ids(1);
  Expect(request, Code::NOT_FOUND, "GROUP_NOT_FOUND", "delete_group_ids[0]");
  request.set_delete_group_ids(0, 0);
  Expect(request, kBad, "GROUP_INVALID", "delete_group_ids[0]");
  request.Clear();
  request.set_expected_generation(5);
  Expect(request, Code::ABORTED, "GENERATION_MISMATCH", "expected_generation");
  request.Clear();
  request.set_ack(v1::ACK_PERSISTED);
  Expect(request, Code::FAILED_PRECONDITION, "STORE_VOLATILE", "ack");
  request.set_table("nope");
  Expect(request, Code::NOT_FOUND, "TABLE_NOT_FOUND", "table");
}

TEST_F(ControlErrors, RefusesAnIdInTwoLists) {
  constexpr Code kBad = Code::INVALID_ARGUMENT;
  v1::UpdateNextHopsRequest request;
  request.add_upserts()->set_id(5);
  request.add_upserts()->set_id(5);
  Expect(request, kBad, "NEXT_HOP_REPEATED", "upserts[1].id");
  request.Clear();
  request.add_upserts()->set_id(1);
  request.add_delete_ids(1);
  Expect(request, kBad, "NEXT_HOP_REPEATED", "delete_ids[0]");
  request.Clear();
  AddGroup(9, {{1, 1}}, *request.mutable_group_upserts());
  request.add_delete_group_ids(9);
  Expect(request, kBad, "NEXT_HOP_REPEATED", "delete_group_ids[0]");
  // Lists of the other kind count as well.
  request.Clear();
  request.add_upserts()->set_id(9);
  request.add_delete_group_ids(9);
  Expect(request, kBad, "NEXT_HOP_REPEATED", "delete_group_ids[0]");
  request.Clear();
  AddGroup(1, {{3, 1}}, *request.mutable_group_upserts());
  request.add_delete_ids(1);
  Expect(request, kBad, "NEXT_HOP_REPEATED", "group_upserts[0].id");

  v1::UpdateRoutesRequest beside;
  beside.add_next_hops()->set_id(5);
  beside.add_next_hops()->set_id(5);
  Expect(beside, kBad, "NEXT_HOP_REPEATED", "next_hops[1].id");
}

TEST_F(ControlErrors, RefusesToDeleteWhatIsInUse) {
  v1::UpdateNextHopsRequest request;
  request.add_delete_ids(1);
  Expect(request, Code::FAILED_PRECONDITION, "NEXT_HOP_IN_USE", "delete_ids");
  auto status = Call(running_, &Stub::UpdateNextHops, request).status;
  EXPECT_NE(status.error_message().find("1 routes and 1 groups"),
            std::string::npos)
      << status.error_message();
  request.Clear();
  request.add_delete_group_ids(9);
  Expect(request, Code::FAILED_PRECONDITION, "NEXT_HOP_IN_USE",
         "delete_group_ids");
}

// Next-hop groups, and how many mistakes are listed.

using Groups = google::protobuf::RepeatedPtrField<v1::NextHopGroup>;

class GroupErrors : public testing::Test {
 protected:
  GroupErrors() {
    v1::UpdateNextHopsRequest request;
    request.add_upserts()->set_id(1);
    AddGroup(9, {{1, 1}, {2, 1}}, *request.mutable_group_upserts());
    EXPECT_TRUE(Call(running_, &Stub::UpdateNextHops, request).status.ok());
  }
  ~GroupErrors() override {
    EXPECT_EQ(GetTable(running_).accepted_generation(), 1U);
  }

  // Sends the group by both calls that take groups, after a valid group.
  void Expect(const v1::NextHopGroup& group, const char* reason,
              const std::string& field) {
    SCOPED_TRACE(absl::StrCat(reason, " ", field));
    v1::UpdateNextHopsRequest request;
    AddGroup(100, {{77, 1}}, *request.mutable_group_upserts());
    *request.add_group_upserts() = group;
    ExpectError(Call(running_, &Stub::UpdateNextHops, request).status,
                Code::INVALID_ARGUMENT, reason,
                absl::StrCat("group_upserts[1]", field));
    v1::UpdateRoutesRequest beside;
    *beside.mutable_groups() = request.group_upserts();
    ExpectError(Call(running_, &Stub::UpdateRoutes, beside).status,
                Code::INVALID_ARGUMENT, reason,
                absl::StrCat("groups[1]", field));
  }
  static v1::NextHopGroup Group(
      uint32_t id,
      std::initializer_list<std::pair<uint32_t, uint32_t>> members) {
    Groups groups;
    AddGroup(id, members, groups);
    return groups[0];
  }

  RunningServer running_;
};

TEST_F(GroupErrors, Malformed) {
  const char* const kReason = "GROUP_INVALID";
  for (const v1::NextHopGroup& group :
       {Group(5, {}), Group(0, {{1, 1}}), Group(4294967295U, {{1, 1}}),
        Group(5, {{1, 1}, {0, 1}}), Group(5, {{4294967295U, 1}}),
        Group(5, {{1, 1}, {2, 1}, {1, 1}}),
        Group(5, {{1, 4294967295U}, {2, 1}}),
        Group(5, {{1, 4294967295U}, {2, 0}})}) {  // a weight of 0 means 1
    Expect(group, kReason, "");
  }
  v1::NextHopGroup group = Group(5, {{1, 1}});
  group.set_label(std::string(257, 'l'));
  Expect(group, kReason, "");
  group = Group(5, {});
  for (uint32_t i = 1; i <= 257; ++i) group.add_members()->set_next_hop_id(i);
  Expect(group, kReason, "");
}

TEST_F(GroupErrors, RefusesNestingAndSharedIds) {
  Expect(Group(5, {{3, 1}, {4, 1}, {9, 1}}), "GROUP_NESTED",
         ".members[2].next_hop_id");
  Expect(Group(5, {{5, 1}}), "GROUP_NESTED", ".id");
  Expect(Group(2, {{3, 1}}), "GROUP_NESTED", ".id");  // a member of 9
  Expect(Group(1, {{3, 1}}), "NEXT_HOP_IS_GROUP", ".id");
  Expect(Group(100, {{3, 1}}), "NEXT_HOP_REPEATED", ".id");
  // Within one request both are wrong; the first is reported first.
  v1::UpdateNextHopsRequest request;
  AddGroup(5, {{6, 1}}, *request.mutable_group_upserts());
  AddGroup(6, {{7, 1}}, *request.mutable_group_upserts());
  ExpectError(Call(running_, &Stub::UpdateNextHops, request).status,
              Code::INVALID_ARGUMENT, "GROUP_NESTED",
              "group_upserts[0].members[0].next_hop_id");
  request.Clear();
  request.add_upserts()->set_id(3);
  request.add_upserts()->set_id(9);
  ExpectError(Call(running_, &Stub::UpdateNextHops, request).status,
              Code::INVALID_ARGUMENT, "NEXT_HOP_IS_GROUP", "upserts[1].id");
}

// The number in "(and 984 more)".
int More(const std::string& message) {
  const size_t at = message.find("(and ");
  int more = -1;
  if (at == std::string::npos ||
      !absl::SimpleAtoi(message.substr(at + 5, message.find(" more") - at - 5),
                        &more)) {
    ADD_FAILURE() << message;
  }
  return more;
}

// Sixteen mistakes are listed and all are counted. With any text in them the
// status fits into the trailers: a larger status would not arrive.
TEST_F(GroupErrors, AThousandMistakesFitInTheTrailers) {
  const std::string texts[] = {"", "no prefix", std::string(3000, 'x'),
                               std::string(3000, '\x01'), [] {
                                 std::string text;
                                 while (text.size() < 3000) text += "prefix ü€";
                                 return text;
                               }()};
  for (const std::string& text : texts) {
    SCOPED_TRACE(text.substr(0, 20));
    v1::UpdateRoutesRequest request;
    for (int i = 0; i < 1000; ++i) AddUpdate(text, 1, request);
    const auto status = Call(running_, &Stub::UpdateRoutes, request).status;
    ExpectError(status, Code::INVALID_ARGUMENT, "UPDATE_INVALID",
                "updates[0].prefix");
    const auto bad = DetailOf<google::rpc::BadRequest>(status);
    ASSERT_EQ(bad.field_violations_size(), 16);
    EXPECT_EQ(bad.field_violations(15).field(), "updates[15].prefix");
    EXPECT_EQ(More(status.error_message()), 999);
    EXPECT_LT(status.error_details().size() + status.error_message().size(),
              6000U);
  }
}

TEST_F(GroupErrors, MistakesOfOtherListsAreCountedTheSame) {
  v1::UpdateRoutesRequest twice;
  for (int i = 0; i < 101; ++i) AddUpdate("2001:db8::/32", 1, twice);
  auto status = Call(running_, &Stub::UpdateRoutes, twice).status;
  ExpectError(status, Code::INVALID_ARGUMENT, "PREFIX_REPEATED",
              "updates[1].prefix");
  EXPECT_EQ(DetailOf<google::rpc::BadRequest>(status).field_violations_size(),
            16);
  EXPECT_EQ(More(status.error_message()), 99);

  v1::UpdateNextHopsRequest hops;
  for (uint32_t i = 0; i < 50; ++i) hops.add_delete_ids(1000 + i);
  status = Call(running_, &Stub::UpdateNextHops, hops).status;
  ExpectError(status, Code::NOT_FOUND, "NEXT_HOP_NOT_FOUND", "delete_ids[0]");
  EXPECT_EQ(More(status.error_message()), 49);

  v1::ReplaceRoutesRequest routes;
  for (int i = 0; i < 30; ++i) routes.add_routes();
  routes.set_commit(true);
  status = Call(running_, &Stub::ReplaceRoutes, {routes}).status;
  ExpectError(status, Code::INVALID_ARGUMENT, "ROUTE_INVALID", "routes[0]");
  EXPECT_EQ(More(status.error_message()), 29);
}

// One mistake, and exactly as many as are listed.
TEST_F(GroupErrors, AFewMistakesAreAllListed) {
  for (const int count : {1, 16}) {
    v1::UpdateRoutesRequest request = Updates({{"::/0", 1}});
    for (int i = 0; i < count; ++i) request.add_updates();
    const auto status = Call(running_, &Stub::UpdateRoutes, request).status;
    const auto bad = DetailOf<google::rpc::BadRequest>(status);
    EXPECT_EQ(bad.field_violations_size(), count);
    EXPECT_EQ(bad.field_violations(count - 1).field(),
              absl::StrCat("updates[", count, "].op"));
    if (count > 1) {
      EXPECT_EQ(More(status.error_message()), count - 1);
    }
  }
}

// Calls that show, watch, replace and import, and calls for tables.

TEST(CallErrors, EveryCallNeedsATableThatExists) {
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

TEST(CallErrors, TableNames) {
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
  EXPECT_TRUE(DeleteTable(running, "red").ok());
  EXPECT_TRUE(create("blue").ok());
  for (const char* name : {"default", ""}) {
    ExpectError(DeleteTable(running, name), Code::FAILED_PRECONDITION,
                "TABLE_PERMANENT", "table");
  }
}

TEST(CallErrors, Reading) {
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

TEST(CallErrors, Watching) {
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

TEST(CallErrors, Replacing) {
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

TEST(CallErrors, Importing) {
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
  ExpectError(import([](Request& r) { r.set_data("10.0.0.0/8 1\n"); }),
              Code::INVALID_ARGUMENT, "SNAPSHOT_INVALID", "data");
  // A version of the format that does not exist yet.
  ExpectError(import([](Request& r) { (*r.mutable_data())[8] = 3; }),
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
