// SPDX-License-Identifier: Apache-2.0

// The durable store: one SQLite database in WAL mode. STORE.md describes its
// contents and its errors for operators.

#ifndef PLANB_SERVER_STORE_SQLITE_STORE_H_
#define PLANB_SERVER_STORE_SQLITE_STORE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/store/store_files.h"
#include "server/store/store_reader.h"
#include "server/store/store_sql.h"
#include "server/store/store_writer.h"
#include "server/table/store.h"

namespace planb::server {

class StoreCheckpointer;

struct SqliteStoreOptions {
  std::string path;
  StoreSync sync = StoreSync::kFull;
  // The number of answered requests kept for each table.
  uint64_t request_window = 1000;
  // The number of 4-KiB pages in the write-ahead log that starts a checkpoint
  // in the background.
  int64_t checkpoint_pages = 4000;
  // If set, called after each transaction with its duration and result, under
  // the store's lock.
  std::function<void(absl::Duration, const absl::Status&)> on_commit;
  // A VFS registered with SQLite, for tests of failing disks.
  std::string vfs;
};

// For metrics. A plain value.
struct StoreCounters {
  uint64_t commits = 0;  // transactions, including those that create tables
  uint64_t commit_failures = 0;
  uint64_t last_commit_nanos = 0;
  uint64_t checkpoints = 0;
  uint64_t checkpoint_failures = 0;
  uint64_t wal_bytes = 0;  // current size of the file, like the next
  uint64_t database_bytes = 0;
};

// Owns two connections to the database and the thread that runs checkpoints.
// Thread-safe.
//
// Invariant: `tables_` and `store_` equal the rows of the database after its
// last successful transaction. While `unsettled_`, a transaction has failed and
// a crash might still bring it back.
class SqliteStore final : public Store {
 public:
  // Creates the file if it is absent; its directory must exist. The store also
  // uses PATH-wal, PATH-shm and PATH-mark.
  // Errors: FAILED_PRECONDITION (STORE_IN_USE, STORE_UNWRITABLE,
  // STORE_TOO_NEW); DATA_LOSS (STORE_CORRUPT), also if acknowledged commits are
  // missing; UNAVAILABLE (STORE_FAILED).
  static absl::StatusOr<std::unique_ptr<SqliteStore>> Open(
      SqliteStoreOptions options);

  ~SqliteStore() override;

  absl::string_view kind() const override { return "sqlite"; }
  const std::string& path() const override { return options_.path; }

  absl::StatusOr<std::vector<StoredTable>> Load() override;
  absl::Status CreateTable(const std::string& name,
                           uint64_t generation) override;
  absl::Status DeleteTable(const std::string& name,
                           uint64_t generation) override;
  uint64_t generation_floor() const override;
  absl::Status Commit(const std::string& table,
                      absl::Span<const AcceptedBatch> batches) override;

  // Does not wait for a transaction.
  StoreCounters counters() const;

 private:
  SqliteStore(SqliteStoreOptions options, StoreMark mark);

  // Opens the database, reads its checksums and verifies them.
  absl::Status Start();
  // Load(), within a transaction.
  absl::StatusOr<std::vector<StoredTable>> ReadAll()
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WriteMark() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Runs `body` in a transaction. `body` updates the row of `store` that it is
  // given; on success `store_` becomes that row.
  absl::Status Transact(absl::FunctionRef<absl::Status(StoreRow&)> body)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status TryTransact(absl::FunctionRef<absl::Status(StoreRow&)> body,
                           StoreRow& next)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // After a failed transaction: removes what is left of it. Returns the
  // sequence number of the last transaction in the database; no later one can
  // come back.
  absl::StatusOr<uint64_t> Settle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const SqliteStoreOptions options_;

  mutable std::mutex mutex_;
  StoreMark mark_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Sql> sql_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<StoreWriter> writer_ ABSL_GUARDED_BY(mutex_);
  StoreRow store_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, StoredTableState> tables_ ABSL_GUARDED_BY(mutex_);
  bool unsettled_ ABSL_GUARDED_BY(mutex_) = false;
  bool mark_failed_ ABSL_GUARDED_BY(mutex_) = false;
  // Length of the write-ahead log after the last commit. SQLite's hook sets it.
  int64_t wal_pages_ ABSL_GUARDED_BY(mutex_) = 0;
  const std::string boot_id_;

  std::atomic<uint64_t> commits_ = 0;
  std::atomic<uint64_t> commit_failures_ = 0;
  std::atomic<uint64_t> last_commit_nanos_ = 0;

  // Last: its thread uses the members above.
  std::unique_ptr<StoreCheckpointer> checkpointer_;
};

// Opens the store that --store and --store_sync name. `choice` is a path,
// "none", or "auto": a database in kStateDirectory if that directory exists,
// otherwise none. Returns null for none. `sync` is "full", "normal" or "off".
// Errors: INVALID_ARGUMENT, and those of SqliteStore::Open.
inline constexpr char kStateDirectory[] = "/var/lib/planb";
absl::StatusOr<std::shared_ptr<Store>> OpenStore(const std::string& choice,
                                                 const std::string& sync);

}  // namespace planb::server

#endif  // PLANB_SERVER_STORE_SQLITE_STORE_H_
