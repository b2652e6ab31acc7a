// SPDX-License-Identifier: Apache-2.0

// The client with the real server: tables, restarts that lose no answer, and a
// replica that follows every change.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/testing/server_process.h"
#include "client/batch_lookup.h"
#include "client/call.h"
#include "client/channel.h"
#include "client/coalescing_lookup.h"
#include "client/route_watcher.h"
#include "client/table_client.h"
#include "client/testing/real_server_fixture.h"
#include "client/update_stream.h"
#include "client/whole_table.h"

namespace planb::client {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using testing::HopOf;
using testing::V4;
using testing::V6;

constexpr NextHopId kMany = 20'000;  // several chunks of a list

// kMany routes, sorted.
std::vector<Route> ManyRoutes() {
  std::vector<Route> routes;
  for (uint32_t i = 1; i <= kMany; ++i) {
    routes.push_back({*Prefix::Create(Address::V4(i << 8), 24), i});
  }
  return routes;
}

// A server refuses too many pings by closing the connection.
TEST(Channel, KeepalivePingsAreWithinWhatTheServerAllows) {
  const ServerProcess server(
      {"--listen=127.0.0.1:0", "--store=none",
       "--metrics_address=", "--min_ping_interval=500ms"});
  ASSERT_TRUE(server.AwaitServing()) << server.Log();
  const auto channel =
      *MakeChannel(absl::StrCat("127.0.0.1:", server.PortOf("127.0.0.1:0")),
                   {.keepalive_time = absl::Seconds(1)});
  RouteWatcher watcher(channel, {});
  // The second bookmark comes after 5 s. Meanwhile only pings are sent.
  ASSERT_TRUE(watcher.Next().ok());
  ASSERT_TRUE(watcher.Next().ok());
  EXPECT_EQ(watcher.reconnects(), 0U);
  EXPECT_EQ(channel->GetState(false), GRPC_CHANNEL_READY);
}

class TableClientTest : public testing::RealServerFixture {
 protected:
  void SetUp() override {
    RealServerFixture::SetUp();
    client_ = std::make_unique<TableClient>(Channel());
    RouteLoader loader(*client_, {});
    for (const Route& route : ManyRoutes()) {
      ASSERT_TRUE(loader.Add(route).ok());
    }
    const auto report = loader.Finish();
    ASSERT_TRUE(report.ok()) << report.status();
    generation_ = report->generation;
  }

  std::unique_ptr<TableClient> client_;
  uint64_t generation_ = 0;
};

TEST_F(TableClientTest, UpdatesDescribesGetsAndExplains) {
  v1::UpdateRoutesRequest request;
  const Route route = {*Prefix::Parse("2001:db8::/32"), 9};
  *request.add_updates() = ToUpdate(route);
  const auto response = client_->UpdateRoutes(request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->generation(), generation_ + 1);
  EXPECT_EQ(response->added(), 1U);
  const auto table = client_->GetTable("");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->routes_v4(), kMany);
  EXPECT_EQ(table->routes_v6(), 1U);
  EXPECT_EQ(*client_->GetRoute("", route.prefix), route);
  v1::ExplainLookupRequest explain;
  explain.set_address(Address::Parse("2001:db8::1")->ToPacked());
  const auto explained = client_->ExplainLookup(explain);
  ASSERT_TRUE(explained.ok()) << explained.status();
  ASSERT_EQ(explained->matches_size(), 1);
  EXPECT_EQ(*FromProto(explained->matches(0)), route);
  EXPECT_EQ(explained->next_hop_id(), 9U);
}

TEST_F(TableClientTest, ListsEveryRouteInOrderUntilTheCallerEndsIt) {
  std::vector<Route> routes;
  size_t most = kMany;
  const auto add = [&](const Route& route) {
    routes.push_back(route);
    return routes.size() <= most ? absl::OkStatus()
                                 : absl::AbortedError("enough");
  };
  const auto generation = client_->ListRoutes({}, add);
  ASSERT_TRUE(generation.ok()) << generation.status();
  EXPECT_EQ(*generation, generation_);
  EXPECT_THAT(routes, ElementsAreArray(ManyRoutes()));
  routes.clear();
  most = 4;
  EXPECT_EQ(client_->ListRoutes({}, add).status(),
            absl::AbortedError("enough"));
  EXPECT_EQ(routes.size(), 5U);
}

