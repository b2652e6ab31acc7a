// SPDX-License-Identifier: Apache-2.0

// Group commit: what many threads want to write becomes one transaction of one
// thread. The other threads at most wait, so a disk that does not answer holds
// up that thread alone.

#ifndef PLANB_SERVER_STORE_SQLITE_ENGINE_H_
#define PLANB_SERVER_STORE_SQLITE_ENGINE_H_

#include <atomic>
#include <cstdint>
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
#include "server/store/sqlite_schema.h"
#include "server/store/sqlite_sql.h"
#include "server/store/sqlite_writer.h"

namespace planb::server {

// A transaction that is open, and the state that it leads to.
// Thread-compatible.
class StoreTransaction {
 public:
  StoreTransaction(SqliteWriter& writer, StoreState& state)
      : writer_(writer), state_(state), before_row_(state.row) {}
  StoreTransaction(const StoreTransaction&) = delete;
  StoreTransaction& operator=(const StoreTransaction&) = delete;

  SqliteWriter& writer() { return writer_; }
  const StoreState& state() const { return state_; }

  // Null if there is no such table.
  const TableHead* Find(const std::string& name) const;
  // Adds the table or replaces its head. The caller writes the rows.
  void Put(TableHead head);
  void Erase(const std::string& name);
  void RaiseFloor(uint64_t generation);

  // Restores the state before the transaction.
  void Undo();

  // The tables that have changed, with their heads before.
  using Heads = std::map<std::string, std::optional<TableHead>>;
  const Heads& before() const { return before_; }

 private:
  void Keep(const std::string& name);

  SqliteWriter& writer_;
  StoreState& state_;
  const StoreRow before_row_;
  Heads before_;
};

// For metrics. A plain value.
struct StoreCounters {
  uint64_t commits = 0;  // transactions, including those that create tables
  uint64_t commit_failures = 0;
  uint64_t last_commit_nanos = 0;
  uint64_t checkpoints = 0;
  uint64_t checkpoint_failures = 0;
  uint64_t snapshots = 0;
  uint64_t snapshot_failures = 0;
  uint64_t wal_bytes = 0;  // current size of the file, like the next
  uint64_t database_bytes = 0;
};

// The state of the store and the queue of those that want to change it. One
// thread runs Loop(). Thread-safe.
//
// Invariant: `state_` equals the rows of the database after its last successful
// transaction. While `unsettled_`, a transaction has failed and a crash might
// still bring it back.
class SqliteEngine {
 public:
  // Called in Loop() after each successful transaction.
  struct Listener {
    std::function<void(const StoreRow&)> committed;
    // The length of the write-ahead log.
    std::function<void(int64_t)> logged;
  };

  // Takes a connection with a prepared schema, and its state.
  static absl::StatusOr<std::unique_ptr<SqliteEngine>> Create(
      std::string path, std::unique_ptr<Sql> sql, StoreState state);

  // REQUIRES: called before Loop().
  void Listen(Listener listener) { listener_ = std::move(listener); }

  // Runs jobs until End() is called and none is left. Then closes the
  // connection.
  void Loop();
  void End();

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

  // Runs a job between two transactions. It may not write rows. Errors: those
  // of the job, and of Close().
  struct Parts {
    Sql& sql;
    SqliteWriter& writer;
    const StoreState& state;
  };
  using LoneJob = std::function<absl::Status(const Parts&)>;
  absl::Status RunAlone(LoneJob job);

  // Calls `read` between two transactions, on this thread, with the state.
  absl::Status Read(
      absl::FunctionRef<absl::Status(Sql&, const StoreState&)> read);

  // As Store::Close.
  void Close(const absl::Status& why, SteadyInstant deadline);

  // The end of a table's log after the last transaction; nullopt if there is no
  // such table. Does not wait for a transaction.
  std::optional<TableHead> EndOf(const std::string& table) const;
  uint64_t generation_floor() const { return floor_.load(); }
  // Without checkpoints, snapshots and files. Does not wait for a transaction.
  StoreCounters counters() const;

 private:
  struct Waiting {
    Job job;
    LoneJob alone;
    Done done;  // null once it is called
    absl::Status status;
  };
  using Jobs = std::vector<std::shared_ptr<Waiting>>;

  SqliteEngine(std::string path, std::unique_ptr<Sql> sql,
               std::unique_ptr<SqliteWriter> writer, StoreState state);

  void Enqueue(const std::shared_ptr<Waiting>& waiting);
  absl::Status Await(const std::shared_ptr<Waiting>& waiting);
  void RunAll(const Jobs& jobs) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Transact(absl::Span<const std::shared_ptr<Waiting>> jobs)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status TryTransact(absl::Span<const std::shared_ptr<Waiting>> jobs,
                           StoreTransaction& transaction)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // After a failed transaction: removes what is left of it. Returns the
  // sequence number of the last transaction in the database; no later one can
  // come back.
  absl::StatusOr<uint64_t> Settle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string path_;
  Listener listener_;

  // Held during a transaction. Before `queue_mutex_`.
  Mutex mutex_;
  std::unique_ptr<Sql> sql_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<SqliteWriter> writer_ ABSL_GUARDED_BY(mutex_);
  StoreState state_ ABSL_GUARDED_BY(mutex_);
  bool unsettled_ ABSL_GUARDED_BY(mutex_) = false;
  // Length of the write-ahead log after the last commit. SQLite's hook sets it.
  int64_t wal_pages_ ABSL_GUARDED_BY(mutex_) = 0;

  mutable Mutex queue_mutex_;
  CondVar to_run_;
  CondVar idle_;  // no jobs are left
  Jobs queue_ ABSL_GUARDED_BY(queue_mutex_);
  Jobs running_ ABSL_GUARDED_BY(queue_mutex_);
  bool ending_ ABSL_GUARDED_BY(queue_mutex_) = false;
  absl::Status closed_ ABSL_GUARDED_BY(queue_mutex_);
  std::map<std::string, TableHead> ends_ ABSL_GUARDED_BY(queue_mutex_);

  std::atomic<uint64_t> floor_;
  std::atomic<uint64_t> commits_ = 0;
  std::atomic<uint64_t> commit_failures_ = 0;
  std::atomic<uint64_t> last_commit_nanos_ = 0;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_STORE_SQLITE_ENGINE_H_
