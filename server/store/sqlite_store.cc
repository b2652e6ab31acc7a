// SPDX-License-Identifier: Apache-2.0

#include "server/store/sqlite_store.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <random>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/base/error.h"
#include "server/base/log.h"
#include "server/store/store_schema.h"
#include "server/store/store_sql.h"
#include "server/table/table_digest.h"

namespace planb::server {
namespace {

// Maps errors of writing to those that Store documents.
absl::Status WriteError(const absl::Status& status) {
  if (status.ok() || status.code() == absl::StatusCode::kResourceExhausted) {
    return status;
  }
  return Error(absl::StatusCode::kUnavailable, "STORE_FAILED",
               status.message());
}

uint64_t RandomId() {
  std::random_device random;
  return uint64_t{random()} << 32 | random();
}

absl::Duration SteadyTime() {
  return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

absl::StatusOr<StoreSync> ParseSync(const std::string& sync) {
  if (sync == "full") return StoreSync::kFull;
  if (sync == "normal") return StoreSync::kNormal;
  if (sync == "off") return StoreSync::kOff;
  return absl::InvalidArgumentError(absl::StrCat(
      "--store_sync: \"", sync, "\" is none of full, normal and off"));
}

std::string PathOf(const std::string& choice) {
  if (choice != "auto") return choice;
  std::error_code error;
  return std::filesystem::is_directory(kStateDirectory, error)
             ? absl::StrCat(kStateDirectory, "/planb.db")
             : "none";
}

}  // namespace

// Checkpoints: moves commits from the write-ahead log into the database in the
// background, so that no commit has to. Owns a thread and a connection.
// Thread-safe.
//
// SQLite can reuse the log from its start only when all of it is in the
// database. A writer that never pauses is always ahead of a concurrent
// checkpoint, and the log would grow without limit. Therefore a checkpoint has
// two passes. The first, long one runs concurrently with writers. The second
// one moves the commits that arrived meanwhile, under the writers' mutex.
// Writers wait for the second pass in AwaitTurn(), because a mutex alone
// favours a thread that locks it again at once.
class StoreCheckpointer {
 public:
  // All writers to the database hold `writers`, which must outlive this.
  StoreCheckpointer(std::unique_ptr<Sql> sql, std::mutex& writers,
                    int64_t threshold_pages);
  // Waits for a pass in progress.
  ~StoreCheckpointer();

  // A writer calls this before it locks `writers`. Waits while the second pass
  // needs the mutex.
  void AwaitTurn();

  // Call after a commit, with the length of the log. Does not block for long.
  void Notify(int64_t pages);

  // Passes that failed. The log then grows until a later checkpoint succeeds.
  uint64_t failures() const { return failures_.load(); }
  uint64_t checkpoints() const { return checkpoints_.load(); }

 private:
  void Run();
  // True if all of the log is in the database.
  bool Pass(int64_t& log_pages);

  const std::unique_ptr<Sql> sql_;
  std::mutex& writers_;
  const int64_t threshold_pages_;

  std::mutex mutex_;
  std::condition_variable changed_;  // anything guarded
  bool second_pass_ ABSL_GUARDED_BY(mutex_) = false;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t pages_ ABSL_GUARDED_BY(mutex_) = 0;
  // The length of the log that starts the next checkpoint.
  int64_t due_ ABSL_GUARDED_BY(mutex_);

  std::atomic<uint64_t> failures_ = 0;
  std::atomic<uint64_t> checkpoints_ = 0;
  std::thread thread_;
};

StoreCheckpointer::StoreCheckpointer(std::unique_ptr<Sql> sql,
                                     std::mutex& writers,
                                     int64_t threshold_pages)
    : sql_(std::move(sql)),
      writers_(writers),
      threshold_pages_(threshold_pages),
      due_(threshold_pages),
      thread_([this] { Run(); }) {}

StoreCheckpointer::~StoreCheckpointer() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void StoreCheckpointer::AwaitTurn() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !second_pass_; });
}

void StoreCheckpointer::Notify(int64_t pages) {
  std::lock_guard lock(mutex_);
  pages_ = pages;
  if (pages_ >= due_) changed_.notify_all();
}