TEST_F(TableClientTest, NextHopsAndGroupsGoRound) {
  v1::UpdateNextHopsRequest request;
  std::vector<NextHop> next_hops;
  for (NextHopId id = 1; id <= 3000; ++id) {  // several chunks
    next_hops.push_back({.id = id,
                         .gateway = *Address::Parse("192.0.2.1"),
                         .interface = "eth0",
                         .weight = id,
                         .label = "transit"});
    *request.add_upserts() = ToProto(next_hops.back());
  }
  const NextHopGroup group = {
      .id = 1'000'000, .members = {{1, 3}, {7, 1}}, .label = "both"};
  *request.add_group_upserts() = ToProto(group);
  const auto updated = client_->UpdateNextHops(request);
  ASSERT_TRUE(updated.ok()) << updated.status();
  EXPECT_EQ(updated->added(), 3001U);
  const auto list = client_->ListNextHops("");
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(list->generation, updated->generation());
  EXPECT_THAT(list->next_hops, ElementsAreArray(next_hops));
  EXPECT_THAT(list->groups, ElementsAre(group));
}

TEST_F(TableClientTest, CreatesListsAndDeletesTables) {
  const auto created = client_->CreateTable("blue");
  ASSERT_TRUE(created.ok()) << created.status();
  EXPECT_EQ(created->name(), "blue");
  const auto tables = client_->ListTables();
  ASSERT_TRUE(tables.ok()) << tables.status();
  ASSERT_EQ(tables->size(), 2U);
  EXPECT_EQ((*tables)[0].name(), "blue");
  EXPECT_EQ((*tables)[1].routes_v4(), kMany);
  EXPECT_TRUE(client_->DeleteTable("blue").ok());
}

TEST_F(TableClientTest, ErrorsComeWithReasons) {
  v1::UpdateRoutesRequest update;
  update.set_expected_generation(7);
  v1::ListRoutesRequest list;
  list.set_table("none");
  const auto ignore = [](const Route&) { return absl::OkStatus(); };
  const Prefix prefix = *Prefix::Parse("3.0.0.0/9");
  for (const auto& [status, reason] :
       {std::pair(client_->UpdateRoutes(update).status(),
                  "GENERATION_MISMATCH"),
        std::pair(client_->GetTable("none").status(), "TABLE_NOT_FOUND"),
        std::pair(client_->ListRoutes(list, ignore).status(),
                  "TABLE_NOT_FOUND"),
        std::pair(client_->ListNextHops("none").status(), "TABLE_NOT_FOUND"),
        std::pair(client_->GetRoute("", prefix).status(), "ROUTE_NOT_FOUND"),
        std::pair(client_->CreateTable("default").status(), "TABLE_EXISTS"),
        std::pair(client_->DeleteTable("none"), "TABLE_NOT_FOUND")}) {
    EXPECT_EQ(ErrorReason(status), reason) << status;
  }
  EXPECT_EQ(
      client_->GetTable("", absl::Now() - absl::Seconds(1)).status().code(),
      absl::StatusCode::kDeadlineExceeded);
}

// The server is killed (SIGKILL) and started again under load: no lookup is
// lost, and every answer is correct.

constexpr int kKills = 4;

class ServerRestartTest : public testing::RealServerFixture {
 protected:
  ~ServerRestartTest() override { unlink(routes_.c_str()); }

  void SetUp() override { Start("none", routes_); }

  // Kills the server `kKills` times. Before each it announces a route, so that
  // the generation is higher than the first of the next process, and waits
  // until `answered` grows.
  void KillAndRestart(const std::atomic<uint64_t>& answered) {
    for (int i = 0; i < kKills; ++i) {
      Announce();
      AwaitGrowth(answered);
      if (HasFatalFailure()) return;
      ASSERT_NO_FATAL_FAILURE(Kill());
      ASSERT_NO_FATAL_FAILURE(Start("none", routes_));
    }
    AwaitGrowth(answered);
  }

  void Announce() {
    v1::UpdateRoutesRequest request;
    *request.add_updates() = ToUpdate({*Prefix::Parse("2001:db9::/32"), 1});
    const auto updated = TableClient(Channel()).UpdateRoutes(request);
    ASSERT_TRUE(updated.ok()) << updated.status();
  }

  static void AwaitGrowth(const std::atomic<uint64_t>& answered) {
    const uint64_t enough = answered + 300;
    const absl::Time deadline = absl::Now() + absl::Minutes(2);
    while (answered < enough) {
      ASSERT_FALSE(HasFailure());
      ASSERT_LT(absl::Now(), deadline) << "no answers any more";
      absl::SleepFor(absl::Milliseconds(1));
    }
  }

  const std::string routes_ = testing::RoutesFile(testing::ManyRoutes());
};

