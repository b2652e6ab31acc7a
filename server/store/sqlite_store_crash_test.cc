// SPDX-License-Identifier: Apache-2.0

// The store under kill -9: what was acknowledged is there, the transaction that
// was under way is there in full or not at all.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <random>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "server/store/sqlite_store.h"
#include "server/testing/store_place.h"
#include "server/testing/store_script.h"

namespace planb::server {
namespace {

int Rounds() {
  int rounds = 0;
  const char* text = std::getenv("PLANB_STORE_CRASHES");
  return text != nullptr && absl::SimpleAtoi(text, &rounds) ? rounds : 40;
}

SqliteStoreOptions Options(const std::string& path) {
  // A few pages only, to die in checkpoints as well.
  return {.path = path, .request_window = 5, .checkpoint_pages = 30};
}

// In the child: goes on with the script for ever, with an byte into `acks` for
// each step that the store said OK to.
[[noreturn]] void Play(const std::string& path, StoreScript& script, int acks) {
  auto store = SqliteStore::Open(Options(path));
  if (!store.ok()) _exit(1);
  while (script.Step(store->get()).ok()) {
    if (write(acks, "k", 1) != 1) _exit(2);
  }
  _exit(3);
}

// Bytes until the other end is gone.
uint64_t CountBytes(int file) {
  uint64_t count = 0;
  char buffer[4096];
  while (true) {
    const ssize_t got = read(file, buffer, sizeof(buffer));
    if (got <= 0) return count;
    count += static_cast<uint64_t>(got);
  }
}

// Kills after `wait`; how many steps were acknowledged until then.
uint64_t PlayAndKill(const std::string& path, StoreScript& script,
                     absl::Duration wait) {
  int pipe_ends[2];
  EXPECT_EQ(pipe(pipe_ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(pipe_ends[0]);
    Play(path, script, pipe_ends[1]);
  }
  close(pipe_ends[1]);
  absl::SleepFor(wait);
  kill(child, SIGKILL);
  const uint64_t acks = CountBytes(pipe_ends[0]);
  close(pipe_ends[0]);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status)) << "it ended by itself, with " << status;
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
    const uint64_t acks = PlayAndKill(
        path, script,
        absl::Microseconds(static_cast<int64_t>(random() % 150'000)));
    for (uint64_t i = 0; i < acks; ++i) ASSERT_TRUE(script.Step(nullptr).ok());
    acknowledged += acks;

    // Every other time a copy is looked at, and the next child has to make do
    // with what the last one left behind.
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
    // The last one may have been committed, and the child killed before it
    // could say so.
    ++more;
    ASSERT_TRUE(script.Step(nullptr).ok());
    ASSERT_EQ(StoreDifference(script.Tables(), *tables), "");
    ASSERT_EQ((*store)->generation_floor(), script.generation_floor());
  }
  EXPECT_GT(acknowledged, static_cast<uint64_t>(Rounds() / 4));
  std::cout << Rounds() << " crashes, " << acknowledged
            << " transactions acknowledged, " << more
            << " committed and not acknowledged\n";
}

TEST(SqliteStoreCrash, KeepsWhatItAcknowledged) {
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
