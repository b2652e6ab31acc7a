// SPDX-License-Identifier: Apache-2.0

#include "server/store/sqlite_store.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <optional>
#include <random>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "lpm/routes/table_digest.h"
#include "server/base/error.h"
#include "server/base/log.h"
#include "server/store/commit_watermark.h"
#include "server/store/sqlite_database.h"
#include "server/store/store_entry.h"

namespace planb::server {
namespace {

// Batches of one call are one entry, up to this size.
constexpr size_t kEntryBytes = 16 << 20;
// How long End() waits for the disk after Close().
constexpr absl::Duration kLastSync = absl::Seconds(5);

uint64_t RandomId() {
  std::random_device random;
  return uint64_t{random()} << 32 | random();
}

// Maps errors of writing to those that TableLog documents.
absl::Status WriteError(const absl::Status& status) {
  if (status.ok() || status.code() == absl::StatusCode::kResourceExhausted ||
      status.code() == absl::StatusCode::kUnavailable) {
    return status;
  }
  return Error(absl::StatusCode::kUnavailable, "STORE_FAILED",
               status.message());
}

// The row of a table that is stored, because its callers know.
TableRow& Stored(StoreState& state, const std::string& table) {
  const auto row = state.tables.find(table);
  ABSL_RAW_CHECK(row != state.tables.end(), "the table is stored");
  return row->second;
}

absl::Status AppendEntries(Sql& sql, const std::vector<Entry>& entries,
                           TableRow& row) {
  for (const Entry& entry : entries) {
    if (entry.generation != 0) {
      if (entry.previous != row.generation) {
        return absl::InternalError(absl::StrCat(
            "a batch changes generation ", entry.previous, " of table ",
            row.name, ", which is at ", row.generation));
      }
      row.generation = entry.generation;
    }
    row.log_bytes += entry.bytes.size();
    const absl::Status status = AppendRow(sql, entry.bytes, row);
    if (!status.ok()) return status;
  }
  return WriteTableRow(sql, row);
}

}  // namespace

// The connection to the database, the state of the store, and the queue of
// those that want to change it. One thread runs Loop(). Thread-safe.
//
// Invariant: the state equals the rows of the database after its last
// successful transaction. While `unsettled_`, a transaction has failed and a
// crash might still bring it back.
class SqliteStore::Engine {
 public:
  // Errors: those of SqliteStore::Open.
  static absl::StatusOr<std::shared_ptr<Engine>> Open(
      const SqliteStoreOptions& options);

  const SqliteStoreOptions& options() const { return options_; }

  // Runs jobs until End() is called and none is left. Then closes the
  // connection.
  void Loop();
  // Waits until Loop() has done its last job. False if that takes some seconds
  // after Close().
  bool End();

  // A job owns what it uses: it may run after the call that wants it has
  // returned. It may run again after an error. Its own errors are for it alone.
  using Job = std::function<absl::Status(Sql&, StoreState&)>;

  // Runs a job in a transaction, together with those of other threads. `done`
  // receives the result, once, on the thread of Loop() or of Close(); or within
  // this call, if the engine is closed. Errors: those of TableLog.
  void Start(Job job, Done done);
  absl::Status Run(Job job);
  // As TableLog. The snapshot is a transaction of its own, after those before
  // and before later ones, which wait for as long as it takes: O(table). So
  // there is one at a time, of all tables. Close() and End() interrupt it.
  void OfferSnapshot(const std::string& table,
                     absl::FunctionRef<TableVersion()> version);
  void AwaitIdle();

  absl::StatusOr<std::vector<StoredTable>> Load();

  // As Store::Close.
  void Close(const absl::Status& why, SteadyInstant deadline);

  // The state and the counts of commits after the last transaction. Does not
  // wait for one.
  template <typename Result>
  Result With(
      absl::FunctionRef<Result(const StoreState&, StoreCounters&)> use) {
    const MutexLock lock(mutex_);
    return use(state_, counters_);
  }

