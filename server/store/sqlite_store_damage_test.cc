// SPDX-License-Identifier: Apache-2.0

// A store with damaged files either reports that or holds exactly the committed
// tables. Also the files that a store opens and refuses.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "server/base/error.h"
#include "server/store/commit_watermark.h"
#include "server/store/sqlite_sql.h"
#include "server/store/sqlite_store.h"
#include "server/testing/small_store.h"
#include "server/testing/store_place.h"
#include "server/testing/store_script.h"

namespace planb::server {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

// The number of bits of a file that are flipped, one at a time. For all bits,
// set PLANB_STORE_FLIPS=1000000000; that takes an hour.
size_t Flips() {
  size_t flips = 0;
  const char* text = std::getenv("PLANB_STORE_FLIPS");
  return text != nullptr && absl::SimpleAtoi(text, &flips) && flips > 0 ? flips
                                                                        : 200;
}

// The files of a store after random commits, and its tables.
struct Sample {
  std::string path;
  StoreFiles files;
  std::vector<StoredTable> tables;
};

// Logs are short, so that some tables have a snapshot and a log.
SqliteStoreOptions Options(const std::string& path) {
  return {.path = path, .sync = StoreSync::kOff, .log_bytes = 3000};
}

// The files after a crash, with `in_database` steps in the database and
// `in_log` steps in the write-ahead log only; without it if that is 0.
Sample MakeSample(const std::string& name, int in_database, int in_log) {
  Sample sample = {.path = NewStorePath(name)};
  StoreScript script({.seed = 7, .max_tables = 3});
  for (int steps : {in_database, in_log}) {
    auto store = SqliteStore::Open(Options(sample.path)).value();
    for (int step = 0; step < steps; ++step) {
      EXPECT_TRUE(script.Step(store.get()).ok());
    }
    store->AwaitBackground();
    if (steps == in_log && in_log > 0) {
      sample.files = ReadStoreFiles(sample.path);
    }
  }
  if (in_log == 0) sample.files = ReadStoreFiles(sample.path);
  sample.tables = script.Tables();
  return sample;
}

struct Outcomes {
  int same = 0;
  int refused = 0;
};

// Opens a store with `files`. It must either be refused, with the files
// unchanged, or hold the tables of `sample`.
void Judge(const Sample& sample, const StoreFiles& files, Outcomes& outcomes) {
  WriteStoreFiles(sample.path, files);
  auto store = SqliteStore::Open(Options(sample.path));
  absl::StatusOr<std::vector<StoredTable>> tables;
  if (store.ok()) tables = (*store)->Load();
  const absl::Status status = store.ok() ? tables.status() : store.status();
  if (!status.ok()) {
    ++outcomes.refused;
    const std::string reason = ErrorReason(status);
    // The file also has the version of the schema and a read-only flag.
    EXPECT_TRUE(reason == "STORE_CORRUPT" || reason == "STORE_TOO_NEW" ||
                reason == "STORE_TOO_OLD" || reason == "STORE_UNWRITABLE")
        << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("planb.db"));
    if (reason == "STORE_CORRUPT") {
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr("to start anew, move"));
    }
    if (store.ok()) store->reset();
    StoreFiles left = ReadStoreFiles(sample.path);
    for (const char* suffix : {"", "-wal", "-mark"}) {
      const auto file = files.find(suffix);
      EXPECT_TRUE(left[suffix] == (file == files.end() ? "" : file->second))
          << "'" << suffix << "' was changed; " << status;
    }
    return;
  }
  ++outcomes.same;
  ASSERT_EQ(StoreDifference(sample.tables, *tables), "");
}

class Damage : public testing::TestWithParam<int> {
 protected:
  // All steps in the database, all in the log, or some in each.
  Sample MakeSampleOfParam(const std::string& name) {
    switch (GetParam()) {
      case 0:
        return MakeSample(name, 40, 0);
      case 1:
        return MakeSample(name, 0, 40);
      default:
        return MakeSample(name, 30, 10);
    }
  }
};

std::string PlaceName(const testing::TestParamInfo<int>& place) {
  const char* names[] = {"Database", "Log", "Both"};
  return names[place.param];
}

INSTANTIATE_TEST_SUITE_P(Places, Damage, testing::Values(0, 1, 2), PlaceName);

