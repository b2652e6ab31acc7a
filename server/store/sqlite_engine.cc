// SPDX-License-Identifier: Apache-2.0

#include "server/store/sqlite_engine.h"

#include <algorithm>
#include <future>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "server/base/error.h"
#include "server/base/log.h"

namespace planb::server {
namespace {

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

const TableHead* StoreTransaction::Find(const std::string& name) const {
  const auto found = state_.tables.find(name);
  return found == state_.tables.end() ? nullptr : &found->second;
}

void StoreTransaction::Keep(const std::string& name) {
  const TableHead* const head = Find(name);
  if (head != nullptr) state_.row.heads_sum -= head->Checksum();
  if (before_.contains(name)) return;
  before_[name] = head == nullptr ? std::nullopt : std::optional(*head);
}

void StoreTransaction::Put(TableHead head) {
  Keep(head.row.name);
  state_.row.heads_sum += head.Checksum();
  std::string name = head.row.name;
  state_.tables.insert_or_assign(std::move(name), std::move(head));
}

void StoreTransaction::Erase(const std::string& name) {
  Keep(name);
  state_.tables.erase(name);
}

void StoreTransaction::RaiseFloor(uint64_t generation) {
  state_.row.generation_floor =
      std::max(state_.row.generation_floor, generation);
}

void StoreTransaction::Undo() {
  state_.row = before_row_;
  for (auto& [name, head] : before_) {
    if (head.has_value()) {
      state_.tables.insert_or_assign(name, *head);
    } else {
      state_.tables.erase(name);
    }
  }
  before_.clear();
}

absl::StatusOr<std::unique_ptr<SqliteEngine>> SqliteEngine::Create(
    std::string path, std::unique_ptr<Sql> sql, StoreState state) {
  auto writer = SqliteWriter::Create(*sql);
  if (!writer.ok()) return writer.status();
  return std::unique_ptr<SqliteEngine>(new SqliteEngine(
      std::move(path), std::move(sql), *std::move(writer), std::move(state)));
}

SqliteEngine::SqliteEngine(std::string path, std::unique_ptr<Sql> sql,
                           std::unique_ptr<SqliteWriter> writer,
                           StoreState state)
    : path_(std::move(path)),
      sql_(std::move(sql)),
      writer_(std::move(writer)),
      state_(std::move(state)),
      ends_(state_.tables),
      floor_(state_.row.generation_floor) {
  sqlite3_wal_hook(
      sql_->sql(),
      [](void* pages, sqlite3*, const char*, int count) {
        *static_cast<int64_t*>(pages) = count;
        return SQLITE_OK;
      },
      &wal_pages_);
}

void SqliteEngine::Loop() {
  MutexLock lock(queue_mutex_);
  for (;;) {
    to_run_.wait(lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(queue_mutex_) {
      return ending_ || !queue_.empty();
    });
    if (queue_.empty()) break;
    const Jobs jobs = running_ = std::exchange(queue_, {});
    lock.unlock();
    {
      const MutexLock state_lock(mutex_);
      RunAll(jobs);
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
    idle_.notify_all();
  }
  lock.unlock();
  const MutexLock state_lock(mutex_);
  writer_.reset();
  sql_.reset();
}

void SqliteEngine::End() {
  const MutexLock lock(queue_mutex_);
  ending_ = true;
  to_run_.notify_one();
}

void SqliteEngine::Start(Job job, Done done) {
  auto waiting = std::make_shared<Waiting>();
  waiting->job = std::move(job);
  waiting->done = std::move(done);
  Enqueue(waiting);
}

absl::Status SqliteEngine::Run(Job job) {
  auto waiting = std::make_shared<Waiting>();
  waiting->job = std::move(job);
  return Await(waiting);
}

absl::Status SqliteEngine::RunAlone(LoneJob job) {
  auto waiting = std::make_shared<Waiting>();
  waiting->alone = std::move(job);
  return Await(waiting);
}

absl::Status SqliteEngine::Await(const std::shared_ptr<Waiting>& waiting) {
  // Shared, because set_value() may still run when get() has returned.
  const auto result = std::make_shared<std::promise<absl::Status>>();
  waiting->done = [result](const absl::Status& s) { result->set_value(s); };
  Enqueue(waiting);
  return result->get_future().get();
}

void SqliteEngine::Enqueue(const std::shared_ptr<Waiting>& waiting) {
  absl::Status closed;
  {
    const MutexLock lock(queue_mutex_);
    closed = closed_;
    if (closed.ok()) queue_.push_back(waiting);
    to_run_.notify_one();
  }
  if (!closed.ok()) waiting->done(closed);
}

absl::Status SqliteEngine::Read(
    absl::FunctionRef<absl::Status(Sql&, const StoreState&)> read) {
  const MutexLock lock(mutex_);
  return read(*sql_, state_);
}

void SqliteEngine::Close(const absl::Status& why, SteadyInstant deadline) {
  MutexLock lock(queue_mutex_);
  if (closed_.ok()) closed_ = why;
  const bool idle = idle_.wait_until(
      lock, deadline, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(queue_mutex_) {
        return queue_.empty() && running_.empty();
      });
  if (idle) return;
  Log(LogLevel::kError, "the store does not answer; its calls are ended",
      {{"path", path_}, {"calls", queue_.size() + running_.size()}});
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
            absl::StrCat(path_,
                         ": the disk did not answer before the server went"
                         " down; the change may have taken effect"));
  for (const Done& done : abandoned) done(status);
}

std::optional<TableHead> SqliteEngine::EndOf(const std::string& table) const {
  const MutexLock lock(queue_mutex_);
  const auto found = ends_.find(table);
  return found == ends_.end() ? std::nullopt : std::optional(found->second);
}

StoreCounters SqliteEngine::counters() const {
  return {.commits = commits_.load(),
          .commit_failures = commit_failures_.load(),
          .last_commit_nanos = last_commit_nanos_.load()};
}

void SqliteEngine::RunAll(const Jobs& jobs) {
  Jobs together;
  for (const auto& waiting : jobs) {
    if (waiting->job != nullptr) together.push_back(waiting);
  }
  if (!together.empty()) {
    absl::Status status = Transact(together);
    // A full disk may have room for the others, and a job may be refused for
    // itself. An error of the disk is that of all jobs.
    const bool apart =
        together.size() > 1 && !status.ok() && !absl::IsUnavailable(status);
    for (const auto& waiting : together) {
      waiting->status = WriteError(apart ? Transact({&waiting, 1}) : status);
    }
  }
  for (const auto& waiting : jobs) {
    if (waiting->alone != nullptr) {
      waiting->status = waiting->alone({*sql_, *writer_, state_});
    }
  }
}

absl::Status SqliteEngine::Transact(
    absl::Span<const std::shared_ptr<Waiting>> jobs) {
  const SteadyInstant start = SteadyNow();
  StoreTransaction transaction(*writer_, state_);
  const absl::Status status = TryTransact(jobs, transaction);
  if (!status.ok()) {
    transaction.Undo();
    commit_failures_.fetch_add(1);
    return status;
  }
  commits_.fetch_add(1);
  last_commit_nanos_.store(
      static_cast<uint64_t>(absl::ToInt64Nanoseconds(ElapsedSince(start))));
  floor_.store(state_.row.generation_floor);
  {
    const MutexLock lock(queue_mutex_);
    for (const auto& [name, unused] : transaction.before()) {
      const TableHead* const head = transaction.Find(name);
      if (head == nullptr) {
        ends_.erase(name);
      } else {
        ends_.insert_or_assign(name, *head);
      }
    }
  }
  if (listener_.committed) listener_.committed(state_.row);
  if (listener_.logged) listener_.logged(wal_pages_);
  return status;
}

absl::Status SqliteEngine::TryTransact(
    absl::Span<const std::shared_ptr<Waiting>> jobs,
    StoreTransaction& transaction) {
  const uint64_t before = state_.row.sequence;
  if (unsettled_) {
    const absl::StatusOr<uint64_t> reached = Settle();
    if (!reached.ok()) return reached.status();
    if (*reached != before) {
      return Error(absl::StatusCode::kUnavailable, "STORE_FAILED",
                   absl::StrCat(path_,
                                ": has a commit that was reported as"
                                " failed: restart the server"));
    }
    unsettled_ = false;
  }
  absl::Status status = sql_->Run("BEGIN IMMEDIATE");
  if (!status.ok()) return status;
  ++state_.row.sequence;
  for (const auto& waiting : jobs) {
    if (status.ok()) status = waiting->job(transaction);
  }
  if (status.ok()) status = writer_->WriteStore(state_.row);
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
  if (absl::Status s = sql_->Checkpoint(SQLITE_CHECKPOINT_TRUNCATE); !s.ok()) {
    return s;
  }
  const auto sequence = sql_->Integer("SELECT sequence FROM store");
  if (!sequence.ok()) return sequence.status();
  return static_cast<uint64_t>(*sequence);
}

}  // namespace planb::server
