// SPDX-License-Identifier: Apache-2.0

// Group commit: what many threads want to write becomes one transaction of one
// thread. The other threads at most wait, so a disk that does not answer holds
// up that thread alone.

#ifndef PLANB_SERVER_STORE_SQLITE_ENGINE_H_
#define PLANB_SERVER_STORE_SQLITE_ENGINE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/monotonic_time.h"
#include "base/mutex.h"
#include "server/store/sqlite_files.h"
#include "server/store/sqlite_rows.h"
#include "server/store/sqlite_sql.h"
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

// What a transaction has changed so far. Thread-compatible.
class StoreTransaction {
 public:
  // Of a table before the transaction; nullopt if there is none.
  using Committed =
      std::function<std::optional<TableRow>(const std::string& name)>;

  StoreTransaction(Sql& sql, const StoreRow& row, Committed committed)
      : sql_(sql), row_(row), committed_(std::move(committed)) {}
  StoreTransaction(const StoreTransaction&) = delete;
  StoreTransaction& operator=(const StoreTransaction&) = delete;

  Sql& sql() { return sql_; }
  StoreRow& row() { return row_; }

  std::optional<TableRow> Find(const std::string& name) const;
  // Adds, replaces or removes a table. The caller writes the rows.
  void Put(const std::string& name, std::optional<TableRow> row);

  using Changes = std::map<std::string, std::optional<TableRow>>;
  const Changes& changes() const { return changes_; }

 private:
  Sql& sql_;
  StoreRow row_;
  const Committed committed_;
  Changes changes_;
};

// The connection to the database, the state of the store, and the queue of
// those that want to change it. One thread runs Loop(). Thread-safe.
//
// Invariant: the state equals the rows of the database after its last
// successful transaction. While `unsettled_`, a transaction has failed and a
// crash might still bring it back.
class SqliteEngine {
 public:
  // Errors: those of SqliteStore::Open.
  static absl::StatusOr<std::shared_ptr<SqliteEngine>> Open(
      SqliteStoreOptions options);

  const SqliteStoreOptions& options() const { return options_; }

  // Runs jobs until End() is called and none is left. Then closes the
  // connection.
  void Loop();
  // Waits until Loop() has done its last job. False if that takes some seconds
  // after Close().
  bool End();

  // A job owns what it uses: it may run after the call that wants it has
  // returned. It may run again after an error. Its own errors are for it alone.
  using Job = std::function<absl::Status(StoreTransaction&)>;

  // Receives the result of a job, once, on the thread of Loop() or of Close();
  // or within the call that hands over the job, if the engine is closed.
  using Done = std::function<void(const absl::Status&)>;

  // Runs a job in a transaction, together with those of other threads. Errors:
  // those of Store.
  void Start(Job job, Done done);
  absl::Status Run(Job job);

  // Work that no call waits for: `step` runs in transactions of its own,
  // between those of jobs, until it returns true or one fails. One task runs
  // after the other. Those that are left at Close() or End() are dropped.
  struct Task {
    std::function<absl::StatusOr<bool>(StoreTransaction&)> step;
    Done done;  // or null
  };
  void AddTask(Task task);
  // Waits until nothing is left to do.
  void AwaitTasks();

  // Calls `read` between two transactions, on this thread, in a transaction
  // that reads. Errors: DATA_LOSS (STORE_CORRUPT) if another process has
  // changed the store; those of Sql and of `read`. After those the write-ahead
  // log is kept for good.
  absl::Status Read(
      absl::FunctionRef<absl::Status(Sql&, const TableRows&)> read);

  // As Store::Close.
  void Close(const absl::Status& why, SteadyInstant deadline);

  // The table after the last transaction; nullopt if there is none. Does not
  // wait for a transaction.
  std::optional<TableRow> Find(const std::string& table) const;
  uint64_t generation_floor() const;
  struct Counters {
    uint64_t commits = 0;  // transactions, including those that create tables
    uint64_t failures = 0;
  };
  Counters counters() const;
  // The highest number of a snapshot when the store was opened.
  uint64_t last_snapshot() const { return last_snapshot_; }

 private:
  struct Waiting {
    Job job;
    Done done;  // null once it is called
    absl::Status status;
  };
  using Jobs = std::vector<std::shared_ptr<Waiting>>;

  SqliteEngine(SqliteStoreOptions options, CommitWatermark mark)
      : options_(std::move(options)), mark_(std::move(mark)) {}

  absl::Status Start() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunJobs(const Jobs& jobs) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Runs one step of a task. True if it has another one.
  bool RunStep(const Task& task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CheckpointIfDue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  using Body = absl::FunctionRef<absl::Status(StoreTransaction&)>;
  absl::Status Transact(Body body) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status TryTransact(Body body, StoreTransaction& transaction)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // After a failed transaction: removes what is left of it. Returns the
  // sequence number of the last transaction in the database; no later one can
  // come back.
  absl::StatusOr<uint64_t> Settle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WriteMark(const StoreRow& row) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const SqliteStoreOptions options_;
  const std::string boot_id_ = CurrentBootId();
  uint64_t last_snapshot_ = 0;

  // Held during a transaction. Before `queue_mutex_`.
  Mutex mutex_;
  CommitWatermark mark_ ABSL_GUARDED_BY(mutex_);
  bool mark_failed_ ABSL_GUARDED_BY(mutex_) = false;
  std::unique_ptr<Sql> sql_ ABSL_GUARDED_BY(mutex_);
  bool unsettled_ ABSL_GUARDED_BY(mutex_) = false;
  bool checkpoint_failed_ ABSL_GUARDED_BY(mutex_) = false;
  // Length of the write-ahead log after the last commit. SQLite's hook sets it.
  int64_t wal_pages_ ABSL_GUARDED_BY(mutex_) = 0;
  // Length from which a checkpoint is made.
  int64_t due_ ABSL_GUARDED_BY(mutex_) = options_.checkpoint_pages;

  mutable Mutex queue_mutex_;
  CondVar changed_;  // anything guarded
  // The state; written with `mutex_` held as well.
  StoreRow row_ ABSL_GUARDED_BY(queue_mutex_);
  TableRows tables_ ABSL_GUARDED_BY(queue_mutex_);
  Counters counters_ ABSL_GUARDED_BY(queue_mutex_);
  Jobs queue_ ABSL_GUARDED_BY(queue_mutex_);
  Jobs running_ ABSL_GUARDED_BY(queue_mutex_);
  std::deque<Task> tasks_ ABSL_GUARDED_BY(queue_mutex_);
  bool idle_ ABSL_GUARDED_BY(queue_mutex_) = false;
  absl::Status closed_ ABSL_GUARDED_BY(queue_mutex_);
  std::optional<SteadyInstant> closed_by_ ABSL_GUARDED_BY(queue_mutex_);
  bool ending_ ABSL_GUARDED_BY(queue_mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(queue_mutex_) = false;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_STORE_SQLITE_ENGINE_H_