 private:
  struct Waiting {
    Job job;
    Done done;  // null once it is called
    bool alone = false;
    absl::Status status;
  };
  using Jobs = std::deque<std::shared_ptr<Waiting>>;

  Engine(const SqliteStoreOptions& options,
         std::unique_ptr<CommitWatermark> mark)
      : options_(options), mark_(std::move(mark)) {}

  absl::Status Begin() ABSL_EXCLUSIVE_LOCKS_REQUIRED(connection_);
  bool MayWriteSnapshot() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Removes the one that waits, and interrupts the one that is written.
  void EndSnapshots() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Moves what the log has to the database, once it is long enough.
  void Checkpoint() ABSL_EXCLUSIVE_LOCKS_REQUIRED(connection_);
  void RunJobs(const Jobs& jobs) ABSL_EXCLUSIVE_LOCKS_REQUIRED(connection_);
  using Body = absl::FunctionRef<absl::Status(Sql&, StoreState&)>;
  absl::Status Transact(Body body) ABSL_EXCLUSIVE_LOCKS_REQUIRED(connection_);
  absl::Status TryTransact(Body body, StoreState& state)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(connection_);
  // After a failed transaction: removes what is left of it. Returns the
  // sequence number of the last transaction in the database; no later one can
  // come back.
  absl::StatusOr<uint64_t> Settle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(connection_);
  void WriteMark(const StoreState& state)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(connection_);

  const SqliteStoreOptions options_;
  const uint64_t boot_ = ThisBoot();

  // Held during a transaction. Before `mutex_`.
  Mutex connection_;
  const std::unique_ptr<CommitWatermark> mark_ ABSL_PT_GUARDED_BY(connection_);
  bool mark_failed_ ABSL_GUARDED_BY(connection_) = false;
  std::unique_ptr<Sql> sql_ ABSL_GUARDED_BY(connection_);
  bool unsettled_ ABSL_GUARDED_BY(connection_) = false;
  // As of the last commit; set by SQLite within it.
  int log_pages_ ABSL_GUARDED_BY(connection_) = 0;
  bool checkpoint_failed_ ABSL_GUARDED_BY(connection_) = false;

