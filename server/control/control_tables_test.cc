// SPDX-License-Identifier: Apache-2.0

// Tables by name through a real channel: made, changed apart from each other,
// looked up in, and deleted under whoever uses them.

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "server/testing/control_calls.h"

namespace planb::server {
namespace {

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

TEST(ControlTables, AreMadeListedAndDeleted) {
  RunningServer running;
  v1::CreateTableRequest create;
  create.set_table("red");
  const auto made = Call(running, &Stub::CreateTable, create);
  ASSERT_TRUE(made.status.ok());
  EXPECT_EQ(made.response.name(), "red");
  EXPECT_EQ(made.response.accepted_generation(), 0U);
  EXPECT_EQ(made.response.digest(), std::string(16, '\0'));
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

TEST(ControlTables, DeletedUnderItsLookups) {
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
  std::thread unary([&] {  // whether it comes before or after
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

  // One of the same name is another table, above all its generations.
  CreateTable(running, "red");
  EXPECT_GT(GetTable(running, "red").accepted_generation(), 1U);
  EXPECT_EQ(stream.Ask("red"), kNoRoute);
  ASSERT_TRUE(Announce(running, "red", 5).ok());
  EXPECT_EQ(stream.Ask("red"), 5U);
  EXPECT_EQ(waiting.Ask("red"), 5U);
  stream.Finish();
  waiting.Finish();
}

TEST(ControlTables, StateTellsWhatIsThere) {
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

}  // namespace
}  // namespace planb::server
