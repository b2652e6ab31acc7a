// SPDX-License-Identifier: Apache-2.0

#include "server/store/table_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "lpm/io/table_file.h"
#include "server/base/error.h"
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
    return {name,
            generation * 1000,
            {.prefix_lengths = name != "default"},
            Pinned(*MakeSnapshot(generation, std::move(all), {hop}))};
  }

  // The file of a Version().
  static std::string FileOf(const std::string& name, uint64_t generation) {
    return absl::StrCat(name, "-",
                        absl::Hex(generation * 1000, absl::kZeroPad16), "-",
                        generation, ".planb");
  }

  std::string Path(const std::string& file) const {
    return absl::StrCat(directory_, "/", file);
  }

  std::set<std::string> Files() const {
    std::set<std::string> names;
    for (const auto& each : fs::directory_iterator(directory_)) {
      names.insert(each.path().filename());
    }
    return names;
  }

  const std::string directory_ =
      absl::StrCat(testing::TempDir(), "/table_cache_test/cache");
};

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
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
  EXPECT_THAT(Files(),
              testing::ElementsAre(FileOf("a", 1), FileOf("default", 8),
                                   "index", "lock"));
  const auto cache = Open();
  const auto copy = cache->Load();
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_EQ(copy->as_of, as_of);
  ASSERT_EQ(copy->tables.size(), 2U);
  const StoredTable& table = copy->tables[0];
  EXPECT_EQ(table.name, "default");
  EXPECT_EQ(table.id, 8000U);
  EXPECT_EQ(table.generation, 8U);
  EXPECT_EQ(table.tail_generation, 8U);
  EXPECT_EQ(table.tail_digest, Version("default", 8, 101).pinned.digest);
  EXPECT_FALSE(table.fib.prefix_lengths);
  EXPECT_EQ(table.routes.size(), 101U);
  ASSERT_EQ(table.next_hops.size(), 1U);
  EXPECT_EQ(table.next_hops[0].interface, "eth0");
  EXPECT_EQ(copy->tables[1].name, "a");
  EXPECT_TRUE(copy->tables[1].fib.prefix_lengths);
  EXPECT_TRUE(copy->tables[1].routes.empty());
}

TEST_F(TableCacheTest, WritesAGenerationOnceAndRemovesWhatACrashLeft) {
  const auto cache = Open();
  ASSERT_TRUE(cache->Write({Version("default", 1, 5)}, absl::Now()).ok());
  const auto first = fs::last_write_time(Path(FileOf("default", 1)));
  std::ofstream(Path(FileOf("default", 2) + ".XyZ123")) << "half";
  std::ofstream(Path("index.XyZ123")) << "half";
  std::ofstream(Path("other")) << "not ours";
  ASSERT_TRUE(cache->Write({Version("default", 1, 5)}, absl::Now()).ok());
  EXPECT_EQ(fs::last_write_time(Path(FileOf("default", 1))), first);
  EXPECT_THAT(Files(), testing::ElementsAre(FileOf("default", 1), "index",
                                            "lock", "other"));
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

// The wall clock may be behind at the start: after a boot, before it is set.
TEST_F(TableCacheTest, TheAgeOfACopyIsNotThatOfTheWallClock) {
  const absl::Time hour_ago = absl::Now() - absl::Hours(1);
  ASSERT_TRUE(Open()->Write({Version("a", 3, 5)}, hour_ago).ok());
  const absl::Duration age = Open()->Load()->age;
  EXPECT_GE(age, absl::Hours(1));
  EXPECT_LT(age, absl::Hours(2));
  // Rewrites a line of the index.
  const auto rewrite = [&](size_t line, const std::string& to) {
    std::string index = Contents(Path("index"));
    index.resize(index.rfind("end "));
    std::vector<std::string> lines = absl::StrSplit(index, '\n');
    lines.at(line) = to;
    index = absl::StrJoin(lines, "\n");
    std::ofstream(Path("index"), std::ios::binary)
        << index << "end "
        << absl::StrCat(absl::Hex(Xxh3(index, 0), absl::kZeroPad16)) << "\n";
  };
  // As it is where the wall clock is behind: it was written later than now.
  rewrite(2, absl::StrCat(absl::ToUnixNanos(absl::Now() + absl::Hours(5))));
  EXPECT_GE(Open()->Load()->age, absl::Hours(1));
  // Of another boot, nothing tells how long ago that was.
  rewrite(3, "another-boot 1");
  EXPECT_EQ(Open()->Load()->age, absl::InfiniteDuration());
  rewrite(3, "another-boot x");
  EXPECT_EQ(ErrorReason(Open()->Load().status()), "CACHE_CORRUPT");
}

TEST_F(TableCacheTest, KeepsTheCopyBeforeOneThatCannotBeWritten) {
  const auto cache = Open();
  ASSERT_TRUE(cache->Write({Version("default", 1, 5)}, absl::Now()).ok());
  fs::create_directory(Path(FileOf("default", 2)));
  EXPECT_FALSE(cache->Write({Version("default", 2, 6)}, absl::Now()).ok());
  EXPECT_EQ(cache->failures(), 1U);
  const auto copy = cache->Load();
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_EQ(copy->tables.at(0).generation, 1U);
  ASSERT_TRUE(cache->Write({Version("default", 3, 6)}, absl::Now()).ok());
  EXPECT_EQ(cache->Load()->tables.at(0).generation, 3U);
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

// Every byte of every file.
TEST_F(TableCacheTest, NeverReturnsDamagedTables) {
  {
    const auto cache = Open();
    ASSERT_TRUE(cache
                    ->Write({Version("default", 1, 5), Version("a", 2, 1)},
                            absl::FromUnixSeconds(1'700'000'000))
                    .ok());
  }
  int refused = 0;
  const auto check = [&](const std::string& what) {
    const auto copy = Open()->Load();
    EXPECT_TRUE(absl::IsDataLoss(copy.status())) << what << copy.status();
    EXPECT_TRUE(absl::StrContains(copy.status().message(), directory_));
    ++refused;
  };
  for (const std::string& name :
       {std::string("index"), FileOf("default", 1), FileOf("a", 2)}) {
    const std::string path = Path(name);
    const std::string good = Contents(path);
    for (size_t i = 0; i < good.size(); ++i) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
      std::ofstream(path, std::ios::binary) << bad;
      check(absl::StrCat("byte ", i, " of ", name));
      std::ofstream(path, std::ios::binary) << good.substr(0, i);
      check(absl::StrCat("the first ", i, " bytes of ", name));
    }
    fs::remove(path);
    if (name != "index") check("without " + name);
    std::ofstream(path, std::ios::binary) << good;
  }
  EXPECT_GT(refused, 500);
  EXPECT_TRUE(Open()->Load().ok());
}

}  // namespace
}  // namespace planb::server