  Mutex mutex_;
  CondVar changed_;  // anything guarded
  // Written with `connection_` held as well.
  StoreState state_ ABSL_GUARDED_BY(mutex_);
  StoreCounters counters_ ABSL_GUARDED_BY(mutex_);
  // The bytes of log from which a table may be offered again: not while its
  // snapshot waits, and not at once after a failure.
  std::map<std::string, uint64_t> offer_from_ ABSL_GUARDED_BY(mutex_);
  Jobs queue_ ABSL_GUARDED_BY(mutex_);
  Jobs running_ ABSL_GUARDED_BY(mutex_);
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);
  std::optional<SteadyInstant> closed_by_ ABSL_GUARDED_BY(mutex_);
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::atomic<bool> stop_snapshots_ = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

absl::StatusOr<std::shared_ptr<SqliteStore::Engine>> SqliteStore::Engine::Open(
    const SqliteStoreOptions& options) {
  auto mark = CommitWatermark::Open(options.path);
  if (!mark.ok()) return mark.status();
  std::shared_ptr<Engine> engine(new Engine(options, *std::move(mark)));
  const MutexLock lock(engine->connection_);
  const absl::Status status = engine->Begin();
  if (!status.ok()) return WithRemedy(status, options.path);
  return engine;
}

absl::Status SqliteStore::Engine::Begin() {
  const auto mark = mark_->Read();
  if (!mark.ok()) return mark.status();
  if (absl::Status s = mark_->CheckFiles(*mark); !s.ok()) return s;
  auto opened = OpenDatabase({.path = options_.path,
                              .sync = options_.sync,
                              .checkpoint_pages = 0,
                              .vfs = options_.vfs},
                             RandomId());
  if (!opened.ok()) return opened.status();
  auto state = ReadState(**opened);
  if (!state.ok()) return state.status();
  if (absl::Status s = mark_->Check(*mark, state->store_id, state->sequence);
      !s.ok()) {
    return s;
  }
  // The process before may have died between a write and its sync. What is
  // served is durable, and the mark names no commit that a power loss takes. A
  // new store that syncs at checkpoints only keeps at least its id.
  if (options_.sync != StoreSync::kOff) {
    if (absl::Status s = (*opened)->Sync(); !s.ok()) return s;
  }
  WriteMark(*state);
  KeepLog(**opened, false);
  sql_ = *std::move(opened);
  sqlite3_wal_hook(
      sql_->sql(),
      [](void* pages, sqlite3*, const char*, int now) {
        *static_cast<int*>(pages) = now;
        return SQLITE_OK;
      },
      &log_pages_);
  const MutexLock lock(mutex_);
  state_ = *std::move(state);
  return absl::OkStatus();
}

// SQLite would do it within the commit that fills the log, before its answer,
// and say nothing of errors. Nothing is lost by one: the pages stay in the log.
void SqliteStore::Engine::Checkpoint() {
  if (log_pages_ < options_.checkpoint_pages) return;
  const int result = sqlite3_wal_checkpoint_v2(
      sql_->sql(), nullptr, SQLITE_CHECKPOINT_PASSIVE, nullptr, nullptr);
  if (result == SQLITE_OK) log_pages_ = 0;
  const bool failed = result != SQLITE_OK && result != SQLITE_BUSY;
  if (failed && !checkpoint_failed_) {
    Log(LogLevel::kWarning, "store checkpoint failed",
        {{"error", sqlite3_errmsg(sql_->sql())}});
  }
  checkpoint_failed_ = failed;
}

void SqliteStore::Engine::WriteMark(const StoreState& state) {
  const absl::Status status =
      mark_->Write({.store_id = state.store_id,
                    .sequence = state.sequence,
                    .synced = options_.sync == StoreSync::kFull ? 1U : 0U,
                    .boot = boot_});
  // The commit is valid without the mark; only its loss would not be noticed.
  if (!status.ok() && !mark_failed_) {
    Log(LogLevel::kWarning, "store mark not written",
        {{"error", status.message()}});
  }
  mark_failed_ = !status.ok();
}

void SqliteStore::Engine::Loop() {
  MutexLock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return ending_ || !queue_.empty();
    });
    if (queue_.empty()) break;
    // Those before the next that runs alone, or that one.
    auto end = queue_.begin();
    while (end != queue_.end() && !(*end)->alone) ++end;
    if (end == queue_.begin()) ++end;
    const Jobs jobs(queue_.begin(), end);
    queue_.erase(queue_.begin(), end);
    running_ = jobs;
    lock.unlock();
    {
      const MutexLock connection(connection_);
      RunJobs(jobs);
    }
    lock.lock();
    // Close() may have called some.
    for (const auto& job : jobs) {
      const Done done = std::exchange(job->done, nullptr);
      if (done == nullptr) continue;
      lock.unlock();
      done(job->status);
      lock.lock();
    }
    lock.unlock();
    // Here, because they may own much.
    for (const auto& job : jobs) job->job = nullptr;
    {
      const MutexLock connection(connection_);
      Checkpoint();
    }
    lock.lock();
    running_.clear();
    changed_.notify_all();
  }
  lock.unlock();
  {
    const MutexLock connection(connection_);
    sql_.reset();
  }
  lock.lock();
  ended_ = true;
  changed_.notify_all();
}

bool SqliteStore::Engine::End() {
  MutexLock lock(mutex_);
  ending_ = true;
  EndSnapshots();
  const auto has_ended = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return ended_;
  };
  if (!closed_by_.has_value()) {
    changed_.wait(lock, has_ended);
    return true;
  }
  return changed_.wait_until(
      lock,
      std::max(*closed_by_, SteadyNow()) + absl::ToChronoNanoseconds(kLastSync),
      has_ended);
}

void SqliteStore::Engine::Start(Job job, Done done) {
  absl::Status closed;
  {
    const MutexLock lock(mutex_);
    if (closed_.ok()) {
      queue_.push_back(std::make_shared<Waiting>(
          Waiting{.job = std::move(job), .done = std::move(done)}));
      changed_.notify_all();
      return;
    }
    closed = closed_;
  }
  done(closed);
}

