// SPDX-License-Identifier: Apache-2.0

// What the control path says when a limit is reached, the store fails, or the
// server goes down: the reason, which quota it is, whether waiting helps, and
// that nothing changed.

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/base/error.h"
#include "server/testing/control_calls.h"
#include "server/testing/fake_store.h"

namespace planb::server {
namespace {

grpc::Status Update(RunningServer& running,
                    const v1::UpdateRoutesRequest& request) {
  return Call(running, &Stub::UpdateRoutes, request).status;
}

TEST(ControlLimits, TableFull) {
  ServerOptions options;
  options.tables.table.limits = {.max_routes = 2, .max_next_hops = 2};
  RunningServer running(options);
  running.Announce({{"::/0", 1}, {"10.0.0.0/8", 1}});
  const auto file = Call(running, &Stub::ExportSnapshot, {});
  ExpectQuota(Update(running, Updates({{"::/1", 1}})), "TABLE_FULL", false);
  // Changes that do not make the table larger are accepted.
  EXPECT_TRUE(Update(running, Updates({{"::/0", 0}, {"::/1", 1}})).ok());
  v1::ReplaceRoutesRequest replace;
  for (const char* prefix : {"::/0", "::/1", "::/2"}) {
    replace.add_routes()->mutable_prefix()->set_text(prefix);
    replace.mutable_routes(replace.routes_size() - 1)->set_next_hop_id(1);
  }
  replace.set_commit(true);
  ExpectQuota(Call(running, &Stub::ReplaceRoutes, {replace}).status,
              "TABLE_FULL", false);

  v1::UpdateNextHopsRequest hops;
  hops.add_upserts()->set_id(1);
  AddGroup(9, {{1, 1}}, *hops.mutable_group_upserts());
  EXPECT_TRUE(Call(running, &Stub::UpdateNextHops, hops).status.ok());
  hops.add_upserts()->set_id(2);
  ExpectQuota(Call(running, &Stub::UpdateNextHops, hops).status,
              "NEXT_HOPS_FULL", false);
  const v1::Table table = GetTable(running);
  EXPECT_EQ(table.accepted_generation(), 3U);
  EXPECT_EQ(table.routes_v6() + table.routes_v4(), 2U);
  EXPECT_EQ(table.next_hops() + table.groups(), 2U);
  EXPECT_EQ(table.max_routes(), 2U);
}

TEST(ControlLimits, BatchTooLarge) {
  ServerOptions options;
  options.control.max_update_routes = 2;
  RunningServer running(options);
  ExpectQuota(Update(running, Updates({{"::/0", 1}, {"::/1", 1}, {"::/2", 1}})),
              "BATCH_TOO_LARGE", false);
  v1::UpdateRoutesRequest beside;
  for (uint32_t i = 1; i <= 3; ++i) beside.add_next_hops()->set_id(i);
  ExpectQuota(Update(running, beside), "BATCH_TOO_LARGE", false);
  v1::UpdateNextHopsRequest request;
  for (uint32_t i = 1; i <= 3; ++i) request.add_delete_ids(i);
  ExpectQuota(Call(running, &Stub::UpdateNextHops, request).status,
              "BATCH_TOO_LARGE", false);
  EXPECT_TRUE(Update(running, Updates({{"::/0", 1}, {"::/1", 1}})).ok());
}

TEST(ControlLimits, MemoryOfAllTables) {
  ServerOptions options;
  options.tables.memory_limit = 1 << 20;
  RunningServer running(options);
  const auto fill = [&](bool validate_only) {
    v1::UpdateRoutesRequest request;
    for (int i = 0; i < 50'000; ++i) {
      AddUpdate(absl::StrCat("10.", i / 256, ".", i % 256, ".0/24"),
                static_cast<uint32_t>(i + 1), request);
    }
    request.set_validate_only(validate_only);
    return Update(running, request);
  };
  ExpectQuota(fill(false), "MEMORY_LIMIT", false);
  ExpectQuota(fill(true), "MEMORY_LIMIT", false);
  const v1::Table table = GetTable(running);
  EXPECT_EQ(table.accepted_generation(), 0U);
  EXPECT_EQ(table.memory_limit_bytes(), uint64_t{1} << 20);
  EXPECT_LE(table.memory_bound_bytes(), table.memory_limit_bytes());
}

TEST(ControlLimits, Streams) {
  ServerOptions options;
  options.control.max_lists = 1;
  options.control.max_watchers = 1;
  options.control.max_update_streams = 1;
  // More than fits into the buffers between client and server.
  options.initial.generate_v6 = 500'000;
  RunningServer running(options);
  const auto too_many = [](const auto& reply) {
    ExpectQuota(reply.status, "TOO_MANY_STREAMS", true);
  };
  {
    CallContext context;
    const auto list = running.table().ListRoutes(&context, {});
    v1::ListRoutesResponse chunk;
    ASSERT_TRUE(list->Read(&chunk));
    auto routes = static_cast<uint64_t>(chunk.routes_size());
    too_many(Call(running, &Stub::ListRoutes, {}));
    too_many(Call(running, &Stub::ListNextHops, {}));
    too_many(Call(running, &Stub::ExportSnapshot, {}));
    while (list->Read(&chunk)) {
      routes += static_cast<uint64_t>(chunk.routes_size());
    }
    EXPECT_TRUE(list->Finish().ok());
    EXPECT_EQ(routes, GetTable(running).routes_v6());
  }
  EXPECT_TRUE(Call(running, &Stub::ListNextHops, {}).status.ok());

  CallContext context;
  v1::WatchRoutesRequest from;
  from.set_start_generation(1);
  const auto watch = running.table().WatchRoutes(&context, from);
  v1::WatchRoutesResponse bookmark;
  ASSERT_TRUE(watch->Read(&bookmark));
  too_many(Call(running, &Stub::WatchRoutes, from));

  CallContext first_context, second_context;
  const auto first = running.table().StreamUpdates(&first_context);
  v1::StreamUpdatesResponse hello;
  first->Write({});
  ASSERT_TRUE(first->Read(&hello));
  const auto second = running.table().StreamUpdates(&second_context);
  second->Write({});
  EXPECT_FALSE(second->Read(&hello));
  ExpectQuota(second->Finish(), "TOO_MANY_STREAMS", true);
  first->WritesDone();
  EXPECT_FALSE(first->Read(&hello));
  EXPECT_TRUE(first->Finish().ok());
  context.TryCancel();
}

TEST(ControlLimits, Store) {
  const auto store = std::make_shared<FakeStore>();
  ServerOptions options;
  options.store = store;
  RunningServer running(options);
  running.Announce({{"::/0", 1}});
  const auto expect = [&](const grpc::Status& status, bool full) {
    EXPECT_EQ(status.error_code(),
              full ? Code::RESOURCE_EXHAUSTED : Code::UNAVAILABLE);
    EXPECT_EQ(ReasonOf(status), full ? "STORE_FULL" : "STORE_FAILED");
    EXPECT_EQ(DetailOf<google::rpc::QuotaFailure>(status).violations_size(),
              full ? 1 : 0);
  };
  v1::UpdateNextHopsRequest hops;
  hops.add_upserts()->set_id(1);
  v1::ReplaceRoutesRequest replace;
  replace.set_commit(true);
  v1::CreateTableRequest create;
  create.set_table("red");
  for (const bool full : {true, false}) {
    store->Fail(full ? QuotaError("STORE_FULL", "store", "no room")
                     : Error(absl::StatusCode::kUnavailable, "STORE_FAILED",
                             "cannot write"));
    expect(Update(running, Updates({{"::/0", 2}})), full);
    expect(Call(running, &Stub::UpdateNextHops, hops).status, full);
    expect(Call(running, &Stub::ReplaceRoutes, {replace}).status, full);
    expect(Call(running, &Stub::CreateTable, create).status, full);
    EXPECT_EQ(GetTable(running).accepted_generation(), 1U);
    EXPECT_EQ(GetTable(running).persisted_generation(), 1U);
  }
  store->Fail(absl::OkStatus());
  v1::UpdateRoutesRequest again = Updates({{"::/0", 2}});
  again.set_ack(v1::ACK_PERSISTED);
  const auto reply = Call(running, &Stub::UpdateRoutes, again);
  EXPECT_TRUE(reply.status.ok());
  EXPECT_EQ(reply.response.generation(), 2U);
  EXPECT_EQ(reply.response.persisted_generation(), 2U);
  EXPECT_EQ(GetTable(running).store(), "fake");
  EXPECT_EQ(GetTable(running).store_path(), "nowhere");
  EXPECT_EQ(GetTable(running).store_sync(), "full");
}

// What is not synced is never called persisted.
TEST(ControlLimits, StoreThatIsNotSynced) {
  for (const StoreSync sync : {StoreSync::kNormal, StoreSync::kOff}) {
    const auto store = std::make_shared<FakeStore>();
    store->synced = sync;
    ServerOptions options;
    options.store = store;
    RunningServer running(options);
    v1::UpdateRoutesRequest request = Updates({{"::/0", 1}});
    request.set_ack(v1::ACK_PERSISTED);
    const grpc::Status status = Update(running, request);
    EXPECT_EQ(status.error_code(), Code::FAILED_PRECONDITION);
    EXPECT_EQ(ReasonOf(status), "STORE_NOT_SYNCED");
    EXPECT_EQ(GetTable(running).accepted_generation(), 0U);
    request.set_ack(v1::ACK_VISIBLE);
    const auto reply = Call(running, &Stub::UpdateRoutes, request);
    EXPECT_TRUE(reply.status.ok());
    EXPECT_EQ(reply.response.generation(), 1U);
    EXPECT_EQ(reply.response.persisted_generation(), 0U);
    const v1::Table table = GetTable(running);
    EXPECT_EQ(table.persisted_generation(), 0U);
    EXPECT_EQ(table.store(), "fake");
    EXPECT_EQ(table.store_sync(), StoreSyncName(sync));
    EXPECT_EQ(store->commits.size(), 1U);
  }
}

TEST(ControlLimits, PendingUpdates) {
  const auto store = std::make_shared<FakeStore>();
  ServerOptions options;
  options.store = store;
  options.tables.table.max_pending_updates = 1;
  RunningServer running(options);
  store->Hold();
  std::thread first([&] {
    EXPECT_TRUE(Update(running, Updates({{"::/0", 1}})).ok());
  });
  store->AwaitCommits(1);
  ExpectQuota(Update(running, Updates({{"::/0", 2}})), "TOO_MANY_PENDING",
              true);
  EXPECT_EQ(GetTable(running).accepted_generation(), 0U);
  store->Release();
  first.join();
  EXPECT_EQ(GetTable(running).accepted_generation(), 1U);
}

// A server that goes down. A rebuild that fails as long as the test wants keeps
// the drain from ending.

class ControlDrain : public testing::Test {
 protected:
  ControlDrain() : running_(Options()) {
    CreateTable(running_, "red");
    running_.Announce({{"::/0", 1}});
  }

