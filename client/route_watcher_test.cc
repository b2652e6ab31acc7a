// SPDX-License-Identifier: Apache-2.0

// A watcher returns every generation once, whole and in order, also when its
// streams break.

#include "client/route_watcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "client/call.h"
#include "client/table_client.h"
#include "client/testing/fake_server.h"

namespace planb::client {
namespace {

// The assembler returns whole generations in order; all else is an error.

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const Prefix kPrefix = *Prefix::Parse("2001:db8::/32");
const Prefix kOther = *Prefix::Parse("192.0.2.0/24");

v1::WatchRoutesResponse Message(uint64_t generation, bool complete) {
  v1::WatchRoutesResponse message;
  message.set_generation(generation);
  message.set_generation_complete(complete);
  return message;
}

v1::WatchRoutesResponse Announce(uint64_t generation, bool complete) {
  v1::WatchRoutesResponse message = Message(generation, complete);
  *message.add_updates() = ToUpdate({kPrefix, 7});
  return message;
}

// True if `message` after generation 5 ends the watch.
bool IsRefused(const v1::WatchRoutesResponse& message) {
  GenerationAssembler assembler(5);
  return absl::IsInternal(assembler.Add(message).status());
}

TEST(GenerationAssembler, WaitsForTheLastPart) {
  GenerationAssembler assembler(5);
  EXPECT_FALSE(assembler.Add(Announce(6, false))->has_value());
  v1::WatchRoutesResponse second = Message(6, false);
  *second.add_updates() = ToUpdate({kOther, kNoRoute});
  second.add_deleted_next_hop_ids(3);
  second.add_deleted_group_ids(4);
  EXPECT_FALSE(assembler.Add(second)->has_value());
  v1::WatchRoutesResponse last = Message(6, true);
  const NextHop next_hop = {
      .id = 7, .gateway = {}, .interface = "eth0", .label = {}};
  const NextHopGroup group = {.id = 9, .members = {{7, 1}}, .label = {}};
  *last.add_next_hops() = ToProto(next_hop);
  *last.add_groups() = ToProto(group);
  last.set_digest("0123456789abcdef");
  EXPECT_EQ(assembler.last_generation(), 5U);
  const auto whole = assembler.Add(last);
  ASSERT_TRUE(whole.ok() && whole->has_value()) << whole.status();
  const GenerationChanges& changes = **whole;
  EXPECT_EQ(changes.generation, 6U);
  EXPECT_FALSE(changes.bookmark);
  EXPECT_THAT(changes.routes,
              ElementsAre(Route{kPrefix, 7}, Route{kOther, kNoRoute}));
  EXPECT_THAT(changes.next_hops, ElementsAre(next_hop));
  EXPECT_THAT(changes.groups, ElementsAre(group));
  EXPECT_THAT(changes.deleted_next_hops, ElementsAre(3));
  EXPECT_THAT(changes.deleted_groups, ElementsAre(4));
  EXPECT_EQ(changes.digest, "0123456789abcdef");
  EXPECT_EQ(assembler.last_generation(), 6U);
}

TEST(GenerationAssembler, TheEndMayBeEmpty) {
  GenerationAssembler assembler(5);
  ASSERT_TRUE(assembler.Add(Announce(6, false)).ok());
  const auto whole = assembler.Add(Message(6, true));
  ASSERT_TRUE(whole.ok() && whole->has_value());
  EXPECT_FALSE((*whole)->bookmark);
  EXPECT_EQ((*whole)->routes.size(), 1U);
}

TEST(GenerationAssembler, AWholeTableMayBeOlderOrEmpty) {
  GenerationAssembler assembler(5);
  v1::WatchRoutesResponse first = Announce(3, false);
  first.set_reset(true);
  EXPECT_FALSE(assembler.Add(first)->has_value());
  v1::WatchRoutesResponse last = Message(3, true);
  last.set_reset(true);
  const auto whole = assembler.Add(last);
  ASSERT_TRUE(whole.ok() && whole->has_value());
  EXPECT_TRUE((*whole)->reset);
  EXPECT_FALSE((*whole)->bookmark);
  EXPECT_THAT((*whole)->routes, ElementsAre(Route{kPrefix, 7}));
  EXPECT_EQ(assembler.last_generation(), 3U);
  // An empty table is no bookmark.
  last.set_generation(2);
  const auto empty = assembler.Add(last);
  ASSERT_TRUE(empty.ok() && empty->has_value());
  EXPECT_TRUE((*empty)->reset);
  EXPECT_THAT((*empty)->routes, IsEmpty());
  // All messages of a generation say the same.
  ASSERT_TRUE(assembler.Add(first).ok());
  EXPECT_TRUE(absl::IsInternal(assembler.Add(Message(3, true)).status()));
}

TEST(GenerationAssembler, AnOlderWholeTableMayBeRefusedAsItBegins) {
  GenerationAssembler assembler(5, /*go_back=*/false);
  v1::WatchRoutesResponse first = Announce(5, true);
  first.set_reset(true);
  EXPECT_TRUE(assembler.Add(first)->has_value());
  first.set_generation(4);
  first.set_generation_complete(false);
  EXPECT_TRUE(absl::IsOutOfRange(assembler.Add(first).status()));
}

TEST(GenerationAssembler, BookmarksGoForwardOnly) {
  GenerationAssembler assembler(5);
  for (uint64_t generation : {5, 5, 8}) {
    const auto bookmark = assembler.Add(Message(generation, true));
    ASSERT_TRUE(bookmark.ok() && bookmark->has_value());
    EXPECT_TRUE((*bookmark)->bookmark);
    EXPECT_EQ((*bookmark)->generation, generation);
    EXPECT_THAT((*bookmark)->routes, IsEmpty());
  }
  EXPECT_EQ(assembler.last_generation(), 8U);
  EXPECT_FALSE(assembler.Add(Message(7, true)).ok());
}

TEST(GenerationAssembler, APartCanBeDropped) {
  GenerationAssembler assembler(5);
  ASSERT_TRUE(assembler.Add(Announce(6, false)).ok());
  assembler.DropPartial();
  const auto whole = assembler.Add(Announce(6, true));
  ASSERT_TRUE(whole.ok() && whole->has_value());
  EXPECT_EQ((*whole)->routes.size(), 1U);
}

TEST(GenerationAssembler, RefusesMessagesOutOfOrder) {
  EXPECT_FALSE(IsRefused(Announce(6, true)));
  EXPECT_TRUE(IsRefused(Announce(5, true)));
  GenerationAssembler assembler(5);
  ASSERT_TRUE(assembler.Add(Announce(6, false)).ok());
  EXPECT_FALSE(assembler.Add(Announce(7, true)).ok());
}

TEST(GenerationAssembler, MalformedChangesAreRefused) {
  v1::WatchRoutesResponse message = Announce(6, true);
  message.mutable_updates(0)->set_op(v1::RouteUpdate::OP_INSERT);
  EXPECT_TRUE(IsRefused(message));
  message.mutable_updates(0)->set_op(v1::RouteUpdate::OP_DELETE);
  EXPECT_TRUE(IsRefused(message));
  message.mutable_updates(0)->set_next_hop_id(0);
  EXPECT_FALSE(IsRefused(message));
  message.mutable_updates(0)->set_op(v1::RouteUpdate::OP_UPSERT);
  EXPECT_TRUE(IsRefused(message));
  message = Announce(6, true);
  message.mutable_updates(0)->mutable_prefix()->set_length(200);
  EXPECT_TRUE(IsRefused(message));
  message = Announce(6, true);
  message.add_next_hops()->set_gateway("abc");
  EXPECT_TRUE(IsRefused(message));
}

using testing::MakeError;

Prefix MakePrefix(uint32_t i) {
  return *Prefix::Create(Address::V4(i << 8), 24);
}

// A table built from a watcher's changes.
struct Replica {
  std::map<Prefix, NextHopId> routes;
  uint64_t generation = 0;