absl::Status SqliteStore::Engine::Run(Job job) {
  // Shared, because set_value() may still run when get() has returned.
  const auto result = std::make_shared<std::promise<absl::Status>>();
  Start(std::move(job),
        [result](const absl::Status& s) { result->set_value(s); });
  return result->get_future().get();
}

void SqliteStore::Engine::OfferSnapshot(
    const std::string& table, absl::FunctionRef<TableVersion()> version) {
  MutexLock lock(mutex_);
  const auto found = state_.tables.find(table);
  if (found == state_.tables.end() || !MayWriteSnapshot() ||
      found->second.log_bytes <=
          std::max(options_.log_bytes, found->second.snapshot_bytes / 2)) {
    return;
  }
  uint64_t& from = offer_from_[table];
  if (found->second.log_bytes < from) return;
  const TableRow row = found->second;
  from = row.log_bytes + options_.log_bytes;
  lock.unlock();
  const auto taken = std::make_shared<const TableVersion>(version());
  const auto write = [row, taken, this](Sql& sql,
                                        StoreState& state) -> absl::Status {
    const auto now = state.tables.find(row.name);
    // It may have been deleted meanwhile, and created again.
    if (now == state.tables.end() || now->second.chain != row.chain) {
      return absl::OkStatus();
    }
    if (taken->generation != now->second.generation) {
      return absl::InternalError("the snapshot is of another generation");
    }
    // sqlite3_interrupt() is lost between two statements.
    sqlite3_progress_handler(
        sql.sql(), 1,
        [](void* stop) -> int {
          return *static_cast<const std::atomic<bool>*>(stop) ? 1 : 0;
        },
        &stop_snapshots_);
    const absl::Status status =
        PutTable(sql, now->second, ContentsOf(*taken), state);
    sqlite3_progress_handler(sql.sql(), 0, nullptr, nullptr);
    return status;
  };
  const auto done = [this, table](const absl::Status& status) {
    {
      const MutexLock again(mutex_);
      ++(status.ok() ? counters_.snapshots : counters_.snapshot_failures);
      if (status.ok()) offer_from_.erase(table);
      if (status.ok() || !closed_.ok() || ending_) return;
    }
    Log(LogLevel::kWarning, "the store could not be compacted",
        {{"error", status.message()}});
  };
  lock.lock();
  if (!MayWriteSnapshot()) {
    offer_from_.erase(table);
    return;
  }
  queue_.push_back(std::make_shared<Waiting>(
      Waiting{.job = write, .done = done, .alone = true}));
  changed_.notify_all();
}

bool SqliteStore::Engine::MayWriteSnapshot() const {
  const auto alone = [](const auto& job) { return job->alone; };
  return closed_.ok() && !ending_ && std::ranges::none_of(queue_, alone) &&
         std::ranges::none_of(running_, alone);
}

void SqliteStore::Engine::EndSnapshots() {
  stop_snapshots_ = true;
  std::erase_if(queue_, [](const auto& job) { return job->alone; });
  changed_.notify_all();
}

void SqliteStore::Engine::AwaitIdle() {
  MutexLock lock(mutex_);
  changed_.wait(lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return queue_.empty() && running_.empty();
  });
}

absl::StatusOr<std::vector<StoredTable>> SqliteStore::Engine::Load() {
  const MutexLock lock(connection_);
  // A transaction, so that all reads see one state of the database.
  absl::Status status = sql_->Run("BEGIN");
  if (!status.ok()) return status;
  absl::StatusOr<std::vector<StoredTable>> tables;
  const absl::StatusOr<StoreState> state = ReadState(*sql_);
  status = state.status();
  if (status.ok()) {
    tables = ReadTables(*sql_, *state);
    status = tables.status();
  }
  status.Update(sql_->Run("END"));
  if (status.ok()) return tables;
  KeepLog(*sql_, true);
  return WithRemedy(status, options_.path);
}