  ServerOptions Options() {
    ServerOptions options;
    options.tables.table.build_fault = [this](uint64_t) {
      return fails_.load() ? absl::ResourceExhaustedError("injected")
                           : absl::OkStatus();
    };
    return options;
  }

  static v1::UpdateRoutesRequest Accepted(uint32_t next_hop) {
    v1::UpdateRoutesRequest request = Updates({{"::/0", next_hop}});
    request.set_ack(v1::ACK_ACCEPTED);
    return request;
  }

  // Begins a drain, which ends when the rebuild works again.
  std::thread BeginDrain() {
    fails_ = true;
    EXPECT_TRUE(Call(running_, &Stub::UpdateRoutes, Accepted(2)).status.ok());
    std::thread drain([this] { running_.server().Drain(absl::Minutes(1)); });
    v1::UpdateRoutesRequest nothing;
    nothing.set_ack(v1::ACK_ACCEPTED);
    while (Call(running_, &Stub::UpdateRoutes, nothing).status.ok()) {
      std::this_thread::yield();
    }
    return drain;
  }

  std::atomic<bool> fails_{false};
  RunningServer running_;
};

TEST_F(ControlDrain, RefusesChangesAndAnswersReads) {
  std::thread drain = BeginDrain();
  const auto expect = [](const grpc::Status& status) {
    ExpectError(status, Code::UNAVAILABLE, "DRAINING", "");
  };
  expect(Call(running_, &Stub::UpdateRoutes, Accepted(3)).status);
  v1::UpdateNextHopsRequest hops;
  hops.add_upserts()->set_id(1);
  expect(Call(running_, &Stub::UpdateNextHops, hops).status);
  v1::ReplaceRoutesRequest replace;
  replace.set_commit(true);
  expect(Call(running_, &Stub::ReplaceRoutes, {replace}).status);
  v1::CreateTableRequest create;
  create.set_table("blue");
  expect(Call(running_, &Stub::CreateTable, create).status);
  expect(DeleteTable(running_, "red"));
  // Reading goes on.
  EXPECT_EQ(GetTable(running_).accepted_generation(), 2U);
  EXPECT_EQ(GetTable(running_).visible_generation(), 1U);
  while (GetTable(running_).last_build_error().empty()) {
    std::this_thread::yield();
  }
  EXPECT_EQ(ListAll(running_).size(), 1U);
  const auto file = Call(running_, &Stub::ExportSnapshot, {});
  EXPECT_TRUE(file.status.ok());
  fails_ = false;
  drain.join();
}

// What was accepted becomes visible, and watchers see it before their calls
// end.
TEST_F(ControlDrain, WatchersSeeWhatWasAccepted) {
  CallContext context;
  v1::WatchRoutesRequest from;
  from.set_start_generation(1);
  const auto watch = running_.table().WatchRoutes(&context, from);
  v1::WatchRoutesResponse message;
  ASSERT_TRUE(watch->Read(&message));
  EXPECT_EQ(message.generation(), 1U);
  std::thread drain = BeginDrain();
  fails_ = false;
  do {
    ASSERT_TRUE(watch->Read(&message));
  } while (message.updates().empty());
  EXPECT_EQ(message.generation(), 2U);
  while (watch->Read(&message)) EXPECT_TRUE(message.updates().empty());
  ExpectError(watch->Finish(), Code::UNAVAILABLE, "DRAINING", "");
  drain.join();
}

// A refusal with a reason would mean that the update was not accepted. If the
// server ends before it answers, the client sees a broken connection.
TEST_F(ControlDrain, AcceptedIsNotRefused) {
  fails_ = true;
  grpc::Status status;
  std::thread update([&] {
    status = Call(running_, &Stub::UpdateRoutes, Updates({{"::/0", 2}})).status;
  });
  while (GetTable(running_).accepted_generation() < 2) {
    std::this_thread::yield();
  }
  running_.server().Drain(absl::ZeroDuration());
  update.join();
  if (status.error_details().empty()) {
    EXPECT_TRUE(status.error_code() == Code::CANCELLED ||
                status.error_code() == Code::UNAVAILABLE)
        << status.error_code() << " " << status.error_message();
  } else {
    ExpectError(status, Code::DEADLINE_EXCEEDED, "GENERATION_NOT_VISIBLE", "");
  }
}

TEST_F(ControlDrain, AcceptedIsNotRefusedOnAStream) {
  CallContext context;
  const auto stream = running_.table().StreamUpdates(&context);
  v1::StreamUpdatesResponse reply;
  stream->Write({});
  ASSERT_TRUE(stream->Read(&reply));
  fails_ = true;
  v1::StreamUpdatesRequest batch;
  batch.set_batch_id(5);
  AddUpdate("::/0", 2, batch);
  ASSERT_TRUE(stream->Write(batch));
  while (GetTable(running_).accepted_generation() < 2) {
    std::this_thread::yield();
  }
  running_.server().Drain(absl::Milliseconds(1));
  if (stream->Read(&reply)) {
    EXPECT_EQ(reply.batch_id(), 5U);
    EXPECT_EQ(reply.generation(), 0U);
    EXPECT_EQ(reply.error().code(), Code::DEADLINE_EXCEEDED)
        << reply.ShortDebugString();
  }
}

TEST_F(ControlDrain, IdleUpdateStreamsEnd) {
  CallContext context;
  const auto stream = running_.table().StreamUpdates(&context);
  v1::StreamUpdatesResponse reply;
  stream->Write({});
  ASSERT_TRUE(stream->Read(&reply));
  running_.server().Drain(absl::Minutes(1));
  EXPECT_FALSE(stream->Read(&reply));
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), Code::UNAVAILABLE) << status.error_message();
}