TEST_P(Damage, IntactFilesOpen) {
  const Sample sample = MakeSampleOfParam("fine");
  EXPECT_EQ(sample.files.count("-wal"), GetParam() == 0 ? 0U : 1U);
  Outcomes outcomes;
  Judge(sample, sample.files, outcomes);
  EXPECT_EQ(outcomes.same, 1);
}

TEST_P(Damage, OfOneBitIsDetected) {
  const Sample sample = MakeSampleOfParam("flip");
  for (const char* suffix : {"", "-wal", "-mark"}) {
    const auto file = sample.files.find(suffix);
    if (file == sample.files.end()) continue;
    // Once is enough for the mark.
    if (std::string(suffix) == "-mark" && GetParam() != 0) continue;
    Outcomes outcomes;
    const size_t bits = file->second.size() * 8;
    // Headers in full. The stride is odd, to reach every bit of a byte.
    const size_t stride = bits / Flips() | 1;
    for (size_t bit = 0; bit < bits; bit += bit < 64 * 8 ? 1 : stride) {
      SCOPED_TRACE(testing::Message()
                   << "bit " << bit << " of '" << suffix << "', of " << bits);
      StoreFiles files = sample.files;
      char& byte = files[suffix][bit / 8];
      byte = static_cast<char>(byte ^ (1 << bit % 8));
      Judge(sample, files, outcomes);
      if (HasFatalFailure()) return;
    }
    EXPECT_GT(outcomes.refused, 0) << suffix;
    // Every byte of the log is checked. The database has gaps.
    if (std::string(suffix) == "-wal") {
      EXPECT_EQ(outcomes.same, 0);
    }
    std::cout << "'" << suffix << "': " << outcomes.refused << " refused, "
              << outcomes.same << " harmless\n";
  }
}

TEST_P(Damage, ByTruncationIsDetected) {
  const Sample sample = MakeSampleOfParam("truncated");
  for (const char* suffix : {"", "-wal", "-mark"}) {
    const auto file = sample.files.find(suffix);
    if (file == sample.files.end()) continue;
    Outcomes outcomes;
    const size_t size = file->second.size();
    for (size_t length = 0; length < size;
         length += length < 100 ? 7 : 1 + size / 150) {
      SCOPED_TRACE(testing::Message()
                   << "'" << suffix << "' cut to " << length << " of " << size);
      StoreFiles files = sample.files;
      files[suffix].resize(length);
      Judge(sample, files, outcomes);
      if (HasFatalFailure()) return;
    }
    EXPECT_GT(outcomes.refused, 0) << suffix;
  }
}

TEST_P(Damage, OfWholeBlocksIsDetected) {
  const Sample sample = MakeSampleOfParam("blocks");
  for (const char* suffix : {"", "-wal"}) {
    const auto file = sample.files.find(suffix);
    if (file == sample.files.end()) continue;
    Outcomes outcomes;
    // About a hundred blocks, at all positions within a page.
    const size_t blocks = file->second.size() / 512;
    const size_t stride = 512 * (blocks / 100 | 1);
    for (size_t at = 0; at < file->second.size(); at += stride) {
      SCOPED_TRACE(testing::Message() << "'" << suffix << "' from " << at);
      StoreFiles files = sample.files;
      std::string& bytes = files[suffix];
      const size_t length = std::min<size_t>(512, bytes.size() - at);
      bytes.replace(at, length, length, '\0');
      Judge(sample, files, outcomes);
      if (HasFatalFailure()) return;
    }
    EXPECT_GT(outcomes.refused, 0) << suffix;
  }
}

TEST_P(Damage, ByRemovalOfAFileIsDetected) {
  const Sample sample = MakeSampleOfParam("removed");
  for (const auto& [suffix, bytes] : sample.files) {
    SCOPED_TRACE(suffix);
    StoreFiles files = sample.files;
    files.erase(suffix);
    Outcomes outcomes;
    Judge(sample, files, outcomes);
    // The store works without a mark, and SQLite makes a new index of the log.
    const bool harmless = suffix == "-mark" || suffix == "-shm";
    EXPECT_EQ(outcomes.same, harmless ? 1 : 0);
  }
}