void SqliteStore::Engine::Close(const absl::Status& why,
                                SteadyInstant deadline) {
  MutexLock lock(mutex_);
  if (closed_.ok()) closed_ = why;
  closed_by_ = deadline;
  EndSnapshots();
  const bool idle = changed_.wait_until(
      lock, deadline, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return queue_.empty() && running_.empty();
      });
  if (idle) return;
  Log(LogLevel::kError, "the store does not answer; its calls are ended",
      {{"path", options_.path}, {"calls", queue_.size() + running_.size()}});
  std::vector<Done> abandoned;
  for (Jobs* jobs : {&running_, &queue_}) {
    for (const auto& job : *jobs) {
      Done done = std::exchange(job->done, nullptr);
      if (done != nullptr) abandoned.push_back(std::move(done));
    }
  }
  queue_.clear();
  lock.unlock();
  const absl::Status status =
      Error(absl::StatusCode::kUnavailable, "STORE_FAILED",
            absl::StrCat(options_.path,
                         ": the disk did not answer before the server went"
                         " down; the change may have taken effect"));
  for (const Done& done : abandoned) done(status);
}

void SqliteStore::Engine::RunJobs(const Jobs& jobs) {
  const absl::Status status = Transact([&](Sql& sql, StoreState& state) {
    absl::Status all;
    for (const auto& waiting : jobs) {
      if (all.ok()) all = waiting->job(sql, state);
    }
    return all;
  });
  // A full disk may have room for the others, and a job may be refused for
  // itself. An error of the disk is that of all jobs.
  const bool separately =
      jobs.size() > 1 && !status.ok() && !absl::IsUnavailable(status);
  for (const auto& waiting : jobs) {
    waiting->status = WriteError(separately ? Transact(waiting->job) : status);
  }
}

absl::Status SqliteStore::Engine::Transact(Body body) {
  StoreState state;
  {
    const MutexLock lock(mutex_);
    state = state_;
  }
  const uint64_t before = state.sequence;
  const absl::Status status = TryTransact(body, state);
  const bool committed = status.ok() && state.sequence != before;
  if (committed) WriteMark(state);
  const MutexLock lock(mutex_);
  if (!status.ok()) ++counters_.commit_failures;
  if (!committed) return status;
  ++counters_.commits;
  std::erase_if(offer_from_, [&state](const auto& offer) {
    return !state.tables.contains(offer.first);
  });
  std::swap(state_, state);  // the old one goes without the lock
  return status;
}

absl::Status SqliteStore::Engine::TryTransact(Body body, StoreState& state) {
  const uint64_t before = state.sequence;
  if (unsettled_) {
    const absl::StatusOr<uint64_t> reached = Settle();
    if (!reached.ok()) return reached.status();
    if (*reached != before) {
      return Error(absl::StatusCode::kUnavailable, "STORE_FAILED",
                   absl::StrCat(options_.path,
                                ": has a commit that was reported as"
                                " failed: restart the server"));
    }
    unsettled_ = false;
  }
  absl::Status status = sql_->Run("BEGIN IMMEDIATE");
  if (!status.ok()) return status;
  const int changes = sqlite3_total_changes(sql_->sql());
  status = body(*sql_, state);
  if (status.ok() && sqlite3_total_changes(sql_->sql()) == changes) {
    status = sql_->Run("ROLLBACK");
    unsettled_ = !status.ok();
    return status;
  }
  ++state.sequence;
  if (status.ok()) status = WriteState(*sql_, state);
  if (status.ok()) status = sql_->Run("COMMIT");
  if (status.ok()) return status;

  unsettled_ = true;
  const absl::StatusOr<uint64_t> reached = Settle();
  if (!reached.ok()) return status;
  unsettled_ = *reached != before && *reached != before + 1;
  // The transaction was committed despite the error, and is durable now.
  if (*reached == before + 1) return absl::OkStatus();
  return status;
}

