// SPDX-License-Identifier: Apache-2.0

// The store on disks that are full or broken, and under kill -9. A failed
// transaction has no effect, or after a crash its full effect; acknowledged
// ones are kept; and the store works again after the fault.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <limits>
#include <memory>
#include <random>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "lpm/synthetic/synthetic.h"
#include "server/base/error.h"
#include "server/store/commit_watermark.h"
#include "server/store/sqlite_store.h"
#include "server/testing/faulty_disk.h"
#include "server/testing/small_store.h"
#include "server/testing/store_place.h"
#include "server/testing/store_script.h"

namespace planb::server {
namespace {

using Fault = FaultyDisk::Fault;

constexpr int64_t kForEver = std::numeric_limits<int64_t>::max();

std::unique_ptr<SqliteStore> OpenOn(const std::string& path,
                                    const std::string& vfs,
                                    StoreSync sync = StoreSync::kFull) {
  auto store = SqliteStore::Open({.path = path, .sync = sync, .vfs = vfs});
  EXPECT_TRUE(store.ok()) << store.status();
  return *std::move(store);
}

std::vector<StoredTable> MustLoad(Store& store) {
  auto tables = store.Load();
  EXPECT_TRUE(tables.ok()) << tables.status();
  return tables.ok() ? *std::move(tables) : std::vector<StoredTable>();
}

// The tables that another process would load if this one died now.
std::vector<StoredTable> AfterACrash(const std::string& path,
                                     SqliteStore& store) {
  // Nothing may change the files while they are copied.
  store.AwaitBackground();
  const std::string copy = NewStorePath("after_a_crash");
  WriteStoreFiles(copy, ReadStoreFiles(path));
  return MustLoad(*OpenOn(copy, "", StoreSync::kOff));
}

void ExpectFailure(const absl::Status& status, Fault fault) {
  if (fault == Fault::kFull) {
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_EQ(ErrorReason(status), "STORE_FULL");
  } else {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_EQ(ErrorReason(status), "STORE_FAILED");
  }
}

class Faults : public testing::TestWithParam<std::tuple<Fault, int64_t>> {};

// Fails the first, second, third... operation of a transaction, until a
// transaction ends before the failure.
TEST_P(Faults, AtEveryOperation) {
  const auto [fault, bad] = GetParam();
  const std::string path = NewStorePath("faults");
  StoreScript script({.seed = 21, .prefixes = 300, .max_routes_a_batch = 200});
  auto store = OpenOn(path, FaultyDisk::Vfs());
  int failures = 0;
  for (int round = 0; round < 7; ++round) {
    for (int64_t good = 0;; ++good) {
      SCOPED_TRACE(testing::Message()
                   << "round " << round << ", " << good << " good operations");
      const std::vector<StoredTable> before = script.Tables();
      store->AwaitBackground();
      FaultyDisk::Fail(fault, good, bad);
      const absl::Status status = script.Step(store.get());
      if (status.ok()) {
        store->AwaitBackground();
        const bool through = FaultyDisk::Heal() == 0;
        ASSERT_EQ(StoreDifference(script.Tables(), MustLoad(*store)), "");
        ASSERT_EQ(StoreDifference(script.Tables(), AfterACrash(path, *store)),
                  "");
        if (through) break;
        continue;
      }
      ++failures;
      EXPECT_GE(store->counters().commit_failures, 1U);
      ExpectFailure(status, fault);
      ASSERT_EQ(StoreDifference(before, MustLoad(*store)), "");
      const auto found = AfterACrash(path, *store);
      if (StoreDifference(before, found) != "") {
        ASSERT_EQ(StoreDifference(script.Tables(), found), "");
        // If the disk works again, the failed transaction is removed.
        ASSERT_EQ(bad, kForEver);
      }
      if (bad == kForEver) {
        ExpectFailure(script.Retry(*store), fault);
        ASSERT_EQ(StoreDifference(before, MustLoad(*store)), "");
      }
      FaultyDisk::Heal();
      const absl::Status again = script.Retry(*store);
      ASSERT_TRUE(again.ok()) << again;
      ASSERT_EQ(StoreDifference(script.Tables(), MustLoad(*store)), "");
      ASSERT_EQ(StoreDifference(script.Tables(), AfterACrash(path, *store)),
                "");
    }
    // Some rounds start with an empty log.
    if (round % 3 == 0) {
      store.reset();
      store = OpenOn(path, FaultyDisk::Vfs());
    }
  }
  EXPECT_GT(failures, 7);
  std::cout << failures << " failures\n";
}

std::string FaultName(
    const testing::TestParamInfo<std::tuple<Fault, int64_t>>& test) {
  const auto [fault, bad] = test.param;
  const char* names[] = {"Full", "Broken", "Unconfirmed"};
  return absl::StrCat(names[static_cast<int>(fault)],
                      bad == kForEver ? "ForEver" : "Once");
}

INSTANTIATE_TEST_SUITE_P(All, Faults,
                         testing::Combine(testing::Values(Fault::kFull,
                                                          Fault::kBroken,
                                                          Fault::kUnconfirmed),
                                          testing::Values(1, kForEver)),
                         FaultName);

// Fails operations while snapshots take the place of logs.
TEST_P(Faults, OfSnapshotsLoseNothing) {
  const auto [fault, bad] = GetParam();
  const std::string path = NewStorePath("snapshot_faults");
  StoreScript script({.seed = 23, .max_tables = 2});
  const auto open = [&path] {
    return SqliteStore::Open({.path = path,
                              .checkpoint_pages = 10,
                              .log_bytes = 2000,
                              .vfs = FaultyDisk::Vfs()})
        .value();
  };
  auto store = open();
  uint64_t failures = 0;
  uint64_t snapshots = 0;
  for (int64_t round = 0; round < 150; ++round) {
    SCOPED_TRACE(round);
    FaultyDisk::Fail(fault, round % 40, bad);
    const std::vector<StoredTable> before = script.Tables();
    const absl::Status status = script.Step(store.get());
    store->AwaitBackground();
    FaultyDisk::Heal();
    if (!status.ok()) {
      ExpectFailure(status, fault);
      ASSERT_EQ(StoreDifference(before, MustLoad(*store)), "");
      ASSERT_TRUE(script.Retry(*store).ok());
    }
    ASSERT_EQ(StoreDifference(script.Tables(), MustLoad(*store)), "");
    ASSERT_EQ(StoreDifference(script.Tables(), AfterACrash(path, *store)), "");
    failures += store->counters().snapshot_failures;
    snapshots += store->counters().snapshots;
    if (round % 10 == 0) {
      store.reset();
      store = open();
    }
  }
  EXPECT_GT(failures, 0U);
  EXPECT_GT(snapshots, 0U);
}

// Commits until the disk is full, makes room, and commits more.
void FillUp(const std::string& path, const std::function<void()>& make_room) {
  StoreScript script({.seed = 22,
                      .max_tables = 3,
                      .prefixes = 20'000,
                      .max_routes_a_batch = 3000});
  auto store = OpenOn(path, "");
  std::vector<StoredTable> before;
  absl::Status status;
  // The first failure empties the log, which frees some room.
  for (int step = 0; step < 3000 && status.ok(); ++step) {
    before = script.Tables();
    status = script.Step(store.get());
    if (!status.ok()) {
      ExpectFailure(status, Fault::kFull);
      ASSERT_EQ(StoreDifference(before, MustLoad(*store)), "");
      status = script.Retry(*store);
    }
  }
  ExpectFailure(status, Fault::kFull);
  ASSERT_EQ(StoreDifference(before, MustLoad(*store)), "");
  make_room();
  status = script.Retry(*store);
  ASSERT_TRUE(status.ok()) << status;
  for (int step = 0; step < 20; ++step) {
    ASSERT_TRUE(script.Step(store.get()).ok());
  }
  ASSERT_EQ(StoreDifference(script.Tables(), MustLoad(*store)), "");
}

// No file of this process grows above `bytes` while this exists, or until
// Lift(). Writes fail, as on a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(signal(SIGXFSZ, SIG_IGN)) {
    EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &old_), 0);
    struct rlimit limit = old_;
    limit.rlim_cur = bytes;
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  ~FileSizeLimit() {
    Lift();
    signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

  void Lift() { setrlimit(RLIMIT_FSIZE, &old_); }

 private:
  const sighandler_t handler_;
  struct rlimit old_;
};

