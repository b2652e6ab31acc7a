// SPDX-License-Identifier: Apache-2.0

// Next hops, groups and tables through a real channel: from updates to what
// each kind of lookup answers.

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "server/testing/control_calls.h"

namespace planb::server {
namespace {

// Next hops and ECMP groups, flow by flow.

constexpr uint32_t kGroup = 100;
constexpr uint32_t kFlows = 4000;

uint32_t Hash(uint32_t flow) { return flow * 2654435761U; }

// The answers to the same address, once for each flow; without `hashes`, once.
std::vector<uint32_t> LookUpFlows(RunningServer& running, bool hashes) {
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

TEST_F(ControlGroups, HashesSelectMembersOfTheGroup) {
  EXPECT_EQ(LookUpFlows(running_, false), std::vector<uint32_t>{kGroup});
  std::map<uint32_t, int> flows;
  for (const uint32_t member : LookUpFlows(running_, true)) ++flows[member];
  EXPECT_EQ(flows.size(), 4U);
  for (const auto& [member, count] : flows) {
    EXPECT_GE(member, 1U);
    EXPECT_LE(member, 4U);
    EXPECT_GT(count, 800) << member;  // of 1000
    EXPECT_LT(count, 1200) << member;
  }
}

// Lookup and ExplainLookup choose the same members, and show their objects.
TEST_F(ControlGroups, AllCallsChooseAlike) {
  const std::vector<uint32_t> members = LookUpFlows(running_, true);
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
  const std::vector<uint32_t> before = LookUpFlows(running_, true);
  ASSERT_TRUE(SetGroup(running_, {{1, 1}, {2, 1}, {4, 1}}).ok());
  const std::vector<uint32_t> without = LookUpFlows(running_, true);
  for (uint32_t flow = 0; flow < kFlows; ++flow) {
    ASSERT_NE(without[flow], 3U);
    if (before[flow] != 3) {
      ASSERT_EQ(without[flow], before[flow]);
    }
  }
  // The member comes back, in another order: all flows are as before.
  ASSERT_TRUE(SetGroup(running_, {{3, 1}, {4, 1}, {1, 1}, {2, 1}}).ok());
  EXPECT_EQ(LookUpFlows(running_, true), before);
  // A heavier member takes flows from others and gives none.
  ASSERT_TRUE(SetGroup(running_, {{1, 1}, {2, 5}, {3, 1}, {4, 1}}).ok());
  const std::vector<uint32_t> heavier = LookUpFlows(running_, true);
  int taken = 0;
  for (uint32_t flow = 0; flow < kFlows; ++flow) {
    if (heavier[flow] == before[flow]) continue;
    ASSERT_EQ(heavier[flow], 2U);
    ++taken;
  }
  EXPECT_GT(taken, 1000);
}

// A changed object or group makes a generation. An unchanged one does not.
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
  EXPECT_EQ(list.all[0].next_hops(2).interface(), "eth3");
  ASSERT_EQ(list.all[0].groups_size(), 1);
  EXPECT_EQ(list.all[0].groups(0).id(), kGroup);
}

// The id of a deleted group may become a next hop.
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
  EXPECT_EQ(LookUpFlows(running_, true)[0], kGroup);  // no group any more
}

// Tables by name.

grpc::Status Announce(RunningServer& running, const std::string& table,
                      uint32_t next_hop) {
  return Call(running, &Stub::UpdateRoutes,
              Updates({{"::/0", next_hop}}, table))
      .status;
}

uint32_t LookUp(RunningServer& running, const std::string& table) {
  v1::LookupRequest request;
  request.set_table(table);
  request.add_addresses()->set_text("2001:db8::1");
  CallContext context;
  v1::LookupResponse response;
  const auto status = running.lookup().Lookup(&context, request, &response);
  if (!status.ok()) {
    ExpectError(status, Code::NOT_FOUND, "TABLE_NOT_FOUND", "table");
    return kUndecided;
  }
  return response.results(0).next_hop_id();
}

// One stream, one address.
class Lookups {
 public:
  explicit Lookups(RunningServer& running)
      : stream_(running.lookup().BatchLookup(&context_)) {}