  void Apply(const GenerationChanges& changes) {
    if (changes.bookmark) return;
    EXPECT_EQ(changes.generation, generation + 1);
    generation = changes.generation;
    for (const Route& route : changes.routes) {
      if (route.next_hop == kNoRoute) {
        EXPECT_EQ(routes.erase(route.prefix), 1U);
      } else {
        routes[route.prefix] = route.next_hop;
      }
    }
  }
};

class RouteWatcherTest : public ::testing::Test {
 protected:
  // One generation: announces three routes, withdraws one of those before.
  void Change(uint32_t i) {
    v1::UpdateRoutesRequest request;
    for (uint32_t j = 0; j < 3; ++j) {
      *request.add_updates() = ToUpdate({MakePrefix(3 * i + j), i + 1});
    }
    if (i > 0) {
      *request.add_updates() = ToUpdate({MakePrefix(3 * i - 1), kNoRoute});
    }
    const auto response = client_.UpdateRoutes(request);
    ASSERT_TRUE(response.ok()) << response.status();
  }

  // Follows the table up to `generation`.
  static void Follow(RouteWatcher& watcher, uint64_t generation,
                     Replica& replica) {
    while (replica.generation < generation) {
      const auto changes = watcher.Next();
      ASSERT_TRUE(changes.ok()) << changes.status();
      replica.Apply(*changes);
    }
  }

