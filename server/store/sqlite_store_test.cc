// SPDX-License-Identifier: Apache-2.0

// Appends and loads: random histories against a model, requests, large tables,
// snapshots, many threads.

#include "server/store/sqlite_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lpm/synthetic/synthetic.h"
#include "server/base/error.h"
#include "server/store/commit_watermark.h"
#include "server/store/sqlite_sql.h"
#include "server/testing/small_store.h"
#include "server/testing/store_place.h"
#include "server/testing/store_script.h"

namespace planb::server {
namespace {

using ::testing::HasSubstr;

TEST(SqliteStore, KeepsARandomHistory) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(seed);
    const std::string path = NewStorePath("history");
    StoreScript script({.seed = seed});
    auto store = OpenStore(path);
    for (int step = 1; step <= 400; ++step) {
      ASSERT_TRUE(script.Step(store.get()).ok());
      if (step % 20 == 0) {
        store.reset();
        store = OpenStore(path);
        ASSERT_NE(store, nullptr);
      }
      if (step % 10 == 0) {
        const auto loaded = store->Load();
        ASSERT_TRUE(loaded.ok()) << loaded.status();
        ASSERT_EQ(StoreDifference(script.Tables(), *loaded), "");
        ASSERT_EQ(store->generation_floor(), script.generation_floor());
      }
    }
  }
}

// Snapshots are taken all the time, of tables that change and go meanwhile.
TEST(SqliteStore, KeepsARandomHistoryWithSnapshots) {
  const std::string path = NewStorePath("snapshots");
  StoreScript script({.seed = 6});
  const auto open = [&path] {
    return SqliteStore::Open({.path = path,
                              .sync = StoreSync::kOff,
                              .checkpoint_pages = 20,
                              .log_bytes = 1000})
        .value();
  };
  auto store = open();
  uint64_t snapshots = 0;
  for (int step = 1; step <= 1000; ++step) {
    ASSERT_TRUE(script.Step(store.get()).ok());
    if (step % 50 == 0) {
      snapshots += store->counters().snapshots;
      EXPECT_EQ(store->counters().snapshot_failures, 0U);
      store.reset();
      store = open();
    }
    if (step % 10 == 0) {
      const auto loaded = store->Load();
      ASSERT_TRUE(loaded.ok()) << loaded.status();
      ASSERT_EQ(StoreDifference(script.Tables(), *loaded), "");
    }
  }
  EXPECT_GT(snapshots, 10U);
}

// The requests with these numbers, each so long after the one before.
std::vector<AcceptedBatch> Requests(int first, int last, absl::Duration apart) {
  std::vector<AcceptedBatch> batches;
  for (int i = first; i <= last; ++i) {
    AnsweredRequest request = {.request_id = absl::StrCat(i)};
    request.outcome.accepted = absl::UnixEpoch() + i * apart;
    batches.push_back({.request = std::move(request)});
  }
  return batches;
}

// Their times are of clocks that may be wrong.
TEST(SqliteStore, KeepsTheRequestsOfTheLogWhateverTheirTimes) {
  const std::string path = NewStorePath("requests");
  auto store = OpenStore(path);
  ASSERT_TRUE(store->CreateTable("default", 0).ok());
  const auto ids = [&] {
    std::vector<std::string> found;
    const auto tables = store->Load().value();
    for (const AnsweredRequest& request : tables.at(0).requests) {
      found.push_back(request.request_id);
    }
    return absl::StrJoin(found, " ");
  };
  const auto batches = Requests(0, 7, kRequestIdRetention);
  ASSERT_TRUE(store->Append("default", batches).ok());
  ASSERT_TRUE(store->Append("default", {batches[0]}).ok());
  EXPECT_EQ(ids(), "1 2 3 4 5 6 7 0");
}