// A failed COMMIT may have left complete frames in the log that are not synced.
// This connection ignores them and would overwrite them, but after a crash
// SQLite would treat them as a commit. A checkpoint that truncates the log
// removes all frames and writes every transaction that this connection knows to
// the database. (Opening the database again could instead bring the failed
// commit back, from pages that the kernel considers clean after their failed
// sync but never wrote.)
absl::StatusOr<uint64_t> SqliteStore::Engine::Settle() {
  if (sql_->InTransaction()) {
    if (absl::Status s = sql_->Run("ROLLBACK"); !s.ok()) return s;
  }
  if (absl::Status s = sql_->Truncate(); !s.ok()) return s;
  const auto sequence = sql_->Integer("SELECT sequence FROM store");
  if (!sequence.ok()) return sequence.status();
  return static_cast<uint64_t>(*sequence);
}

absl::StatusOr<std::unique_ptr<SqliteStore>> SqliteStore::Open(
    const SqliteStoreOptions& options) {
  auto engine = Engine::Open(options);
  if (!engine.ok()) return engine.status();
  return std::unique_ptr<SqliteStore>(new SqliteStore(*std::move(engine)));
}

SqliteStore::SqliteStore(std::shared_ptr<Engine> engine)
    : engine_(std::move(engine)),
      thread_([engine = engine_] { engine->Loop(); }) {}

SqliteStore::~SqliteStore() {
  if (engine_->End()) {
    thread_.join();
    return;
  }
  Log(LogLevel::kError, "the store does not answer; it is left as it is",
      {{"path", path()}});
  thread_.detach();
}

const std::string& SqliteStore::path() const { return engine_->options().path; }

StoreSync SqliteStore::sync() const { return engine_->options().sync; }

absl::StatusOr<std::vector<StoredTable>> SqliteStore::Load() {
  return engine_->Load();
}

absl::StatusOr<uint64_t> SqliteStore::CreateTable(const std::string& name,
                                                  uint64_t generation,
                                                  const FibOptions& fib) {
  const absl::Status status = engine_->Run(
      [name, generation, fib](Sql& sql, StoreState& state) -> absl::Status {
        ABSL_RAW_CHECK(!state.tables.contains(name),
                       "the table is not stored yet");
        return PutTable(sql,
                        {.name = name, .prefix_lengths = fib.prefix_lengths},
                        {.generation = generation,
                         .digest = TableDigest().ToString(),
                         .routes = TableRoutes(),
                         .next_hops = NextHopSet()},
                        state);
      });
  if (!status.ok()) return status;
  return 0;
}

absl::Status SqliteStore::DeleteTable(const std::string& name, uint64_t /*id*/,
                                      uint64_t generation) {
  return engine_->Run([name, generation](Sql& sql, StoreState& state) {
    Stored(state, name);
    state.generation_floor = std::max(state.generation_floor, generation);
    return RemoveTable(sql, name, state);
  });
}

uint64_t SqliteStore::generation_floor() const {
  return engine_->With<uint64_t>([](const StoreState& state, StoreCounters&) {
    return state.generation_floor;
  });
}

void SqliteStore::StartAppend(const std::string& table, uint64_t /*id*/,
                              uint64_t /*position*/,
                              absl::Span<const AcceptedBatch> batches,
                              Done done) {
  if (batches.empty()) return done(absl::OkStatus());
  engine_->Start(
      [table, entries = MakeEntries(batches, kEntryBytes)](Sql& sql,
                                                           StoreState& state) {
        return AppendEntries(sql, entries, Stored(state, table));
      },
      std::move(done));
}

void SqliteStore::OfferSnapshot(const std::string& table, uint64_t /*id*/,
                                absl::FunctionRef<TableVersion()> version) {
  engine_->OfferSnapshot(table, version);
}

void SqliteStore::Close(const absl::Status& why, SteadyInstant deadline) {
  engine_->Close(why, deadline);
}

void SqliteStore::AwaitBackground() { engine_->AwaitIdle(); }

StoreCounters SqliteStore::counters() const {
  return engine_->With<StoreCounters>(
      [](const StoreState&, StoreCounters& counters) { return counters; });
}

}  // namespace planb::server
