// SPDX-License-Identifier: Apache-2.0

// The control path of a server that goes down, held there by a rebuild that
// fails as long as a test wants: what it refuses, and what it says to those
// who wait.

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "absl/time/time.h"
#include "server/testing/control_calls.h"

namespace planb::server {
namespace {

class ControlDrain : public testing::Test {
 protected:
  ControlDrain() : running_(Options()) {
    CreateTable(running_, "red");
    running_.Announce({{"::/0", 1}});
  }

  ServerOptions Options() {
    ServerOptions options;
    options.tables.table.build_fault = [this](uint64_t) {
      return fails_.load() ? absl::ResourceExhaustedError("as the test says")
                           : absl::OkStatus();
    };
    return options;
  }

  static v1::UpdateRoutesRequest Accepted(uint32_t next_hop) {
    v1::UpdateRoutesRequest request = Updates({{"::/0", next_hop}});
    request.set_ack(v1::ACK_ACCEPTED);
    return request;
  }

  // Begins to drain, which will not end before the rebuild works again.
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

TEST_F(ControlDrain, RefusesChangesAndShowsOn) {
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

// What was accepted becomes visible, and is shown to watchers before they are
// sent away.
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

// A refusal with a reason would say that it was not accepted. Who is so slow to
// be answered that the server is gone sees a broken connection.
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

// One that sends on learns of it in band, and then it ends.
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

// A replacement that is under way neither holds the drain up nor happens.
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