  static constexpr BackoffOptions kQuick = {.initial = absl::Milliseconds(1),
                                            .max = absl::Milliseconds(5)};

  testing::FakeServer server_{};
  TableClient client_{server_.Channel()};
};

TEST_F(RouteWatcherTest, ReturnsWholeGenerationsOnly) {
  for (uint32_t i = 0; i < 10; ++i) Change(i);
  // Each stream delivers seven parts, of at most two generations.
  server_.EndStreams(7, grpc::Status(grpc::StatusCode::UNAVAILABLE, "away"));
  RouteWatcher watcher(server_.Channel(), {.backoff = kQuick});
  Replica replica;
  Follow(watcher, 10, replica);
  EXPECT_EQ(replica.routes, server_.table().routes());
  EXPECT_GE(watcher.reconnects(), 5U);
}

TEST_F(RouteWatcherTest, SurvivesRestartsOfTheServer) {
  testing::FakeServer server({.routes = {{MakePrefix(0), 1}}});
  RouteWatcher watcher(server.Channel(),
                       {.start_generation = 1,
                        .start_digest = server.table().digest(),
                        .backoff = kQuick});
  ASSERT_TRUE(watcher.Next()->bookmark);
  server.Die();
  std::thread reviver([&] {
    absl::SleepFor(absl::Milliseconds(100));
    server.Restart();  // with the same first generation
  });
  const auto again = watcher.Next();
  reviver.join();
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(again->bookmark);
  v1::UpdateRoutesRequest request;
  *request.add_updates() = ToUpdate({MakePrefix(0), kNoRoute});
  ASSERT_TRUE(TableClient(server.Channel()).UpdateRoutes(request).ok());
  const auto changes = watcher.Next();
  ASSERT_TRUE(changes.ok()) << changes.status();
  EXPECT_EQ(changes->generation, 2U);
  EXPECT_EQ(changes->routes, std::vector<Route>({{MakePrefix(0), kNoRoute}}));
  EXPECT_EQ(watcher.last_generation(), 2U);
  EXPECT_GE(watcher.reconnects(), 1U);
}

TEST_F(RouteWatcherTest, ALostHistoryIsOutOfRange) {
  for (uint32_t i = 0; i < 3; ++i) Change(i);
  server_.ForgetHistory();
  RouteWatcher late(server_.Channel(), {.start_generation = 2});
  EXPECT_EQ(ErrorReason(late.Next().status()), "HISTORY_COMPACTED");
  RouteWatcher early(server_.Channel(), {.start_generation = 9});
  EXPECT_TRUE(absl::IsOutOfRange(early.Next().status()));
  RouteWatcher other(server_.Channel(),
                     {.start_generation = 3, .start_digest = "nonsense"});
  EXPECT_EQ(ErrorReason(other.Next().status()), "HISTORY_DIVERGED");
  RouteWatcher right(
      server_.Channel(),
      {.start_generation = 3, .start_digest = server_.table().digest()});
  EXPECT_TRUE(right.Next().ok());
}

TEST_F(RouteWatcherTest, OtherErrorsEndIt) {
  RouteWatcher lost(server_.Channel(), {.table = "none"});
  EXPECT_EQ(ErrorReason(lost.Next().status()), "TABLE_NOT_FOUND");
  Change(0);
  server_.EndStreams(0, MakeError(grpc::StatusCode::RESOURCE_EXHAUSTED,
                                  "WATCHER_TOO_SLOW", "too slow"));
  RouteWatcher slow(server_.Channel(), {});
  EXPECT_TRUE(slow.Next()->bookmark);
  EXPECT_EQ(ErrorReason(slow.Next().status()), "WATCHER_TOO_SLOW");
}

TEST_F(RouteWatcherTest, GivesUpInTheEnd) {
  RouteWatcher watcher(
      server_.Channel(),
      {.backoff = kQuick, .give_up_after = absl::Milliseconds(100)});
  ASSERT_TRUE(watcher.Next().ok());
  server_.Die();
  EXPECT_TRUE(absl::IsUnavailable(watcher.Next().status()));
}

TEST_F(RouteWatcherTest, CancelEndsAWait) {
  for (const bool connected : {true, false}) {
    if (!connected) server_.Die();
    RouteWatcher watcher(server_.Channel(), {});
    if (connected) {
      ASSERT_TRUE(watcher.Next().ok());
    }
    std::thread canceller([&] {
      absl::SleepFor(absl::Milliseconds(50));
      watcher.Cancel();
    });
    EXPECT_TRUE(absl::IsCancelled(watcher.Next().status()));
    canceller.join();
    EXPECT_TRUE(absl::IsCancelled(watcher.Next().status()));
  }
}

}  // namespace
}  // namespace planb::client