TEST(SqliteStoreFault, FilesMayNotGrow) {
  const std::string path = NewStorePath("limited");
  FileSizeLimit limit(600'000);
  FillUp(path, [&] { limit.Lift(); });
}

// What this process has written to files so far, in bytes.
uint64_t BytesWritten() {
  std::ifstream io("/proc/self/io");
  std::string name;
  uint64_t bytes = 0;
  while (io >> name >> bytes && name != "wchar:") continue;
  return bytes;
}

// A checkpoint fails after it has written what fits. Commits do not repeat it
// each time.
TEST(SqliteStoreFault, CommitsAreCheapWhileTheDatabaseMayNotGrow) {
  const std::string path = NewStorePath("grown");
  const SqliteStoreOptions options = {
      .path = path, .sync = StoreSync::kOff, .checkpoint_pages = 200};
  const auto store = [&] { return SqliteStore::Open(options).value(); };
  ASSERT_TRUE(store()->CreateTable("default", 0).ok());
  ASSERT_TRUE(store()
                  ->Append("default",
                           {Batch(1, SyntheticTable({.ipv6_routes = 600'000}))})
                  .ok());
  const uint64_t before = StoreFileBytes(path);
  ASSERT_GT(before, 5 << 20);
  const auto open = store();
  FileSizeLimit limit(before + (1 << 20));
  const std::vector<Route> routes = SyntheticTable({.ipv6_routes = 2000});
  uint64_t written = 0;
  uint64_t generation = 1;
  const auto commit = [&](int count) {
    for (int i = 0; i < count; ++i) {
      ASSERT_TRUE(open->Append("default", {Batch(++generation, routes)}).ok());
    }
  };
  commit(100);
  ASSERT_GT(StoreFileBytes(path + "-wal"), 1 << 20);
  written = BytesWritten();
  commit(60);
  EXPECT_LT(BytesWritten() - written, uint64_t{60} * 200'000);
  limit.Lift();
  commit(60);
  EXPECT_GT(StoreFileBytes(path), before + (1 << 20));
}

// Appends that wait for the disk together become one commit.
TEST(SqliteStoreFault, TablesCommitTogether) {
  const std::string path = NewStorePath("together");
  auto store = OpenOn(path, FaultyDisk::Vfs());
  for (int t = 0; t < 8; ++t) {
    ASSERT_TRUE(store->CreateTable(absl::StrCat("table-", t), 0).ok());
  }
  const uint64_t before = store->counters().commits;
  FaultyDisk::Hang();
  std::vector<std::future<absl::Status>> appends;
  const auto append = [&](int table) {
    appends.push_back(std::async(std::launch::async, [&store, table] {
      return store->Append(absl::StrCat("table-", table),
                           {Batch(1, {MakeRoute("::/0", 7)})});
    }));
  };
  append(0);
  FaultyDisk::AwaitHang();
  for (int t = 1; t < 8; ++t) append(t);
  // Some of them may not wait yet; then there is one commit more.
  absl::SleepFor(absl::Milliseconds(200));
  FaultyDisk::Answer();
  for (auto& each : appends) EXPECT_TRUE(each.get().ok());
  EXPECT_LE(store->counters().commits - before, 3U);
  for (const StoredTable& table : AfterACrash(path, *store)) {
    EXPECT_EQ(table.generation, 1U);
  }
}

// A batch that finds no room fails alone, also where it waited with others.
TEST(SqliteStoreFault, ALargeBatchTakesNoOtherDown) {
  const std::string path = NewStorePath("crowd");
  auto store = OpenOn(path, FaultyDisk::Vfs());
  for (const char* name : {"first", "large", "small"}) {
    ASSERT_TRUE(store->CreateTable(name, 0).ok());
  }
  const std::vector<Route> routes = SyntheticTable({.ipv6_routes = 100'000});
  const FileSizeLimit limit(300'000);
  FaultyDisk::Hang();
  const auto append = [&](const char* name, size_t count) {
    const AcceptedBatch batch =
        Batch(1, std::vector<Route>(routes.data(), routes.data() + count));
    const auto result = std::make_shared<std::promise<absl::Status>>();
    store->StartAppend(name, 0, 0, {batch}, [result](const absl::Status& s) {
      result->set_value(s);
    });
    return result->get_future();
  };
  auto first = append("first", 1);
  FaultyDisk::AwaitHang();
  auto large = append("large", routes.size());
  auto small = append("small", 1);
  FaultyDisk::Answer();
  EXPECT_TRUE(first.get().ok());
  ExpectFailure(large.get(), Fault::kFull);
  const absl::Status status = small.get();
  EXPECT_TRUE(status.ok()) << status;
}

// Commits wait for one snapshot at most.
TEST(SqliteStoreFault, ThereIsOneSnapshotAtATime) {
  const std::string path = NewStorePath("snapshots");
  auto store = SqliteStore::Open(
                   {.path = path, .log_bytes = 1, .vfs = FaultyDisk::Vfs()})
                   .value();
  StoredTable table = {.generation = 1};
  table.routes = {MakeRoute("::/0", 7)};
  for (const char* name : {"one", "two"}) {
    ASSERT_TRUE(store->CreateTable(name, 0).ok());
    ASSERT_TRUE(store->Append(name, {Batch(1, table.routes)}).ok());
  }
  FaultyDisk::Hang();
  const auto offer = [&](const char* name) {
    store->OfferSnapshot(name, [&] { return MakeVersion(table); });
  };
  offer("one");
  FaultyDisk::AwaitHang();
  offer("two");
  FaultyDisk::Answer();
  store->AwaitBackground();
  EXPECT_EQ(store->counters().snapshots, 1U);
  offer("two");
  store->AwaitBackground();
  EXPECT_EQ(store->counters().snapshots, 2U);
}

TEST(SqliteStoreFault, CloseInterruptsASnapshot) {
  const std::string path = NewStorePath("interrupt");
  auto store = SqliteStore::Open({.path = path, .log_bytes = 1}).value();
  ASSERT_TRUE(store->CreateTable("default", 0).ok());
  ASSERT_TRUE(store->Append("default", {Batch(1, {})}).ok());
  // Takes much longer to write than the pause.
  StoredTable table = {.generation = 1};
  for (int i = 0; i < 20'000; ++i) {
    table.requests.push_back(
        {.request_id = absl::StrCat(i, std::string(4096, 'x'))});
  }
  store->OfferSnapshot("default", [&] { return MakeVersion(table); });
  absl::SleepFor(absl::Milliseconds(5));
  store->Close(absl::UnavailableError("down"),
               SteadyAfter(absl::InfiniteDuration()));
  EXPECT_EQ(store->counters().snapshots, 0U);
  store.reset();
  EXPECT_EQ(OpenStore(path)->Load().value()[0].generation, 1U);
}

// A disk that does not answer holds up no thread but the store's own.
TEST(SqliteStoreFault, CloseEndsCallsThatWaitForTheDisk) {
  const std::string path = NewStorePath("hung");
  auto store = OpenOn(path, FaultyDisk::Vfs());
  ASSERT_TRUE(store->CreateTable("default", 0).ok());
  ASSERT_TRUE(store->CreateTable("other", 0).ok());
  FaultyDisk::Hang();
  const absl::Cleanup answer = [] { FaultyDisk::Answer(); };
  const auto append = [&](const char* name) {
    return std::async(std::launch::async, [&store, name] {
      return store->Append(name, {Batch(1, {MakeRoute("::/0", 7)})});
    });
  };
  auto writing = append("default");
  FaultyDisk::AwaitHang();
  auto waiting = append("other");
  auto creating = std::async(std::launch::async, [&] {
    return store->CreateTable("new", 0).status();
  });
  EXPECT_EQ(store->generation_floor(), 0U);
  EXPECT_EQ(store->counters().commits, 2U);
  store->Close(absl::UnavailableError("down"),
               SteadyAfter(absl::Milliseconds(100)));
  for (auto* call : {&writing, &waiting, &creating}) {
    EXPECT_EQ(call->get().code(), absl::StatusCode::kUnavailable);
  }
  EXPECT_EQ(store->CreateTable("late", 0).status(),
            absl::UnavailableError("down"));
  const absl::Time start = absl::Now();
  store.reset();
  EXPECT_LT(absl::Now() - start, absl::Seconds(30));
  // What waited behind the commit was not written; the commit may have been.
  const std::string copy = NewStorePath("hung_copy");
  WriteStoreFiles(copy, ReadStoreFiles(path));
  const auto tables = MustLoad(*OpenOn(copy, ""));
  ASSERT_EQ(tables.size(), 2U);
  EXPECT_EQ(tables[1].generation, 0U);
}

TEST(SqliteStoreFault, CloseWaitsForADiskThatAnswers) {
  const std::string path = NewStorePath("slow");
  auto store = OpenOn(path, FaultyDisk::Vfs());
  ASSERT_TRUE(store->CreateTable("default", 0).ok());
  FaultyDisk::Hang();
  auto writing = std::async(std::launch::async, [&] {
    return store->Append("default", {Batch(1, {MakeRoute("::/0", 7)})});
  });
  FaultyDisk::AwaitHang();
  auto closing = std::async(std::launch::async, [&] {
    store->Close(absl::UnavailableError("down"), SteadyAfter(absl::Hours(1)));
  });
  EXPECT_EQ(closing.wait_for(std::chrono::milliseconds(20)),
            std::future_status::timeout);
  FaultyDisk::Answer();
  closing.get();
  EXPECT_TRUE(writing.get().ok());
  store.reset();
  EXPECT_EQ(MustLoad(*OpenOn(path, ""))[0].generation, 1U);
}

TEST(SqliteStoreFault, DiskIsFull) {
  const std::string path = NewStorePath("small");
  const std::string directory =
      std::filesystem::path(path).parent_path().string();
  if (mount("tmpfs", directory.c_str(), "tmpfs", 0, "size=1m") != 0) {
    GTEST_SKIP() << "may not mount a small tmpfs: " << std::strerror(errno);
  }
  const auto unmount =
      absl::MakeCleanup([&] { umount2(directory.c_str(), MNT_DETACH); });
  FillUp(path, [&] {
    ASSERT_EQ(
        mount("tmpfs", directory.c_str(), "tmpfs", MS_REMOUNT, "size=200m"), 0)
        << std::strerror(errno);
  });
}

int Rounds() {
  int rounds = 0;
  const char* text = std::getenv("PLANB_STORE_CRASHES");
  return text != nullptr && absl::SimpleAtoi(text, &rounds) ? rounds : 40;
}

SqliteStoreOptions Options(const std::string& path) {
  // Few pages and bytes, so that some kills hit a checkpoint or a snapshot.
  return {.path = path, .checkpoint_pages = 30, .log_bytes = 10'000};
}

// In the child: runs the script without end, and writes a byte to `acks` for
// each step that succeeded.
[[noreturn]] void Play(const std::string& path, StoreScript& script, int acks) {
  auto store = SqliteStore::Open(Options(path));
  if (!store.ok()) _exit(1);
  while (script.Step(store->get()).ok()) {
    if (write(acks, "k", 1) != 1) _exit(2);
  }
  _exit(3);
}

// Counts bytes until the other end is closed.
uint64_t CountBytes(int file) {
  uint64_t count = 0;
  char buffer[4096];
  while (true) {
    const ssize_t got = read(file, buffer, sizeof(buffer));
    if (got <= 0) return count;
    count += static_cast<uint64_t>(got);
  }
}

// Kills the child after `wait`, counted from its start or from its first
// acknowledgement. Returns the number of acknowledged steps.
uint64_t PlayAndKill(const std::string& path, StoreScript& script,
                     absl::Duration wait, bool from_first) {
  int pipe_ends[2];
  EXPECT_EQ(pipe(pipe_ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(pipe_ends[0]);
    Play(path, script, pipe_ends[1]);
  }
  close(pipe_ends[1]);
  char first;
  const ssize_t got = from_first ? read(pipe_ends[0], &first, 1) : 0;
  absl::SleepFor(wait);
  kill(child, SIGKILL);
  const uint64_t acks = CountBytes(pipe_ends[0]) + (got == 1 ? 1 : 0);
  close(pipe_ends[0]);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status))
      << "the child was not killed; status " << status;
  return acks;
}

void CrashOften(const std::string& name, const StoreScriptOptions& options) {
  const std::string path = NewStorePath(name);
  StoreScript script(options);
  std::mt19937_64 random(options.seed);
  uint64_t acknowledged = 0;
  uint64_t more = 0;
  for (int round = 0; round < Rounds(); ++round) {
    SCOPED_TRACE(round);
    // Half of the rounds have an acknowledgement, however slow the machine is.
    // The others may die while the store opens.
    const uint64_t acks = PlayAndKill(
        path, script,
        absl::Microseconds(static_cast<int64_t>(random() % 150'000)),
        round % 4 < 2);
    for (uint64_t i = 0; i < acks; ++i) ASSERT_TRUE(script.Step(nullptr).ok());
    acknowledged += acks;

    // Every other round opens a copy, so that the next child starts with the
    // files as the kill left them.
    std::string looked_at = path;
    if (round % 2 == 1) {
      looked_at = NewStorePath(name + "_copy");
      WriteStoreFiles(looked_at, ReadStoreFiles(path));
    }
    auto store = SqliteStore::Open(Options(looked_at));
    ASSERT_TRUE(store.ok()) << store.status();
    const auto tables = (*store)->Load();
    ASSERT_TRUE(tables.ok()) << tables.status();
    if (StoreDifference(script.Tables(), *tables).empty()) continue;
    // The last step may be committed although the child was killed before the
    // acknowledgement.
    ++more;
    ASSERT_TRUE(script.Step(nullptr).ok());
    ASSERT_EQ(StoreDifference(script.Tables(), *tables), "");
    ASSERT_EQ((*store)->generation_floor(), script.generation_floor());
  }
  EXPECT_GE(acknowledged, static_cast<uint64_t>(Rounds() / 2));
  std::cout << Rounds() << " crashes, " << acknowledged
            << " transactions acknowledged, " << more
            << " committed and not acknowledged\n";
}

TEST(SqliteStoreCrash, KeepsAcknowledgedCommits) {
  CrashOften("crash", {.seed = 11});
}

TEST(SqliteStoreCrash, KeepsLargeBatchesWhole) {
  CrashOften("crash_large", {.seed = 12,
                             .max_tables = 2,
                             .prefixes = 5000,
                             .max_routes_a_batch = 3000});
}

}  // namespace
}  // namespace planb::server
