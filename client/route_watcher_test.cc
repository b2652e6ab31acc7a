// SPDX-License-Identifier: Apache-2.0

// A watcher returns every generation once, whole and in order, also when its
// streams break.

#include "client/route_watcher.h"

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
