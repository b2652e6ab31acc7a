// SPDX-License-Identifier: Apache-2.0

// The durable store: one SQLite database in WAL mode. STORE.md tells operators
// what is in it and what can go wrong.

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
  // The number of answered requests kept of each table, the newest.
  uint64_t request_window = 1000;
  // Pages of 4 KiB in the write-ahead log after which it is moved into the
  // database, in the background.
  int64_t checkpoint_pages = 4000;
  // Called after each transaction, within the store's lock, if set: how long
  // it took, and how it ended.
  std::function<void(absl::Duration, const absl::Status&)> on_commit;
  // A VFS registered with SQLite, for tests that make disks fail.
  std::string vfs;
};

// What a server shows about its store.
struct StoreCounters {
  uint64_t commits = 0;  // transactions, those of tables included
  uint64_t commit_failures = 0;
  uint64_t last_commit_nanos = 0;
  uint64_t checkpoints = 0;
  uint64_t checkpoint_failures = 0;
  uint64_t wal_bytes = 0;  // of the files, as they are now
  uint64_t database_bytes = 0;
};

// Thread-safe.
//
// Invariant: `tables_` and `store_` are what the database says after its last
// successful transaction. While `unsettled_`, a transaction has failed and it
// is not certain yet that nothing of it can come back.
class SqliteStore final : public Store {
 public:
  // Creates the file if it is absent. The directory has to be there. Beside
  // PATH come PATH-wal, PATH-shm and PATH-mark.
  // Errors: FAILED_PRECONDITION (STORE_IN_USE, STORE_UNWRITABLE,
  // STORE_TOO_NEW); DATA_LOSS (STORE_CORRUPT), also if commits that were
  // acknowledged are missing; UNAVAILABLE (STORE_FAILED).
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

  // Never waits for a transaction.
  StoreCounters counters() const;

 private:
  SqliteStore(SqliteStoreOptions options, StoreMark mark);

  // Opens the database, reads what vouches for it and checks it.
  absl::Status Start();
  // Load(), within a transaction.
  absl::StatusOr<std::vector<StoredTable>> ReadAll()
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WriteMark() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Runs `body` in a transaction. `body` changes the row it is given as it
  // wants it to be afterwards. If OK, `store_` is that row.
  absl::Status Transact(absl::FunctionRef<absl::Status(StoreRow&)> body)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status TryTransact(absl::FunctionRef<absl::Status(StoreRow&)> body,
                           StoreRow& next)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes certain how far the database reaches after a failure: returns the
  // number of its last transaction, beyond which nothing can come back.
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
  // Of the write-ahead log after the last commit; set by SQLite's hook.
  int64_t wal_pages_ ABSL_GUARDED_BY(mutex_) = 0;
  const std::string boot_id_;

  std::atomic<uint64_t> commits_ = 0;
  std::atomic<uint64_t> commit_failures_ = 0;
  std::atomic<uint64_t> last_commit_nanos_ = 0;

  // Last: its thread uses what is above.
  std::unique_ptr<StoreCheckpointer> checkpointer_;
};

// `choice` is a path, "none" (then null is returned), or "auto": a database in
// kStateDirectory if that is there, else none. `sync` is "full", "normal" or
// "off". Errors: INVALID_ARGUMENT, and those of SqliteStore::Open.
inline constexpr char kStateDirectory[] = "/var/lib/planb";
absl::StatusOr<std::shared_ptr<Store>> OpenStore(const std::string& choice,
                                                 const std::string& sync);

}  // namespace planb::server

#endif  // PLANB_SERVER_STORE_SQLITE_STORE_H_
