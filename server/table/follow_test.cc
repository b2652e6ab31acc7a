// SPDX-License-Identifier: Apache-2.0

// Tables of servers that share a store: batches of all servers are one history.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/base/error.h"
#include "server/table/tables.h"
#include "server/testing/fake_store.h"
#include "server/testing/shared_log.h"

namespace planb::server {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(60);

struct Node {
  explicit Node(SharedLog& log) : store(log), tables({}, &store) {
    EXPECT_TRUE(tables.Restore().ok());
  }
  ~Node() { tables.Drain(SteadyNow()); }

  Table& table() { return tables.default_table(); }

  SharedLog::View store;
  Tables tables;
};

UpdateBatch Announce(absl::string_view prefix, NextHopId next_hop) {
  UpdateBatch batch;
  batch.changes = {
      {RouteChange::Op::kUpsert, Prefix::Parse(prefix).value(), next_hop}};
  return batch;
}

// The table of every node reaches `generation`, the last one, and is the same.
void ExpectSame(const std::vector<std::unique_ptr<Node>>& nodes,
                uint64_t generation) {
  for (const auto& node : nodes) {
    EXPECT_TRUE(
        node->table().AwaitVisible(generation, SteadyAfter(kPatience)).ok());
  }
  for (const auto& node : nodes) {
    const TableState state = node->table().state();
    EXPECT_EQ(state.accepted, generation);
    EXPECT_EQ(state.visible, generation);
    EXPECT_EQ(state.digest, nodes[0]->table().state().digest);
    EXPECT_EQ(state.store_error, "");
  }
}

TEST(Follow, WritersOnAllServersMakeOneHistory) {
  SharedLog log;
  std::vector<std::unique_ptr<Node>> nodes;
  constexpr size_t kNodes = 3;
  constexpr uint32_t kBatches = 300;
  for (size_t n = 0; n < kNodes; ++n) {
    nodes.push_back(std::make_unique<Node>(log));
  }
  std::vector<std::thread> threads;
  std::vector<std::vector<uint64_t>> generations(kNodes);
  for (size_t n = 0; n < kNodes; ++n) {
    threads.emplace_back([&, n] {
      std::mt19937_64 random(n);
      for (uint32_t i = 0; i < kBatches; ++i) {
        const auto outcome = nodes[n]->table().Apply(
            Announce(absl::StrCat("2001:db8:", random() % 7, "::/48"),
                     static_cast<NextHopId>(1 + n * kBatches + i)));
        ASSERT_TRUE(outcome.ok()) << outcome.status();
        generations[n].push_back(outcome->generation);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<uint64_t> all;
  for (const auto& each : generations) {
    EXPECT_TRUE(std::is_sorted(each.begin(), each.end()));
    all.insert(all.end(), each.begin(), each.end());
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());
  EXPECT_EQ(all.back(), kNodes * kBatches);
  ExpectSame(nodes, all.back());
}

TEST(Follow, TablesAreMadeAndDeletedWhileAllWrite) {
  SharedLog log;
  std::vector<std::unique_ptr<Node>> nodes;
  for (int n = 0; n < 2; ++n) nodes.push_back(std::make_unique<Node>(log));
  std::vector<std::thread> threads;
  for (size_t n = 0; n < 2; ++n) {
    threads.emplace_back([&, n] {
      for (uint32_t i = 1; i <= 300; ++i) {
        nodes[n]->tables.Create("red").status().IgnoreError();
        for (uint32_t b = 0; b < 5; ++b) {
          const auto table = nodes[n]->tables.Find("red");
          if (!table.ok()) continue;
          (*table)->Apply(Announce("::/0", i * 10 + b)).status().IgnoreError();
        }
        nodes[n]->tables.Delete("red").IgnoreError();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  // What is there now works on both.
  const absl::Time deadline = absl::Now() + kPatience;
  while ((nodes[0]->tables.Find("red").ok() ||
          nodes[1]->tables.Find("red").ok()) &&
         absl::Now() < deadline) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  ASSERT_FALSE(nodes[0]->tables.Find("red").ok());
  ASSERT_FALSE(nodes[1]->tables.Find("red").ok());
  const auto made = nodes[0]->tables.Create("red");
  ASSERT_TRUE(made.ok()) << made.status();
  const auto outcome = (*made)->Apply(Announce("::/0", 1));
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  // The other node may still have to make and delete earlier ones.
  std::string digest;
  while (digest.empty() && absl::Now() < deadline) {
    absl::SleepFor(absl::Milliseconds(1));
    const auto other = nodes[1]->tables.Find("red");
    if (!other.ok()) continue;
    const SteadyInstant enough = SteadyAfter(kPatience);
    if (!(*other)->AwaitVisible(outcome->generation, enough).ok()) continue;
    digest = (*other)->state().digest;
  }
  EXPECT_EQ(digest, (*made)->state().digest);
}

TEST(Follow, ABatchThatDoesNotFollowStopsTheTable) {
  FakeStore store;
  Table table(StoredTable(), {.store = &store});
  ASSERT_TRUE(table.Apply(Announce("2001:db8::/32", 1)).ok());
  const std::string digest = table.state().digest;
  for (const uint64_t previous : {uint64_t{0}, uint64_t{1}}) {
    // First a gap, which is then the reason that stays.
    table.AppendedElsewhere(
        2, {{.delta = std::make_shared<const Delta>(
                 Delta{.generation = previous + 1,
                       .previous = previous,
                       .routes = {{Prefix::Parse("::/0").value(), 2}},
                       .digest = std::string(16, 'x')})}});
  }
  const absl::Time deadline = absl::Now() + kPatience;
  while (table.state().store_error.empty() && absl::Now() < deadline) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  const absl::Status refused =
      table.Apply(Announce("2001:db8::/32", 2)).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ErrorReason(refused), "STORE_CORRUPT");
  EXPECT_EQ(table.visible(), 1U);
  EXPECT_EQ(table.state().digest, digest);
}

// Another server's batch that does not apply here, while batches of this server
// wait for the store.
TEST(Follow, ATableThatStoppedAppendsNothing) {
  FakeStore store;
  Table table(StoredTable(), {.store = &store});
  store.Hold();
  auto first = table.Submit(Announce("2001:db8::/32", 1));
  store.AwaitCommits(1);
  auto second = table.Submit(Announce("2001:db8::/32", 2));
  auto third = table.Submit(Announce("2001:db8::/32", 3));
  table.AppendedElsewhere(
      2, {{.delta = std::make_shared<const Delta>(
               Delta{.generation = 2,
                     .previous = 1,
                     .routes = {{Prefix::Parse("::/0").value(), 2}},
                     .digest = std::string(16, 'x')})}});
  store.Release();
  ASSERT_TRUE(first.get().ok());
  for (auto* refused : {&second, &third}) {
    EXPECT_EQ(ErrorReason(refused->get().status()), "STORE_CORRUPT");
  }
  EXPECT_EQ(store.begun(), 1);
  EXPECT_EQ(table.state().accepted, 1U);
}

// A replacement of next hops may make a group of the id of a next hop.
TEST(Follow, AnIdMayChangeItsKind) {
  SharedLog log;
  std::vector<std::unique_ptr<Node>> nodes;
  for (int n = 0; n < 2; ++n) nodes.push_back(std::make_unique<Node>(log));
  UpdateBatch hops = Announce("2001:db8::/32", 7);
  hops.next_hops = {{.id = 5}, {.id = 7}};
  hops.replace_next_hops = true;
  UpdateBatch group = Announce("2001:db8::/32", 7);
  group.next_hops = {{.id = 5}};
  group.groups = {{.id = 7, .members = {{.next_hop = 5, .weight = 1}}}};
  group.replace_next_hops = true;
  for (const UpdateBatch* batch : {&hops, &group, &hops}) {
    const auto outcome = nodes[0]->table().Apply(*batch);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    ExpectSame(nodes, outcome->generation);
  }
}

TEST(Follow, AWrongDigestStopsTheTable) {
  FakeStore store;
  Table table(StoredTable(), {.store = &store});
  table.AppendedElsewhere(
      1, {{.delta = std::make_shared<const Delta>(
               Delta{.generation = 1,
                     .routes = {{Prefix::Parse("::/0").value(), 2}},
                     .digest = std::string(16, 'x')})}});
  const absl::Time deadline = absl::Now() + kPatience;
  while (table.state().store_error.empty() && absl::Now() < deadline) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_NE(table.state().store_error, "");
  EXPECT_EQ(table.visible(), 0U);
}

}  // namespace
}  // namespace planb::server