bool StoreCheckpointer::Pass(int64_t& log_pages) {
  int log = 0;
  int done = 0;
  const absl::Status status =
      sql_->Checkpoint(SQLITE_CHECKPOINT_PASSIVE, &log, &done);
  // Busy: a writer was changing the index of the log, or another process runs a
  // checkpoint.
  const bool busy = (sqlite3_errcode(sql_->sql()) & 0xff) == SQLITE_BUSY;
  if (!status.ok() && !busy && failures_.fetch_add(1) == 0) {
    Log(LogLevel::kWarning, "store checkpoint failed",
        {{"error", status.message()}});
  }
  log_pages = log;
  return status.ok() && log == done;
}

void StoreCheckpointer::Run() {
  while (true) {
    int64_t pages;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stop_ || pages_ >= due_; });
      if (stop_) return;
      pages = pages_;
    }
    int64_t log_pages = 0;
    Pass(log_pages);
    {
      std::lock_guard lock(mutex_);
      second_pass_ = true;
    }
    bool done;
    {
      std::lock_guard writers(writers_);
      done = Pass(log_pages);
      std::lock_guard lock(mutex_);
      second_pass_ = false;
      pages_ = 0;
      // A reader, such as an operator's shell, or a full disk can prevent the
      // log from being reused. Then the next checkpoint is due only after as
      // many pages again, not at the next commit.
      due_ = threshold_pages_ + (done ? 0 : std::max(log_pages, pages));
    }
    changed_.notify_all();
    if (done) checkpoints_.fetch_add(1);
  }
}

absl::StatusOr<std::unique_ptr<SqliteStore>> SqliteStore::Open(
    SqliteStoreOptions options) {
  const std::string path = options.path;
  absl::StatusOr<StoreMark> mark = StoreMark::Open(StoreMarkPath(path));
  if (!mark.ok()) return mark.status();
  std::unique_ptr<SqliteStore> store(
      new SqliteStore(std::move(options), *std::move(mark)));
  absl::Status status = store->Start();
  if (!status.ok()) return WithRemedy(status, path);
  return store;
}

SqliteStore::SqliteStore(SqliteStoreOptions options, StoreMark mark)
    : options_(std::move(options)),
      mark_(std::move(mark)),
      boot_id_(CurrentBootId()) {}

SqliteStore::~SqliteStore() = default;

absl::Status SqliteStore::Start() {
  std::lock_guard lock(mutex_);
  const auto mark = mark_.Read();
  if (!mark.ok()) return mark.status();
  if (absl::Status s = CheckStoreFiles(path(), *mark); !s.ok()) return s;

  auto sql = OpenStoreDatabase(path(), options_.sync, options_.vfs);
  if (!sql.ok()) return sql.status();
  sql_ = *std::move(sql);
  const StoreRow first = {.store_id = RandomId()};
  const auto created = PrepareStoreSchema(
      *sql_, absl::StrCat("INSERT INTO store VALUES (1, ",
                          static_cast<int64_t>(first.store_id), ", 0, 0, 0, ",
                          static_cast<int64_t>(first.Checksum()), ")"));
  if (!created.ok()) return created.status();

  auto state = ReadStoreState(*sql_);
  if (!state.ok()) return state.status();
  if (absl::Status s = CheckStoreMark(path(), *mark, state->store, *created);
      !s.ok()) {
    return s;
  }
  store_ = state->store;
  for (StoredTableState& table : state->tables) {
    tables_[table.row.name] = std::move(table);
  }
  auto writer = StoreWriter::Create(*sql_, options_.request_window);
  if (!writer.ok()) return writer.status();
  writer_ = *std::move(writer);

  sqlite3_wal_hook(
      sql_->sql(),
      [](void* pages, sqlite3*, const char*, int count) {
        *static_cast<int64_t*>(pages) = count;
        return SQLITE_OK;
      },
      &wal_pages_);
  auto checkpoints = OpenStoreDatabase(path(), options_.sync, options_.vfs);
  if (!checkpoints.ok()) return checkpoints.status();
  WriteMark();
  checkpointer_ = std::make_unique<StoreCheckpointer>(
      *std::move(checkpoints), mutex_, options_.checkpoint_pages);
  KeepStoreLog(*sql_, false);
  return absl::OkStatus();
}

