// SPDX-License-Identifier: Apache-2.0

// The store on disks that are full or broken: a failed transaction is gone, a
// crash brings back all of it or nothing, and afterwards work goes on.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>

#include "absl/cleanup/cleanup.h"
#include "server/base/error.h"
#include "server/store/sqlite_store.h"
#include "server/testing/faulty_disk.h"
#include "server/testing/store_place.h"
#include "server/testing/store_script.h"

namespace planb::server {
namespace {

using Fault = FaultyDisk::Fault;

constexpr int64_t kForEver = std::numeric_limits<int64_t>::max();

std::unique_ptr<SqliteStore> OpenStore(const std::string& path,
                                       const std::string& vfs,
                                       StoreSync sync = StoreSync::kFull) {
  auto store = SqliteStore::Open(
      {.path = path, .sync = sync, .request_window = 5, .vfs = vfs});
  EXPECT_TRUE(store.ok()) << store.status();
  return *std::move(store);
}

std::vector<StoredTable> MustLoad(Store& store) {
  auto tables = store.Load();
  EXPECT_TRUE(tables.ok()) << tables.status();
  return tables.ok() ? *std::move(tables) : std::vector<StoredTable>();
}

// What another process would find if this one died now.
std::vector<StoredTable> AfterACrash(const std::string& path) {
  const std::string copy = NewStorePath("after_a_crash");
  WriteStoreFiles(copy, ReadStoreFiles(path));
  return MustLoad(*OpenStore(copy, "", StoreSync::kOff));
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

// Fails the first, second, third... operation of a transaction, until one gets
// through without.
TEST_P(Faults, AtEveryOperation) {
  const auto [fault, bad] = GetParam();
  const std::string path = NewStorePath("faults");
  StoreScript script({.seed = 21, .prefixes = 300, .max_routes_a_batch = 200});
  auto store = OpenStore(path, FaultyDisk::Vfs());
  int failures = 0;
  for (int round = 0; round < 7; ++round) {
    for (int64_t good = 0;; ++good) {
      SCOPED_TRACE(testing::Message()
                   << "round " << round << ", " << good << " good operations");
      const std::vector<StoredTable> before = script.Tables();
      FaultyDisk::Fail(fault, good, bad);
      const absl::Status status = script.Step(store.get());
      if (status.ok()) {
        const bool through = FaultyDisk::Heal() == 0;
        ASSERT_EQ(StoreDifference(script.Tables(), MustLoad(*store)), "");
        ASSERT_EQ(StoreDifference(script.Tables(), AfterACrash(path)), "");
        if (through) break;
        continue;
      }
      ++failures;
      EXPECT_GE(store->counters().commit_failures, 1U);
      ExpectFailure(status, fault);
      ASSERT_EQ(StoreDifference(before, MustLoad(*store)), "");
      const auto found = AfterACrash(path);
      if (StoreDifference(before, found) != "") {
        ASSERT_EQ(StoreDifference(script.Tables(), found), "");
        // A disk that works again has no remains of what failed.
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
      ASSERT_EQ(StoreDifference(script.Tables(), AfterACrash(path)), "");
    }
    // Some rounds begin with an empty log, some do not.
    if (round % 3 == 0) {
      store.reset();
      store = OpenStore(path, FaultyDisk::Vfs());
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

// Fills a store until it cannot go on, makes room, and goes on.
void FillUp(const std::string& path, const std::function<void()>& make_room) {
  StoreScript script({.seed = 22,
                      .request_window = 5,
                      .max_tables = 3,
                      .prefixes = 20'000,
                      .max_routes_a_batch = 3000});
  auto store = OpenStore(path, "");
  std::vector<StoredTable> before;
  absl::Status status;
  // The first failure empties the log, which makes some room by itself.
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

TEST(SqliteStoreFault, FilesMayNotGrow) {
  const std::string path = NewStorePath("limited");
  struct rlimit old;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  const auto old_handler = signal(SIGXFSZ, SIG_IGN);
  const auto restore = absl::MakeCleanup([&] {
    setrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, old_handler);
  });
  struct rlimit small = old;
  small.rlim_cur = 600'000;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  FillUp(path, [&] { setrlimit(RLIMIT_FSIZE, &old); });
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

}  // namespace
}  // namespace planb::server
