// SPDX-License-Identifier: Apache-2.0

#include "server/store/table_cache.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/base/error.h"
#include "server/store/commit_watermark.h"
#include "server/store/sqlite_database.h"
#include "server/testing/make_snapshot.h"

namespace planb::server {
namespace {

namespace fs = std::filesystem;

constexpr char kStore[] = "etcd etcd://here/planb";

class TableCacheTest : public testing::Test {
 protected:
  TableCacheTest() { fs::remove_all(directory_); }
  ~TableCacheTest() override { fs::remove_all(directory_); }

  std::unique_ptr<TableCache> Open(const std::string& store = kStore) const {
    auto cache = TableCache::Open(directory_, store);
    EXPECT_TRUE(cache.ok()) << cache.status();
    return *std::move(cache);
  }

  // `routes` routes with a next hop and a group.
  static TableCache::Table Version(const std::string& name, uint64_t generation,
                                   int routes) {
    std::vector<Route> all;
    for (int i = 0; i < routes; ++i) {
      all.push_back(
          {*Prefix::Parse(absl::StrCat("2001:db8:", absl::Hex(i), "::/48")),
           static_cast<NextHopId>(i % 3 + 1)});
    }
    NextHop hop;
    hop.id = 1;
    hop.interface = "eth0";
    hop.attributes = Attributes("\x08\x07");
    return {name,
            generation * 1000,
            {.prefix_lengths = name != "default"},
            Pinned(*MakeSnapshot(generation, std::move(all), {hop}))};
  }

  std::string Path() const { return directory_ + "/tables.db"; }

  const std::string directory_ =
      absl::StrCat(testing::TempDir(), "/table_cache_test/cache");
};

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// What `act` returns on a disk that is full: no file gets larger than `bytes`,
// that of the test's output neither.
absl::Status OnFullDisk(rlim_t bytes, absl::FunctionRef<absl::Status()> act) {
  struct rlimit before;
  EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  struct rlimit full = before;
  full.rlim_cur = bytes;
  const sighandler_t handler = signal(SIGXFSZ, SIG_IGN);
  EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &full), 0);
  absl::Status status = act();
  EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, handler);
  return status;
}