void SqliteStore::WriteMark() {
  const absl::Status status =
      mark_.Write({.store_id = store_.store_id,
                   .sequence = store_.sequence,
                   .synced = options_.sync == StoreSync::kFull,
                   .boot_id = boot_id_});
  // The commit is valid without the mark; only its loss would not be noticed.
  if (!status.ok() && !mark_failed_) {
    Log(LogLevel::kWarning, "store mark not written",
        {{"error", status.message()}});
  }
  mark_failed_ = !status.ok();
}

absl::StatusOr<std::vector<StoredTable>> SqliteStore::Load() {
  std::lock_guard lock(mutex_);
  // A transaction, so that all reads see one state of the database.
  absl::Status status = sql_->Run("BEGIN");
  if (!status.ok()) return WithRemedy(status, path());
  auto tables = ReadAll();
  status = sql_->Run("END");
  if (tables.ok() && status.ok()) return tables;
  KeepStoreLog(*sql_, true);
  return WithRemedy(tables.ok() ? status : tables.status(), path());
}

absl::StatusOr<std::vector<StoredTable>> SqliteStore::ReadAll() {
  const auto state = ReadStoreState(*sql_);
  if (!state.ok()) return state.status();
  if (state->store.Checksum() != store_.Checksum()) {
    return Error(absl::StatusCode::kDataLoss, "STORE_CORRUPT",
                 absl::StrCat(path(), ": was changed by another process"));
  }
  return ReadStoredTables(*sql_, *state);
}

absl::Status SqliteStore::CreateTable(const std::string& name,
                                      uint64_t generation) {
  checkpointer_->AwaitTurn();
  std::lock_guard lock(mutex_);
  ABSL_RAW_CHECK(tables_.count(name) == 0, "the table is not stored yet");
  StoredTableState table = {.row = {.name = name, .generation = generation}};
  for (const auto& [other, state] : tables_) {
    table.row.id = std::max(table.row.id, state.row.id + 1);
  }
  table.row.digest = TableDigest().ToString();
  table.row.objects_digest = table.objects.ToString();
  const absl::Status status = Transact([&](StoreRow& store) {
    store.tables_sum += table.row.Checksum();
    return writer_->WriteTable(table.row);
  });
  if (status.ok()) tables_[name] = std::move(table);
  return status;
}

absl::Status SqliteStore::DeleteTable(const std::string& name,
                                      uint64_t generation) {
  checkpointer_->AwaitTurn();
  std::lock_guard lock(mutex_);
  const auto found = tables_.find(name);
  ABSL_RAW_CHECK(found != tables_.end(), "the table is stored");
  const TableRow& row = found->second.row;
  const absl::Status status = Transact([&](StoreRow& store) {
    store.tables_sum -= row.Checksum();
    store.generation_floor = std::max(store.generation_floor, generation);
    return writer_->DeleteTable(row.id);
  });
  if (status.ok()) tables_.erase(found);
  return status;
}

uint64_t SqliteStore::generation_floor() const {
  std::lock_guard lock(mutex_);
  return store_.generation_floor;
}

absl::Status SqliteStore::Commit(const std::string& table,
                                 absl::Span<const AcceptedBatch> batches) {
  if (batches.empty()) return absl::OkStatus();
  const StoreChanges changes = MergeBatches(batches);
  checkpointer_->AwaitTurn();
  std::lock_guard lock(mutex_);
  const auto found = tables_.find(table);
  ABSL_RAW_CHECK(found != tables_.end(), "the table is stored");
  StoredTableState next = found->second;
  uint64_t generation = next.row.generation;
  for (const AcceptedBatch& batch : batches) {
    if (batch.delta == nullptr) continue;
    ABSL_RAW_CHECK(batch.delta->generation == ++generation,
                   "generations ascend by 1");
    ABSL_RAW_CHECK(batch.delta->digest.size() == next.row.digest.size(),
                   "a delta has a digest");
  }
  const absl::Status status = Transact([&](StoreRow& store) {
    store.tables_sum -= next.row.Checksum();
    absl::Status written = writer_->Write(changes, next);
    store.tables_sum += next.row.Checksum();
    return written;
  });
  if (status.ok()) found->second = std::move(next);
  return status;
}

