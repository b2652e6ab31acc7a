// SPDX-License-Identifier: Apache-2.0

#include "server/store/sqlite_engine.h"

#include <algorithm>
#include <future>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/log.h"

namespace planb::server {
namespace {

// How long End() waits for the disk after Close().
constexpr absl::Duration kLastSync = absl::Seconds(5);

uint64_t RandomId() {
  std::random_device random;
  return uint64_t{random()} << 32 | random();
}

// Maps errors of writing to those that Store documents.
absl::Status WriteError(const absl::Status& status) {
  if (status.ok() || status.code() == absl::StatusCode::kResourceExhausted ||
      status.code() == absl::StatusCode::kUnavailable) {
    return status;
  }
  return Error(absl::StatusCode::kUnavailable, "STORE_FAILED",
               status.message());
}

}  // namespace

std::optional<TableRow> StoreTransaction::Find(const std::string& name) const {
  const auto found = changes_.find(name);
  return found == changes_.end() ? committed_(name) : found->second;
}

void StoreTransaction::Put(const std::string& name,
                           std::optional<TableRow> row) {
  const std::optional<TableRow> before = Find(name);
  if (before.has_value()) row_.heads_sum -= before->Checksum();
  if (row.has_value()) row_.heads_sum += row->Checksum();
  changes_.insert_or_assign(name, std::move(row));
}

absl::StatusOr<std::shared_ptr<SqliteEngine>> SqliteEngine::Open(
    SqliteStoreOptions options) {
  absl::StatusOr<CommitWatermark> mark =
      CommitWatermark::Open(StoreMarkPath(options.path));
  if (!mark.ok()) return mark.status();
  std::shared_ptr<SqliteEngine> engine(
      new SqliteEngine(std::move(options), *std::move(mark)));
  const MutexLock lock(engine->mutex_);
  const absl::Status status = engine->Start();
  if (!status.ok()) return WithRemedy(status, engine->options_.path);
  return engine;
}

absl::Status SqliteEngine::Start() {
  const std::string& path = options_.path;
  auto mark = mark_.Read();
  if (!mark.ok()) return mark.status();
  // Without a commit there is nothing that may be lost.
  if (mark->has_value() && (*mark)->sequence == 0) mark->reset();
  if (absl::Status s = CheckStoreFiles(path, *mark); !s.ok()) return s;

  auto opened = OpenStoreDatabase(path, options_.sync, options_.vfs);
  if (!opened.ok()) return opened.status();
  Sql& sql = **opened;
  absl::Status prepared = PrepareStoreSchema(sql, {.store_id = RandomId()});
  if (!prepared.ok()) return prepared;
  const absl::StatusOr<StoreRow> row = ReadStoreRow(sql);
  if (!row.ok()) return row.status();
  absl::StatusOr<TableRows> tables = ReadTableRows(sql, *row);
  if (!tables.ok()) return tables.status();
  if (absl::Status s = CheckStoreMark(path, *mark, *row); !s.ok()) return s;
  const auto last_part = sql.Integer("SELECT max(id) FROM snapshots");
  if (!last_part.ok()) return last_part.status();
  last_snapshot_ = static_cast<uint64_t>(*last_part) >> kPartBits;
  // The process before may have died between a write and its sync. What is
  // served is durable, and the mark names no commit that a power loss takes. A
  // new store that syncs at checkpoints only keeps at least its id.
  if (options_.sync != StoreSync::kOff) {
    if (absl::Status s = sql.Sync(); !s.ok()) return s;
  }
  WriteMark(*row);
  KeepStoreLog(sql, false);
  sqlite3_wal_hook(
      sql.sql(),
      [](void* pages, sqlite3*, const char*, int count) {
        *static_cast<int64_t*>(pages) = count;
        return SQLITE_OK;
      },
      &wal_pages_);
  sql_ = *std::move(opened);
  const MutexLock lock(queue_mutex_);
  row_ = *row;
  tables_ = *std::move(tables);
  return absl::OkStatus();
}

void SqliteEngine::WriteMark(const StoreRow& row) {
  const absl::Status status =
      mark_.Write({.store_id = row.store_id,
                   .sequence = row.sequence,
                   .synced = options_.sync == StoreSync::kFull,
                   .boot_id = boot_id_});
  // The commit is valid without the mark; only its loss would not be noticed.
  if (!status.ok() && !mark_failed_) {
    Log(LogLevel::kWarning, "store mark not written",
        {{"error", status.message()}});
  }
  mark_failed_ = !status.ok();
}

void SqliteEngine::Loop() {
  MutexLock lock(queue_mutex_);
  for (;;) {
    idle_ = queue_.empty() && tasks_.empty();
    if (idle_) changed_.notify_all();
    changed_.wait(lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(queue_mutex_) {
      return ending_ || !queue_.empty() || !tasks_.empty();
    });
    if (queue_.empty() && ending_) break;
    idle_ = false;
    const Jobs jobs = running_ = std::exchange(queue_, {});
    const Task task = tasks_.empty() ? Task() : tasks_.front();
    lock.unlock();
    {
      const MutexLock state_lock(mutex_);
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
    running_.clear();
    changed_.notify_all();
    lock.unlock();
    bool more = true;
    {
      const MutexLock state_lock(mutex_);
      if (task.step != nullptr) more = RunStep(task);
      CheckpointIfDue();
    }
    lock.lock();
    if (!more && !tasks_.empty()) tasks_.pop_front();
  }
  lock.unlock();
  {
    const MutexLock state_lock(mutex_);
    sql_.reset();
  }
  lock.lock();
  ended_ = true;
  changed_.notify_all();
}

bool SqliteEngine::End() {
  MutexLock lock(queue_mutex_);
  ending_ = true;
  tasks_.clear();
  changed_.notify_all();
  const auto has_ended = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(queue_mutex_) {
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

void SqliteEngine::Start(Job job, Done done) {
  absl::Status closed;
  {
    const MutexLock lock(queue_mutex_);
    if (closed_.ok()) {
      queue_.push_back(std::make_shared<Waiting>(
          Waiting{std::move(job), std::move(done), {}}));
      changed_.notify_all();
      return;
    }
    closed = closed_;
  }
  done(closed);
}

absl::Status SqliteEngine::Run(Job job) {
  // Shared, because set_value() may still run when get() has returned.
  const auto result = std::make_shared<std::promise<absl::Status>>();
  Start(std::move(job),
        [result](const absl::Status& s) { result->set_value(s); });
  return result->get_future().get();
}

void SqliteEngine::AddTask(Task task) {
  const MutexLock lock(queue_mutex_);
  if (!closed_.ok() || ending_) return;
  tasks_.push_back(std::move(task));
  changed_.notify_all();
}

void SqliteEngine::AwaitTasks() {
  MutexLock lock(queue_mutex_);
  changed_.wait(lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(queue_mutex_) {
    return ended_ || (idle_ && queue_.empty() && tasks_.empty());
  });
}

absl::Status SqliteEngine::Read(
    absl::FunctionRef<absl::Status(Sql&, const TableRows&)> read) {
  const MutexLock lock(mutex_);
  // A transaction, so that all reads see one state of the database.
  absl::Status status = sql_->Run("BEGIN");
  if (!status.ok()) return status;
  const absl::StatusOr<StoreRow> row = ReadStoreRow(*sql_);
  status = row.status();
  if (status.ok()) {
    const MutexLock state_lock(queue_mutex_);
    if (row->Checksum() != row_.Checksum()) {
      status = sql_->Damaged("was changed by another process");
    }
  }
  if (status.ok()) {
    const absl::StatusOr<TableRows> tables = ReadTableRows(*sql_, *row);
    status = tables.ok() ? read(*sql_, *tables) : tables.status();
  }
  status.Update(sql_->Run("END"));
  if (status.ok()) return status;
  KeepStoreLog(*sql_, true);
  return WithRemedy(status, options_.path);
}

void SqliteEngine::Close(const absl::Status& why, SteadyInstant deadline) {
  MutexLock lock(queue_mutex_);
  if (closed_.ok()) closed_ = why;
  closed_by_ = deadline;
  tasks_.clear();
  const bool idle = changed_.wait_until(
      lock, deadline, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(queue_mutex_) {
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

std::optional<TableRow> SqliteEngine::Find(const std::string& table) const {
  const MutexLock lock(queue_mutex_);
  const auto found = tables_.find(table);
  return found == tables_.end() ? std::nullopt : std::optional(found->second);
}

uint64_t SqliteEngine::generation_floor() const {
  const MutexLock lock(queue_mutex_);
  return row_.generation_floor;
}

SqliteEngine::Counters SqliteEngine::counters() const {
  const MutexLock lock(queue_mutex_);
  return counters_;
}

void SqliteEngine::RunJobs(const Jobs& jobs) {
  if (jobs.empty()) return;
  const absl::Status status = Transact([&](StoreTransaction& transaction) {
    absl::Status all;
    for (const auto& waiting : jobs) {
      if (all.ok()) all = waiting->job(transaction);
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

bool SqliteEngine::RunStep(const Task& task) {
  bool finished = false;
  const absl::Status status = Transact([&](StoreTransaction& transaction) {
    const absl::StatusOr<bool> step = task.step(transaction);
    finished = step.ok() && *step;
    return step.status();
  });
  if (status.ok() && !finished) return true;
  if (!status.ok()) {
    Log(LogLevel::kWarning, "the store could not be compacted",
        {{"error", status.message()}});
  }
  if (task.done != nullptr) task.done(status);
  return false;
}

// SQLite would do it within the commit that the log is full after, which is
// then acknowledged later.
void SqliteEngine::CheckpointIfDue() {
  if (wal_pages_ < due_) return;
  const absl::StatusOr<bool> all = sql_->Checkpoint(SQLITE_CHECKPOINT_PASSIVE);
  // Each attempt reads the whole log. Where pages stay in it, the next one
  // comes when it has grown, not after each commit.
  due_ = options_.checkpoint_pages;
  if (!all.ok() || !*all) due_ += wal_pages_;
  if (!all.ok() && !checkpoint_failed_) {
    Log(LogLevel::kWarning, "store checkpoint failed",
        {{"error", all.status().message()}});
  }
  checkpoint_failed_ = !all.ok();
}

absl::Status SqliteEngine::Transact(Body body) {
  StoreRow before;
  {
    const MutexLock lock(queue_mutex_);
    before = row_;
  }
  StoreTransaction transaction(
      *sql_, before, [this](const std::string& name) { return Find(name); });
  absl::Status status = TryTransact(body, transaction);
  const StoreRow& row = transaction.row();
  {
    const MutexLock lock(queue_mutex_);
    if (!status.ok()) {
      ++counters_.failures;
      return status;
    }
    if (row.sequence == before.sequence) return status;
    ++counters_.commits;
    row_ = row;
    for (const auto& [name, table] : transaction.changes()) {
      if (table.has_value()) {
        tables_.insert_or_assign(name, *table);
      } else {
        tables_.erase(name);
      }
    }
  }
  WriteMark(row);
  return status;
}

absl::Status SqliteEngine::TryTransact(Body body,
                                       StoreTransaction& transaction) {
  StoreRow& row = transaction.row();
  const uint64_t before = row.sequence;
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
  status = body(transaction);
  if (status.ok() && sqlite3_total_changes(sql_->sql()) == changes) {
    status = sql_->Run("ROLLBACK");
    unsettled_ = !status.ok();
    return status;
  }
  ++row.sequence;
  if (status.ok()) status = WriteStoreRow(*sql_, row);
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
absl::StatusOr<uint64_t> SqliteEngine::Settle() {
  if (sql_->InTransaction()) {
    if (absl::Status s = sql_->Run("ROLLBACK"); !s.ok()) return s;
  }
  const auto truncated = sql_->Checkpoint(SQLITE_CHECKPOINT_TRUNCATE);
  if (!truncated.ok()) return truncated.status();
  const auto sequence = sql_->Integer("SELECT sequence FROM store");
  if (!sequence.ok()) return sequence.status();
  return static_cast<uint64_t>(*sequence);
}

}  // namespace planb::server
