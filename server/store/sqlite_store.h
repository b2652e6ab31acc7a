// SPDX-License-Identifier: Apache-2.0

// The durable store: one SQLite database in WAL mode. STORE.md describes its
// contents and its errors for operators.

#ifndef PLANB_SERVER_STORE_SQLITE_STORE_H_
#define PLANB_SERVER_STORE_SQLITE_STORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/table/store.h"

namespace planb::server {

struct SqliteStoreOptions {
  std::string path;
  StoreSync sync = StoreSync::kFull;
  // The number of 4-KiB pages in the write-ahead log that starts a checkpoint.
  int64_t checkpoint_pages = 4000;
  // A table's log with more bytes than this, and than half its snapshot, is
  // replaced by a snapshot.
  uint64_t log_bytes = 16 << 20;
  // A VFS registered with SQLite, for tests of failing disks.
  std::string vfs;
};

// For tests. A plain value.
struct StoreCounters {
  uint64_t commits = 0;  // transactions, including those that create tables
  uint64_t commit_failures = 0;
  uint64_t snapshots = 0;
  uint64_t snapshot_failures = 0;
};

// Group commit: what many threads want to write becomes one transaction of one
// thread. The other threads at most wait, so a disk that does not answer holds
// up that thread alone. Thread-safe.
class SqliteStore final : public Store, public TableLog {
 public:
  // Creates the file if it is absent; its directory must exist. The store also
  // uses PATH-wal, PATH-shm and PATH-mark.
  // Errors: FAILED_PRECONDITION (STORE_IN_USE, STORE_UNWRITABLE,
  // STORE_TOO_NEW, STORE_TOO_OLD); DATA_LOSS (STORE_CORRUPT), also if
  // acknowledged commits are missing; UNAVAILABLE (STORE_FAILED).
  static absl::StatusOr<std::unique_ptr<SqliteStore>> Open(
      const SqliteStoreOptions& options);

  // Moves the write-ahead log into the database. After Close() it gives up if
  // the disk takes longer than some seconds, and leaves the thread behind.
  ~SqliteStore() override;

  absl::string_view kind() const override { return "sqlite"; }
  const std::string& path() const override;
  TableLog* log() override { return this; }
  absl::StatusOr<std::vector<StoredTable>> Load() override;
  void Close(const absl::Status& why, SteadyInstant deadline) override;

  StoreSync sync() const override;
  using TableLog::CreateTable;
  using TableLog::DeleteTable;
  using TableLog::OfferSnapshot;
  absl::StatusOr<uint64_t> CreateTable(const std::string& name,
                                       uint64_t generation,
                                       const FibOptions& fib) override;
  absl::Status DeleteTable(const std::string& name, uint64_t id,
                           uint64_t generation) override;
  uint64_t generation_floor() const override;
  void StartAppend(const std::string& table, uint64_t id, uint64_t position,
                   absl::Span<const AcceptedBatch> batches, Done done) override;
  void OfferSnapshot(const std::string& table, uint64_t id,
                     absl::FunctionRef<TableVersion()> version) override;

  // Waits until nothing is left to write.
  void AwaitBackground();

  // Does not wait for a transaction.
  StoreCounters counters() const;

 private:
  class Engine;

  explicit SqliteStore(std::shared_ptr<Engine> engine);

  // The thread shares it, so that it outlives this if it is left behind.
  const std::shared_ptr<Engine> engine_;
  std::thread thread_;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_STORE_SQLITE_STORE_H_
