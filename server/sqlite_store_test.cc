// The store's promises one by one, and a long random history against a model.

#include "server/sqlite_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <thread>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "lpm/synthetic/synthetic.h"
#include "server/error.h"
#include "server/table_digest.h"
#include "server/testing/store_place.h"
#include "server/testing/store_script.h"

namespace planb::server {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<SqliteStore> OpenStore(const std::string& path) {
  auto store = SqliteStore::Open(
      {.path = path, .sync = StoreSync::kOff, .request_window = 5});
  EXPECT_TRUE(store.ok()) << store.status();
  return store.ok() ? *std::move(store) : nullptr;
}

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

Route MakeRoute(absl::string_view prefix, NextHopId next_hop) {
  return {Prefix::Parse(prefix).value(), next_hop};
}

// A batch after which the table has exactly `routes`.
AcceptedBatch Batch(uint64_t generation, std::vector<Route> routes) {
  TableDigest digest;
  for (const Route& route : routes) digest.Add(route);
  return {.delta = std::make_shared<const Delta>(
              Delta{.generation = generation,
                    .routes = std::move(routes),
                    .digest = digest.ToString()})};
}

// Runs SQL as somebody else.
void Edit(const std::string& path, const std::string& text) {
  const absl::Status status = Sql::Open(path, false).value()->Run(text);
  ASSERT_TRUE(status.ok()) << status;
}

TEST(SqliteStore, IsHeldByOne) {
  const std::string path = NewStorePath("held");
  auto store = OpenStore(path);
  const auto second = SqliteStore::Open({.path = path});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ErrorReason(second.status()), "STORE_IN_USE");
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(path));
  // The first one did not notice.
  EXPECT_TRUE(store->CreateTable("default", 0).ok());
  store.reset();
  EXPECT_EQ(OpenStore(path)->Load()->size(), 1U);
}

TEST(SqliteStore, NeedsADirectoryItMayWriteTo) {
  const auto absent = SqliteStore::Open({.path = "/absent/planb.db"});
  EXPECT_EQ(ErrorReason(absent.status()), "STORE_UNWRITABLE");
  EXPECT_THAT(std::string(absent.status().message()), HasSubstr("/absent/"));
}

// Root may write anywhere, so these are tried as somebody else.
TEST(SqliteStore, NeedsFilesItMayWriteTo) {
  namespace fs = std::filesystem;
  std::string directory = "/tmp/planb_store_XXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  const auto remove =
      absl::MakeCleanup([&directory] { fs::remove_all(directory); });
  const std::string path = directory + "/planb.db";
  ASSERT_TRUE(OpenStore(path)->CreateTable("default", 0).ok());
  const bool root = geteuid() == 0;
  const auto open_as_other = [&] {
    if (root && seteuid(65534) != 0) return absl::UnknownError("seteuid");
    const auto store = SqliteStore::Open({.path = path});
    if (root && seteuid(0) != 0) return absl::UnknownError("seteuid");
    return store.status();
  };
  fs::permissions(directory, fs::perms(0555));
  for (const auto mode : {fs::perms(0444), fs::perms(0666)}) {
    fs::permissions(path, mode);
    fs::permissions(path + "-mark", mode);
    const absl::Status status = open_as_other();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_EQ(ErrorReason(status), "STORE_UNWRITABLE") << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path));
  }
  fs::permissions(directory, fs::perms(0777));
  fs::permissions(path, fs::perms(0444));
  EXPECT_EQ(ErrorReason(open_as_other()), "STORE_UNWRITABLE");
  fs::permissions(path, fs::perms(0666));
  EXPECT_TRUE(open_as_other().ok());
}

TEST(SqliteStore, NewerSchemaIsRefused) {
  const std::string path = NewStorePath("newer");
  OpenStore(path).reset();
  Edit(path, "PRAGMA user_version = 77");
  const auto store = SqliteStore::Open({.path = path});
  EXPECT_EQ(store.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ErrorReason(store.status()), "STORE_TOO_NEW");
}

TEST(SqliteStore, ShowsRoutesToPeople) {
  const std::string path = NewStorePath("people");
  auto store = OpenStore(path);
  ASSERT_TRUE(store->CreateTable("default", 0).ok());
  ASSERT_TRUE(
      store
          ->Commit("default", {Batch(1, {MakeRoute("10.20.0.0/16", 7),
                                         MakeRoute("255.255.255.255/32", 8),
                                         MakeRoute("::/0", 9),
                                         MakeRoute("2001:db8:ab::/48", 5)})})
          .ok());
  const auto sql = Sql::Open(path, false).value();
  EXPECT_EQ(*sql->Text("SELECT group_concat(table_name || ' ' || prefix || ' '"
                       " || next_hop, '; ') FROM route_list"),
            "default 10.20.0.0/16 7; default 255.255.255.255/32 8;"
            " default 0000:0000:0000:0000:0000:0000:0000:0000/0 9;"
            " default 2001:0db8:00ab:0000:0000:0000:0000:0000/48 5");
}

