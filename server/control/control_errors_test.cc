// SPDX-License-Identifier: Apache-2.0

// What UpdateRoutes and UpdateNextHops refuse, and how they say so: every
// reason that the contract names, through a real channel.

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "server/testing/control_calls.h"

namespace planb::server {
namespace {

using Op = v1::RouteUpdate;

v1::UpdateRoutesRequest One(Op::Op op, const char* prefix, uint32_t next_hop) {
  v1::UpdateRoutesRequest request = Updates({{prefix, next_hop}});
  request.mutable_updates(0)->set_op(op);
  return request;
}

// Refused requests, none of which may change the table.
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
  Expect(packed(std::string(5, '\0'), 8, ""), kBad, kReason,
         "updates[0].prefix");
  Expect(packed(std::string(16, '\1'), 8, ""), kBad, kReason,
         "updates[0].prefix");
  Expect(packed(std::string(4, '\0'), 33, ""), kBad, kReason,
         "updates[0].prefix");
  Expect(packed(std::string(16, '\0'), 4294967295U, ""), kBad, kReason,
         "updates[0].prefix");
  Expect(packed(std::string(16, '\0'), 0, "::/0"), kBad, kReason,
         "updates[0].prefix");
}

TEST_F(ControlErrors, TheFieldNamesTheEntry) {
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
  // Good ones beside it do not happen either.
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
  request.clear_ack();
  request.set_request_id(std::string(129, 'x'));
  Expect(request, Code::INVALID_ARGUMENT, "REQUEST_ID_INVALID", "request_id");

  v1::UpdateRoutesRequest named;  // changes nothing
  named.set_request_id(std::string(128, 'x'));
  EXPECT_TRUE(Call(running_, &Stub::UpdateRoutes, named).status.ok());
  request.set_request_id(named.request_id());
  Expect(request, Code::INVALID_ARGUMENT, "REQUEST_ID_REUSED", "request_id");

  named.clear_request_id();
  named.set_writer_epoch(7);  // takes effect though it changes nothing
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
  request.Clear();
  request.set_expected_generation(5);
  Expect(request, Code::ABORTED, "GENERATION_MISMATCH", "expected_generation");
  request.Clear();
  request.set_ack(v1::ACK_PERSISTED);
  Expect(request, Code::FAILED_PRECONDITION, "STORE_VOLATILE", "ack");
  request.set_table("nope");
  Expect(request, Code::NOT_FOUND, "TABLE_NOT_FOUND", "table");
}

TEST_F(ControlErrors, AnIdIsInOneListOnce) {
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

TEST_F(ControlErrors, WhatIsInUseStays) {
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

}  // namespace
}  // namespace planb::server