  void Write(const std::string& table, uint64_t min_generation = 0) {
    v1::BatchLookupRequest request;
    request.set_table(table);
    request.set_addresses_v6(std::string(16, '\1'));
    request.set_min_generation(min_generation);
    request.set_max_wait_ms(60'000);
    EXPECT_TRUE(stream_->Write(request));
  }
  v1::BatchLookupResponse Read() {
    v1::BatchLookupResponse reply;
    EXPECT_TRUE(stream_->Read(&reply));
    return reply;
  }
  uint32_t Ask(const std::string& table) {
    Write(table);
    const v1::BatchLookupResponse reply = Read();
    EXPECT_FALSE(reply.has_error()) << reply.ShortDebugString();
    uint32_t id = kUndecided;
    if (reply.next_hops().size() == 4) {
      std::memcpy(&id, reply.next_hops().data(), 4);
    }
    return id;
  }
  void ExpectNotFound() {
    const v1::BatchLookupResponse reply = Read();
    EXPECT_EQ(reply.error().code(), Code::NOT_FOUND)
        << reply.ShortDebugString();
    EXPECT_EQ(reply.error().reason(), "TABLE_NOT_FOUND");
    EXPECT_EQ(reply.error().field(), "table");
    EXPECT_TRUE(reply.next_hops().empty());
  }
  void Finish() {
    stream_->WritesDone();
    EXPECT_TRUE(stream_->Finish().ok());
  }

 private:
  CallContext context_;
  std::unique_ptr<
      grpc::ClientReaderWriter<v1::BatchLookupRequest, v1::BatchLookupResponse>>
      stream_;
};

TEST(ControlTables, AreCreatedListedAndDeleted) {
  RunningServer running;
  v1::CreateTableRequest create;
  create.set_table("red");
  const auto made = Call(running, &Stub::CreateTable, create);
  ASSERT_TRUE(made.status.ok());
  EXPECT_EQ(made.response.name(), "red");
  EXPECT_EQ(made.response.accepted_generation(), 0U);
  EXPECT_EQ(made.response.digest(), std::string(16, '\0'));
  EXPECT_FALSE(made.response.prefix_lengths());
  CreateTable(running, "a");
  CreateTable(running, "z-9");
  ASSERT_TRUE(Announce(running, "red", 3).ok());
  const auto names = [&] {
    std::vector<std::string> all;
    const auto list = Call(running, &Stub::ListTables, {});
    for (const v1::Table& table : list.response.tables()) {
      all.push_back(table.name());
      EXPECT_EQ(table.routes_v6(), table.name() == "red" ? 1U : 0U);
    }
    return all;
  };
  EXPECT_EQ(names(), (std::vector<std::string>{"a", "default", "red", "z-9"}));
  EXPECT_TRUE(DeleteTable(running, "a").ok());
  EXPECT_EQ(names(), (std::vector<std::string>{"default", "red", "z-9"}));
  ExpectError(DeleteTable(running, "a"), Code::NOT_FOUND, "TABLE_NOT_FOUND",
              "table");
}

TEST(ControlTables, HaveGenerationsOfTheirOwn) {
  RunningServer running;
  CreateTable(running, "red");
  CreateTable(running, "blue");
  for (uint32_t i = 1; i <= 3; ++i) {
    ASSERT_TRUE(Announce(running, "red", i).ok());
  }
  ASSERT_TRUE(Announce(running, "blue", 7).ok());
  EXPECT_EQ(GetTable(running, "red").accepted_generation(), 3U);
  EXPECT_EQ(GetTable(running, "blue").accepted_generation(), 1U);
  EXPECT_EQ(GetTable(running, "default").accepted_generation(), 0U);
  EXPECT_EQ(LookUp(running, "red"), 3U);
  EXPECT_EQ(LookUp(running, "blue"), 7U);
  EXPECT_EQ(LookUp(running, ""), kNoRoute);
  EXPECT_EQ(LookUp(running, "green"), kUndecided);  // NOT_FOUND
  Lookups stream(running);
  EXPECT_EQ(stream.Ask("blue"), 7U);
  EXPECT_EQ(stream.Ask("red"), 3U);
  EXPECT_EQ(stream.Ask(""), kNoRoute);
  EXPECT_EQ(stream.Ask("default"), kNoRoute);
  stream.Finish();
}

TEST(ControlTables, DeletionEndsItsLookups) {
  RunningServer running;
  CreateTable(running, "red");
  CreateTable(running, "blue");
  ASSERT_TRUE(Announce(running, "red", 1).ok());
  ASSERT_TRUE(Announce(running, "blue", 2).ok());
  Lookups stream(running), waiting(running);
  EXPECT_EQ(stream.Ask("red"), 1U);
  EXPECT_EQ(waiting.Ask("red"), 1U);
  waiting.Write("red", 99);
  waiting.Write("blue");   // behind it
  std::thread unary([&] {  // before the deletion or after it
    v1::LookupRequest request;
    request.set_table("red");
    request.set_min_generation(99);
    request.add_addresses()->set_text("::1");
    CallContext context;
    v1::LookupResponse response;
    ExpectError(running.lookup().Lookup(&context, request, &response),
                Code::NOT_FOUND, "TABLE_NOT_FOUND", "table");
  });
  EXPECT_TRUE(DeleteTable(running, "red").ok());
  unary.join();
  stream.Write("red");
  stream.ExpectNotFound();
  EXPECT_EQ(stream.Ask("blue"), 2U);
  waiting.ExpectNotFound();
  EXPECT_FALSE(waiting.Read().has_error());
  EXPECT_EQ(waiting.Ask("blue"), 2U);
  EXPECT_EQ(LookUp(running, "red"), kUndecided);

  // A new table of this name begins above all generations of the old one.
  CreateTable(running, "red");
  EXPECT_GT(GetTable(running, "red").accepted_generation(), 1U);
  EXPECT_EQ(stream.Ask("red"), kNoRoute);
  ASSERT_TRUE(Announce(running, "red", 5).ok());
  EXPECT_EQ(stream.Ask("red"), 5U);
  EXPECT_EQ(waiting.Ask("red"), 5U);
  stream.Finish();
  waiting.Finish();
}

TEST(ControlTables, StateDescribesTheTable) {
  ServerOptions options;
  options.simd = "scalar";
  RunningServer running(options);
  CreateTable(running, "red");
  v1::UpdateRoutesRequest request = Updates({{"2001:db8::/32", 1},
                                             {"2001:db8::/48", 2},
                                             {"2001:db8:1::/48", 2},
                                             {"10.0.0.0/8", 3}},
                                            "red");
  request.add_next_hops()->set_id(1);
  request.add_next_hops()->set_id(2);
  AddGroup(3, {{1, 1}}, *request.mutable_groups());
  request.set_writer_epoch(4);
  const auto reply = Call(running, &Stub::UpdateRoutes, request);
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  const v1::Table table = GetTable(running, "red");
  EXPECT_EQ(table.name(), "red");
  EXPECT_EQ(table.accepted_generation(), 1U);
  EXPECT_EQ(table.visible_generation(), 1U);
  EXPECT_EQ(table.persisted_generation(), 0U);
  EXPECT_EQ(table.routes_v6(), 3U);
  EXPECT_EQ(table.routes_v4(), 1U);
  EXPECT_EQ(table.next_hops(), 2U);
  EXPECT_EQ(table.groups(), 1U);
  EXPECT_EQ(table.writer_epoch(), 4U);
  EXPECT_EQ(table.digest(), reply.response.digest());
  EXPECT_EQ(table.kernel(), "scalar");
  EXPECT_EQ(table.store(), "none");
  EXPECT_EQ(table.store_path(), "");
  EXPECT_EQ(table.oldest_watch_generation(), 0U);
  EXPECT_GE(table.incremental_builds() + table.full_builds(), 1U);
  EXPECT_EQ(table.failed_builds(), 0U);
  EXPECT_EQ(table.last_build_error(), "");
  EXPECT_GT(table.last_build_nanos(), 0U);
  EXPECT_GT(table.last_build_unix_nanos(), 0U);
  EXPECT_GT(table.history_bytes(), 0U);
  EXPECT_GT(table.fib_bytes(), 0U);
  EXPECT_GT(table.rib_bytes(), 0U);
  EXPECT_GE(table.memory_bound_bytes(), table.fib_bytes());
  EXPECT_GE(table.memory_limit_bytes(), table.memory_bound_bytes());
  // 2001:db8::/48 and its neighbour are one interval, between two of the /32
  // (the first is empty) and two without a route.
  EXPECT_EQ(table.intervals_v6(), 4U);
  EXPECT_EQ(table.intervals_v4(), 3U);
  ASSERT_EQ(table.length_counts_size(), 3);
  for (const v1::LengthCount& count : table.length_counts()) {
    EXPECT_EQ(count.v6(), count.length() != 8);
    EXPECT_EQ(count.routes(), count.length() == 48 ? 2U : 1U);
  }
}

// Acknowledgements, and the state of the default table.

grpc::Status Upsert(RunningServer& running, const char* prefix, uint32_t hop,
                    v1::Ack ack, v1::UpdateRoutesResponse& response) {
  v1::UpdateRoutesRequest request = Updates({{prefix, hop}});
  request.set_ack(ack);
  auto reply = Call(running, &Stub::UpdateRoutes, request);
  response = reply.response;
  return reply.status;
}

TEST(ControlAcks, TheNextLookupSeesWhatIsVisible) {
  RunningServer running;
  for (uint32_t i = 1; i <= 50; ++i) {
    v1::UpdateRoutesResponse response;
    ASSERT_TRUE(Upsert(running, "::/0", i, v1::ACK_VISIBLE, response).ok());
    EXPECT_EQ(response.generation(), i);
    EXPECT_GE(response.visible_generation(), i);
    EXPECT_GT(response.visible_unix_nanos(), 0U);
    ASSERT_EQ(LookUp(running, ""), i);
  }
}

TEST(ControlAcks, MinGenerationReadsWhatWasAccepted) {
  RunningServer running;
  for (uint32_t i = 1; i <= 50; ++i) {
    v1::UpdateRoutesResponse update;
    ASSERT_TRUE(
        Upsert(running, "10.0.0.0/8", i, v1::ACK_ACCEPTED, update).ok());
    v1::LookupRequest request;
    request.add_addresses()->set_text("10.0.0.1");
    request.set_min_generation(update.generation());
    CallContext context;
    v1::LookupResponse response;
    ASSERT_TRUE(running.lookup().Lookup(&context, request, &response).ok());
    EXPECT_GE(response.generation(), update.generation());
    ASSERT_EQ(response.results(0).next_hop_id(), i);
  }
}

TEST(ControlAcks, ARepeatedRequestIdIsAppliedOnce) {
  RunningServer running;
  v1::UpdateRoutesRequest request = Updates({{"::/0", 1}});
  request.set_request_id("once");
  const auto update = [&] {
    return Call(running, &Stub::UpdateRoutes, request);
  };
  EXPECT_EQ(update().response.generation(), 1U);
  running.Announce({{"::/0", 2}});
  const auto again = update();
  EXPECT_EQ(again.response.generation(), 1U);
  EXPECT_EQ(again.response.added(), 1U);
  EXPECT_EQ(LookUp(running, ""), 2U);
  request.mutable_updates(0)->set_next_hop_id(5);
  EXPECT_EQ(ReasonOf(update().status), "REQUEST_ID_REUSED");
}

TEST(ControlTables, StateOfAnEmptyTableAndOfItsFirstGeneration) {
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
  EXPECT_EQ(table.intervals_v4(), 3U);  // 10/8 and 10/9 have one next hop
  EXPECT_NE(table.digest(), std::string(16, '\0'));
  EXPECT_GT(table.fib_bytes(), 0U);
  EXPECT_GT(table.last_build_nanos(), 0U);
  EXPECT_EQ(table.length_counts_size(), 3);

  const auto tables = Call(running, &Stub::ListTables, {});
  ASSERT_TRUE(tables.status.ok()) << tables.status.error_message();
  ASSERT_EQ(tables.response.tables_size(), 1);
  EXPECT_EQ(tables.response.tables(0).digest(), table.digest());
}

}  // namespace
}  // namespace planb::server