TEST(SqliteStore, LargeTableComesAndGoes) {
  const std::string path = NewStorePath("large");
  auto store = OpenStore(path);
  ASSERT_TRUE(store->CreateTable("default", 0).ok());
  ASSERT_TRUE(store->CreateTable("other", 0).ok());
  std::vector<Route> routes =
      SyntheticTable({.ipv6_routes = 60'000, .ipv4_routes = 40'000});
  std::vector<Route> shuffled = routes;
  std::shuffle(shuffled.begin(), shuffled.end(), std::mt19937_64(3));
  ASSERT_TRUE(store->Append("default", {Batch(1, shuffled)}).ok());
  ASSERT_TRUE(store->Append("other", {Batch(1, routes)}).ok());
  ASSERT_TRUE(store->DeleteTable("default", 1).ok());
  store.reset();
  store = OpenStore(path);
  const auto tables = store->Load().value();
  ASSERT_EQ(tables.size(), 1U);
  EXPECT_EQ(tables[0].name, "other");
  EXPECT_TRUE(tables[0].routes == routes);
  EXPECT_EQ(store->generation_floor(), 1U);
  // The space of a deleted table is reused.
  store->AwaitBackground();
  const uint64_t bytes = StoreFileBytes(path);
  ASSERT_TRUE(store->CreateTable("default", 1).ok());
  ASSERT_TRUE(store->Append("default", {Batch(2, routes)}).ok());
  store.reset();
  EXPECT_LT(StoreFileBytes(path), bytes + bytes / 10);
}

// How many rows of the logs are parts of snapshots, or entries.
int64_t Count(const std::string& path, bool parts) {
  return Sql::Open(path, false)
      .value()
      ->Integer(absl::StrCat(
          "SELECT count(*) FROM log JOIN tables ON tables.id = log.id >> 43"
          " WHERE (log.id & ((1 << 43) - 1) < parts) = ",
          parts))
      .value();
}