// A stream that goes on sending gets an error in band, and then ends.
TEST_F(ControlDrain, BusyUpdateStreamsEnd) {
  CallContext context;
  const auto stream = running_.table().StreamUpdates(&context);
  v1::StreamUpdatesResponse reply;
  stream->Write({});
  ASSERT_TRUE(stream->Read(&reply));
  std::thread drain = BeginDrain();
  v1::StreamUpdatesRequest batch;
  AddUpdate("::/0", 3, batch);
  grpc::Status status;
  if (stream->Write(batch) && stream->Read(&reply)) {
    EXPECT_EQ(reply.error().reason(), "DRAINING");
    EXPECT_EQ(reply.error().code(), Code::UNAVAILABLE);
  }
  EXPECT_FALSE(stream->Read(&reply));
  status = stream->Finish();
  EXPECT_EQ(status.error_code(), Code::UNAVAILABLE) << status.error_message();
  fails_ = false;
  drain.join();
}

// An unfinished replacement does not delay the drain and changes nothing.
TEST_F(ControlDrain, OpenReplacementsChangeNothing) {
  CallContext context;
  v1::ReplaceRoutesResponse response;
  const auto writer = running_.table().ReplaceRoutes(&context, &response);
  v1::ReplaceRoutesRequest request;
  request.add_routes()->mutable_prefix()->set_text("::/1");
  request.mutable_routes(0)->set_next_hop_id(7);
  ASSERT_TRUE(writer->Write(request));
  running_.server().Drain(absl::Milliseconds(100));
  EXPECT_FALSE(writer->Finish().ok());
}

}  // namespace
}  // namespace planb::server
