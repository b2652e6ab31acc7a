// SPDX-License-Identifier: Apache-2.0

// A table with a store: no batch is accepted, visible or answered before it is
// stored, and a batch that the store refuses leaves no trace. Also the
// operations that a table reports for metrics.

#include <gtest/gtest.h>

#include <future>
#include <vector>

#include "base/mutex.h"
#include "base/testing/await.h"
#include "server/base/error.h"
#include "server/base/executor.h"
#include "server/table/table.h"
#include "server/testing/fake_store.h"
#include "server/testing/updates.h"

namespace planb::server {
namespace {

using Op = RouteChange::Op;

Prefix P(absl::string_view text) { return *Prefix::Parse(text); }

bool Ready(const std::future<Table::Outcome>& outcome) {
  return outcome.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

UpdateBatch Changes(std::initializer_list<std::pair<Op, const char*>> changes) {
  UpdateBatch batch;
  for (const auto& [op, prefix] : changes) {
    const bool goes = op == Op::kDelete || op == Op::kDeleteStrict;
    batch.changes.push_back(
        {op, *Prefix::Parse(prefix), goes ? kNoRoute : NextHopId{7}});
  }
  return batch;
}

TEST(TableStore, NothingIsAcceptedBeforeItIsStored) {
  FakeStore store;
  Table table({.store = &store});
  store.Hold();
  auto outcome = table.Submit(Announce("::/0", 1));
  store.AwaitCommits(1);
  EXPECT_FALSE(Ready(outcome));
  EXPECT_EQ(table.state().accepted_generation(), 0U);
  EXPECT_EQ(table.persisted(), 0U);
  EXPECT_EQ(table.visible(), 0U);
  store.Release();
  EXPECT_EQ(outcome.get()->generation, 1U);
  EXPECT_EQ(table.persisted(), 1U);
  EXPECT_TRUE(table.AwaitVisible(1).ok());
}

TEST(TableStore, BatchesThatArriveDuringACommitAreStoredTogether) {
  FakeStore store;
  Table table({.store = &store});
  store.Hold();
  std::vector<std::future<Table::Outcome>> outcomes;
  outcomes.push_back(table.Submit(Announce("::/0", 1)));
  store.AwaitCommits(1);
  for (NextHopId i = 2; i <= 10; ++i) {
    outcomes.push_back(table.Submit(Announce("::/0", i)));
  }
  store.Release();
  for (size_t i = 0; i < outcomes.size(); ++i) {
    EXPECT_EQ(outcomes[i].get()->generation, i + 1);
  }
  ASSERT_EQ(store.commits.size(), 2U);
  EXPECT_EQ(store.commits[0].size(), 1U);
  EXPECT_EQ(store.commits[1].size(), 9U);
  EXPECT_EQ(store.commits[1][8].delta->generation, 10U);
}

TEST(TableStore, ABatchThatTheStoreRefusesLeavesNoTrace) {
  FakeStore store;
  Table table({.store = &store});
  ASSERT_TRUE(table.Apply(Announce("::/0", 1)).ok());
  const std::string digest = table.state().digest();
  store.Hold();
  UpdateBatch named = Announce("::/0", 2);
  named.request_id = "a";
  named.writer_epoch = 7;
  auto first = table.Submit(named);
  store.AwaitCommits(2);
  // Depends on the batch before.
  UpdateBatch later = Announce("::/1", 3);
  later.writer_epoch = 7;
  later.expected_generation = 2;
  auto second = table.Submit(later);
  store.Fail(QuotaError("STORE_FULL", "store", "no room"));
  store.Release();
  EXPECT_EQ(ErrorReason(first.get().status()), "STORE_FULL");
  // Staged again without it.
  EXPECT_EQ(ErrorReason(second.get().status()), "GENERATION_MISMATCH");
  EXPECT_EQ(table.state().accepted_generation(), 1U);
  EXPECT_EQ(table.state().writer_epoch(), 0U);
  EXPECT_EQ(table.state().digest(), digest);
  EXPECT_EQ(table.state().routes_v6(), 1U);

  // Neither the request id nor the writer epoch was kept.
  store.Fail(absl::OkStatus());
  named.writer_epoch = 1;
  named.fingerprint = 99;
  const auto again = table.Apply(named);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->generation, 2U);
  EXPECT_EQ(again->counts.changed, 1U);
  ASSERT_TRUE(table.AwaitVisible(2).ok());
  EXPECT_EQ(table.Read()->fib(Family::kIpv6).Lookup(Address::V6(1)), 2U);
}

// Six batches of six writers become one group, of which one has no room.
TEST(TableStore, ABatchWithoutRoomTakesNoOtherDown) {
  for (int large = 0; large < 6; ++large) {
    FakeStore store;
    Table table({.store = &store});
    store.Hold();
    std::vector<std::future<Table::Outcome>> outcomes;
    outcomes.push_back(table.Submit(Announce("::/0", 1)));
    store.AwaitCommits(1);
    for (int i = 0; i < 6; ++i) {
      UpdateBatch batch = Announce(absl::StrCat(i + 1, "000::/16"), 1);
      if (i == large) batch.changes.push_back(Announce("::/0", 2).changes[0]);
      batch.request_id = absl::StrCat("request ", i);
      outcomes.push_back(table.Submit(std::move(batch)));
    }
    // Needs the route of the large batch: it falls with it.
    UpdateBatch needs = Announce(absl::StrCat(large + 1, "000::/16"), 3);
    needs.changes[0].op = Op::kReplace;
    outcomes.push_back(table.Submit(std::move(needs)));
    store.FailAbove(1, QuotaError("STORE_FULL", "store", "no room"));
    store.Release();
    EXPECT_EQ(outcomes[0].get()->generation, 1U);
    uint64_t generation = 1;
    for (int i = 0; i < 6; ++i) {
      const Table::Outcome outcome = outcomes[static_cast<size_t>(i) + 1].get();
      if (i == large) {
        EXPECT_EQ(ErrorReason(outcome.status()), "STORE_FULL");
      } else {
        ASSERT_TRUE(outcome.ok()) << outcome.status();
        EXPECT_EQ(outcome->generation, ++generation);
      }
    }
    EXPECT_EQ(ErrorReason(outcomes[7].get().status()), "ROUTE_NOT_FOUND");
    ASSERT_TRUE(table.AwaitVisible(generation).ok());
    EXPECT_EQ(table.state().accepted_generation(), 6U);
    EXPECT_EQ(table.state().routes_v6(), 6U);
    // The log has each batch once, each after its predecessor.
    generation = 0;
    for (const auto& commit : store.commits) {
      for (const AcceptedBatch& batch : commit) {
        ASSERT_NE(batch.delta, nullptr);
        EXPECT_EQ(batch.delta->previous, generation);
        EXPECT_EQ(batch.delta->generation, ++generation);
      }
    }
    EXPECT_EQ(generation, 6U);
  }
}

// A disk that has no room at all is asked a bounded number of times.
TEST(TableStore, AFullDiskIsNotAskedForEachBatchOfAGroup) {
  FakeStore store;
  Table table({.store = &store});
  store.Hold();
  std::vector<std::future<Table::Outcome>> outcomes;
  for (int i = 0; i < 500; ++i) {
    outcomes.push_back(table.Submit(Announce(absl::StrCat(i, "::/16"), 1)));
  }
  store.Fail(QuotaError("STORE_FULL", "store", "no room"));
  store.Release();
  for (auto& outcome : outcomes) {
    EXPECT_EQ(ErrorReason(outcome.get().status()), "STORE_FULL");
  }
  EXPECT_LT(store.begun(), 30);
  store.Fail(absl::OkStatus());
  EXPECT_EQ(table.Apply(Announce("::/0", 1))->generation, 1U);
}

// Between the parts of a group.
TEST(TableStore, RoomThatComesAgainIsUsed) {
  FakeStore store;
  int failed = 0;
  Table table({.store = &store, .events = {.stored = [&](auto, bool ok) {
                                  if (!ok && ++failed == 5)
                                    store.Fail(absl::OkStatus());
                                }}});
  store.Fail(QuotaError("STORE_FULL", "store", "no room"));
  store.Hold();
  std::vector<std::future<Table::Outcome>> outcomes;
  for (int i = 0; i < 100; ++i) {
    outcomes.push_back(table.Submit(Announce(absl::StrCat(i, "::/16"), 1)));
  }
  store.Release();
  EXPECT_EQ(ErrorReason(outcomes[0].get().status()), "STORE_FULL");
  for (size_t i = 1; i < outcomes.size(); ++i) {
    const Table::Outcome outcome = outcomes[i].get();
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_EQ(outcome->generation, i);
  }
  EXPECT_EQ(failed, 5);
}

// The one thread of the executor builds another table meanwhile.
TEST(TableStore, APartOfAGroupThatIsWithTheStoreHoldsNoThread) {
  Executor executor(1);
  FakeStore store;
  Table table({.executor = &executor,
               .store = &store,
               .events = {.stored = [&](auto, bool ok) {
                 if (!ok) store.Hold();
               }}});
  Table other({.executor = &executor});
  store.Hold();
  std::vector<std::future<Table::Outcome>> outcomes;
  outcomes.push_back(table.Submit(Announce("::/0", 1)));
  store.AwaitCommits(1);
  outcomes.push_back(table.Submit(Announce("::/1", 1)));
  outcomes.push_back(
      table.Submit(Changes({{Op::kUpsert, "::/2"}, {Op::kUpsert, "::/3"}})));
  store.FailAbove(1, QuotaError("STORE_FULL", "store", "no room"));
  store.Release();
  store.AwaitCommits(3);
  ASSERT_TRUE(other.Apply(Announce("::/0", 1)).ok());
  EXPECT_TRUE(other.AwaitVisible(1, SteadyAfter(kPatience)).ok());
  outcomes.push_back(table.Submit(Announce("::/4", 1)));
  EXPECT_FALSE(Ready(outcomes[1]));
  EXPECT_EQ(store.begun(), 3);
  store.Release();
  EXPECT_EQ(outcomes[1].get()->generation, 2U);
  store.AwaitCommits(5);
  store.Release();
  EXPECT_EQ(ErrorReason(outcomes[2].get().status()), "STORE_FULL");
  EXPECT_EQ(outcomes[3].get()->generation, 3U);
}

TEST(TableStore, ARefusedBatchPushesNoAnswerOutOfTheWindow) {
  FakeStore store;
  Table table({.request_id_window = 2, .store = &store});
  const auto apply = [&](const char* id, NextHopId next_hop) {
    UpdateBatch batch = Announce("::/0", next_hop);
    batch.request_id = id;
    return table.Apply(batch);
  };
  ASSERT_TRUE(apply("a", 1).ok());
  ASSERT_TRUE(apply("b", 2).ok());
  store.Fail(QuotaError("STORE_FULL", "store", "no room"));
  for (const char* id : {"c", "d", "e"}) EXPECT_FALSE(apply(id, 3).ok());
  store.Fail(absl::OkStatus());
  // A repeated "a" is recognized and not applied a second time.
  EXPECT_EQ(apply("a", 1)->generation, 1U);
  EXPECT_EQ(apply("b", 2)->generation, 2U);
  EXPECT_EQ(table.state().accepted_generation(), 2U);
  EXPECT_EQ(apply("c", 3)->generation, 3U);
}

// Its answer holds only if the batch before it is stored.
TEST(TableStore, ABatchThatChangesNothingWaitsForEarlierBatches) {
  FakeStore store;
  Table table({.store = &store});
  store.Hold();
  auto first = table.Submit(Announce("::/0", 1));
  store.AwaitCommits(1);
  auto same = table.Submit(Announce("::/0", 1));
  EXPECT_FALSE(Ready(same));
  store.Fail(Error(absl::StatusCode::kUnavailable, "STORE_FAILED", "broken"));
  store.Release();
  EXPECT_FALSE(first.get().ok());
  EXPECT_FALSE(same.get().ok());
  store.Fail(absl::OkStatus());
  EXPECT_EQ(table.Apply(Announce("::/0", 1))->counts.added, 1U);
}

// A refusal may depend on an earlier batch, too.
TEST(TableStore, ARefusalWaitsForEarlierBatches) {
  FakeStore store;
  Table table({.store = &store});
  UpdateBatch insert = Announce("::/0", 1);
  insert.changes[0].op = Op::kInsert;
  UpdateBatch conditional = Announce("::/1", 1);
  conditional.expected_generation = 0;
  UpdateBatch takeover = insert;
  takeover.writer_epoch = 2;
  const auto submit_all = [&] {
    std::vector<std::future<Table::Outcome>> outcomes;
    for (const UpdateBatch& batch : {takeover, conditional, insert}) {
      outcomes.push_back(table.Submit(batch));
    }
    insert.writer_epoch = 2;
    outcomes.push_back(table.Submit(insert));
    return outcomes;
  };
  store.Hold();
  auto lost = submit_all();
  store.AwaitCommits(1);
  for (const auto& outcome : lost) EXPECT_FALSE(Ready(outcome));
  store.Fail(Error(absl::StatusCode::kUnavailable, "STORE_FAILED", "broken"));
  store.Release();
  for (auto& outcome : lost) {
    EXPECT_EQ(ErrorReason(outcome.get().status()), "STORE_FAILED");
  }

  store.Fail(absl::OkStatus());
  insert.writer_epoch = 0;
  conditional.writer_epoch = 2;
  auto kept = submit_all();
  EXPECT_TRUE(kept[0].get().ok());
  EXPECT_EQ(ErrorReason(kept[1].get().status()), "GENERATION_MISMATCH");
  EXPECT_EQ(ErrorReason(kept[2].get().status()), "WRITER_FENCED");
  EXPECT_EQ(ErrorReason(kept[3].get().status()), "ROUTE_EXISTS");
  EXPECT_EQ(table.persisted(), 1U);
}

TEST(TableStore, AStoreOfThisServerAloneIsNotAskedForWhatChangesNothing) {
  FakeStore store;
  Table table({.store = &store});
  ASSERT_TRUE(table.Apply(Announce("::/0", 1)).ok());
  UpdateBatch insert = Announce("::/0", 1);
  insert.changes[0].op = Op::kInsert;
  EXPECT_TRUE(table.Apply(Announce("::/0", 1)).ok());
  EXPECT_EQ(ErrorReason(table.Apply(insert).status()), "ROUTE_EXISTS");
  EXPECT_EQ(store.begun(), 1);
}

// Where others write too, what changes nothing here may change something there.
TEST(TableStore, NothingIsAnsweredWithoutTheWordOfAStoreThatOthersWrite) {
  FakeStore store;
  store.others_write = true;
  Table table({.store = &store});
  UpdateBatch named = Announce("::/0", 1);
  named.request_id = "a";
  ASSERT_TRUE(table.Apply(named).ok());
  UpdateBatch insert = Announce("::/0", 1);
  insert.changes[0].op = Op::kInsert;
  UpdateBatch dry = Announce("::/1", 1);
  dry.validate_only = true;
  UpdateBatch conditional = Announce("::/1", 1);
  conditional.expected_generation = 7;
  const std::vector<UpdateBatch> batches = {Announce("::/0", 1), insert, dry,
                                            conditional};
  store.Fail(Error(absl::StatusCode::kUnavailable, "STORE_FAILED", "away"));
  for (const UpdateBatch& batch : batches) {
    EXPECT_EQ(ErrorReason(table.Apply(batch).status()), "STORE_FAILED");
  }
  // The first answer was accepted.
  EXPECT_EQ(table.Apply(named)->generation, 1U);
  store.Fail(absl::OkStatus());
  EXPECT_EQ(table.Apply(batches[0])->counts.unchanged, 1U);
  EXPECT_EQ(ErrorReason(table.Apply(insert).status()), "ROUTE_EXISTS");
  EXPECT_EQ(table.Apply(dry)->counts.added, 1U);
  EXPECT_EQ(ErrorReason(table.Apply(conditional).status()),
            "GENERATION_MISMATCH");
  EXPECT_EQ(store.commits.size(), 1U);
}

TEST(TableStore, BatchesThatChangeNothingShareOneWordOfTheStore) {
  FakeStore store;
  store.others_write = true;
  Table table({.store = &store});
  store.Hold();
  std::vector<std::future<Table::Outcome>> outcomes;
  outcomes.push_back(table.Submit(Changes({{Op::kDelete, "::/0"}})));
  store.AwaitCommits(1);
  // These are not covered by what was asked before.
  for (int i = 0; i < 10; ++i) {
    outcomes.push_back(table.Submit(Changes({{Op::kDelete, "::/0"}})));
  }
  store.Release();
  for (auto& outcome : outcomes) {
    EXPECT_EQ(outcome.get()->counts.unchanged, 1U);
  }
  EXPECT_EQ(store.begun(), 2);
}

// Of a group that finds no room, what changes nothing is not answered without
// the store either.
TEST(TableStore, PartsOfAGroupNeedTheWordOfTheStoreToo) {
  FakeStore store;
  store.others_write = true;
  Table table({.store = &store});
  store.Hold();
  auto first = table.Submit(Announce("::/0", 1));
  store.AwaitCommits(1);
  auto second = table.Submit(Announce("::/0", 2));
  auto same = table.Submit(Changes({{Op::kDelete, "::/7"}}));
  store.Fail(QuotaError("STORE_FULL", "store", "full"));
  store.Release();
  for (auto* outcome : {&first, &second, &same}) {
    EXPECT_EQ(ErrorReason(outcome->get().status()), "STORE_FULL");
  }
}

TEST(TableStore, StartsWithTheStoredTable) {
  FakeStore store;
  StoredTable stored = {.name = "default",
                        .generation = 41,
                        .writer_epoch = 3,
                        .complete_since = 5,
                        .routes = {{P("10.0.0.0/8"), 1}, {P("::/0"), 100}},
                        .next_hops = {{.id = 1, .label = "one"}},
                        .groups = {{.id = 100, .members = {{1, 1}}}},
                        .requests = {{"a", 11, {40, {}, "", {}}}}};
  Table table(stored, {.store = &store});
  EXPECT_EQ(table.visible(), 41U);
  EXPECT_EQ(table.persisted(), 41U);
  EXPECT_EQ(table.Read()->fib(Family::kIpv6).Lookup(Address::V6(1)), 100U);
  EXPECT_EQ(table.Read()->groups().Choose(100, 5), 1U);
  EXPECT_EQ(table.state().writer_epoch(), 3U);
  EXPECT_EQ(table.state().complete_since_unix_nanos(), 5U);
  EXPECT_EQ(table.Read()->complete_since(), 5U);
  UpdateBatch repeated;
  repeated.request_id = "a";
  repeated.fingerprint = 11;
  EXPECT_EQ(table.Apply(repeated)->generation, 40U);
  UpdateBatch next = Announce("::/1", 9);
  next.writer_epoch = 3;
  EXPECT_EQ(table.Apply(next)->generation, 42U);
  EXPECT_TRUE(table.history().CheckStart(41, "").ok());
  EXPECT_EQ(ErrorReason(table.history().CheckStart(40, "")),
            "HISTORY_COMPACTED");
}

TEST(TableStore, FreezingWaitsForTheStore) {
  FakeStore store;
  Table table({.store = &store});
  store.Hold();
  auto outcome = table.Submit(Announce("::/0", 1));
  store.AwaitCommits(1);
  auto frozen =
      std::async(std::launch::async, [&] { table.Freeze(DrainingError()); });
  EXPECT_EQ(frozen.wait_for(std::chrono::milliseconds(20)),
            std::future_status::timeout);
  store.Release();
  frozen.get();
  EXPECT_TRUE(outcome.get().ok());
  table.Thaw();
  EXPECT_TRUE(table.Apply(Announce("::/0", 2)).ok());
}

TEST(TableStore, FreezingHasADeadline) {
  FakeStore store;
  Table table({.store = &store});
  store.Hold();
  auto outcome = table.Submit(Announce("::/0", 1));
  store.AwaitCommits(1);
  table.Freeze(DrainingError(), SteadyAfter(absl::Milliseconds(20)));
  EXPECT_EQ(ErrorReason(table.Apply(Announce("::/0", 2)).status()), "DRAINING");
  EXPECT_FALSE(Ready(outcome));
  store.Close(absl::UnavailableError("down"), SteadyNow());
  EXPECT_EQ(outcome.get().status(), absl::UnavailableError("down"));
}

// As one that another server has deleted.
TEST(TableStore, ATableThatIsClosedStillGivesTheAnswerOfTheStore) {
  for (const absl::Status& answer : {absl::OkStatus(), DeletedRemotely()}) {
    FakeStore store;
    Table table({.store = &store});
    store.Hold();
    auto outcome = table.Submit(Announce("::/0", 1));
    store.AwaitCommits(1);
    auto behind = table.Submit(Announce("::/0", 2));
    table.Freeze(DeletedRemotely(), SteadyNow());
    table.Close(DeletedRemotely(), SteadyNow());
    store.Fail(answer);
    store.Release();
    EXPECT_EQ(outcome.get().status(), answer);
    EXPECT_EQ(behind.get().status(), answer);
  }
}

TEST(TableStore, ABatchNamesTheGenerationBefore) {
  FakeStore store;
  Table table({.store = &store});
  for (NextHopId i = 1; i <= 3; ++i) {
    ASSERT_TRUE(table.Apply(Announce("::/0", i)).ok());
  }
  for (uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(store.commits[i][0].delta->previous, i);
    EXPECT_EQ(store.commits[i][0].delta->generation, i + 1);
  }
}

// It is refused before other batches are staged behind it.
TEST(TableStore, ABatchTooLargeForTheStoreIsNotStaged) {
  UpdateStaging staging({.max_delta_bytes = 1000}, StoredTable());
  EXPECT_EQ(staging.Stage(Announce("::/0", 1))->outcome.generation, 1U);
  UpdateBatch large;
  for (uint32_t i = 0; i < 100; ++i) {
    large.changes.push_back(
        {Op::kUpsert, Prefix::Truncate(Address::V4(i << 16), 16), 7});
  }
  EXPECT_EQ(ErrorReason(staging.Stage(large).status()), "BATCH_TOO_LARGE");
  EXPECT_EQ(staging.Stage(Announce("::/0", 2))->outcome.generation, 2U);
}

// Batches that are staged and not stored yet are no part of a snapshot.
TEST(TableStore, SnapshotsAreOfTheLastAppend) {
  FakeStore store;
  store.wants_snapshots = true;
  {
    Table table({.store = &store});
    UpdateBatch first = Announce("::/0", 1);
    first.request_id = "a";
    first.writer_epoch = 4;
    ASSERT_TRUE(table.Apply(first).ok());
    store.Hold();
    UpdateBatch second = Announce("::/1", 2);
    second.request_id = "b";
    second.writer_epoch = 5;
    auto outcome = table.Submit(second);
    store.AwaitCommits(2);
    UpdateBatch third = Announce("::/2", 3);
    third.request_id = "c";
    third.writer_epoch = 6;
    auto later = table.Submit(third);
    store.Release();
    EXPECT_TRUE(outcome.get().ok());
    EXPECT_TRUE(later.get().ok());
  }
  ASSERT_EQ(store.snapshots.size(), 3U);
  for (uint64_t i = 0; i < 3; ++i) {
    const TableVersion& version = store.snapshots[i];
    EXPECT_EQ(version.generation, i + 1);
    EXPECT_EQ(version.writer_epoch, i + 4);
    EXPECT_EQ(version.rib.size(), i + 1);
    EXPECT_EQ(version.requests.size(), i + 1);
    EXPECT_EQ(version.requests.back().outcome.generation, i + 1);
    EXPECT_EQ(version.rib.digest(), store.commits[i].back().delta->digest);
  }
}

using Counts = OperationCounts;

// Sums the operations that a table reports.
class Sum {
 public:
  TableEvents Events() {
    return {.operated = [this](const Counts& counts) {
      const MutexLock lock(mutex_);
      for (size_t op = 0; op < Counts::kOps; ++op) {
        for (size_t result = 0; result < Counts::kResults; ++result) {
          sum_.counts[op][result] += counts.counts[op][result];
        }
      }
    }};
  }
  // The sum since the last call.
  Counts Take() {
    const MutexLock lock(mutex_);
    return std::exchange(sum_, Counts());
  }