// What watchers continue from after a restart.
TEST(SqliteStore, LoadsTheTailOfTheLog) {
  const std::string path = NewStorePath("tail");
  auto store =
      SqliteStore::Open({.path = path, .sync = StoreSync::kOff}).value();
  ASSERT_TRUE(store->CreateTable("default", 0).ok());
  for (uint32_t i = 1; i <= 3; ++i) {
    ASSERT_TRUE(
        store->Append("default", {Batch(i, {MakeRoute("::/0", i)})}).ok());
  }
  const auto load = [&] { return store->Load().value().at(0); };
  StoredTable table = load();
  ASSERT_EQ(table.tail.size(), 3U);
  EXPECT_EQ(table.tail_generation, 0U);
  EXPECT_EQ(table.tail_digest, TableDigest().ToString());
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(table.tail[i]->previous, i);
    EXPECT_EQ(table.tail[i]->routes,
              (std::vector<Route>{MakeRoute("::/0", i + 1)}));
  }
  // A delta that is larger than the bound ends it.
  ASSERT_TRUE(store->CreateTable("large", 0).ok());
  const AcceptedBatch large =
      Batch(1, SyntheticTable({.ipv6_routes = 500'000}));
  ASSERT_GT(large.delta->bytes(), StoredTable::kTailBytes);
  AcceptedBatch small = Batch(2, {});
  auto delta = std::make_shared<Delta>(*small.delta);
  delta->digest = large.delta->digest;
  ASSERT_TRUE(store->Append("large", {large, {.delta = delta}}).ok());
  table = store->Load().value().at(1);
  ASSERT_EQ(table.name, "large");
  ASSERT_EQ(table.tail.size(), 1U);
  EXPECT_EQ(table.tail_generation, 1U);
  EXPECT_EQ(table.tail_digest, large.delta->digest);
}

TEST(SqliteStore, SnapshotReplacesTheLogOfItsTable) {
  const std::string path = NewStorePath("replaced");
  auto store = SqliteStore::Open(
                   {.path = path, .sync = StoreSync::kOff, .log_bytes = 2000})
                   .value();
  StoredTable table = {.name = "default"};
  ASSERT_TRUE(store->CreateTable("default", 0).ok());
  ASSERT_TRUE(store->CreateTable("other", 0).ok());
  ASSERT_TRUE(store->Append("other", {Batch(1, {MakeRoute("::/0", 1)})}).ok());
  const auto append = [&](NextHopId i) {
    table.generation = i;
    table.routes = {MakeRoute("::/0", i)};
    AcceptedBatch batch = Batch(i, table.routes);
    batch.request = Requests(static_cast<int>(i), static_cast<int>(i),
                             kRequestIdRetention)[0]
                        .request;
    table.requests.push_back(*batch.request);
    ASSERT_TRUE(store->Append("default", {batch}).ok());
  };
  bool wanted = false;
  const auto offer = [&] {
    store->OfferSnapshot("default", [&] {
      wanted = true;
      return MakeVersion(table);
    });
  };
  append(1);
  offer();
  EXPECT_FALSE(wanted);
  for (NextHopId i = 2; i <= 50; ++i) append(i);
  EXPECT_EQ(Count(path, false), 51);
  offer();
  EXPECT_TRUE(wanted);
  wanted = false;
  offer();  // its snapshot is on the way
  EXPECT_FALSE(wanted);
  append(51);
  store->AwaitBackground();
  EXPECT_EQ(store->counters().snapshots, 1U);
  // Entry 51 came after the offer.
  EXPECT_EQ(Count(path, false), 2);
  EXPECT_EQ(Count(path, true), 2);  // and of the other table
  EXPECT_TRUE(store->Load().value()[0].requests == table.requests);
  EXPECT_TRUE(store->Load().value()[0].routes == table.routes);

  // The next one takes the place of the first.
  for (NextHopId i = 52; i <= 100; ++i) append(i);
  offer();
  store->AwaitBackground();
  EXPECT_EQ(store->counters().snapshots, 2U);
  EXPECT_EQ(Count(path, false), 1);
  EXPECT_EQ(Count(path, true), 2);  // and of the other table
  store.reset();
  const auto tables = OpenStore(path)->Load().value();
  ASSERT_EQ(tables.size(), 2U);
  EXPECT_EQ(StoreDifference({table}, {tables[0]}), "");
  EXPECT_EQ(tables[1].generation, 1U);
}

// A snapshot that failed holds up the next, but not that of another table.
TEST(SqliteStore, ATableOfTheSameNameMayHaveASnapshot) {
  auto store = SqliteStore::Open({.path = NewStorePath("same_name"),
                                  .sync = StoreSync::kOff,
                                  .log_bytes = 1})
                   .value();
  StoredTable table = {.routes = {MakeRoute("::/0", 7)}};
  const auto offer = [&](uint64_t generation) {
    table.generation = generation;
    store->OfferSnapshot("default", [&] { return MakeVersion(table); });
    store->AwaitBackground();
  };
  ASSERT_TRUE(store->CreateTable("default", 0).ok());
  ASSERT_TRUE(store->Append("default", {Batch(1, table.routes)}).ok());
  offer(2);  // not what the log leads to
  offer(1);
  EXPECT_EQ(store->counters().snapshot_failures, 1U);
  EXPECT_EQ(store->counters().snapshots, 0U);
  ASSERT_TRUE(store->DeleteTable("default", 1).ok());
  ASSERT_TRUE(store->CreateTable("default", 0).ok());
  ASSERT_TRUE(store->Append("default", {Batch(1, table.routes)}).ok());
  offer(1);
  EXPECT_EQ(store->counters().snapshots, 1U);
}

// More than a part each of next hops, groups and routes.
TEST(SqliteStore, SnapshotHoldsALargeTable) {
  const std::string path = NewStorePath("large_snapshot");
  auto store = SqliteStore::Open(
                   {.path = path, .sync = StoreSync::kOff, .log_bytes = 2000})
                   .value();
  StoredTable table = {.name = "default",
                       .generation = 1,
                       .writer_epoch = 7,
                       .complete_since = 9,
                       .routes = SyntheticTable(
                           {.ipv6_routes = 120'000, .ipv4_routes = 90'000})};
  for (NextHopId id = 1; id <= 30'000; ++id) {
    table.next_hops.push_back({.id = id, .label = std::string(30, 'x')});
    table.groups.push_back({.id = 1'000'000 + id, .members = {{id, 1}}});
  }
  ASSERT_TRUE(store->CreateTable("default", 0).ok());
  AcceptedBatch batch = Batch(1, table.routes);
  const auto delta = std::make_shared<Delta>(*batch.delta);
  delta->next_hops = table.next_hops;
  delta->groups = table.groups;
  delta->complete_since = table.complete_since;
  ASSERT_TRUE(
      store->Append("default", {{.delta = delta, .writer_epoch = 7}}).ok());
  store->OfferSnapshot("default", [&] { return MakeVersion(table); });
  store->AwaitBackground();
  EXPECT_EQ(Count(path, false), 0);
  EXPECT_GT(Count(path, true), 4);
  store.reset();
  EXPECT_EQ(StoreDifference({table}, OpenStore(path)->Load().value()), "");
}

// Only the batch that does not follow is refused.
TEST(SqliteStore, ABatchNamesTheGenerationBefore) {
  auto store = OpenStore(NewStorePath("gap"));
  ASSERT_TRUE(store->CreateTable("default", 5).ok());
  const auto append = [&](uint64_t previous, uint64_t generation) {
    const auto delta = std::make_shared<Delta>(
        *Batch(generation, {MakeRoute("::/0", 1)}).delta);
    delta->previous = previous;
    return store->Append("default", {{.delta = delta}});
  };
  EXPECT_TRUE(append(5, 8).ok());
  EXPECT_EQ(append(7, 9).code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(append(8, 100).ok());
  // Of two that are appended together, the second as well.
  const auto after = [](uint64_t previous, uint64_t generation) {
    Delta delta = *Batch(generation, {MakeRoute("::/0", 1)}).delta;
    delta.previous = previous;
    return AcceptedBatch{.delta =
                             std::make_shared<const Delta>(std::move(delta))};
  };
  EXPECT_EQ(store->Append("default", {after(100, 101), after(102, 103)}).code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(store->Load().value()[0].generation, 100U);
}

// Keys have 20 bits for the number of a table.
TEST(SqliteStore, NumbersOfDeletedTablesAreUsedAgain) {
  const std::string path = NewStorePath("numbers");
  auto store = OpenStore(path);
  ASSERT_TRUE(store->CreateTable("table-0", 0).ok());
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(store->CreateTable(absl::StrCat("table-", i + 1), 0).ok());
    ASSERT_TRUE(store->DeleteTable(absl::StrCat("table-", i), 0).ok());
  }
  store.reset();
  EXPECT_LE(
      *Sql::Open(path, false).value()->Integer("SELECT max(id) FROM tables"),
      2);
}

// A batch that adds a next hop and a route to an empty table.
AcceptedBatch BatchWithANextHop(TableDigest digest) {
  Delta delta = *Batch(1, {MakeRoute("::/0", 7)}).delta;
  delta.next_hops = {{.id = 7, .label = "seven"}};
  delta.digest = digest.ToString();
  return {.delta = std::make_shared<const Delta>(std::move(delta))};
}

TEST(SqliteStore, ADigestCoversNextHops) {
  for (const char* label : {"seven", "eight"}) {
    auto store = OpenStore(NewStorePath("digest"));
    ASSERT_TRUE(store->CreateTable("default", 0).ok());
    TableDigest digest;
    digest.Add(MakeRoute("::/0", 7));
    digest.Add(NextHop{.id = 7, .label = label});
    ASSERT_TRUE(store->Append("default", {BatchWithANextHop(digest)}).ok());
    const auto loaded = store->Load();
    if (label == std::string("seven")) {
      EXPECT_TRUE(loaded.ok()) << loaded.status();
      continue;
    }
    EXPECT_EQ(ErrorReason(loaded.status()), "STORE_CORRUPT");
    EXPECT_THAT(std::string(loaded.status().message()),
                HasSubstr("the contents of table default are not those"));
  }
}

TEST(SqliteStore, LogIsBounded) {
  const std::string path = NewStorePath("log");
  auto store =
      SqliteStore::Open(
          {.path = path, .sync = StoreSync::kOff, .checkpoint_pages = 50})
          .value();
  ASSERT_TRUE(store->CreateTable("default", 0).ok());
  uint64_t most = 0;
  // A writer that never pauses: 3,000 commits of two pages.
  for (NextHopId i = 1; i <= 3000; ++i) {
    ASSERT_TRUE(
        store->Append("default", {Batch(i, {MakeRoute("::/0", i)})}).ok());
    most = std::max(most, StoreFileBytes(path + "-wal"));
  }
  EXPECT_LT(most, 3000 * 2 * 4096 / 4);
}

TEST(SqliteStore, CountsCommits) {
  auto store = OpenStore(NewStorePath("counted"));
  EXPECT_EQ(store->counters().commits, 0U);
  ASSERT_TRUE(store->CreateTable("default", 0).ok());
  ASSERT_TRUE(
      store->Append("default", {Batch(1, {MakeRoute("::/0", 1)})}).ok());
  EXPECT_TRUE(store->Append("default", {}).ok());  // nothing
  const StoreCounters counters = store->counters();
  EXPECT_EQ(counters.commits, 2U);
  EXPECT_EQ(counters.commit_failures, 0U);
}

TEST(SqliteStore, TablesCommitFromManyThreads) {
  const std::string path = NewStorePath("threads");
  auto store =
      SqliteStore::Open(
          {.path = path, .sync = StoreSync::kOff, .checkpoint_pages = 20})
          .value();
  std::vector<std::thread> threads;
  for (NextHopId t = 1; t <= 4; ++t) {
    threads.emplace_back([&store, t] {
      const std::string name = absl::StrCat("table-", t);
      EXPECT_TRUE(store->CreateTable(name, 0).ok());
      for (NextHopId i = 1; i <= 100; ++i) {
        EXPECT_TRUE(
            store->Append(name, {Batch(i, {MakeRoute("::/0", i)})}).ok());
        if (i % 25 == 0) {
          EXPECT_TRUE(store->Load().ok());
        }
        store->counters();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  store.reset();
  const auto tables = OpenStore(path)->Load().value();
  EXPECT_EQ(tables.size(), 4U);
  for (const StoredTable& table : tables) {
    EXPECT_EQ(table.generation, 100U);
    EXPECT_EQ(table.routes, (std::vector<Route>{MakeRoute("::/0", 100)}));
  }
}

TEST(SqliteStore, CommitsBesideAReader) {
  const std::string path = NewStorePath("reader");
  auto store =
      SqliteStore::Open(
          {.path = path, .sync = StoreSync::kOff, .checkpoint_pages = 10})
          .value();
  ASSERT_TRUE(store->CreateTable("default", 0).ok());
  const auto reader = Sql::Open(path, false).value();
  ASSERT_TRUE(reader->Run("BEGIN").ok());
  EXPECT_EQ(*reader->Integer("SELECT count(*) FROM log"), 1);
  for (NextHopId i = 1; i <= 100; ++i) {
    ASSERT_TRUE(
        store->Append("default", {Batch(i, {MakeRoute("::/0", i)})}).ok());
  }
  EXPECT_EQ(*reader->Integer("SELECT count(*) FROM log"), 1);
  ASSERT_TRUE(reader->Run("END").ok());
  EXPECT_EQ(*reader->Integer("SELECT count(*) FROM log"), 101);
}

}  // namespace
}  // namespace planb::server