TEST(SqliteStoreDamage, EmptyDatabaseWithAMarkIsRefused) {
  Sample sample = MakeSample("emptied", 10, 0);
  sample.files[""] = "";
  Outcomes outcomes;
  Judge(sample, sample.files, outcomes);
  EXPECT_EQ(outcomes.refused, 1);
  // So is a log without a database and a mark.
  sample = MakeSample("log_alone", 0, 10);
  sample.files.erase("");
  sample.files.erase("-mark");
  Judge(sample, sample.files, outcomes);
  EXPECT_EQ(outcomes.refused, 2);
  // The log is unchanged.
  EXPECT_EQ(ReadStoreFiles(sample.path)["-wal"], sample.files["-wal"]);
}

// A database that is removed before its first commit leaves a mark.
TEST(SqliteStoreDamage, AMarkOfNoCommitsStopsNoStart) {
  const std::string path = NewStorePath("no_commits");
  OpenStore(path).reset();
  StoreFiles files = ReadStoreFiles(path);
  WriteStoreFiles(path, {{"-mark", files["-mark"]}});
  auto store = SqliteStore::Open(Options(path));
  ASSERT_TRUE(store.ok()) << store.status();
  ASSERT_TRUE((*store)->CreateTable("default", 0).ok());
  store->reset();
  // The new database has a mark of its own.
  EXPECT_EQ(OpenStore(path)->Load()->size(), 1U);
  files = ReadStoreFiles(path);
  WriteStoreFiles(path, {{"-mark", files["-mark"]}});
  EXPECT_EQ(ErrorReason(SqliteStore::Open(Options(path)).status()),
            "STORE_CORRUPT");
}

TEST(SqliteStoreDamage, ADirectoryIsRefusedByItsPath) {
  const std::string path = testing::TempDir();
  const absl::Status status = SqliteStore::Open(Options(path)).status();
  EXPECT_EQ(ErrorReason(status), "STORE_UNWRITABLE");
  EXPECT_TRUE(absl::StartsWith(status.message(), path)) << status;
}

// SQLite would write over that page.
TEST(SqliteStoreDamage, AFreePageThatIsInUseIsRefused) {
  Sample sample = MakeSample("free", 1, 0);
  {
    auto store = OpenStore(sample.path);
    std::vector<Route> routes;
    for (uint32_t i = 0; i < 20'000; ++i) {
      routes.push_back({Prefix::Truncate(Address::V4(i << 8), 24), 7});
    }
    ASSERT_TRUE(store->CreateTable("large", 0).ok());
    ASSERT_TRUE(store->Append("large", {Batch(1, routes)}).ok());
    ASSERT_TRUE(store->DeleteTable("large", 1).ok());
  }
  sample.files = ReadStoreFiles(sample.path);
  std::string& bytes = sample.files[""];
  ASSERT_NE(bytes.substr(32, 4), std::string(4, '\0'));
  bytes.replace(32, 4, std::string("\0\0\0\2", 4));
  Outcomes outcomes;
  Judge(sample, sample.files, outcomes);
  EXPECT_EQ(outcomes.refused, 1);
}

TEST(SqliteStoreDamage, OlderDatabaseIsRefused) {
  const std::string path = NewStorePath("older");
  StoreScript script({.seed = 3});
  StoreFiles old;
  std::vector<StoredTable> old_tables;
  for (int round = 0; round < 2; ++round) {
    auto store = SqliteStore::Open(Options(path)).value();
    for (int step = 0; step < 10; ++step) {
      ASSERT_TRUE(script.Step(store.get()).ok());
    }
    store.reset();
    if (round > 0) continue;
    old = ReadStoreFiles(path);
    old_tables = script.Tables();
  }
  StoreFiles files = ReadStoreFiles(path);
  files[""] = old[""];
  WriteStoreFiles(path, files);
  const auto store = SqliteStore::Open(Options(path));
  EXPECT_EQ(store.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(store.status().message()),
              ContainsRegex("ends at commit [0-9]+, and commits up to"
                            " [0-9]+ were acknowledged"));
  // The remedy that the message names, for a restored backup.
  files.erase("-mark");
  WriteStoreFiles(path, files);
  auto restored = SqliteStore::Open(Options(path));
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(StoreDifference(old_tables, (*restored)->Load().value()), "");
}