// What no commit can have written is told from what is only not the newest.
TEST(SqliteStore, EditedByHandIsRefused) {
  const std::string good = NewStorePath("edited");
  {
    auto store = OpenStore(good);
    ASSERT_TRUE(store->CreateTable("default", 0).ok());
    AcceptedBatch batch = Batch(1, {MakeRoute("10.20.0.0/16", 7)});
    batch.request = AnsweredRequest{.request_id = "r"};
    ASSERT_TRUE(store->Commit("default", {batch}).ok());
    const auto hops = std::make_shared<Delta>(*batch.delta);
    hops->generation = 2;
    hops->routes.clear();
    hops->next_hops = {{.id = 7}};
    hops->groups = {{.id = 8, .members = {{7, 1}}}};
    ASSERT_TRUE(store->Commit("default", {{.delta = hops}}).ok());
  }
  const StoreFiles files = ReadStoreFiles(good);
  const std::pair<const char*, const char*> edits[] = {
      {"UPDATE routes SET length = 8", "host bits"},
      {"UPDATE routes SET length = 33", "length"},
      {"UPDATE routes SET address = x'0a14000000'", "0a14000000"},
      {"UPDATE routes SET address = x'0a1400'", "0a1400"},
      {"UPDATE routes SET family = 5", "family 5"},
      {"UPDATE routes SET next_hop = 0", "next hop 0"},
      {"UPDATE routes SET next_hop = 4294967295", "next hop 4294967295"},
      {"UPDATE routes SET next_hop = 8", "not those that were committed"},
      {"UPDATE routes SET table_id = 9", "table 9"},
      {"DELETE FROM routes", "not those that were committed"},
      {"UPDATE next_hops SET weight = -1", "weight -1"},
      {"UPDATE next_hops SET gateway = 'x'", "x"},
      {"UPDATE next_hops SET label = 'x'", "not those that were committed"},
      {"DELETE FROM next_hops", "not those that were committed"},
      {"UPDATE next_hop_groups SET members = '7'", "members"},
      {"UPDATE next_hop_groups SET id = 9", "not those that were committed"},
      {"UPDATE requests SET request_id = 's'", "damaged or missing"},
      {"UPDATE requests SET number = 9", "damaged or missing"},
      {"DELETE FROM requests", "missing"},
      {"UPDATE tables SET generation = 9", "row of table"},
      {"DELETE FROM tables", "a row of tables is missing"},
      {"UPDATE store SET generation_floor = 9", "row of store"},
      {"DELETE FROM store", "row of store"},
      {"DROP TABLE requests", "its schema is damaged"},
  };
  for (const auto& [edit, says] : edits) {
    SCOPED_TRACE(edit);
    WriteStoreFiles(good, files);
    Edit(good, edit);
    const auto store = SqliteStore::Open({.path = good});
    const absl::Status status =
        store.ok() ? (*store)->Load().status() : store.status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ(ErrorReason(status), "STORE_CORRUPT");
    EXPECT_THAT(std::string(status.message()), HasSubstr(says));
    EXPECT_THAT(std::string(status.message()), HasSubstr(good + "-mark"));
  }
  // Nor does it pass while the store is open.
  WriteStoreFiles(good, files);
  auto store = OpenStore(good);
  Edit(good, "UPDATE store SET sequence = sequence + 1");
  EXPECT_EQ(store->Load().status().code(), absl::StatusCode::kDataLoss);
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
  // The room that a table leaves is used again.
  const uint64_t bytes = store->counters().database_bytes;
  ASSERT_TRUE(store->CreateTable("default", 1).ok());
  ASSERT_TRUE(store->Commit("default", {Batch(2, routes)}).ok());
  store.reset();
  EXPECT_LT(StoreFileBytes(path), bytes + bytes / 10);
}

TEST(SqliteStore, LogDoesNotGrowWithoutEnd) {
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

TEST(SqliteStore, CountsAndTells) {
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

// SQLite's index of the log belongs to the process that holds the log open; an
// operator's shell is another.
TEST(SqliteStore, LeavesAReaderAlone) {
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
