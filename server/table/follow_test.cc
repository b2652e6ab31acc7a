// SPDX-License-Identifier: Apache-2.0

// Tables of servers that share a store: batches of all servers are one history.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/monotonic_time.h"
#include "base/testing/await.h"
#include "lpm/routes/table_digest.h"
#include "server/base/error.h"
#include "server/table/tables.h"
#include "server/testing/fake_store.h"
#include "server/testing/shared_log.h"
#include "server/testing/small_store.h"
#include "server/testing/updates.h"

namespace planb::server {
namespace {

struct Node {
  explicit Node(SharedLog& log, const TablesOptions& options = {})
      : store(log), tables(options, &store) {
    EXPECT_TRUE(tables.Restore().ok());
  }
  ~Node() { tables.Drain(SteadyNow()); }

  Table& table() { return tables.default_table(); }

  SharedLog::View store;
  Tables tables;
};

std::vector<std::unique_ptr<Node>> Nodes(SharedLog& log, int count) {
  std::vector<std::unique_ptr<Node>> nodes;
  for (int n = 0; n < count; ++n) nodes.push_back(std::make_unique<Node>(log));
  return nodes;
}

// The table of every node reaches `generation`, the last one, and is the same.
void ExpectSame(const std::vector<std::unique_ptr<Node>>& nodes,
                uint64_t generation) {
  for (const auto& node : nodes) {
    EXPECT_TRUE(
        node->table().AwaitVisible(generation, SteadyAfter(kPatience)).ok());
  }
  for (const auto& node : nodes) {
    const v1::Table state = node->table().state();
    EXPECT_EQ(state.accepted_generation(), generation);
    EXPECT_EQ(state.visible_generation(), generation);
    EXPECT_EQ(state.digest(), nodes[0]->table().state().digest());
    EXPECT_EQ(node->table().replication_error(), "");
  }
}

TEST(Follow, WritersOnAllServersMakeOneHistory) {
  SharedLog log;
  constexpr size_t kNodes = 3;
  constexpr uint32_t kBatches = 300;
  const auto nodes = Nodes(log, kNodes);
  std::vector<std::thread> threads;
  std::vector<std::vector<uint64_t>> generations(kNodes);
  for (size_t n = 0; n < kNodes; ++n) {
    threads.emplace_back([&, n] {
      std::mt19937_64 random(n);
      for (uint32_t i = 0; i < kBatches; ++i) {
        const UpdateBatch batch =
            Announce(absl::StrCat("2001:db8:", random() % 7, "::/48"),
                     static_cast<NextHopId>(1 + n * kBatches + i));
        Table::Outcome outcome = nodes[n]->table().Apply(batch);
        while (IsStoreConflict(outcome.status())) {  // others were faster
          outcome = nodes[n]->table().Apply(batch);
        }
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

UpdateBatch Change(RouteChange::Op op, NextHopId next_hop) {
  return Change(op, "2001:db8::/32", next_hop);
}

UpdateBatch Hops(std::vector<NextHop> described,
                 std::vector<NextHopId> deleted) {
  UpdateBatch batch;
  batch.next_hops = std::move(described);
  batch.deleted_next_hops = std::move(deleted);
  return batch;
}

UpdateBatch With(UpdateBatch batch, void (*change)(UpdateBatch&)) {
  change(batch);
  return batch;
}

// One server is told late what another has written. Its answers are of the
// newest table all the same: counts, refusals and conditions.
TEST(Follow, NoAnswerIsOfAHeadThatOthersHaveLeftBehind) {
  using Op = RouteChange::Op;
  const UpdateBatch announce = Change(Op::kUpsert, 7);
  const UpdateBatch other_hop = Change(Op::kUpsert, 8);
  const UpdateBatch withdraw = Change(Op::kDelete, kNoRoute);
  struct Case {
    const char* what;
    std::vector<UpdateBatch> both;  // what both servers have
    UpdateBatch unseen;             // what the first has written
    UpdateBatch batch;              // for the second
    ChangeCounts counts;
    const char* refusal = "";
  };
  const std::vector<Case> cases = {
      {"withdraw", {}, announce, withdraw, {.removed = 1}},
      {"announce again", {announce}, other_hop, announce, {.changed = 1}},
      {"announce what was withdrawn",
       {announce},
       withdraw,
       announce,
       {.added = 1}},
      {"insert", {announce}, withdraw, Change(Op::kInsert, 7), {.added = 1}},
      {"replace", {}, announce, Change(Op::kReplace, 9), {.changed = 1}},
      {"strict",
       {},
       announce,
       Change(Op::kDeleteStrict, kNoRoute),
       {.removed = 1}},
      {"insert what is there",
       {},
       announce,
       Change(Op::kInsert, 7),
       {},
       "ROUTE_EXISTS"},
      {"expected",
       {announce},
       other_hop,
       With(announce, [](UpdateBatch& b) { b.expected_generation = 2; }),
       {.changed = 1}},
      {"expected before",
       {announce},
       other_hop,
       With(announce, [](UpdateBatch& b) { b.expected_generation = 1; }),
       {},
       "GENERATION_MISMATCH"},
      {"fenced",
       {announce},
       With(announce, [](UpdateBatch& b) { b.writer_epoch = 5; }),
       announce,
       {},
       "WRITER_FENCED"},
      {"validate",
       {},
       announce,
       With(Change(Op::kInsert, 7),
            [](UpdateBatch& b) { b.validate_only = true; }),
       {},
       "ROUTE_EXISTS"},
      {"all as before",
       {announce},
       Announce("2001:db8:1::/48", 8),
       With({},
            [](UpdateBatch& b) {
              b.replacement = {MakeRoute("2001:db8::/32", 7)};
            }),
       {.removed = 1, .unchanged = 1}},
      {"next hop that is new",
       {},
       Hops({{.id = 7}}, {}),
       With(announce, [](UpdateBatch& b) { b.require_next_hops = true; }),
       {.added = 1}},
      {"next hop that is in use no more",
       {Hops({{.id = 7}}, {}), announce},
       withdraw,
       Hops({}, {7}),
       {.next_hops_removed = 1}},
      {"next hop as before",
       {Hops({{.id = 7}}, {})},
       Hops({}, {7}),
       Hops({{.id = 7}}, {}),
       {.next_hops_added = 1}},
  };
  for (const Case& each : cases) {
    SharedLog log;
    const auto nodes = Nodes(log, 2);
    uint64_t generation = 0;
    for (const UpdateBatch& batch : each.both) {
      const auto outcome = nodes[0]->table().Apply(batch);
      ASSERT_TRUE(outcome.ok()) << each.what << outcome.status();
      generation = outcome->generation;
    }
    ExpectSame(nodes, generation);
    nodes[1]->store.Hold();
    ASSERT_TRUE(nodes[0]->table().Apply(each.unseen).ok()) << each.what;
    const auto outcome = nodes[1]->table().Apply(each.batch);
    EXPECT_EQ(ErrorReason(outcome.status()), each.refusal) << each.what;
    if (outcome.ok()) {
      EXPECT_EQ(outcome->counts, each.counts) << each.what;
    }
    ExpectSame(nodes, nodes[1]->table().state().accepted_generation());
  }
}

// Others write before each of its calls of the store.
TEST(Follow, WhatChangesNothingIsAnsweredBesideSteadyWriters) {
  using Op = RouteChange::Op;
  SharedLog log;
  Node a(log), b(log);
  NextHopId writes = 0;
  b.store.Hold();
  b.store.before_append = [&] {
    ASSERT_TRUE(a.table().Apply(Announce("::/0", ++writes)).ok());
  };
  const UpdateBatch withdraw = Change(Op::kDelete, kNoRoute);
  const UpdateBatch validated =
      With(withdraw, [](UpdateBatch& each) { each.validate_only = true; });
  for (const UpdateBatch& batch : {withdraw, validated}) {
    const NextHopId before = writes;
    const auto outcome = b.table().Apply(batch);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_GT(outcome->generation, before);
    EXPECT_LE(outcome->generation, writes);
  }
  const UpdateBatch expects = With(withdraw, [](UpdateBatch& each) {
    each.expected_generation = 1'000'000;
  });
  EXPECT_EQ(ErrorReason(b.table().Apply(expects).status()),
            "GENERATION_MISMATCH");
  EXPECT_EQ(ErrorReason(
                b.table().Apply(Change(Op::kDeleteStrict, kNoRoute)).status()),
            "ROUTE_NOT_FOUND");
  // A change has to be appended, and what is behind it waits for it.
  auto change = b.table().Submit(Announce("2001:db8:1::/48", 7));
  auto behind = b.table().Submit(withdraw);
  const absl::Status refused = change.get().status();
  EXPECT_EQ(ErrorReason(refused), kStoreConflict) << refused;
  EXPECT_FALSE(refused.GetPayload(kConflictPosition).has_value());
  const auto outcome = behind.get();
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_FALSE(outcome->counts.Any());
  b.store.before_append = nullptr;
}

// Tells `table`, which is empty, that another server announced ::/0 -> 2.
void TellOfFirst(Table& table) {
  table.Follow({.position = 1, .batches = {Batch(1, {MakeRoute("::/0", 2)})}});
}

// A batch that leads to another table than it says.
AcceptedBatch WithWrongDigest(uint64_t generation, uint64_t previous) {
  return {.delta = std::make_shared<const Delta>(
              Delta{.generation = generation,
                    .previous = previous,
                    .routes = {MakeRoute("::/0", 2)},
                    .digest = std::string(16, 'x')})};
}

bool AwaitStop(const Table& table) {
  return Await([&] { return !table.replication_error().empty(); });
}

// Of which all servers hear at once.
StoredTable RedTable(uint64_t generation) {
  return {.name = "red", .id = 100, .generation = generation};
}

// A server that is told of one entry while its first batch asks the store, and
// where that says that the table is.
TEST(Follow, WhatTheStoreHasNotConfirmedIsAskedFor) {
  struct Case {
    uint64_t says;
    bool second;  // a batch that comes after the store was asked
    int asked;
  };
  for (const auto& [says, second, asked] :
       {Case{1, false, 1},
        {1, true, 2},
        {2, false, 2},
        {TableLog::kAnyPosition, false, 2}}) {
    FakeStore store;
    store.others_write = true;
    Table table(StoredTable(), {.store = &store});
    store.Hold();
    const UpdateBatch withdraw = Change(RouteChange::Op::kDelete, kNoRoute);
    std::vector<std::future<Table::Outcome>> outcomes;
    outcomes.push_back(table.Submit(withdraw));
    store.AwaitCommits(1);
    if (second) outcomes.push_back(table.Submit(withdraw));
    TellOfFirst(table);
    store.Fail(StoreConflict(says));
    store.Release();
    for (auto& outcome : outcomes) {
      const Table::Outcome answer = outcome.get();
      ASSERT_TRUE(answer.ok()) << answer.status();
      EXPECT_EQ(answer->generation, 1U);
    }
    EXPECT_EQ(store.begun(), asked) << says << second;
  }
}

// Long before the append is given up.
TEST(Follow, ALostAppendGoesOnOnceItHearsWhatItWasLostTo) {
  for (const bool fails : {false, true}) {
    // It begins again by itself after a second, so an attempt that the machine
    // holds up for that long proves nothing.
    EXPECT_TRUE(SucceedsInThree([&] {
      FakeStore store;
      store.others_write = true;
      Table table(StoredTable(), {.store = &store});
      store.Fail(StoreConflict());
      auto outcome = table.Submit(Announce("::/1", 1));
      if (outcome.wait_for(std::chrono::milliseconds(50)) !=
          std::future_status::timeout) {
        return false;
      }
      const SteadyInstant told = SteadyNow();
      if (fails) {
        table.StopFollowing(absl::DataLossError("unreadable"));
      } else {
        TellOfFirst(table);
      }
      const Table::Outcome answer = outcome.get();
      if (ElapsedSince(told) >= absl::Milliseconds(700)) return false;
      EXPECT_EQ(answer.ok(), !fails) << answer.status();
      if (answer.ok()) {
        EXPECT_EQ(answer->generation, 2U);
      }
      return true;
    }));
  }
}

// Each of them ends the wait for it, also once the append has begun again.
TEST(Follow, ALostAppendBeginsAgainOnce) {
  for (int round = 0; round < 50; ++round) {
    FakeStore store;
    store.others_write = true;
    Table table(StoredTable(), {.store = &store});
    store.Fail(StoreConflict());
    auto outcome = table.Submit(Announce("::/1", 1));
    store.AwaitCommits(1);
    store.Hold();
    TellOfFirst(table);
    // Entries without changes.
    for (uint64_t i = 2; i < 100; ++i)
      table.Follow({.position = i, .batches = {}});
    store.AwaitCommits(2);
    auto later = table.Submit(Announce("8000::/1", 1));
    absl::SleepFor(absl::Milliseconds(2));
    // The later one is not with the store beside the first.
    EXPECT_EQ(store.begun(), 2);
    store.Release();
    const Table::Outcome answer = outcome.get();
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_TRUE(later.get().ok());
    ASSERT_FALSE(HasFailure()) << round;
  }
}

// Of a group that finds no room, a part is lost to what comes later.
TEST(Follow, ALostPartGoesOnOnceItHearsWhatItWasLostTo) {
  FakeStore store;
  store.others_write = true;
  bool lost = false;
  Table table(StoredTable(),
              {.store = &store, .events = {.stored = [&](auto, bool ok) {
                                  if (!ok && !std::exchange(lost, true)) {
                                    store.Fail(StoreConflict());
                                  }
                                }}});
  store.Hold();
  auto withdraw = table.Submit(Change(RouteChange::Op::kDelete, kNoRoute));
  store.AwaitCommits(1);
  auto small = table.Submit(Announce("::/1", 1));
  UpdateBatch two = Announce("::/2", 1);
  two.changes.push_back(Announce("::/3", 1).changes[0]);
  auto large = table.Submit(two);
  store.FailAbove(1, QuotaError("STORE_FULL", "store", "no room"));
  store.Release();
  store.AwaitCommits(3);
  auto later = table.Submit(Announce("::/4", 1));
  TellOfFirst(table);
  EXPECT_TRUE(withdraw.get().ok());
  const Table::Outcome answer = small.get();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->generation, 2U);
  EXPECT_EQ(ErrorReason(large.get().status()), "STORE_FULL");
  EXPECT_EQ(later.get()->generation, 3U);
  uint64_t generation = 1;
  for (const auto& commit : store.commits) {
    for (const AcceptedBatch& batch : commit) {
      EXPECT_EQ(batch.delta->previous, generation);
      EXPECT_EQ(batch.delta->generation, ++generation);
    }
  }
}

// Not even its table waits for that.
TEST(Follow, ALostAppendIsRepeatedIfItHearsNothing) {
  FakeStore store;
  store.others_write = true;
  std::future<Table::Outcome> outcome;
  {
    Table table(StoredTable(), {.store = &store});
    store.Fail(StoreConflict());
    outcome = table.Submit(Announce("::/1", 1));
  }
  EXPECT_EQ(outcome.get()->generation, 1U);
  EXPECT_EQ(store.begun(), 2);
}

// What the first server does to tables, the second is told while its call
// waits.
TEST(Follow, NoTableIsAbsentOrThereBecauseAServerFollowsLate) {
  SharedLog log;
  Node a(log), b(log);
  const auto meanwhile = [&](auto call) {
    auto answer = std::async(std::launch::async, call);
    b.store.Release();
    return answer.get();
  };
  b.store.Hold();
  const uint64_t first = a.tables.Create("red").value()->store_id();
  const auto found = meanwhile([&] { return b.tables.FindToUpdate("red"); });
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ((*found)->store_id(), first);
  b.store.Hold();
  ASSERT_TRUE(a.tables.Delete("red").ok());
  const auto made = meanwhile([&] { return b.tables.Create("red"); });
  ASSERT_TRUE(made.ok()) << made.status();
  // The later table of this name is deleted, not the earlier one.
  b.store.Hold();
  ASSERT_TRUE(a.tables.FindToUpdate("red").ok());
  ASSERT_TRUE(a.tables.Delete("red").ok());
  ASSERT_TRUE(a.tables.Create("red").ok());
  const absl::Status deleted =
      meanwhile([&] { return b.tables.Delete("red"); });
  EXPECT_TRUE(deleted.ok()) << deleted;
  EXPECT_EQ(a.store.FindTable("red").value(), TableLog::kAnyTable);
  // Not here any more, and not there.
  b.store.Hold();
  ASSERT_TRUE(a.tables.Create("blue").ok());
  b.store.Release();
  ASSERT_TRUE(b.tables.FindToUpdate("blue").ok());
  b.store.Hold();
  ASSERT_TRUE(a.tables.Delete("blue").ok());
  EXPECT_EQ(ErrorReason(b.tables.Delete("blue")), "TABLE_NOT_FOUND");
  for (const char* absent : {"green", "no name"}) {
    EXPECT_EQ(ErrorReason(b.tables.FindToUpdate(absent).status()),
              "TABLE_NOT_FOUND");
  }
}

// The second server still has the earlier table of this name.
TEST(Follow, ATableThatOthersMadeAnewIsNotAbsent) {
  SharedLog log;
  Node a(log), b(log);
  ASSERT_TRUE(a.tables.Create("red").ok());
  const auto before = b.tables.FindToUpdate("red");
  ASSERT_TRUE(before.ok()) << before.status();
  b.store.Hold();
  ASSERT_TRUE(a.tables.Delete("red").ok());
  ASSERT_TRUE(a.tables.Create("red").ok());
  const auto expect_conflict = [&](const UpdateBatch& batch) {
    const absl::Status refused = (*before)->Apply(batch).status();
    EXPECT_TRUE(absl::IsAborted(refused)) << refused;
    EXPECT_EQ(ErrorReason(refused), kStoreConflict);
    EXPECT_EQ(ErrorField(refused), "table");
  };
  expect_conflict(Announce("::/0", 1));
  expect_conflict(Change(RouteChange::Op::kDelete, kNoRoute));
  b.store.Release();
  EXPECT_TRUE(Await([&] { return !(*before)->refusal().ok(); }));
  expect_conflict(Announce("::/0", 1));
  // The status that ends a stream of updates.
  EXPECT_EQ(ErrorReason((*before)->refusal()), kStoreConflict);
  EXPECT_TRUE(
      Await([&] { return b.tables.Find("red").value_or(nullptr) != *before; }));
  const auto after = b.tables.FindToUpdate("red");
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_TRUE((*after)->Apply(Announce("::/0", 1)).ok());
}

TEST(Follow, TablesAreMadeAndDeletedWhileAllWrite) {
  SharedLog log;
  const auto nodes = Nodes(log, 2);
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
  ASSERT_TRUE(Await([&] {
    return !nodes[0]->tables.Find("red").ok() &&
           !nodes[1]->tables.Find("red").ok();
  }));
  const auto made = nodes[0]->tables.Create("red");
  ASSERT_TRUE(made.ok()) << made.status();
  const auto outcome = (*made)->Apply(Announce("::/0", 1));
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  // The other node may still have to make and delete earlier ones.
  std::string digest;
  EXPECT_TRUE(Await([&] {
    const auto other = nodes[1]->tables.Find("red");
    if (!other.ok()) return false;
    const SteadyInstant enough = SteadyAfter(kPatience);
    if (!(*other)->AwaitVisible(outcome->generation, enough).ok()) return false;
    digest = (*other)->state().digest();
    return true;
  }));
  EXPECT_EQ(digest, (*made)->state().digest());
}

// As after a start that failed: nothing has closed the store.
TEST(Follow, TablesThatEndAreCalledNoMore) {
  SharedLog log;
  Node writer(log);
  for (NextHopId i = 1; i <= 20; ++i) {
    SharedLog::View store(log);
    auto tables = std::make_unique<Tables>(TablesOptions{}, &store);
    ASSERT_TRUE(tables->Restore().ok());
    EXPECT_EQ(log.followers(), 2U);
    std::thread writes(
        [&] { EXPECT_TRUE(writer.table().Apply(Announce("::/0", i)).ok()); });
    tables.reset();
    EXPECT_EQ(log.followers(), 1U);
    writes.join();
    EXPECT_TRUE(writer.table().Apply(Announce("::/1", i)).ok());
  }
}

// Nothing is applied while an append of this server is on the way.
TEST(Follow, WhatWaitsForATableIsBounded) {
  using Wants = StoreFollower::Wants;
  FakeStore store;
  store.others_write = true;
  Table table(StoredTable(), {.store = &store});
  store.Hold();
  auto append = table.Submit(Announce("::/1", 1));
  store.AwaitCommits(1);
  TellOfFirst(table);
  std::vector<Route> routes;
  for (uint32_t i = 0; i < 200'000; ++i) {
    routes.push_back({Prefix::Truncate(Address::V4(i << 8), 24), 1});
  }
  uint64_t told = 1;
  for (; told < 20 && table.wants() == Wants::kNext; ++told) {
    table.Follow({.position = told + 1,
                  .batches = {{.delta = std::make_shared<const Delta>(
                                   Delta{.generation = told + 1,
                                         .previous = told,
                                         .routes = routes})}}});
  }
  EXPECT_GT(told, 2U);
  EXPECT_LT(told, 20U);
  EXPECT_EQ(table.wants(), Wants::kNothing);
  // There may be nothing that would come.
  EXPECT_EQ(table.replication_error(), "");
  EXPECT_EQ(table.out_of_step(), absl::ZeroDuration());
  table.Follow({.missed = true});
  EXPECT_NE(table.replication_error(), "");
  EXPECT_GT(table.out_of_step(), absl::ZeroDuration());
  // Not even a server that starts goes on without the rest.
  EXPECT_TRUE(absl::IsDeadlineExceeded(
      table.AwaitFollowed(SteadyAfter(absl::Milliseconds(20)))));
  table.Follow({.whole = std::make_unique<StoredTable>(
                    StoredTable{.position = 100,
                                .generation = 100,
                                .routes = {MakeRoute("::/0", 3)}})});
  EXPECT_EQ(table.wants(), Wants::kNext);
  EXPECT_EQ(table.replication_error(), "");
  store.Fail(StoreConflict(100));
  store.Release();
  const Table::Outcome outcome = append.get();
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->generation, 101U);
  EXPECT_TRUE(table.AwaitFollowed(SteadyAfter(kPatience)).ok());
  EXPECT_EQ(table.state().routes_v4(), 0U);
}

// Lookups go on there, and a copy of the tables says how old they are.
TEST(Follow, TablesAreAsOldAsTheOneThatStopped) {
  SharedLog log;
  Node node(log);
  ASSERT_TRUE(node.tables.Create("red").ok());
  EXPECT_EQ(node.tables.oldest_contents(), absl::ZeroDuration());
  (*node.tables.Find("red"))->StopFollowing(absl::DataLossError("unreadable"));
  absl::SleepFor(absl::Milliseconds(30));
  const absl::Duration age = node.tables.oldest_contents();
  EXPECT_GE(age, absl::Milliseconds(30));
  node.table().StopFollowing(absl::DataLossError("unreadable"));
  EXPECT_GE(node.tables.oldest_contents(), age);
}

TEST(Follow, ABatchThatDoesNotFollowStopsTheTable) {
  FakeStore store;
  Table table(StoredTable(), {.store = &store});
  ASSERT_TRUE(table.Apply(Announce("2001:db8::/32", 1)).ok());
  const std::string digest = table.state().digest();
  for (const uint64_t previous : {uint64_t{0}, uint64_t{1}}) {
    // First a gap, which is then the reason that stays.
    table.Follow(
        {.position = 2, .batches = {WithWrongDigest(previous + 1, previous)}});
  }
  EXPECT_TRUE(AwaitStop(table));
  const absl::Status refused =
      table.Apply(Announce("2001:db8::/32", 2)).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ErrorReason(refused), "STORE_CORRUPT");
  EXPECT_EQ(table.visible(), 1U);
  EXPECT_EQ(table.state().digest(), digest);
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
  table.Follow({.position = 2, .batches = {WithWrongDigest(2, 1)}});
  store.Release();
  ASSERT_TRUE(first.get().ok());
  for (auto* refused : {&second, &third}) {
    EXPECT_EQ(ErrorReason(refused->get().status()), "STORE_CORRUPT");
  }
  EXPECT_EQ(store.begun(), 1);
  EXPECT_EQ(table.state().accepted_generation(), 1U);
}

// The time of both clocks of servers that take AtSetTime().
absl::Time now;

TablesOptions AtSetTime() {
  now = absl::FromUnixSeconds(1'000'000);
  TablesOptions options;
  options.table.wall_clock = [] { return now; };
  options.table.steady_clock = [] {
    return SteadyInstant(absl::ToChronoNanoseconds(now - absl::UnixEpoch()));
  };
  return options;
}

// The time of a request is the one that the log has, at any clock of a
// server that follows. The clocks of these are a minute apart.
TEST(Follow, ServersKnowTheSameRequests) {
  SharedLog log;
  TablesOptions options = AtSetTime();
  options.table.request_id_window = 2;
  Node a(log, options);
  options.table.wall_clock = [] { return now + absl::Minutes(1); };
  Node b(log, options);
  const auto named = [](int i) {
    UpdateBatch batch = Announce("::/0", static_cast<NextHopId>(i));
    batch.request_id = absl::StrCat(i);
    return batch;
  };
  const SteadyInstant enough = SteadyAfter(kPatience);
  for (int i = 1; i <= 20; ++i) {
    now += kRequestIdRetention / 10;
    ASSERT_TRUE(a.table().Apply(named(i)).ok());
    ASSERT_TRUE(b.table().AwaitVisible(static_cast<uint64_t>(i), enough).ok());
  }
  for (int i = 20; i > 10; --i) {
    const auto by_a = a.table().Apply(named(i));
    const auto by_b = b.table().Apply(named(i));
    ASSERT_TRUE(by_a.ok() && by_b.ok()) << i;
    EXPECT_EQ(by_a->generation, i);
    EXPECT_EQ(*by_a, *by_b);
  }
  // Not known to either: the second to ask learns what the first made of it.
  const auto by_b = b.table().Apply(named(10));
  ASSERT_TRUE(by_b.ok()) << by_b.status();
  EXPECT_EQ(by_b->generation, 21U);
  ASSERT_TRUE(a.table().AwaitVisible(21, enough).ok());
  EXPECT_EQ(a.table().Apply(named(10))->generation, 21U);
}

// A server forgets an id, and another one, which keeps more, does not.
TEST(Follow, TheNewestRequestOfAnIdCounts) {
  SharedLog log;
  TablesOptions options = AtSetTime();
  options.table.request_id_window = 1;
  Node a(log, options);
  options.table.request_id_window = 3;
  Node b(log, options);
  const SteadyInstant enough = SteadyAfter(kPatience);
  for (NextHopId i = 1; i <= 3; ++i) {
    UpdateBatch batch = Announce("::/0", i);
    batch.request_id = i == 2 ? "other" : "same";
    ASSERT_TRUE(a.table().Apply(batch).ok());
    ASSERT_TRUE(b.table().AwaitVisible(i, enough).ok());
    now += kRequestIdRetention;
  }
  UpdateBatch batch = Announce("::/0", 3);
  batch.request_id = "same";
  EXPECT_EQ(b.table().Apply(batch)->generation, 3U);
  batch = Announce("::/0", 4);
  batch.request_id = "another";  // pushes the first one out
  ASSERT_TRUE(b.table().Apply(batch).ok());
  batch.request_id = "same";
  EXPECT_EQ(b.table().Apply(batch)->generation, 3U);
}

// Neither batches nor a snapshot of it reach the store.
TEST(Follow, ATableThatStoppedOffersNoSnapshot) {
  FakeStore store;
  store.others_write = true;
  store.wants_snapshots = true;
  Table table(StoredTable(), {.store = &store});
  table.Follow({.whole = std::make_unique<StoredTable>(StoredTable{
                    .position = 7, .routes = {MakeRoute("::/0", 2)}})});
  table.Freeze(DrainingError());  // waits for the job
  EXPECT_NE(table.replication_error(), "");
  EXPECT_TRUE(store.snapshots.empty());
  EXPECT_EQ(ErrorReason(store.stopped), "STORE_CORRUPT");
}

TEST(Follow, GenerationsRise) {
  FakeStore store;
  Table table(StoredTable(), {.store = &store});
  Delta stays = *Batch(1, {MakeRoute("::/0", 2)}).delta;
  stays.generation = 0;
  table.Follow({.position = 1,
                .batches = {{.delta = std::make_shared<const Delta>(stays)}}});
  table.Freeze(DrainingError());  // waits for the job
  EXPECT_NE(table.replication_error(), "");
  EXPECT_EQ(table.state().routes_v6(), 0U);
}

// The store is ahead, and has had other contents at the generation that is
// here.
TEST(Follow, AStoreThatLeadsOnFromAnotherTableStopsIt) {
  const Route here = MakeRoute("::/1", 1);
  const Route there = MakeRoute("::/1", 2);
  const Route later = MakeRoute("::/2", 3);
  for (const bool same : {true, false}) {
    FakeStore store;
    StoredTable stored;
    stored.generation = 4;
    stored.routes = {here};
    Table table(stored, {.store = &store});
    TableDigest digest, last;
    for (const Route& route : {same ? here : there, later}) {
      if (route != later) digest.Add(route);
      last.Add(route);
    }
    StoredTable whole;
    whole.generation = 5;
    whole.position = 3;
    whole.routes = {same ? here : there, later};
    whole.tail_generation = 4;
    whole.tail_digest = digest.ToString();
    whole.tail = {
        std::make_shared<const Delta>(Delta{.generation = 5,
                                            .previous = 4,
                                            .routes = {later},
                                            .digest = last.ToString()})};
    table.Follow({.whole = std::make_unique<StoredTable>(std::move(whole))});
    table.Freeze(DrainingError());
    EXPECT_EQ(table.replication_error().empty(), same);
    EXPECT_EQ(table.state().accepted_generation(), same ? 5U : 4U);
  }
}

// A replacement of next hops may make a group of the id of a next hop.
TEST(Follow, AnIdMayChangeItsKind) {
  SharedLog log;
  const auto nodes = Nodes(log, 2);
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

// What only one that writes the store by hand makes.
std::vector<StoredTable> TablesThatNoServerCanHave() {
  std::vector<StoredTable> tables(6);
  tables[0].routes = {MakeRoute("::/0", 1), MakeRoute("::/0", 1)};
  tables[1].routes = {MakeRoute("::/1", 1), MakeRoute("::/0", 1)};
  tables[2].routes = {MakeRoute("::/0", kNoRoute)};
  tables[3].routes = {MakeRoute("::/0", kUndecided)};
  const NextHopGroup::Member member = {.next_hop = 1, .weight = 1};
  tables[4].next_hops = {{.id = 1}};
  tables[4].groups = {{.id = 1, .members = {member}}};
  tables[5].groups = {{.id = 1, .members = {member}},
                      {.id = 2, .members = {member}}};
  return tables;
}

TEST(Follow, ATableThatNoServerCanHaveIsLeftOut) {
  SharedLog log;
  Node node(log);
  const auto await_missing = [&](size_t missing) {
    EXPECT_TRUE(Await([&] { return node.tables.missing() == missing; }));
  };
  uint64_t id = 100;
  for (StoredTable& table : TablesThatNoServerCanHave()) {
    table.name = "red";
    table.id = ++id;
    log.MakeTable(table);
    await_missing(1);
    EXPECT_TRUE(absl::IsNotFound(node.tables.Find("red").status()));
    // No call that writes waits for it.
    const absl::Status refused = node.tables.FindToUpdate("red").status();
    EXPECT_TRUE(absl::IsDataLoss(refused)) << refused;
    EXPECT_EQ(ErrorReason(refused), "STORE_CORRUPT");
    EXPECT_EQ(ErrorReason(node.tables.Create("red").status()), "TABLE_EXISTS");
    if (id % 2 == 0) {
      const absl::Status deleted = node.tables.Delete("red");
      EXPECT_TRUE(deleted.ok()) << deleted;
    } else {
      SharedLog::View other(log);
      ASSERT_TRUE(other.DeleteTable("red", id, 0).ok());
    }
    await_missing(0);
    EXPECT_EQ(ErrorReason(node.tables.FindToUpdate("red").status()),
              "TABLE_NOT_FOUND");
  }
  EXPECT_TRUE(node.tables.Create("red").ok());
}

// What a FIB cannot hold takes gigabytes: the build is made to say so. A table
// for which there is no memory is not damaged.
TEST(Follow, ATableThatCannotBeBuiltIsLeftOut) {
  SharedLog log;
  TablesOptions options;
  options.table.build_fault = [](uint64_t generation) -> absl::Status {
    if (generation == 7) return absl::ResourceExhaustedError("too many lines");
    return generation == 8 ? throw std::bad_alloc() : absl::OkStatus();
  };
  Node node(log, options);
  uint64_t left_out = 0;
  for (const auto& [generation, name, reason] :
       {std::tuple{7, "large", "STORE_CORRUPT"},
        std::tuple{8, "red", "BUILD_MEMORY"}}) {
    StoredTable table;
    table.name = name;
    table.id = 100 + ++left_out;
    table.generation = static_cast<uint64_t>(generation);
    table.routes = {MakeRoute("::/0", 1)};
    log.MakeTable(table);
    EXPECT_TRUE(Await([&] { return node.tables.missing() == left_out; }));
    EXPECT_EQ(ErrorReason(node.tables.FindToUpdate(name).status()), reason);
    FakeStore store;
    store.loaded = {{.name = "default"}, table};
    Tables begins(options, &store);
    EXPECT_EQ(ErrorReason(begins.Restore()), reason);
  }
  ASSERT_TRUE(node.tables.Create("blue").ok());
}

TEST(Follow, ATableForWhichThereWasNoMemoryIsWantedLater) {
  using Wants = StoreFollower::Wants;
  static std::atomic<bool> memory = false;
  SharedLog log;
  TablesOptions options;
  options.table.build_fault = [](uint64_t generation) -> absl::Status {
    return generation == 8 && !memory ? throw std::bad_alloc()
                                      : absl::OkStatus();
  };
  Node node(log, options);
  StoredTable table = RedTable(8);
  table.routes = {MakeRoute("::/0", 1)};
  std::vector<absl::Duration> pauses;
  for (const bool there_is_memory : {false, false, true}) {
    memory = there_is_memory;
    const SteadyInstant began = SteadyNow();
    log.MakeTable(table);
    if (there_is_memory) break;
    EXPECT_TRUE(Await([&] { return node.tables.missing() == 1; }));
    const Wants wants = log.wants("red", 100);
    // Later it may be wanted again already.
    if (ElapsedSince(began) < absl::Seconds(1)) {
      EXPECT_EQ(wants, Wants::kNothing);
    }
    const absl::Status absent = node.tables.Find("red").status();
    EXPECT_EQ(ErrorReason(absent), "TABLE_NOT_FOUND");
    EXPECT_THAT(absent.message(), testing::HasSubstr("not enough memory"));
    EXPECT_TRUE(Await([&] { return log.wants("red", 100) == Wants::kWhole; }));
    pauses.push_back(ElapsedSince(began));
  }
  EXPECT_GE(pauses[0], absl::Seconds(1));
  EXPECT_GE(pauses[1], absl::Seconds(2));  // ever more rarely
  EXPECT_TRUE(Await([&] { return node.tables.missing() == 0; }));
  EXPECT_TRUE(node.tables.Find("red").ok());
  EXPECT_EQ(log.wants("red", 100), Wants::kNext);
}

// A server that is making a table, at generation 8, until `made`.
struct MakingRed {
  MakingRed() : node(log, Options()) {
    log.MakeTable(RedTable(8));
    EXPECT_TRUE(Await([&] { return makes.load(); }));
  }
  TablesOptions Options() {
    made = makes = false;
    TablesOptions options;
    options.table.build_fault = [](uint64_t generation) {
      for (makes = generation == 8; makes && !made;) std::this_thread::yield();
      return absl::OkStatus();
    };
    return options;
  }

  inline static std::atomic<bool> makes, made;
  SharedLog log;
  Node node;
};

// A server that starts does not go on without the rest.
TEST(Follow, ATableMissesWhatWasKeptFromItWhileItWasMade) {
  MakingRed red;
  red.log.Miss("red", 100);
  red.made = true;
  ASSERT_TRUE(Await([&] { return red.node.tables.Find("red").ok(); }));
  const TableRef table = red.node.tables.Find("red").value();
  EXPECT_TRUE(AwaitStop(*table));
  EXPECT_TRUE(absl::IsDeadlineExceeded(
      table->AwaitFollowed(SteadyAfter(absl::Milliseconds(20)))));
  red.log.MakeTable(RedTable(9));
  EXPECT_TRUE(table->AwaitFollowed(SteadyAfter(kPatience)).ok());
  EXPECT_EQ(table->replication_error(), "");
}

// Many small changes, before each of which the store asks, and a few large
// ones.
TEST(Follow, WhatWaitsForATableThatIsMadeIsBounded) {
  using Wants = StoreFollower::Wants;
  MakingRed red;
  SharedLog::View writer(red.log);
  uint64_t position = 0;
  const auto append = [&](size_t bytes) {
    AcceptedBatch batch;
    batch.request.emplace();
    batch.request->request_id.assign(bytes, 'x');
    EXPECT_TRUE(writer.Append("red", {batch}, position++, 100).ok());
  };
  const auto fill = [&](size_t bytes, uint64_t most) {
    const uint64_t end = position + most;
    while (red.log.wants("red", 100) == Wants::kNext && position < end) {
      append(bytes);
    }
  };
  fill(/*bytes=*/1, /*most=*/20'000);
  EXPECT_EQ(position, 20'000U);
  fill(/*bytes=*/1 << 20, /*most=*/100);
  EXPECT_GT(position, 20'000U);
  EXPECT_LE(position, 20'016U);
  EXPECT_EQ(red.log.wants("red", 100), Wants::kNothing);
  red.made = true;
  EXPECT_TRUE(Await([&] { return red.log.wants("red", 100) == Wants::kNext; }));
  EXPECT_EQ(red.node.tables.Find("red").value()->replication_error(), "");
}

// The limit is of the store, not of what one server has heard of.
TEST(Follow, TheLimitOfTablesIsNotOfAHeadThatIsBehind) {
  SharedLog log;
  TablesOptions options;
  options.max_tables = 3;
  Node a(log, options), b(log, options);
  ASSERT_TRUE(a.tables.Create("red").ok());
  ASSERT_TRUE(b.tables.FindToUpdate("red").ok());
  b.store.Hold();
  ASSERT_TRUE(a.tables.Create("blue").ok());
  EXPECT_EQ(ErrorReason(b.tables.Create("green").status()), "TOO_MANY_TABLES");
  b.store.Release();
  ASSERT_TRUE(b.tables.FindToUpdate("blue").ok());
  EXPECT_EQ(ErrorReason(a.tables.Create("green").status()), "TOO_MANY_TABLES");
  b.store.Hold();
  ASSERT_TRUE(a.tables.Delete("blue").ok());
  const auto made = b.tables.Create("green");
  EXPECT_TRUE(made.ok()) << made.status();
  b.store.Release();
}

// What others wrote is acknowledged: the limit of memory is of what is asked
// here.
TEST(Follow, WhatOthersWroteTakesTheRoomBeforeWhatIsAskedHere) {
  SharedLog log;
  TablesOptions small;
  small.memory_limit = 8 << 20;
  std::vector<std::unique_ptr<Node>> nodes;
  nodes.push_back(std::make_unique<Node>(log));
  nodes.push_back(std::make_unique<Node>(log, small));
  Table& here = nodes[1]->table();
  ASSERT_TRUE(here.Apply(Announce("2001:db8::/32", 1)).ok());
  ExpectSame(nodes, 1);
  nodes[1]->store.Hold();
  UpdateBatch many;
  for (uint32_t i = 0; i < 200'000; ++i) {
    many.changes.push_back({RouteChange::Op::kUpsert,
                            Prefix::Truncate(Address::V4(i * 0x9e3779b1U), 32),
                            1 + i % 7});
  }
  ASSERT_TRUE(nodes[0]->table().Apply(many).ok());
  const absl::Status refused =
      here.Apply(Announce("2001:db8:1::/48", 1)).status();
  EXPECT_EQ(ErrorReason(refused), "MEMORY_LIMIT") << refused;
  ExpectSame(nodes, 2);
  const auto withdrawn = here.Apply(Change(RouteChange::Op::kDelete, kNoRoute));
  EXPECT_TRUE(withdrawn.ok()) << withdrawn.status();
  ExpectSame(nodes, 3);
}

TEST(Follow, AServerDoesNotStartWithATableThatNoServerCanHave) {
  for (StoredTable& table : TablesThatNoServerCanHave()) {
    FakeStore store;
    table.name = "red";
    store.loaded = {{.name = "default"}, table};
    Tables tables({}, &store);
    const absl::Status refused = tables.Restore();
    EXPECT_EQ(ErrorReason(refused), "STORE_CORRUPT") << refused;
  }
}

TEST(Follow, ContentsThatNoTableCanHaveStopTheTable) {
  for (StoredTable& whole : TablesThatNoServerCanHave()) {
    FakeStore store;
    Table table(StoredTable(), {.store = &store});
    whole.generation = 1;
    table.Follow({.whole = std::make_unique<StoredTable>(std::move(whole))});
    EXPECT_TRUE(AwaitStop(table));
    EXPECT_EQ(table.visible(), 0U);
  }
}

TEST(Follow, AWrongDigestStopsTheTable) {
  FakeStore store;
  Table table(StoredTable(), {.store = &store});
  table.Follow({.position = 1, .batches = {WithWrongDigest(1, 0)}});
  EXPECT_TRUE(AwaitStop(table));
  EXPECT_EQ(table.visible(), 0U);
}

}  // namespace
}  // namespace planb::server
