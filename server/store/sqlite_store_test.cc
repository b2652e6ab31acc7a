// SPDX-License-Identifier: Apache-2.0

// Commits and loads: random histories against a model, requests, large tables,
// many threads.

#include "server/store/sqlite_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "lpm/synthetic/synthetic.h"
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

TEST(SqliteStore, IsEmptyWhenNew) {
  auto store = OpenStore(NewStorePath("new"));
  EXPECT_EQ(store->kind(), "sqlite");
  EXPECT_THAT(store->path(), HasSubstr("planb.db"));
  EXPECT_TRUE(store->Load().value().empty());
  EXPECT_EQ(store->generation_floor(), 0U);
}

TEST(SqliteStore, KeepsTheNewestRequests) {
  const std::string path = NewStorePath("requests");
  auto store = OpenStore(path);
  ASSERT_TRUE(store->CreateTable("default", 0).ok());
  std::vector<AcceptedBatch> batches;
  for (int i = 0; i < 12; ++i) {
    batches.push_back(
        {.request = AnsweredRequest{.request_id = absl::StrCat(i)}});
  }
  ASSERT_TRUE(store->Commit("default", batches).ok());
  ASSERT_TRUE(store->Commit("default", {batches[0]}).ok());
  std::string ids;
  const auto tables = store->Load().value();
  for (const AnsweredRequest& request : tables.at(0).requests) {
    absl::StrAppend(&ids, request.request_id, " ");
  }
  EXPECT_EQ(ids, "8 9 10 11 0 ");
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
  ASSERT_TRUE(store->Commit("default", {Batch(1, shuffled)}).ok());
  ASSERT_TRUE(store->Commit("other", {Batch(1, routes)}).ok());
  ASSERT_TRUE(store->DeleteTable("default", 1).ok());
  store.reset();
  store = OpenStore(path);
  const auto tables = store->Load().value();
  ASSERT_EQ(tables.size(), 1U);
  EXPECT_EQ(tables[0].name, "other");
  EXPECT_TRUE(tables[0].routes == routes);
  EXPECT_EQ(store->generation_floor(), 1U);
  // The space of a deleted table is reused.
  const uint64_t bytes = store->counters().database_bytes;
  ASSERT_TRUE(store->CreateTable("default", 1).ok());
  ASSERT_TRUE(store->Commit("default", {Batch(2, routes)}).ok());
  store.reset();
  EXPECT_LT(StoreFileBytes(path), bytes + bytes / 10);
}

TEST(SqliteStore, LogIsBounded) {
  const std::string path = NewStorePath("log");
  auto store =
      SqliteStore::Open(
          {.path = path, .sync = StoreSync::kOff, .checkpoint_pages = 50})
          .value();
  ASSERT_TRUE(store->CreateTable("default", 0).ok());
  uint64_t most = 0;
  // A writer that never pauses: 3,000 commits of three pages.
  for (NextHopId i = 1; i <= 3000; ++i) {
    ASSERT_TRUE(
        store->Commit("default", {Batch(i, {MakeRoute("::/0", i)})}).ok());
    most = std::max(most, store->counters().wal_bytes);
  }
  EXPECT_GT(store->counters().checkpoints, 0U);
  EXPECT_EQ(store->counters().checkpoint_failures, 0U);
  EXPECT_LT(most, 3000 * 3 * 4096 / 4);
}

TEST(SqliteStore, CountsAndReportsCommits) {
  const std::string path = NewStorePath("counted");
  std::vector<absl::Status> told;
  auto store = SqliteStore::Open(
                   {.path = path,
                    .on_commit =
                        [&told](absl::Duration took, const absl::Status& s) {
                          EXPECT_GT(took, absl::ZeroDuration());
                          told.push_back(s);
                        }})
                   .value();
  EXPECT_EQ(store->counters().commits, 0U);
  ASSERT_TRUE(store->CreateTable("default", 0).ok());
  ASSERT_TRUE(
      store->Commit("default", {Batch(1, {MakeRoute("::/0", 1)})}).ok());
  EXPECT_TRUE(store->Commit("default", {}).ok());  // nothing
  const StoreCounters counters = store->counters();
  EXPECT_EQ(counters.commits, 2U);
  EXPECT_EQ(counters.commit_failures, 0U);
  EXPECT_GT(counters.last_commit_nanos, 0U);
  EXPECT_GT(counters.wal_bytes, 0U);
  EXPECT_GT(counters.database_bytes, 0U);
  EXPECT_EQ(told.size(), 2U);
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
            store->Commit(name, {Batch(i, {MakeRoute("::/0", i)})}).ok());
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
  EXPECT_EQ(*reader->Integer("SELECT count(*) FROM routes"), 0);
  for (NextHopId i = 1; i <= 100; ++i) {
    ASSERT_TRUE(
        store->Commit("default", {Batch(i, {MakeRoute("::/0", i)})}).ok());
  }
  EXPECT_EQ(*reader->Integer("SELECT count(*) FROM routes"), 0);
  ASSERT_TRUE(reader->Run("END").ok());
  EXPECT_EQ(*reader->Integer("SELECT next_hop FROM routes"), 100);
}

}  // namespace
}  // namespace planb::server