absl::Status SqliteStore::Transact(
    absl::FunctionRef<absl::Status(StoreRow&)> body) {
  const absl::Duration start = SteadyTime();
  StoreRow next = store_;
  ++next.sequence;
  absl::Status status = WriteError(TryTransact(body, next));
  const absl::Duration took = SteadyTime() - start;
  if (status.ok()) {
    store_ = next;
    WriteMark();
    commits_.fetch_add(1);
    last_commit_nanos_.store(
        static_cast<uint64_t>(absl::ToInt64Nanoseconds(took)));
    checkpointer_->Notify(wal_pages_);
  } else {
    commit_failures_.fetch_add(1);
  }
  if (options_.on_commit != nullptr) options_.on_commit(took, status);
  return status;
}

absl::Status SqliteStore::TryTransact(
    absl::FunctionRef<absl::Status(StoreRow&)> body, StoreRow& next) {
  if (unsettled_) {
    const absl::StatusOr<uint64_t> reached = Settle();
    if (!reached.ok()) return reached.status();
    if (*reached != store_.sequence) {
      return Error(absl::StatusCode::kUnavailable, "STORE_FAILED",
                   absl::StrCat(path(),
                                ": has a commit that was reported as"
                                " failed: restart the server"));
    }
    unsettled_ = false;
  }
  absl::Status status = sql_->Run("BEGIN IMMEDIATE");
  if (!status.ok()) return status;
  status = body(next);
  if (status.ok()) status = writer_->WriteStore(next);
  if (status.ok()) status = sql_->Run("COMMIT");
  if (status.ok()) return status;

  unsettled_ = true;
  const absl::StatusOr<uint64_t> reached = Settle();
  if (!reached.ok()) return status;
  unsettled_ = *reached != store_.sequence && *reached != next.sequence;
  // The transaction was committed despite the error, and is durable now.
  if (*reached == next.sequence) return absl::OkStatus();
  return status;
}

// A failed COMMIT may have left complete frames in the log that are not synced.
// This connection ignores them and would overwrite them, but after a crash
// SQLite would treat them as a commit. A checkpoint that truncates the log
// removes all frames and writes every transaction that this connection knows to
// the database. (Opening the database again could instead bring the failed
// commit back, from pages that the kernel considers clean after their failed
// sync but never wrote.)
absl::StatusOr<uint64_t> SqliteStore::Settle() {
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

StoreCounters SqliteStore::counters() const {
  return {.commits = commits_.load(),
          .commit_failures = commit_failures_.load(),
          .last_commit_nanos = last_commit_nanos_.load(),
          .checkpoints = checkpointer_->checkpoints(),
          .checkpoint_failures = checkpointer_->failures(),
          .wal_bytes = StoreFileBytes(absl::StrCat(path(), "-wal")),
          .database_bytes = StoreFileBytes(path())};
}

absl::StatusOr<std::shared_ptr<Store>> OpenStore(const std::string& choice,
                                                 const std::string& sync) {
  const absl::StatusOr<StoreSync> parsed = ParseSync(sync);
  if (!parsed.ok()) return parsed.status();
  if (choice.empty()) {
    return absl::InvalidArgumentError("--store must be a path, none or auto");
  }
  const std::string path = PathOf(choice);
  if (path == "none") {
    Log(LogLevel::kInfo, "tables are kept in memory only");
    return std::shared_ptr<Store>();
  }
  auto store = SqliteStore::Open({.path = path, .sync = *parsed});
  if (!store.ok()) return store.status();
  Log(LogLevel::kInfo, "tables are stored", {{"path", path}, {"sync", sync}});
  return std::shared_ptr<Store>(*std::move(store));
}

}  // namespace planb::server
