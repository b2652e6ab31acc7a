// SPDX-License-Identifier: Apache-2.0

// StreamUpdates through a real channel: greeting, credits, order, errors in
// band, and how a stream ends.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
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
      StreamBatch(9, {{"::/0", 2}, {"::/1", 1}, {"::/2", 0}});
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
  ASSERT_TRUE(stream->Write(StreamBatch(3, {{"::/0", 1}})));
  v1::StreamUpdatesResponse reply;
  ASSERT_TRUE(stream->Read(&reply));
  EXPECT_EQ(reply.batch_id(), 0U);
  ASSERT_TRUE(stream->Read(&reply));
  EXPECT_EQ(reply.batch_id(), 3U);
  EXPECT_EQ(reply.generation(), 1U);
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

// With all credits in use all the time, each batch is answered in order.
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
          StreamBatch(sent * 7, {{"::/0", static_cast<uint32_t>(sent + 1)}})));
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

TEST(ControlStream, ErrorsInBandDoNotEndTheStream) {
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
  expect(StreamBatch(0, {{"::/0", 1}, {"::1/64", 1}}), Code::INVALID_ARGUMENT,
         "UPDATE_INVALID", "updates[1].prefix");
  expect(StreamBatch(0, {{"::/0", 1}, {"::/0", 2}}), Code::INVALID_ARGUMENT,
         "PREFIX_REPEATED", "updates[1].prefix");
  expect(StreamBatch(0, {{"::/0", 1}, {"::/1", 1}, {"::/2", 1}, {"::/3", 1}}),
         Code::RESOURCE_EXHAUSTED, "BATCH_TOO_LARGE", "");
  expect(StreamBatch(0, {{"::/0", 1}, {"::/1", 1}, {"::/2", 1}}),
         Code::RESOURCE_EXHAUSTED, "TABLE_FULL", "");
  v1::StreamUpdatesRequest batch = StreamBatch(0, {{"::/0", 1}});
  batch.mutable_updates(0)->set_op(v1::RouteUpdate::OP_REPLACE);
  expect(batch, Code::NOT_FOUND, "ROUTE_NOT_FOUND", "updates[0].prefix");
  batch = StreamBatch(0, {{"::/0", 1}});
  batch.set_require_next_hops(true);
  expect(batch, Code::NOT_FOUND, "NEXT_HOP_NOT_FOUND",
         "updates[0].next_hop_id");
  EXPECT_EQ(GetTable(running).accepted_generation(), 0U);

  // Each expects the generation of the batch before; all are in flight.
  for (uint64_t i = 0; i < 10; ++i) {
    batch = StreamBatch(i, {{"::/0", static_cast<uint32_t>(i + 1)}});
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
    v1::StreamUpdatesRequest batch =
        StreamBatch(i, {{"::/0", i == 2 ? 8U : 7U}});
    batch.set_request_id("once");
    batch.set_expected_generation(0);  // not checked for a repetition
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
  ASSERT_TRUE(old.Write(StreamBatch(1, {{"::/0", 1}})));
  EXPECT_FALSE(old.Read().has_error());
  UpdateStream successor(running, v1::ACK_VISIBLE, "", 2);
  ASSERT_TRUE(successor.Write(StreamBatch(1, {})));
  EXPECT_EQ(successor.Read().generation(), 1U);
  ASSERT_TRUE(old.Write(StreamBatch(2, {{"::/0", 2}})));
  const v1::StreamUpdatesResponse reply = old.Read();
  EXPECT_EQ(reply.error().reason(), "WRITER_FENCED");
  EXPECT_EQ(reply.error().code(), Code::FAILED_PRECONDITION);
}

TEST(ControlStream, AcksWaitForTheirStage) {
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
  ASSERT_TRUE(accepted.Write(StreamBatch(1, {{"::/0", 1}})));
  v1::StreamUpdatesResponse reply = accepted.Read();
  EXPECT_EQ(reply.generation(), 1U);
  EXPECT_EQ(reply.visible_generation(), 0U);
  ASSERT_TRUE(persisted.Write(StreamBatch(1, {{"::/0", 2}})));
  reply = persisted.Read();
  EXPECT_EQ(reply.generation(), 2U);
  EXPECT_EQ(reply.persisted_generation(), 2U);
  EXPECT_EQ(reply.visible_generation(), 0U);
  ASSERT_TRUE(visible.Write(StreamBatch(1, {{"::/0", 3}})));
  fails = false;
  reply = visible.Read();
  EXPECT_EQ(reply.generation(), 3U);
  EXPECT_EQ(reply.visible_generation(), 3U);
}

// How streams end: by the client, by too many changes on the way, with the
// table. Several streams of one table.

// A client that does not count what a request_id costs is not refused, it is
// read more slowly: no more ids are on the way than credits allow.
TEST(ControlStream, NamedBatchesOnTheWayAreBounded) {
  const auto store = std::make_shared<FakeStore>();
  ServerOptions options;
  options.store = store;
  options.control.update_credits = 1024;
  RunningServer running(options);
  UpdateStream stream(running, v1::ACK_ACCEPTED);
  store->Hold();
  constexpr uint64_t kBatches = 50;
  for (uint64_t i = 0; i < kBatches; ++i) {
    v1::StreamUpdatesRequest batch =
        StreamBatch(i, {{"::/0", static_cast<uint32_t>(i + 1)}});
    batch.set_request_id(absl::StrCat(i));
    ASSERT_TRUE(stream.Write(batch));
  }
  store->AwaitCommits(1);
  // Gives the server time to read more.
  for (int i = 0; i < 20; ++i) GetTable(running);
  store->Release();
  for (uint64_t i = 0; i < kBatches; ++i) {
    const v1::StreamUpdatesResponse reply = stream.Read();
    EXPECT_EQ(reply.batch_id(), i);
    EXPECT_EQ(reply.generation(), i + 1) << reply.ShortDebugString();
    EXPECT_EQ(reply.credits(), 2U);
  }
  stream.HalfClose();
  EXPECT_TRUE(stream.Finish().ok());
  running.Stop();
  for (const auto& commit : store->commits) EXPECT_LE(commit.size(), 3U);
}

// A batch that is refused for lack of credits is not applied.
TEST(ControlStreamEnd, MoreThanAllCreditsAtOnce) {
  ServerOptions options;
  options.control.update_credits = 4;
  RunningServer running(options);
  UpdateStream stream(running);
  ASSERT_TRUE(stream.Write(StreamBatch(1, {{"::/0", 1}})));
  ASSERT_TRUE(stream.Write(
      StreamBatch(2, {{"::/1", 1}, {"::/2", 1}, {"::/3", 1}, {"::/4", 1}})));
  EXPECT_EQ(stream.Read().generation(), 1U);  // the batch before is answered
  ExpectQuota(stream.Finish(), "CREDIT_EXCEEDED", false);
  EXPECT_EQ(GetTable(running).accepted_generation(), 1U);
}

TEST(ControlStreamEnd, HalfCloseAnswersEverything) {
  RunningServer running;
  UpdateStream stream(running);
  for (uint32_t i = 1; i <= 300; ++i) {
    ASSERT_TRUE(stream.Write(StreamBatch(i, {{"::/0", i}})));
  }
  stream.HalfClose();
  for (uint64_t i = 1; i <= 300; ++i) {
    const v1::StreamUpdatesResponse reply = stream.Read();
    ASSERT_EQ(reply.batch_id(), i);
    ASSERT_EQ(reply.generation(), i);
    ASSERT_GE(reply.visible_generation(), i);
  }
  EXPECT_TRUE(stream.Finish().ok());
}

TEST(ControlStreamEnd, HalfCloseWithoutABatchAndWithoutAGreeting) {
  RunningServer running;
  UpdateStream greeted(running);
  greeted.HalfClose();
  EXPECT_TRUE(greeted.Finish().ok());
  CallContext context;
  const auto silent = running.table().StreamUpdates(&context);
  silent->WritesDone();
  EXPECT_TRUE(silent->Finish().ok());
}

// Each batch sets all ten prefixes to one next hop. All are applied, or none.
TEST(ControlStreamEnd, AClientThatVanishesLeavesWholeBatches) {
  RunningServer running;
  uint64_t before = 0;
  for (int round = 0; round < 20; ++round) {
    UpdateStream stream(running, v1::ACK_ACCEPTED);
    for (uint32_t i = 1; i <= 100; ++i) {
      v1::StreamUpdatesRequest batch;
      for (int p = 0; p < 10; ++p) {
        AddUpdate(absl::StrCat("10.", p, ".0.0/16"), i, batch);
      }
      ASSERT_TRUE(stream.Write(batch));
      if (static_cast<int>(i) == 5 * round) break;
    }
    stream.Vanish();
    // The batches that arrived are applied while the next stream begins.
    uint64_t seen = 0;
    {
      const auto routes = ListAll(running);
      std::set<uint32_t> hops;
      for (const Route& route : routes) hops.insert(route.next_hop);
      EXPECT_LE(hops.size(), 1U);
      EXPECT_EQ(routes.size(), hops.empty() ? 0U : 10U);
      seen = GetTable(running).accepted_generation();
    }
    EXPECT_GE(seen, before);
    before = seen;
  }
  EXPECT_TRUE(Call(running, &Stub::UpdateRoutes, {}).status.ok());
}

// Two streams interleave. Each keeps its order, and no generation is lost.
TEST(ControlStreamEnd, TwoStreamsAtOnce) {
  RunningServer running;
  std::vector<uint64_t> generations[2];
  std::thread writers[2];
  for (int w = 0; w < 2; ++w) {
    writers[w] = std::thread([&, w] {
      UpdateStream stream(running, v1::ACK_ACCEPTED);
      const char* const prefix = w == 0 ? "::/1" : "8000::/1";
      for (uint32_t i = 1; i <= 500; ++i) {
        ASSERT_TRUE(stream.Write(StreamBatch(i, {{prefix, i}})));
      }
      stream.HalfClose();
      for (uint64_t i = 1; i <= 500; ++i) {
        const v1::StreamUpdatesResponse reply = stream.Read();
        ASSERT_EQ(reply.batch_id(), i);
        generations[w].push_back(reply.generation());
      }
      EXPECT_TRUE(stream.Finish().ok());
    });
  }
  for (std::thread& writer : writers) writer.join();
  std::set<uint64_t> all;
  for (const auto& mine : generations) {
    EXPECT_TRUE(std::is_sorted(mine.begin(), mine.end()));
    all.insert(mine.begin(), mine.end());
  }
  EXPECT_EQ(all.size(), 1000U);
  EXPECT_EQ(*all.begin(), 1U);
  EXPECT_EQ(*all.rbegin(), 1000U);
  v1::UpdateRoutesRequest visible;  // changes nothing, and waits
  visible.set_ack(v1::ACK_VISIBLE);
  ASSERT_TRUE(Call(running, &Stub::UpdateRoutes, visible).status.ok());
  for (const Route& route : ListAll(running)) EXPECT_EQ(route.next_hop, 500U);
}

TEST(ControlStreamEnd, DeletingTheTableEndsItsStreamsOnly) {
  RunningServer running;
  CreateTable(running, "red");
  CreateTable(running, "blue");
  UpdateStream red(running, v1::ACK_VISIBLE, "red");
  UpdateStream blue(running, v1::ACK_VISIBLE, "blue");
  ASSERT_TRUE(red.Write(StreamBatch(1, {{"::/0", 1}})));
  EXPECT_EQ(red.Read().generation(), 1U);
  EXPECT_TRUE(DeleteTable(running, "red").ok());
  const grpc::Status ended = red.Finish();  // idle
  EXPECT_EQ(ended.error_code(), Code::NOT_FOUND) << ended.error_message();
  ASSERT_TRUE(blue.Write(StreamBatch(1, {{"::/0", 2}})));
  EXPECT_EQ(blue.Read().generation(), 1U);
  blue.HalfClose();
  EXPECT_TRUE(blue.Finish().ok());
}

TEST(ControlStreamEnd, BadGreetings) {
  RunningServer running;
  for (const auto& [ack, code, reason] :
       {std::tuple(v1::ACK_PERSISTED, Code::FAILED_PRECONDITION,
                   "STORE_VOLATILE"),
        std::tuple(static_cast<v1::Ack>(9), Code::INVALID_ARGUMENT,
                   "ACK_INVALID")}) {
    CallContext context;
    const auto stream = running.table().StreamUpdates(&context);
    v1::StreamUpdatesRequest hello;
    hello.set_ack(ack);
    stream->Write(hello);
    v1::StreamUpdatesResponse none;
    EXPECT_FALSE(stream->Read(&none));
    ExpectError(stream->Finish(), code, reason, "ack");
  }
}

}  // namespace
}  // namespace planb::server
