// SPDX-License-Identifier: Apache-2.0

// How update streams end: by the client, by too many changes on the way, by the
// table's end; and what several of them do to one table.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/testing/control_calls.h"

namespace planb::server {
namespace {

// What is refused for want of credits does not happen.
TEST(ControlStreamEnd, MoreThanAllCreditsAtOnce) {
  ServerOptions options;
  options.control.update_credits = 4;
  RunningServer running(options);
  UpdateStream stream(running);
  ASSERT_TRUE(stream.Write(Batch(1, {{"::/0", 1}})));
  ASSERT_TRUE(stream.Write(
      Batch(2, {{"::/1", 1}, {"::/2", 1}, {"::/3", 1}, {"::/4", 1}})));
  EXPECT_EQ(stream.Read().generation(), 1U);  // what came before is answered
  ExpectQuota(stream.Finish(), "CREDIT_EXCEEDED", false);
  EXPECT_EQ(GetTable(running).accepted_generation(), 1U);
}

TEST(ControlStreamEnd, HalfCloseAnswersEverything) {
  RunningServer running;
  UpdateStream stream(running);
  for (uint32_t i = 1; i <= 300; ++i) {
    ASSERT_TRUE(stream.Write(Batch(i, {{"::/0", i}})));
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

// Whole batches or nothing: each sets all ten prefixes to one next hop.
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
    // The next stream's batch is behind all that came of this one.
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

// Interleaved, each in its own order, no generation lost.
TEST(ControlStreamEnd, TwoStreamsAtOnce) {
  RunningServer running;
  std::vector<uint64_t> generations[2];
  std::thread writers[2];
  for (int w = 0; w < 2; ++w) {
    writers[w] = std::thread([&, w] {
      UpdateStream stream(running, v1::ACK_ACCEPTED);
      const char* const prefix = w == 0 ? "::/1" : "8000::/1";
      for (uint32_t i = 1; i <= 500; ++i) {
        ASSERT_TRUE(stream.Write(Batch(i, {{prefix, i}})));
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
  for (const Route& route : ListAll(running)) EXPECT_EQ(route.next_hop, 500U);
}

TEST(ControlStreamEnd, DeletingTheTableEndsItsStreamsOnly) {
  RunningServer running;
  CreateTable(running, "red");
  CreateTable(running, "blue");
  UpdateStream red(running, v1::ACK_VISIBLE, "red");
  UpdateStream blue(running, v1::ACK_VISIBLE, "blue");
  ASSERT_TRUE(red.Write(Batch(1, {{"::/0", 1}})));
  EXPECT_EQ(red.Read().generation(), 1U);
  EXPECT_TRUE(DeleteTable(running, "red").ok());
  const grpc::Status ended = red.Finish();  // idle
  EXPECT_EQ(ended.error_code(), Code::NOT_FOUND) << ended.error_message();
  ASSERT_TRUE(blue.Write(Batch(1, {{"::/0", 2}})));
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
