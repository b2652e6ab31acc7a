// SPDX-License-Identifier: Apache-2.0

// StreamUpdates through a real channel: greeting, credits, order, errors in
// band, and how a stream ends.

#include <gtest/gtest.h>

#include <atomic>
#include <memory>

#include "server/testing/control_calls.h"
#include "server/testing/fake_store.h"

namespace planb::server {
namespace {

TEST(ControlStream, GreetsWithCreditsAndGivesThemBack) {
  ServerOptions options;
  options.control.update_credits = 77;
  RunningServer running(options);
  running.Announce({{"::/0", 1}});
  UpdateStream stream(running);
  EXPECT_EQ(stream.hello().batch_id(), 0U);
  EXPECT_EQ(stream.hello().credits(), 77U);
  EXPECT_EQ(stream.hello().generation(), 0U);
  EXPECT_EQ(stream.hello().visible_generation(), 1U);
  EXPECT_EQ(stream.hello().persisted_generation(), 0U);

  v1::StreamUpdatesRequest batch =
      Batch(9, {{"::/0", 2}, {"::/1", 1}, {"::/2", 0}});
  batch.add_next_hops()->set_id(1);
  AddGroup(5, {{1, 1}}, *batch.mutable_groups());
  ASSERT_TRUE(stream.Write(batch));
  const v1::StreamUpdatesResponse reply = stream.Read();
  EXPECT_FALSE(reply.has_error()) << reply.ShortDebugString();
  EXPECT_EQ(reply.batch_id(), 9U);
  EXPECT_EQ(reply.generation(), 2U);
  EXPECT_EQ(reply.visible_generation(), 2U);
  EXPECT_EQ(reply.added(), 1U);
  EXPECT_EQ(reply.changed(), 1U);
  EXPECT_EQ(reply.removed(), 0U);
  EXPECT_EQ(reply.unchanged(), 1U);
  EXPECT_GT(reply.accepted_unix_nanos(), 0U);
  EXPECT_EQ(reply.credits(), 6U);
  stream.HalfClose();
  EXPECT_TRUE(stream.Finish().ok());
}

// The first message may be a batch at once.
TEST(ControlStream, GreetingMayBeABatch) {
  RunningServer running;
  CallContext context;
  const auto stream = running.table().StreamUpdates(&context);
  ASSERT_TRUE(stream->Write(Batch(3, {{"::/0", 1}})));
  v1::StreamUpdatesResponse reply;
  ASSERT_TRUE(stream->Read(&reply));
  EXPECT_EQ(reply.batch_id(), 0U);
  ASSERT_TRUE(stream->Read(&reply));
  EXPECT_EQ(reply.batch_id(), 3U);
  EXPECT_EQ(reply.generation(), 1U);
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

// With every credit in use all the time, one reply for each in order.
TEST(ControlStream, ManyBatchesInFlightAreAnsweredInOrder) {
  ServerOptions options;
  options.control.update_credits = 40;
  RunningServer running(options);
  UpdateStream stream(running, v1::ACK_ACCEPTED);
  uint64_t credits = stream.hello().credits();
  uint64_t sent = 0, visible = 0;
  for (uint64_t received = 0; received < 2000;) {
    if (sent < 2000 && credits >= 2) {
      ASSERT_TRUE(stream.Write(
          Batch(sent * 7, {{"::/0", static_cast<uint32_t>(sent + 1)}})));
      ++sent;
      credits -= 2;
      continue;
    }
    const v1::StreamUpdatesResponse reply = stream.Read();
    ASSERT_FALSE(reply.has_error()) << reply.ShortDebugString();
    ASSERT_EQ(reply.batch_id(), received * 7);
    ASSERT_EQ(reply.generation(), ++received);
    ASSERT_GE(reply.visible_generation(), visible);
    visible = reply.visible_generation();
    credits += reply.credits();
  }
  stream.HalfClose();
  EXPECT_TRUE(stream.Finish().ok());
  EXPECT_EQ(GetTable(running).accepted_generation(), 2000U);
}

TEST(ControlStream, ErrorsAreInBandAndTheStreamGoesOn) {
  ServerOptions options;
  options.control.max_update_routes = 3;
  options.tables.table.limits.max_routes = 2;
  RunningServer running(options);
  UpdateStream stream(running);
  const auto expect = [&](v1::StreamUpdatesRequest batch, Code code,
                          const char* reason, const char* field) {
    batch.set_batch_id(1000);
    ASSERT_TRUE(stream.Write(batch));
    const v1::StreamUpdatesResponse reply = stream.Read();
    EXPECT_EQ(reply.batch_id(), 1000U);
    EXPECT_EQ(reply.generation(), 0U);
    EXPECT_EQ(reply.credits(), 1U + batch.updates().size());
    EXPECT_EQ(reply.error().code(), code) << reply.ShortDebugString();
    EXPECT_EQ(reply.error().reason(), reason);
    EXPECT_EQ(reply.error().field(), field);
    EXPECT_FALSE(reply.error().message().empty());
  };
  expect(Batch(0, {{"::/0", 1}, {"::1/64", 1}}), Code::INVALID_ARGUMENT,
         "UPDATE_INVALID", "updates[1].prefix");
  expect(Batch(0, {{"::/0", 1}, {"::/0", 2}}), Code::INVALID_ARGUMENT,
         "PREFIX_REPEATED", "updates[1].prefix");
  expect(Batch(0, {{"::/0", 1}, {"::/1", 1}, {"::/2", 1}, {"::/3", 1}}),
         Code::RESOURCE_EXHAUSTED, "BATCH_TOO_LARGE", "");
  expect(Batch(0, {{"::/0", 1}, {"::/1", 1}, {"::/2", 1}}),
         Code::RESOURCE_EXHAUSTED, "TABLE_FULL", "");
  v1::StreamUpdatesRequest batch = Batch(0, {{"::/0", 1}});
  batch.mutable_updates(0)->set_op(v1::RouteUpdate::OP_REPLACE);
  expect(batch, Code::NOT_FOUND, "ROUTE_NOT_FOUND", "updates[0].prefix");
  batch = Batch(0, {{"::/0", 1}});
  batch.set_require_next_hops(true);
  expect(batch, Code::NOT_FOUND, "NEXT_HOP_NOT_FOUND",
         "updates[0].next_hop_id");
  EXPECT_EQ(GetTable(running).accepted_generation(), 0U);

  // Each expects what the one before made, all of them in flight.
  for (uint64_t i = 0; i < 10; ++i) {
    batch = Batch(i, {{"::/0", static_cast<uint32_t>(i + 1)}});
    batch.set_expected_generation(i == 5 ? 99 : i < 5 ? i : i - 1);
    ASSERT_TRUE(stream.Write(batch));
  }
  for (uint64_t i = 0; i < 10; ++i) {
    const v1::StreamUpdatesResponse reply = stream.Read();
    EXPECT_EQ(reply.batch_id(), i);
    EXPECT_EQ(reply.error().reason(), i == 5 ? "GENERATION_MISMATCH" : "");
    EXPECT_EQ(reply.error().code(), i == 5 ? Code::ABORTED : Code::OK);
    EXPECT_EQ(reply.generation(), i < 5 ? i + 1 : i == 5 ? 0 : i);
  }
  stream.HalfClose();
  EXPECT_TRUE(stream.Finish().ok());
}

TEST(ControlStream, NamedBatchesAreAppliedOnce) {
  RunningServer running;
  UpdateStream stream(running);
  for (uint64_t i = 0; i < 3; ++i) {
    v1::StreamUpdatesRequest batch = Batch(i, {{"::/0", i == 2 ? 8U : 7U}});
    batch.set_request_id("once");
    batch.set_expected_generation(0);  // which the repetition is not held to
    ASSERT_TRUE(stream.Write(batch));
    const v1::StreamUpdatesResponse reply = stream.Read();
    EXPECT_EQ(reply.batch_id(), i);
    EXPECT_EQ(reply.added(), i == 2 ? 0U : 1U);
    EXPECT_EQ(reply.error().reason(), i == 2 ? "REQUEST_ID_REUSED" : "");
  }
  EXPECT_EQ(GetTable(running).accepted_generation(), 1U);
}

TEST(ControlStream, AWriterIsFencedOffWhenItsSuccessorCame) {
  RunningServer running;
  UpdateStream old(running, v1::ACK_VISIBLE, "", 1);
  ASSERT_TRUE(old.Write(Batch(1, {{"::/0", 1}})));
  EXPECT_FALSE(old.Read().has_error());
  UpdateStream successor(running, v1::ACK_VISIBLE, "", 2);
  ASSERT_TRUE(successor.Write(Batch(1, {})));
  EXPECT_EQ(successor.Read().generation(), 1U);
  ASSERT_TRUE(old.Write(Batch(2, {{"::/0", 2}})));
  const v1::StreamUpdatesResponse reply = old.Read();
  EXPECT_EQ(reply.error().reason(), "WRITER_FENCED");
  EXPECT_EQ(reply.error().code(), Code::FAILED_PRECONDITION);
}

TEST(ControlStream, AcksSayHowFarABatchHasCome) {
  const auto store = std::make_shared<FakeStore>();
  ServerOptions options;
  options.store = store;
  std::atomic<bool> fails{false};
  options.tables.table.build_fault = [&fails](uint64_t) {
    return fails.load() ? absl::ResourceExhaustedError("test") : absl::Status();
  };
  RunningServer running(options);
  UpdateStream accepted(running, v1::ACK_ACCEPTED);
  UpdateStream persisted(running, v1::ACK_PERSISTED);
  UpdateStream visible(running, v1::ACK_VISIBLE);
  fails = true;  // nothing becomes visible
  ASSERT_TRUE(accepted.Write(Batch(1, {{"::/0", 1}})));
  v1::StreamUpdatesResponse reply = accepted.Read();
  EXPECT_EQ(reply.generation(), 1U);
  EXPECT_EQ(reply.visible_generation(), 0U);
  ASSERT_TRUE(persisted.Write(Batch(1, {{"::/0", 2}})));
  reply = persisted.Read();
  EXPECT_EQ(reply.generation(), 2U);
  EXPECT_EQ(reply.persisted_generation(), 2U);
  EXPECT_EQ(reply.visible_generation(), 0U);
  ASSERT_TRUE(visible.Write(Batch(1, {{"::/0", 3}})));
  fails = false;
  reply = visible.Read();
  EXPECT_EQ(reply.generation(), 3U);
  EXPECT_EQ(reply.visible_generation(), 3U);
}

}  // namespace
}  // namespace planb::server
