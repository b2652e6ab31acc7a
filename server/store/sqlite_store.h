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
#include "server/store/sqlite_engine.h"
#include "server/table/store.h"

namespace planb::server {

// For tests. A plain value.
struct StoreCounters {
  uint64_t commits = 0;  // transactions, including those that create tables
  uint64_t commit_failures = 0;
  uint64_t snapshots = 0;
  uint64_t snapshot_failures = 0;
};

// Owns the connection to the database, and the thread that writes what all
// others append. Thread-safe.
class SqliteStore final : public Store, public TableLog {
 public:
  // Creates the file if it is absent; its directory must exist. The store also
  // uses PATH-wal, PATH-shm and PATH-mark.
  // Errors: FAILED_PRECONDITION (STORE_IN_USE, STORE_UNWRITABLE,
  // STORE_TOO_NEW, STORE_TOO_OLD); DATA_LOSS (STORE_CORRUPT), also if
  // acknowledged commits are missing; UNAVAILABLE (STORE_FAILED).
  static absl::StatusOr<std::unique_ptr<SqliteStore>> Open(
      SqliteStoreOptions options);

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

  // Waits until no snapshot, sweep or checkpoint is left to do.
  void AwaitBackground();

  // Does not wait for a transaction.
  StoreCounters counters() const;

 private:
  // What the tasks that write snapshots share.
  struct Snapshots;

  explicit SqliteStore(std::shared_ptr<SqliteEngine> engine);

  // Deletes leftovers, soon.
  void Sweep();

  // The thread shares it, so that it outlives this if it is left behind.
  const std::shared_ptr<SqliteEngine> engine_;
  const std::shared_ptr<Snapshots> snapshots_;
  std::thread thread_;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_STORE_SQLITE_STORE_H_