// The loss of commits is accepted only if they were not synced and the machine
// has rebooted.
TEST(SqliteStoreDamage, UnsyncedCommitsMayBeLostWithTheMachine) {
  const Sample sample = MakeSample("unsynced", 10, 0);
  const auto open = [&](bool synced, uint64_t boot) {
    WriteStoreFiles(sample.path, sample.files);
    {
      const auto file = CommitWatermark::Open(sample.path).value();
      StoreMark mark = file->Read().value().value();
      mark.sequence += 5;
      mark.synced = synced ? 1 : 0;
      mark.boot = boot;
      EXPECT_TRUE(file->Write(mark).ok());
    }
    return SqliteStore::Open(Options(sample.path)).status();
  };
  const uint64_t other = ThisBoot() + 1;
  EXPECT_EQ(ErrorReason(open(true, ThisBoot())), "STORE_CORRUPT");
  EXPECT_EQ(ErrorReason(open(true, other)), "STORE_CORRUPT");
  EXPECT_EQ(ErrorReason(open(false, ThisBoot())), "STORE_CORRUPT");
  EXPECT_TRUE(open(false, other).ok());
}

TEST(SqliteStoreDamage, DatabaseOfAnotherStoreIsRefused) {
  const Sample one = MakeSample("one", 10, 0);
  const Sample other = MakeSample("other", 20, 0);
  StoreFiles files = one.files;
  files[""] = other.files.at("");
  Outcomes outcomes;
  Judge(one, files, outcomes);
  EXPECT_EQ(outcomes.refused, 1);
}

TEST(SqliteStoreDamage, FilesThatAreNotDatabasesAreRefused) {
  const Sample sample = MakeSample("strange", 1, 0);
  for (const std::string& text :
       {std::string("routes: 17\n"), std::string(10'000, 'x'),
        std::string(1, '\0'), std::string(8192, '\0')}) {
    WriteStoreFiles(sample.path, {{"", text}});
    const auto store = SqliteStore::Open(Options(sample.path));
    EXPECT_EQ(store.status().code(), absl::StatusCode::kDataLoss)
        << store.status();
    EXPECT_TRUE(ReadStoreFiles(sample.path)[""] == text);
  }
}

// Runs SQL on a connection of its own.
void Edit(const std::string& path, const std::string& text) {
  const absl::Status status = Sql::Open(path, false).value()->Run(text);
  ASSERT_TRUE(status.ok()) << status;
}

TEST(SqliteStoreOpen, IsOpenOnlyOnce) {
  const std::string path = NewStorePath("held");
  auto store = OpenStore(path);
  const auto second = SqliteStore::Open({.path = path});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ErrorReason(second.status()), "STORE_IN_USE");
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(path));
  // The first one is not affected.
  EXPECT_TRUE(store->CreateTable("default", 0).ok());
  store.reset();
  EXPECT_EQ(OpenStore(path)->Load()->size(), 1U);
}

TEST(SqliteStoreOpen, NeedsAWritableDirectory) {
  const auto absent = SqliteStore::Open({.path = "/absent/planb.db"});
  EXPECT_EQ(ErrorReason(absent.status()), "STORE_UNWRITABLE");
  EXPECT_THAT(std::string(absent.status().message()), HasSubstr("/absent/"));
}

TEST(SqliteStoreOpen, NeedsAFileSystemWithSharedMemory) {
  const auto store = SqliteStore::Open(
      {.path = NewStorePath("no_log"), .vfs = "unix-dotfile"});
  EXPECT_EQ(ErrorReason(store.status()), "STORE_UNWRITABLE");
  EXPECT_THAT(std::string(store.status().message()),
              HasSubstr("does not support a write-ahead log"));
}