// Batches of all forms, four in flight, checked one by one in their order.
class BatchLoad {
 public:
  explicit BatchLoad(const std::string& target)
      : lookup_(*ChannelsTo(target),
                {.max_in_flight = 4, .give_up_after = absl::Minutes(5)}) {}

  void Run(const std::atomic<bool>& stop, std::atomic<uint64_t>& answered) {
    while (!stop || lookup_.in_flight() > 0) {
      if (!stop && lookup_.in_flight() < 4) {
        Send();
      } else {
        Receive();
        ++answered;
      }
      if (::testing::Test::HasFailure()) return;
    }
    EXPECT_EQ(received_, sent_);
    EXPECT_GE(lookup_.reconnects(), kKills);
    EXPECT_GE(went_back_, 1) << "the test shows nothing of generations";
  }

 private:
  static constexpr uint64_t kEach = 64;

  void Send() {
    std::string v6, v4, upper;
    for (uint64_t i = sent_; i < sent_ + kEach; ++i) {
      v6 += V6(i);
      v4 += V4(i);
      upper += V6(i).substr(0, 8);
    }
    ASSERT_EQ(lookup_
                  .Send({.addresses_v6 = v6,
                         .addresses_v4 = v4,
                         .upper_halves_v6 = upper})
                  .value(),
              ++sent_);
  }

  void Receive() {
    const auto received = lookup_.Receive(result_);
    ASSERT_TRUE(received.ok()) << received.status();
    ASSERT_TRUE(result_.status.ok()) << result_.status;
    ASSERT_EQ(result_.next_hops.size(), 3 * kEach);
    for (uint64_t i = 0; i < kEach; ++i) {
      const NextHopId due = HopOf(received_ + i);
      ASSERT_EQ(result_.next_hops[i], due);
      ASSERT_EQ(result_.next_hops[kEach + i], due);
      ASSERT_EQ(result_.next_hops[2 * kEach + i],
                due == HopOf(3) ? kUndecided : due);
    }
    ASSERT_EQ(result_.request_id, ++received_);
    // Generations go back only with another server process.
    if (result_.generation < generation_) {
      ASSERT_GT(lookup_.reconnects(), reconnects_);
      ++went_back_;
    }
    generation_ = result_.generation;
    reconnects_ = lookup_.reconnects();
  }

  BatchLookup lookup_;
  BatchResult result_;
  uint64_t sent_ = 0;
  uint64_t received_ = 0;
  uint64_t generation_ = 0;
  uint64_t reconnects_ = 0;
  int went_back_ = 0;
};

TEST_F(ServerRestartTest, BatchesSurvive) {
  std::atomic<bool> stop = false;
  std::atomic<uint64_t> answered = 0;
  BatchLoad load(target_);
  std::thread loader([&] { load.Run(stop, answered); });
  KillAndRestart(answered);
  stop = true;
  loader.join();
}

TEST_F(ServerRestartTest, SingleLookupsSurvive) {
  std::atomic<bool> stop = false;
  std::atomic<uint64_t> answered = 0;
  const auto lookup = MakeCoalescingLookup(
      *ChannelsTo(target_), {.coalescing = {.timeout = std::chrono::minutes(5)},
                             .lookup = {.give_up_after = absl::Minutes(5)}});
  std::vector<std::thread> callers;
  for (uint64_t thread = 0; thread < 8; ++thread) {
    callers.emplace_back([&, thread] {
      for (uint64_t i = thread; !stop; i += 8) {
        const auto answer =
            lookup->Lookup(*Address::FromPacked(i % 3 == 0 ? V4(i) : V6(i)))
                .get();
        ASSERT_TRUE(answer.ok()) << answer.status();
        ASSERT_EQ(answer->next_hop, HopOf(i));
        ++answered;
      }
    });
  }
  KillAndRestart(answered);
  stop = true;
  for (std::thread& caller : callers) caller.join();
}

// A replica that follows a watch ends with the routes of the server's list,
// while several streams send batches.

constexpr int kStreams = 2;
constexpr int kBatches = 300;
constexpr uint32_t kPrefixes = 2000;

v1::StreamUpdatesRequest RandomBatch(absl::BitGen& random) {
  std::map<uint32_t, NextHopId> changes;
  const int count = absl::Uniform(random, 1, 50);
  for (int i = 0; i < count; ++i) {
    changes[absl::Uniform(random, 0U, kPrefixes)] =
        absl::Uniform(random, 0U, 4U);
  }
  v1::StreamUpdatesRequest batch;
  for (const auto& [prefix, next_hop] : changes) {
    const uint64_t high = uint64_t{prefix} << 32;
    const Route route = {
        prefix % 2 == 0
            ? *Prefix::Create(Address::V4(prefix << 8), 24)
            : *Prefix::Create(Address::V6(absl::MakeUint128(high, 0)), 32),
        next_hop};
    if (absl::Bernoulli(random, 0.5)) {
      *batch.add_updates() = ToUpdate(route);
    } else {
      AddPacked(route, batch);
    }
  }
  return batch;
}

