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
#include "client/testing/misbehaving_proxy.h"
#include "client/testing/real_server_fixture.h"

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

class RouteWatcherTest : public testing::RealServerFixture {
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

  testing::MisbehavingProxy proxy_{target_};
  TableClient client_{Channel()};
};

TEST_F(RouteWatcherTest, ReturnsWholeGenerationsOnly) {
  for (uint32_t i = 0; i < 10; ++i) Change(i);
  // Each stream delivers a bookmark, two generations and a part of the third.
  proxy_.EditReplies<v1::WatchRoutesResponse>(
      [](uint64_t, uint64_t number, v1::WatchRoutesResponse& reply) {
        if (number == 3 && reply.updates_size() > 0) {
          reply.mutable_updates()->RemoveLast();
          reply.clear_generation_complete();
          reply.clear_digest();
        }
        return 1;
      },
      "WatchRoutes");
  proxy_.EndCalls(4, grpc::Status(grpc::StatusCode::UNAVAILABLE, "away"),
                  UINT64_MAX, "WatchRoutes");
  RouteWatcher watcher(proxy_.Channel(), {.backoff = kQuick});
  Replica replica;
  Follow(watcher, 10, replica);
  EXPECT_EQ(replica.routes, ServedRoutes());
  EXPECT_GE(watcher.reconnects(), 4U);
}

TEST_F(RouteWatcherTest, SurvivesRestartsOfTheServer) {
  Start("none", testing::RoutesFile({{MakePrefix(0), 1}}));
  RouteWatcher watcher(Channel(),
                       {.start_generation = 1,
                        .start_digest = client_.GetTable("")->digest(),
                        .backoff = kQuick});
  ASSERT_TRUE(watcher.Next()->bookmark);
  Kill();
  std::thread reviver([this] {
    // With the same first generation.
    Start("none", testing::RoutesFile({{MakePrefix(0), 1}}));
  });
  const auto again = watcher.Next();
  reviver.join();
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(again->bookmark);
  v1::UpdateRoutesRequest request;
  *request.add_updates() = ToUpdate({MakePrefix(0), kNoRoute});
  ASSERT_TRUE(client_.UpdateRoutes(request).ok());
  const auto changes = watcher.Next();
  ASSERT_TRUE(changes.ok()) << changes.status();
  EXPECT_EQ(changes->generation, 2U);
  EXPECT_EQ(changes->routes, std::vector<Route>({{MakePrefix(0), kNoRoute}}));
  EXPECT_EQ(watcher.last_generation(), 2U);
  EXPECT_GE(watcher.reconnects(), 1U);
}

TEST_F(RouteWatcherTest, ALostHistoryIsOutOfRange) {
  Start("none", "", {"--history_bytes=1"});
  for (uint32_t i = 0; i < 3; ++i) Change(i);
  const auto watch = [this](uint64_t generation, const std::string& digest) {
    return RouteWatcher(Channel(), {.start_generation = generation,
                                    .start_digest = digest,
                                    .resync = false})
        .Next()
        .status();
  };
  EXPECT_EQ(ErrorReason(watch(1, "")), "HISTORY_COMPACTED");
  EXPECT_TRUE(absl::IsOutOfRange(watch(9, "")));
  EXPECT_EQ(ErrorReason(watch(3, "nonsense")), "HISTORY_DIVERGED");
  EXPECT_TRUE(watch(3, client_.GetTable("")->digest()).ok());
}

TEST_F(RouteWatcherTest, OtherErrorsEndIt) {
  RouteWatcher lost(Channel(), {.table = "none"});
  EXPECT_EQ(ErrorReason(lost.Next().status()), "TABLE_NOT_FOUND");
  Change(0);
  proxy_.EndCalls(
      1, MakeError(grpc::StatusCode::RESOURCE_EXHAUSTED, "WATCHER_TOO_SLOW"), 1,
      "WatchRoutes");
  RouteWatcher slow(proxy_.Channel(), {});
  EXPECT_TRUE(slow.Next()->bookmark);
  EXPECT_EQ(ErrorReason(slow.Next().status()), "WATCHER_TOO_SLOW");
}

TEST_F(RouteWatcherTest, GivesUpInTheEnd) {
  RouteWatcher watcher(
      proxy_.Channel(),
      {.backoff = kQuick, .give_up_after = absl::Milliseconds(100)});
  ASSERT_TRUE(watcher.Next().ok());
  proxy_.Die();
  EXPECT_TRUE(absl::IsUnavailable(watcher.Next().status()));
}

TEST_F(RouteWatcherTest, CancelEndsAWait) {
  for (const bool connected : {true, false}) {
    if (!connected) proxy_.Die();
    RouteWatcher watcher(proxy_.Channel(), {});
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
