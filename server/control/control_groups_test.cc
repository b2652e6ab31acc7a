// SPDX-License-Identifier: Apache-2.0

// Next hops and ECMP groups through a real channel: from UpdateNextHops to what
// each kind of lookup says, flow by flow.

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "server/testing/control_calls.h"

namespace planb::server {
namespace {

constexpr uint32_t kGroup = 100;
constexpr uint32_t kFlows = 4000;

uint32_t Hash(uint32_t flow) { return flow * 2654435761U; }

// The answers to the same address, once for each flow; without `hashes`, once.
std::vector<uint32_t> LookUp(RunningServer& running, bool hashes) {
  v1::BatchLookupRequest request;
  for (uint32_t flow = 0; flow < (hashes ? kFlows : 1); ++flow) {
    *request.mutable_addresses_v4() += std::string("\x0a\0\0\x01", 4);
    const uint32_t hash = Hash(flow);
    if (hashes) {
      request.mutable_flow_hashes()->append(
          reinterpret_cast<const char*>(&hash), sizeof(hash));
    }
  }
  CallContext context;
  const auto stream = running.lookup().BatchLookup(&context);
  EXPECT_TRUE(stream->Write(request));
  v1::BatchLookupResponse reply;
  EXPECT_TRUE(stream->Read(&reply));
  EXPECT_FALSE(reply.has_error()) << reply.ShortDebugString();
  std::vector<uint32_t> answers(reply.next_hops().size() / 4);
  std::memcpy(answers.data(), reply.next_hops().data(),
              reply.next_hops().size());
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
  return answers;
}

grpc::Status SetGroup(
    RunningServer& running,
    std::initializer_list<std::pair<uint32_t, uint32_t>> members) {
  v1::UpdateNextHopsRequest request;
  AddGroup(kGroup, members, *request.mutable_group_upserts());
  return Call(running, &Stub::UpdateNextHops, request).status;
}

class ControlGroups : public testing::Test {
 protected:
  ControlGroups() {
    v1::UpdateNextHopsRequest request;
    for (uint32_t id = 1; id <= 4; ++id) {
      v1::NextHop& hop = *request.add_upserts();
      hop.set_id(id);
      hop.set_interface("eth" + std::to_string(id));
    }
    EXPECT_TRUE(Call(running_, &Stub::UpdateNextHops, request).status.ok());
    EXPECT_TRUE(SetGroup(running_, {{1, 1}, {2, 1}, {3, 1}, {4, 1}}).ok());
    running_.Announce({{"10.0.0.0/8", kGroup}, {"10.1.0.0/16", 2}});
  }
  RunningServer running_;
};

TEST_F(ControlGroups, WithoutAHashTheGroupWithOneTheMember) {
  EXPECT_EQ(LookUp(running_, false), std::vector<uint32_t>{kGroup});
  std::map<uint32_t, int> flows;
  for (const uint32_t member : LookUp(running_, true)) ++flows[member];
  EXPECT_EQ(flows.size(), 4U);
  for (const auto& [member, count] : flows) {
    EXPECT_GE(member, 1U);
    EXPECT_LE(member, 4U);
    EXPECT_GT(count, 800) << member;  // of 1000
    EXPECT_LT(count, 1200) << member;
  }
}

// Lookup and ExplainLookup take the same members, and show their objects.
TEST_F(ControlGroups, AllCallsChooseAlike) {
  const std::vector<uint32_t> members = LookUp(running_, true);
  for (uint32_t flow = 0; flow < 50; ++flow) {
    v1::LookupRequest request;
    request.set_want_next_hop(true);
    for (const char* address : {"10.0.0.1", "10.1.0.1", "11.0.0.0"}) {
      request.add_addresses()->set_text(address);
      request.add_flow_hashes(Hash(flow));
    }
    CallContext context;
    v1::LookupResponse response;
    ASSERT_TRUE(running_.lookup().Lookup(&context, request, &response).ok());
    const std::string interface = "eth" + std::to_string(members[flow]);
    EXPECT_EQ(response.results(0).next_hop_id(), kGroup);
    EXPECT_EQ(response.results(0).member_id(), members[flow]);
    EXPECT_EQ(response.results(0).next_hop().interface(), interface);
    EXPECT_EQ(response.results(1).next_hop_id(), 2U);
    EXPECT_EQ(response.results(1).member_id(), 0U);  // no group
    EXPECT_EQ(response.results(1).next_hop().interface(), "eth2");
    EXPECT_EQ(response.results(2).next_hop_id(), kNoRoute);
    EXPECT_EQ(response.results(2).member_id(), 0U);

    v1::ExplainLookupRequest explain;
    explain.set_text("10.0.0.1");
    explain.set_flow_hash(Hash(flow));
    const auto why = Call(running_, &Stub::ExplainLookup, explain);
    ASSERT_TRUE(why.status.ok());
    EXPECT_EQ(why.response.next_hop_id(), kGroup);
    EXPECT_FALSE(why.response.has_next_hop());
    EXPECT_EQ(why.response.group().members_size(), 4);
    EXPECT_EQ(why.response.member_id(), members[flow]);
    EXPECT_EQ(why.response.member().interface(), interface);
  }
}

TEST_F(ControlGroups, AMemberThatLeavesMovesOnlyItsFlows) {
  const std::vector<uint32_t> before = LookUp(running_, true);
  ASSERT_TRUE(SetGroup(running_, {{1, 1}, {2, 1}, {4, 1}}).ok());
  const std::vector<uint32_t> without = LookUp(running_, true);
  for (uint32_t flow = 0; flow < kFlows; ++flow) {
    ASSERT_NE(without[flow], 3U);
    if (before[flow] != 3) {
      ASSERT_EQ(without[flow], before[flow]);
    }
  }
  // Back again, in another order, everything is as it was.
  ASSERT_TRUE(SetGroup(running_, {{3, 1}, {4, 1}, {1, 1}, {2, 1}}).ok());
  EXPECT_EQ(LookUp(running_, true), before);
  // A heavier one takes from others and gives nothing.
  ASSERT_TRUE(SetGroup(running_, {{1, 1}, {2, 5}, {3, 1}, {4, 1}}).ok());
  const std::vector<uint32_t> heavier = LookUp(running_, true);
  int taken = 0;
  for (uint32_t flow = 0; flow < kFlows; ++flow) {
    if (heavier[flow] == before[flow]) continue;
    ASSERT_EQ(heavier[flow], 2U);
    ++taken;
  }
  EXPECT_GT(taken, 1000);
}

// An object or a group that changes is a generation; one that does not is none.
TEST_F(ControlGroups, UpdatesAreCountedAndListed) {
  const uint64_t before = GetTable(running_).accepted_generation();
  v1::UpdateNextHopsRequest request;
  request.add_upserts()->set_id(1);  // without its interface: changed
  request.add_upserts()->set_id(9);
  request.add_upserts()->set_id(2);
  request.mutable_upserts(2)->set_interface("eth2");  // as it was
  AddGroup(7, {{9, 0}}, *request.mutable_group_upserts());
  request.set_validate_only(true);
  auto reply = Call(running_, &Stub::UpdateNextHops, request);
  EXPECT_EQ(reply.response.added(), 2U);
  EXPECT_EQ(reply.response.generation(), before);
  request.set_validate_only(false);
  request.set_request_id("named");
  for (int i = 0; i < 2; ++i) {  // the second is the first one's answer
    reply = Call(running_, &Stub::UpdateNextHops, request);
    ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
    EXPECT_EQ(reply.response.added(), 2U);
    EXPECT_EQ(reply.response.changed(), 1U);
    EXPECT_EQ(reply.response.removed(), 0U);
    EXPECT_EQ(reply.response.generation(), before + 1);
  }
  v1::UpdateNextHopsRequest removal;
  removal.add_delete_group_ids(7);
  removal.add_delete_ids(9);
  reply = Call(running_, &Stub::UpdateNextHops, removal);
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  EXPECT_EQ(reply.response.removed(), 2U);
  EXPECT_EQ(reply.response.visible_generation(), before + 2);

  const auto list = Call(running_, &Stub::ListNextHops, {});
  ASSERT_EQ(list.all.size(), 1U);
  EXPECT_EQ(list.all[0].generation(), before + 2);
  ASSERT_EQ(list.all[0].next_hops_size(), 4);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(list.all[0].next_hops(i).id(), static_cast<uint32_t>(i + 1));
  }
  EXPECT_EQ(list.all[0].next_hops(0).interface(), "");
  ASSERT_EQ(list.all[0].groups_size(), 1);
  EXPECT_EQ(list.all[0].groups(0).id(), kGroup);
}

// A group's id may become a next hop's once nothing needs the group.
TEST_F(ControlGroups, AGroupInUseStaysUntilItsRoutesAreGone) {
  v1::UpdateNextHopsRequest removal;
  removal.add_delete_group_ids(kGroup);
  ExpectError(Call(running_, &Stub::UpdateNextHops, removal).status,
              Code::FAILED_PRECONDITION, "NEXT_HOP_IN_USE", "delete_group_ids");
  running_.Announce({{"10.0.0.0/8", 3}});
  EXPECT_TRUE(Call(running_, &Stub::UpdateNextHops, removal).status.ok());
  v1::UpdateNextHopsRequest other;
  other.add_upserts()->set_id(kGroup);
  EXPECT_TRUE(Call(running_, &Stub::UpdateNextHops, other).status.ok());
  running_.Announce({{"10.0.0.0/8", kGroup}});
  EXPECT_EQ(LookUp(running_, true)[0], kGroup);  // no group any more
}

}  // namespace
}  // namespace planb::server