// Runs as another user, because root may write everywhere.
TEST(SqliteStoreOpen, NeedsWritableFiles) {
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

// Each message names the table and what is wrong with it.
TEST(SqliteStoreOpen, EditedByHandIsRefused) {
  const std::string good = NewStorePath("edited");
  StoredTable table = {.name = "default",
                       .generation = 1,
                       .next_hops = {{.id = 7}},
                       .requests = {{.request_id = "r"}}};
  for (NextHopId i = 1; i <= 600; ++i) {
    table.routes.push_back(
        {Prefix::Truncate(Address::V4(i << 16), 16), NextHopId{7}});
  }
  {
    auto store = SqliteStore::Open(Options(good)).value();
    ASSERT_TRUE(store->CreateTable("default", 0).ok());
    ASSERT_TRUE(store->CreateTable("other", 0).ok());
    ASSERT_TRUE(store->Append("default", {Batch(1, table.routes)}).ok());
    store->OfferSnapshot("default", [&] { return MakeVersion(table); });
    store->AwaitBackground();
    for (NextHopId i = 2; i <= 4; ++i) {
      const auto delta = std::make_shared<Delta>(*Batch(i, {}).delta);
      delta->next_hops = {{.id = i}};
      table.next_hops.push_back({.id = i});
      delta->digest = MakeVersion(table).rib.digest();
      ASSERT_TRUE(store->Append("default", {{.delta = delta}}).ok());
    }
    ASSERT_TRUE(store->Append("other", {Batch(1, {})}).ok());
    ASSERT_TRUE(store->Load().ok());
    store->AwaitBackground();
  }
  const StoreFiles files = ReadStoreFiles(good);
  // Of table 1 part 0 and entries 1 to 3, of table 2 part 0 and entry 1.
  constexpr char kNotTheLog[] = "the log of table default is not the one";
  constexpr char kNotTheRow[] = "a row of store or tables is damaged";
  const std::pair<const char*, const char*> edits[] = {
      {"DELETE FROM log WHERE id = (1 << 43) + 1",
       "entry 1 of the log of table default is missing"},
      {"DELETE FROM log WHERE id = (1 << 43) + 2", "entry 2"},
      {"DELETE FROM log WHERE id = (1 << 43) + 3", kNotTheLog},
      {"DELETE FROM log", kNotTheLog},
      {"UPDATE log SET id = id + 7 WHERE id = (1 << 43) + 3", "entry 3"},
      {"UPDATE log SET entry = CAST(substr(entry, 1, length(entry) - 1) ||"
       " x'01' AS BLOB) WHERE id = (1 << 43) + 1",
       "entry 1 of the log of table default ends too early"},
      // Its writer's epoch.
      {"UPDATE log SET entry = CAST(substr(entry, 1, 1) || x'01' ||"
       " substr(entry, 3) AS BLOB) WHERE id = (1 << 43) + 1",
       kNotTheLog},
      {"UPDATE log SET entry = x'' WHERE id = (1 << 43) + 3", kNotTheLog},
      // Entries 1 and 2 change places.
      {"UPDATE log SET id = 1 WHERE id = (1 << 43) + 1;"
       " UPDATE log SET id = id - 1 WHERE id = (1 << 43) + 2;"
       " UPDATE log SET id = (1 << 43) + 2 WHERE id = 1",
       "entry 1 of the log of table default leads from"},
      // The ends of two tables.
      {"UPDATE log SET id = 1 WHERE id = (1 << 43) + 3;"
       " UPDATE log SET id = (1 << 43) + 3 WHERE id = (2 << 43) + 1;"
       " UPDATE log SET id = (2 << 43) + 1 WHERE id = 1",
       "entry 3 of the log of table default leads from"},
      {"DELETE FROM log WHERE id = 1 << 43", "entry 0"},
      {"UPDATE log SET entry = CAST(entry || x'00' AS BLOB)", "entry 0"},
      {"INSERT INTO log SELECT (1 << 43) + 4, x''", kNotTheLog},
      {"UPDATE tables SET generation = 9", kNotTheRow},
      {"UPDATE tables SET name = 'd' WHERE id = 1", kNotTheRow},
      {"UPDATE tables SET name = 'other' WHERE id = 1", kNotTheRow},
      {"UPDATE tables SET id = 0 WHERE id = 1", kNotTheRow},
      {"UPDATE tables SET parts = 0", kNotTheRow},
      {"UPDATE tables SET next = next - 1", kNotTheRow},
      {"UPDATE tables SET chain = 1", kNotTheRow},
      {"DELETE FROM tables", kNotTheRow},
      {"UPDATE store SET generation_floor = 9", kNotTheRow},
      {"DELETE FROM store", kNotTheRow},
      {"DROP TABLE log", "has views, triggers or tables"},
      {"CREATE VIEW seen AS SELECT * FROM log", "has views, triggers"},
      {"CREATE TRIGGER t AFTER INSERT ON log BEGIN DELETE FROM log; END",
       "has views, triggers"},
      {"ALTER TABLE store RENAME COLUMN store_id TO x", "no such column"},
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
  // An edit while the store is open is refused, too.
  WriteStoreFiles(good, files);
  auto store = OpenStore(good);
  Edit(good, "UPDATE store SET sequence = sequence + 1");
  EXPECT_EQ(store->Load().status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace planb::server