TEST_F(TableCacheTest, ReturnsWhatWasWrittenLast) {
  const absl::Time as_of = absl::FromUnixSeconds(1'700'000'000);
  {
    const auto cache = Open();
    EXPECT_TRUE(absl::IsNotFound(cache->Load().status()));
    EXPECT_EQ(cache->written(), 0);
    ASSERT_TRUE(cache
                    ->Write({Version("default", 7, 100), Version("a", 1, 0),
                             Version("b", 3, 2)},
                            as_of - absl::Seconds(1))
                    .ok());
    ASSERT_TRUE(
        cache->Write({Version("default", 8, 101), Version("a", 1, 0)}, as_of)
            .ok());
    EXPECT_EQ(cache->written(), 1.7e9);
  }
  const auto cache = Open();
  const auto copy = cache->Load();
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_EQ(copy->as_of, as_of);
  ASSERT_EQ(copy->tables.size(), 2U);
  const StoredTable& table = copy->tables[1];
  EXPECT_EQ(table.name, "default");
  EXPECT_EQ(table.id, 8000U);
  EXPECT_EQ(table.generation, 8U);
  EXPECT_EQ(table.tail_generation, 8U);
  EXPECT_EQ(table.tail_digest, Version("default", 8, 101).pinned.digest);
  EXPECT_FALSE(table.fib.prefix_lengths);
  EXPECT_EQ(table.routes.size(), 101U);
  ASSERT_EQ(table.next_hops.size(), 1U);
  EXPECT_EQ(table.next_hops[0].interface, "eth0");
  EXPECT_EQ(table.next_hops[0].attributes, Attributes("\x08\x07"));
  EXPECT_EQ(copy->tables[0].name, "a");
  EXPECT_TRUE(copy->tables[0].fib.prefix_lengths);
  EXPECT_TRUE(copy->tables[0].routes.empty());
}

TEST_F(TableCacheTest, WritesAGenerationOnce) {
  const auto cache = Open();
  ASSERT_TRUE(cache->Write({Version("default", 1, 5)}, absl::Now()).ok());
  // A row that a write puts would be there again.
  ASSERT_TRUE(Sql::Open(Path(), false).value()->Run("DELETE FROM log").ok());
  ASSERT_TRUE(cache->Write({Version("default", 1, 5)}, absl::Now()).ok());
  EXPECT_TRUE(absl::IsDataLoss(cache->Load().status()));
  ASSERT_TRUE(cache->Write({Version("default", 2, 5)}, absl::Now()).ok());
  EXPECT_EQ(cache->Load()->tables.at(0).routes.size(), 5U);
}

// Of that name, and at the same generation.
TEST_F(TableCacheTest, WritesATableThatWasMadeAnew) {
  const auto cache = Open();
  ASSERT_TRUE(cache->Write({Version("default", 1, 5)}, absl::Now()).ok());
  TableCache::Table anew = Version("default", 1, 6);
  anew.id = 2;
  ASSERT_TRUE(cache->Write({&anew, 1}, absl::Now()).ok());
  const auto copy = cache->Load();
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_EQ(copy->tables.at(0).id, 2U);
  EXPECT_EQ(copy->tables.at(0).routes.size(), 6U);
}

// As after a restart of this server and of the one that it follows: ids of
// tables count from 1 in each process.
TEST_F(TableCacheTest, WritesOtherContentsOfTheSameIdAndGeneration) {
  for (const bool loads : {false, true}) {
    SCOPED_TRACE(loads);
    ASSERT_TRUE(Open()->Write({Version("default", 1, 5)}, absl::Now()).ok());
    const auto cache = Open();
    ASSERT_TRUE(!loads || cache->Load().ok());
    ASSERT_TRUE(cache->Write({Version("default", 1, 6)}, absl::Now()).ok());
    const auto copy = cache->Load();
    ASSERT_TRUE(copy.ok()) << copy.status();
    EXPECT_EQ(copy->tables.at(0).routes.size(), 6U);
  }
}

TEST_F(TableCacheTest, WritesADamagedTableThatDoesNotChange) {
  ASSERT_TRUE(Open()->Write({Version("default", 1, 5)}, absl::Now()).ok());
  ASSERT_TRUE(Sql::Open(Path(), false)
                  .value()
                  ->Run("UPDATE log SET entry = x'00'")
                  .ok());
  const auto cache = Open();
  ASSERT_TRUE(cache->Write({Version("default", 1, 5)}, absl::Now()).ok());
  const auto copy = cache->Load();
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_EQ(copy->tables.at(0).routes.size(), 5U);
}

// The wall clock may be behind at the start: after a boot, before it is set.
TEST_F(TableCacheTest, TheAgeOfACopyIsNotThatOfTheWallClock) {
  const absl::Time hour_ago = absl::Now() - absl::Hours(1);
  ASSERT_TRUE(Open()->Write({Version("a", 3, 5)}, hour_ago).ok());
  const absl::Duration age = Open()->Load()->age;
  EXPECT_GE(age, absl::Hours(1));
  EXPECT_LT(age, absl::Hours(2));
  const auto rewrite = [&](const std::string& about) {
    const auto sql = OpenDatabase({.path = Path()}, 0).value();
    StoreState state = ReadState(*sql).value();
    state.about = absl::StrCat(about, " ", kStore);
    ASSERT_TRUE(WriteState(*sql, state).ok());
  };
  // As it is where the wall clock is behind: it was written later than now.
  rewrite(absl::StrCat(absl::ToUnixNanos(absl::Now() + absl::Hours(5)), " ",
                       ThisBoot(), " 1"));
  EXPECT_LT(Open()->Load()->age, absl::InfiniteDuration());
  EXPECT_GE(Open()->Load()->age, absl::ZeroDuration());
  // Of another boot, or of a later moment, nothing tells how long ago that was.
  for (const char* other : {" 1", " 0"}) {
    rewrite(absl::StrCat("1 ", ThisBoot() + 1, other));
    EXPECT_EQ(Open()->Load()->age, absl::InfiniteDuration());
  }
  rewrite(absl::StrCat("1 ", ThisBoot(), " 9000000000000000000"));
  EXPECT_EQ(Open()->Load()->age, absl::InfiniteDuration());
  rewrite("1 x 1");
  EXPECT_EQ(ErrorReason(Open()->Load().status()), "CACHE_CORRUPT");
}

TEST_F(TableCacheTest, KeepsTheCopyBeforeOneThatCannotBeWritten) {
  const auto cache = Open();
  ASSERT_TRUE(cache->Write({Version("default", 1, 5)}, absl::Now()).ok());
  EXPECT_FALSE(OnFullDisk(60'000, [&] {
                 return cache->Write({Version("default", 2, 9000)},
                                     absl::Now());
               }).ok());
  EXPECT_EQ(cache->failures(), 1U);
  const auto copy = cache->Load();
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_EQ(copy->tables.at(0).generation, 1U);
  ASSERT_TRUE(cache->Write({Version("default", 3, 6)}, absl::Now()).ok());
  EXPECT_EQ(cache->Load()->tables.at(0).generation, 3U);
}

