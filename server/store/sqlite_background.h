// SPDX-License-Identifier: Apache-2.0

// What keeps the files of the store small, beside those that write: checkpoints
// of the write-ahead log, snapshots that replace the logs of tables, and the
// deletion of rows that no table refers to.

#ifndef PLANB_SERVER_STORE_SQLITE_BACKGROUND_H_
#define PLANB_SERVER_STORE_SQLITE_BACKGROUND_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "server/store/sqlite_engine.h"
#include "server/store/sqlite_sql.h"
#include "server/table/store.h"

namespace planb::server {

// One thread runs Loop(). Writes only by jobs of the engine, each of which
// takes some milliseconds. Thread-safe.
//
// SQLite can reuse the write-ahead log from its start only when all of it is in
// the database. A writer that never pauses is always ahead of a concurrent
// checkpoint, and the log would grow without limit. Therefore a checkpoint has
// two passes. The first, long one runs beside transactions, on a connection of
// its own. The second one moves the transactions that came meanwhile, between
// two others.
class SqliteBackground {
 public:
  struct Options {
    // The number of 4-KiB pages in the write-ahead log that starts a
    // checkpoint.
    int64_t checkpoint_pages;
    // A log with more bytes than this, and than half its snapshot, is replaced.
    uint64_t log_bytes;
    // Snapshots with this number and above do not exist.
    uint64_t next_snapshot;
  };

  // `engine` must outlive this.
  SqliteBackground(SqliteEngine& engine, std::unique_ptr<Sql> checkpoints,
                   const Options& options);

  // Works until End() is called, then closes the connection.
  void Loop();
  void End();

  // Ends the work in hand, and begins no other.
  void Pause();

  // The write-ahead log has this length. Does not block.
  void Logged(int64_t pages);

  // As Store::OfferSnapshot.
  void OfferSnapshot(const std::string& table,
                     absl::FunctionRef<TableVersion()> version);

  // Call when there may be leftovers: at the start, and when a table is
  // deleted.
  void Sweep();

  // Waits until there is no work to do.
  void AwaitIdle();

  // Adds the counts of checkpoints and snapshots.
  void AddTo(StoreCounters& counters) const;

 private:
  struct Offer {
    TableHead end;  // of the log that the snapshot replaces
    TableVersion version;
  };

  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !resting_ && (pages_ >= due_ || !offers_.empty() || sweep_);
  }
  void CheckpointIfDue();
  absl::Status WriteSnapshot(Offer offer);
  // Writes the parts of a snapshot and counts them in `row` and their bytes.
  absl::Status WriteParts(Offer offer, TableRow& row, uint64_t& bytes);
  absl::Status DeleteLeftovers();
  bool resting() const;

  SqliteEngine& engine_;
  std::unique_ptr<Sql> sql_;  // of Loop()
  const Options options_;
  uint64_t next_snapshot_;  // of Loop()

  mutable Mutex mutex_;
  CondVar changed_;  // anything guarded
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  bool resting_ ABSL_GUARDED_BY(mutex_) = false;  // also when ending
  bool idle_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t pages_ ABSL_GUARDED_BY(mutex_) = 0;
  // The length of the write-ahead log that starts the next checkpoint.
  int64_t due_ ABSL_GUARDED_BY(mutex_);
  std::deque<Offer> offers_ ABSL_GUARDED_BY(mutex_);
  // The bytes of log from which each table may be offered. A table may not
  // while its snapshot is being written.
  std::map<std::string, uint64_t> from_bytes_ ABSL_GUARDED_BY(mutex_);
  bool sweep_ ABSL_GUARDED_BY(mutex_) = false;

  std::atomic<uint64_t> checkpoints_ = 0;
  std::atomic<uint64_t> checkpoint_failures_ = 0;
  std::atomic<uint64_t> snapshots_ = 0;
  std::atomic<uint64_t> snapshot_failures_ = 0;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_STORE_SQLITE_BACKGROUND_H_