class ReplicaTest : public testing::RealServerFixture {
 protected:
  // Sends random batches; none may be refused.
  void Storm() const {
    absl::BitGen random;
    UpdateStream stream(Channel(), {.ack = v1::ACK_ACCEPTED},
                        [](const UpdateReply& reply) {
                          EXPECT_TRUE(reply.status.ok()) << reply.status;
                        });
    for (int i = 0; i < kBatches; ++i) {
      const auto sent = stream.Send(RandomBatch(random));
      ASSERT_TRUE(sent.ok()) << sent.status();
    }
    const absl::Status end = stream.Finish();
    EXPECT_TRUE(end.ok()) << end;
  }
};

TEST_F(ReplicaTest, EndsAsTheServer) {
  std::vector<std::thread> writers;
  for (int i = 0; i < kStreams; ++i) {
    writers.emplace_back([this] { Storm(); });
  }
  std::map<Prefix, NextHopId> replica;
  uint64_t generation = 0;
  std::string digest;
  RouteWatcher watcher(Channel(), {});
  const auto follow = [&](uint64_t until) {
    while (generation < until) {
      const auto changes = watcher.Next();
      ASSERT_TRUE(changes.ok()) << changes.status();
      if (changes->bookmark) continue;
      ASSERT_EQ(changes->generation, generation + 1);
      generation = changes->generation;
      digest = changes->digest;
      for (const Route& route : changes->routes) {
        if (route.next_hop == kNoRoute) {
          ASSERT_EQ(replica.erase(route.prefix), 1U);
        } else {
          replica[route.prefix] = route.next_hop;
        }
      }
    }
  };
  follow(10);
  for (std::thread& writer : writers) writer.join();
  const TableClient client(Channel());
  const auto table = client.GetTable("");
  ASSERT_TRUE(table.ok()) << table.status();
  follow(table->accepted_generation());
  EXPECT_EQ(digest, table->digest());
  std::map<Prefix, NextHopId> listed;
  const auto shown = client.ListRoutes({}, [&](const Route& route) {
    listed[route.prefix] = route.next_hop;
    return absl::OkStatus();
  });
  ASSERT_TRUE(shown.ok()) << shown.status();
  EXPECT_EQ(*shown, generation);
  EXPECT_EQ(replica, listed);
  EXPECT_GT(listed.size(), kPrefixes / 2);
  EXPECT_EQ(watcher.reconnects(), 0U);
}

// After the server lost its table, a watch continues from the whole new one;
// without `resync` it ends.
TEST_F(ReplicaTest, DetectsALostHistory) {
  const auto announce = [this](uint32_t count) {
    v1::UpdateRoutesRequest request;
    for (uint32_t i = 0; i < count; ++i) {
      *request.add_updates() =
          ToUpdate({*Prefix::Create(Address::V4(i << 8), 24), 1});
    }
    const auto updated = TableClient(Channel()).UpdateRoutes(request);
    ASSERT_TRUE(updated.ok()) << updated.status();
  };
  announce(2);
  RouteWatcher watcher(Channel(), {});
  RouteWatcher strict(Channel(), {.resync = false});
  for (RouteWatcher* each : {&watcher, &strict}) {
    while (each->last_generation() < 1) ASSERT_TRUE(each->Next().ok());
  }
  ASSERT_NO_FATAL_FAILURE(Kill());
  ASSERT_NO_FATAL_FAILURE(Start("none"));
  announce(3);  // generation 1 again, of other routes
  absl::StatusOr<GenerationChanges> next = watcher.Next();
  while (next.ok() && next->bookmark) next = watcher.Next();
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_TRUE(next->reset);
  EXPECT_EQ(next->generation, 1U);
  EXPECT_EQ(next->routes.size(), 3U);

  next = strict.Next();
  while (next.ok() && next->bookmark) next = strict.Next();
  EXPECT_TRUE(absl::IsOutOfRange(next.status())) << next.status();
  EXPECT_EQ(ErrorReason(next.status()), "HISTORY_DIVERGED");
  EXPECT_EQ(strict.Next().status(), next.status());
}

}  // namespace
}  // namespace planb::client