 private:
  Mutex mutex_;
  Counts sum_;
};

Counts Only(Counts::Op op, Counts::Result result, uint64_t count) {
  Counts counts;
  counts.counts[op][result] = count;
  return counts;
}

TEST(TableEvents, ReportOperationsByResult) {
  Sum sum;
  Table table({.events = sum.Events()});
  ASSERT_TRUE(
      table.Apply(Changes({{Op::kInsert, "::/0"}, {Op::kInsert, "::/1"}}))
          .ok());
  EXPECT_EQ(sum.Take(), Only(Counts::kInsert, Counts::kChanged, 2));
  ASSERT_TRUE(table.Apply(Changes({{Op::kReplace, "::/0"}})).ok());
  EXPECT_EQ(sum.Take(), Only(Counts::kReplace, Counts::kUnchanged, 1));
  // The second change is refused, and so is the whole batch.
  ASSERT_FALSE(table
                   .Apply(Changes({{Op::kDeleteStrict, "::/0"},
                                   {Op::kDeleteStrict, "::/2"}}))
                   .ok());
  EXPECT_EQ(sum.Take(), Only(Counts::kDelete, Counts::kRefused, 2));
  UpdateBatch validated = Changes({{Op::kUpsert, "::/3"}});
  validated.validate_only = true;
  ASSERT_TRUE(table.Apply(validated).ok());
  EXPECT_EQ(sum.Take(), Counts());
}

TEST(TableEvents, ReportARepeatedRequestAsUnchanged) {
  Sum sum;
  Table table({.events = sum.Events()});
  UpdateBatch batch = Changes({{Op::kUpsert, "::/0"}});
  batch.request_id = "once";
  ASSERT_TRUE(table.Apply(batch).ok());
  EXPECT_EQ(sum.Take(), Only(Counts::kUpsert, Counts::kChanged, 1));
  ASSERT_TRUE(table.Apply(batch).ok());
  EXPECT_EQ(sum.Take(), Only(Counts::kUpsert, Counts::kUnchanged, 1));
}

TEST(TableEvents, ReportUpdatesOfAFrozenTableAsRefused) {
  Sum sum;
  Table table({.events = sum.Events()});
  table.Freeze(absl::UnavailableError("closed"));
  ASSERT_FALSE(table.Apply(Changes({{Op::kUpsert, "::/0"}})).ok());
  EXPECT_EQ(sum.Take(), Only(Counts::kUpsert, Counts::kRefused, 1));
}

TEST(TableEvents, ReportBatchesThatTheStoreRefusesAsRefused) {
  Sum sum;
  FakeStore store;
  Table table({.store = &store, .events = sum.Events()});
  ASSERT_TRUE(table.Apply(Changes({{Op::kUpsert, "::/0"}})).ok());
  EXPECT_EQ(sum.Take(), Only(Counts::kUpsert, Counts::kChanged, 1));
  store.Fail(absl::UnavailableError("full"));
  store.Hold();
  auto first = table.Submit(Changes({{Op::kUpsert, "::/1"}}));
  store.AwaitCommits(2);
  auto second = table.Submit(Changes({{Op::kUpsert, "::/2"}}));
  store.Release();
  EXPECT_FALSE(first.get().ok());
  EXPECT_FALSE(second.get().ok());
  EXPECT_EQ(sum.Take(), Only(Counts::kUpsert, Counts::kRefused, 2));
}

}  // namespace
}  // namespace planb::server