// The first table does not fit in SQLite's memory, so the disk is full, and
// SQLite rolls back, before the statements for the others.
TEST_F(TableCacheTest, KeepsAllTablesOfACopyIfTheFirstCannotBeWritten) {
  const auto cache = Open();
  ASSERT_TRUE(
      cache
          ->Write({Version("a", 1, 5), Version("b", 1, 5), Version("c", 1, 5)},
                  absl::Now())
          .ok());
  std::vector<NextHop> hops(400);
  for (NextHop& hop : hops) {
    hop.id = static_cast<NextHopId>(&hop - hops.data() + 1);
    hop.attributes = Attributes(std::string(60'000, 'x'));
  }
  std::array<TableCache::Table, 2> next = {Version("a", 2, 0),
                                           Version("b", 2, 6)};
  next[0].pinned = Pinned(*MakeSnapshot(2, {}, std::move(hops)));
  const absl::Status written =
      OnFullDisk(1 << 20, [&] { return cache->Write(next, absl::Now()); });
  EXPECT_EQ(ErrorReason(written), "STORE_FULL") << written;
  const auto copy = cache->Load();
  ASSERT_TRUE(copy.ok()) << copy.status();
  ASSERT_EQ(copy->tables.size(), 3U);
  for (const StoredTable& table : copy->tables) {
    EXPECT_EQ(table.generation, 1U);
    EXPECT_EQ(table.routes.size(), 5U);
  }
  ASSERT_TRUE(cache->Write(next, absl::Now()).ok());
  EXPECT_EQ(cache->Load()->tables.at(1).routes.size(), 6U);
}

TEST_F(TableCacheTest, RefusesAnotherStoreAndASecondServer) {
  {
    const auto cache = Open();
    ASSERT_TRUE(cache->Write({Version("default", 1, 5)}, absl::Now()).ok());
    const auto second = TableCache::Open(directory_, kStore);
    EXPECT_EQ(ErrorReason(second.status()), "CACHE_IN_USE");
  }
  const auto cache = Open("etcd etcd://there/planb");
  EXPECT_EQ(ErrorReason(cache->Load().status()), "CACHE_OF_ANOTHER_STORE");
  std::ofstream(absl::StrCat(testing::TempDir(), "/a_file")) << "x";
  EXPECT_EQ(ErrorReason(TableCache::Open(
                            absl::StrCat(testing::TempDir(), "/a_file"), kStore)
                            .status()),
            "CACHE_UNWRITABLE");
}

// The operator must not remove a good copy.
TEST_F(TableCacheTest, ACopyThatCannotBeReadNowIsNotCorrupt) {
  ASSERT_TRUE(Open()->Write({Version("default", 1, 5)}, absl::Now()).ok());
  auto cache = Open();
  const absl::Status loaded =
      OnFullDisk(0, [&] { return cache->Load().status(); });
  EXPECT_TRUE(absl::IsUnavailable(loaded)) << loaded;
  EXPECT_EQ(ErrorReason(loaded), "CACHE_UNREADABLE");
  EXPECT_TRUE(cache->Load().ok());
  cache = nullptr;
  ASSERT_TRUE(
      Sql::Open(Path(), false)
          .value()
          ->Run(absl::StrCat("PRAGMA user_version = ", kStoreVersion + 1))
          .ok());
  EXPECT_EQ(ErrorReason(Open()->Load().status()), "CACHE_CORRUPT");
}

// Closing the database writes to its files.
TEST_F(TableCacheTest, HasTheDirectoryUntilTheDatabaseIsClosed) {
  static const std::string* directory;
  static bool held;
  directory = &directory_;
  held = false;
  const auto on_open = [](sqlite3* sql, char**, const sqlite3_api_routines*) {
    const auto on_close = [](unsigned, void*, void*, void*) {
      const auto second = TableCache::Open(*directory, kStore);
      held = ErrorReason(second.status()) == "CACHE_IN_USE";
      return 0;
    };
    return sqlite3_trace_v2(sql, SQLITE_TRACE_CLOSE, on_close, nullptr);
  };
  sqlite3_auto_extension(reinterpret_cast<void (*)()>(+on_open));
  EXPECT_TRUE(Open()->Write({Version("default", 1, 5)}, absl::Now()).ok());
  sqlite3_reset_auto_extension();
  EXPECT_TRUE(held);
}

// Every byte of the file. What is not refused has the tables that were written:
// some bytes are not in use.
TEST_F(TableCacheTest, NeverReturnsDamagedTables) {
  const std::array<TableCache::Table, 2> tables = {Version("default", 1, 5),
                                                   Version("a", 2, 1)};
  ASSERT_TRUE(Open()->Write(tables, absl::FromUnixSeconds(1'700'000'000)).ok());
  const std::string good = Contents(Path());
  int refused = 0;
  const auto check = [&](const std::string& bytes) {
    std::ofstream(Path(), std::ios::binary) << bytes;
    auto copy = Open()->Load();
    if (copy.ok()) {
      ASSERT_EQ(copy->tables.size(), 2U);
      EXPECT_EQ(copy->tables[0].routes.size(), 1U);
      EXPECT_EQ(copy->tables[1].routes.size(), 5U);
      return;
    }
    ++refused;
    EXPECT_TRUE(absl::IsDataLoss(copy.status())) << copy.status();
    EXPECT_TRUE(absl::StrContains(copy.status().message(), "cache/tables.db"));
    // A server that has its store again writes over it; each sync takes time.
    if (refused % 8 != 0) return;
    const auto cache = Open();
    ASSERT_TRUE(cache->Write(tables, absl::Now()).ok());
    copy = cache->Load();
    ASSERT_TRUE(copy.ok()) << copy.status();
    EXPECT_EQ(copy->tables.size(), 2U);
  };
  for (size_t i = 0; i < good.size(); i += i < 100 ? 1 : 41) {
    SCOPED_TRACE(i);
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
    check(bad);
    if (HasFatalFailure()) return;
  }
  for (size_t i = 1; i < good.size(); i += 1500) check(good.substr(0, i));
  EXPECT_GT(refused, 50);
}

}  // namespace
}  // namespace planb::server
