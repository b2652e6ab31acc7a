// SPDX-License-Identifier: Apache-2.0

#include "server/store/sqlite_store.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <random>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "lpm/io/table_file.h"
#include "server/base/error.h"
#include "server/base/log.h"
#include "server/store/sqlite_background.h"
#include "server/store/sqlite_files.h"
#include "server/store/sqlite_reader.h"
#include "server/store/sqlite_schema.h"
#include "server/store/sqlite_sql.h"
#include "server/store/store_entry.h"

namespace planb::server {
namespace {

// How long the destructor waits for the disk after Close().
constexpr absl::Duration kLastSync = absl::Seconds(5);

// Batches of one call are one entry, up to this size.
constexpr size_t kEntryBytes = 16 << 20;
constexpr size_t kGenerationBytes = 8;

uint64_t RandomId() {
  std::random_device random;
  return uint64_t{random()} << 32 | random();
}

// Writes the mark after each commit. Thread-compatible.
class MarkWriter {
 public:
  MarkWriter(CommitWatermark mark, StoreSync sync)
      : mark_(std::move(mark)), synced_(sync == StoreSync::kFull) {}

  const CommitWatermark& mark() const { return mark_; }

  void Write(const StoreRow& store) {
    const absl::Status status = mark_.Write({.store_id = store.store_id,
                                             .sequence = store.sequence,
                                             .synced = synced_,
                                             .boot_id = boot_id_});
    // The commit is valid without the mark; only its loss would not be noticed.
    if (!status.ok() && !failed_) {
      Log(LogLevel::kWarning, "store mark not written",
          {{"error", status.message()}});
    }
    failed_ = !status.ok();
  }

 private:
  CommitWatermark mark_;
  const bool synced_;
  const std::string boot_id_ = CurrentBootId();
  bool failed_ = false;
};

// The entries of batches, without the generation at their beginning, and the
// generations that their deltas name.
struct Entry {
  std::string bytes = std::string(kGenerationBytes, '\0');
  std::vector<std::pair<uint64_t, uint64_t>> steps;  // previous, generation
};

std::vector<Entry> MakeEntries(absl::Span<const AcceptedBatch> batches) {
  std::vector<Entry> entries;
  for (const AcceptedBatch& batch : batches) {
    if (entries.empty() || entries.back().bytes.size() >= kEntryBytes) {
      entries.emplace_back();
    }
    Entry& entry = entries.back();
    AppendBatch(batch, entry.bytes);
    if (batch.delta == nullptr) continue;
    entry.steps.emplace_back(batch.delta->previous, batch.delta->generation);
  }
  return entries;
}

// Completes the entry with the generation after it and appends it.
absl::Status AppendEntry(Entry& entry, SqliteWriter& writer, TableHead& head) {
  for (const auto& [previous, generation] : entry.steps) {
    if (previous != head.generation) {
      return absl::InternalError(
          absl::StrCat("a batch changes generation ", previous, " of table ",
                       head.row.name, ", which is at ", head.generation));
    }
    head.generation = generation;
  }
  std::string generation;
  AppendLittle(head.generation, generation);
  entry.bytes.replace(0, kGenerationBytes, generation);
  return writer.Append(entry.bytes, head);
}

}  // namespace

// What the threads use.
struct SqliteStore::Core {
  Core(SqliteStoreOptions o, CommitWatermark m)
      : options(std::move(o)), mark(std::move(m), options.sync) {}

  absl::Status Start();
  void Listen();

  const SqliteStoreOptions options;
  MarkWriter mark;  // of the engine's thread
  std::unique_ptr<SqliteEngine> engine;
  std::unique_ptr<SqliteBackground> background;
  std::thread writer_thread, background_thread;

  Mutex mutex;
  CondVar ended_changed;
  bool ended ABSL_GUARDED_BY(mutex) = false;  // both threads, or nearly
  std::optional<SteadyInstant> closed_by ABSL_GUARDED_BY(mutex);
};

absl::StatusOr<std::unique_ptr<SqliteStore>> SqliteStore::Open(
    SqliteStoreOptions options) {
  const std::string path = options.path;
  absl::StatusOr<CommitWatermark> mark =
      CommitWatermark::Open(StoreMarkPath(path));
  if (!mark.ok()) return mark.status();
  auto core = std::make_shared<Core>(std::move(options), *std::move(mark));
  if (absl::Status s = core->Start(); !s.ok()) return WithRemedy(s, path);
  core->Listen();
  core->background_thread = std::thread([core] {
    core->background->Loop();
    core->engine->End();
  });
  core->writer_thread = std::thread([core] {
    core->engine->Loop();
    const MutexLock lock(core->mutex);
    core->ended = true;
    core->ended_changed.notify_all();
  });
  return std::unique_ptr<SqliteStore>(new SqliteStore(std::move(core)));
}

absl::Status SqliteStore::Core::Start() {
  const std::string& path = options.path;
  auto record = mark.mark().Read();
  if (!record.ok()) return record.status();
  // Without a commit there is nothing that may be lost.
  if (record->has_value() && (*record)->sequence == 0) record->reset();
  if (absl::Status s = CheckStoreFiles(path, *record); !s.ok()) return s;

  auto sql = OpenStoreDatabase(path, options.sync, options.vfs);
  if (!sql.ok()) return sql.status();
  absl::Status prepared = PrepareStoreSchema(**sql, {.store_id = RandomId()});
  if (!prepared.ok()) return prepared;

  auto state = ReadStoreState(**sql);
  if (!state.ok()) return state.status();
  const StoreRow store = state->row;
  if (absl::Status s = CheckStoreMark(path, *record, store); !s.ok()) return s;
  const auto last_snapshot = (*sql)->Integer("SELECT max(id) FROM snapshots");
  if (!last_snapshot.ok()) return last_snapshot.status();
  auto beside = OpenStoreDatabase(path, options.sync, options.vfs);
  if (!beside.ok()) return beside.status();
  // The process before may have died between a write and its sync. What is
  // served is durable, and the mark names no commit that a power loss takes. A
  // new store that syncs at checkpoints only keeps at least its id.
  if (options.sync != StoreSync::kOff) {
    if (absl::Status s = (*sql)->Sync(); !s.ok()) return s;
  }
  mark.Write(store);
  KeepStoreLog(**sql, false);
  auto made = SqliteEngine::Create(path, *std::move(sql), *std::move(state));
  if (!made.ok()) return made.status();
  engine = *std::move(made);
  background = std::make_unique<SqliteBackground>(
      *engine, *std::move(beside),
      SqliteBackground::Options{
          .checkpoint_pages = options.checkpoint_pages,
          .log_bytes = options.log_bytes,
          .next_snapshot =
              (static_cast<uint64_t>(*last_snapshot) >> kPartBits) + 1});
  return absl::OkStatus();
}

void SqliteStore::Core::Listen() {
  engine->Listen(
      {.committed = [this](const StoreRow& store) { mark.Write(store); },
       .logged = [this](int64_t pages) { background->Logged(pages); }});
}

SqliteStore::~SqliteStore() {
  // The background ends the engine, which runs its last job.
  core_->background->End();
  bool ended = true;
  {
    MutexLock lock(core_->mutex);
    const auto has_ended = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(
                               core_->mutex) { return core_->ended; };
    if (core_->closed_by.has_value()) {
      ended = core_->ended_changed.wait_until(
          lock,
          std::max(*core_->closed_by, SteadyNow()) +
              absl::ToChronoNanoseconds(kLastSync),
          has_ended);
    } else {
      core_->ended_changed.wait(lock, has_ended);
    }
  }
  if (ended) {
    core_->background_thread.join();
    core_->writer_thread.join();
    return;
  }
  Log(LogLevel::kError, "the store does not answer; it is left as it is",
      {{"path", path()}});
  core_->background_thread.detach();
  core_->writer_thread.detach();
}

const std::string& SqliteStore::path() const { return core_->options.path; }

StoreSync SqliteStore::sync() const { return core_->options.sync; }

absl::StatusOr<std::vector<StoredTable>> SqliteStore::Load() {
  std::vector<StoredTable> tables;
  const auto read_all = [&](Sql& sql, const StoreState& known) -> absl::Status {
    const auto state = ReadStoreState(sql);
    if (!state.ok()) return state.status();
    if (state->row.Checksum() != known.row.Checksum()) {
      return DamagedStore(sql, "was changed by another process");
    }
    auto read = ReadStoredTables(sql, *state);
    if (!read.ok()) return read.status();
    tables = *std::move(read);
    return absl::OkStatus();
  };
  const absl::Status status =
      core_->engine->Read([&](Sql& sql, const StoreState& known) {
        // A transaction, so that all reads see one state of the database.
        absl::Status begun = sql.Run("BEGIN");
        if (!begun.ok()) return begun;
        absl::Status all = read_all(sql, known);
        all.Update(sql.Run("END"));
        if (!all.ok()) KeepStoreLog(sql, true);
        return all;
      });
  if (!status.ok()) return WithRemedy(status, path());
  // Not before all rows are verified: a damaged key looks like a leftover.
  core_->background->Sweep();
  return tables;
}

absl::StatusOr<uint64_t> SqliteStore::CreateTable(const std::string& name,
                                                  uint64_t generation,
                                                  const FibOptions& fib) {
  const absl::Status status = core_->engine->Run(
      [name, generation, fib](StoreTransaction& transaction) -> absl::Status {
        ABSL_RAW_CHECK(transaction.Find(name) == nullptr,
                       "the table is not stored yet");
        const auto id = transaction.writer().FreeTableId(transaction.state());
        if (!id.ok()) return id.status();
        TableHead head = {.row = {.id = *id,
                                  .name = name,
                                  .generation = generation,
                                  .prefix_lengths = fib.prefix_lengths},
                          .generation = generation};
        head.chain = head.row.base = HashFields("log", *id, name, generation);
        absl::Status written = transaction.writer().WriteTable(head.row);
        if (written.ok()) transaction.Put(std::move(head));
        return written;
      });
  if (!status.ok()) return status;
  return 0;
}

absl::Status SqliteStore::DeleteTable(const std::string& name, uint64_t /*id*/,
                                      uint64_t generation) {
  const absl::Status status = core_->engine->Run(
      [name, generation](StoreTransaction& transaction) -> absl::Status {
        const TableHead* const head = transaction.Find(name);
        ABSL_RAW_CHECK(head != nullptr, "the table is stored");
        absl::Status deleted = transaction.writer().DeleteTable(head->row.id);
        if (!deleted.ok()) return deleted;
        transaction.Erase(name);
        transaction.RaiseFloor(generation);
        return deleted;
      });
  if (status.ok()) core_->background->Sweep();
  return status;
}

uint64_t SqliteStore::generation_floor() const {
  return core_->engine->generation_floor();
}

void SqliteStore::StartAppend(const std::string& table, uint64_t /*id*/,
                              uint64_t /*position*/,
                              absl::Span<const AcceptedBatch> batches,
                              Done done) {
  if (batches.empty()) return done(absl::OkStatus());
  core_->engine->Start(
      [table, entries = MakeEntries(batches)](
          StoreTransaction& transaction) mutable -> absl::Status {
        const TableHead* const head = transaction.Find(table);
        ABSL_RAW_CHECK(head != nullptr, "the table is stored");
        TableHead next = *head;
        for (Entry& entry : entries) {
          absl::Status status = AppendEntry(entry, transaction.writer(), next);
          if (!status.ok()) return status;
        }
        transaction.Put(std::move(next));
        return absl::OkStatus();
      },
      std::move(done));
}

void SqliteStore::OfferSnapshot(const std::string& table, uint64_t /*id*/,
                                absl::FunctionRef<TableVersion()> version) {
  core_->background->OfferSnapshot(table, version);
}

void SqliteStore::Close(const absl::Status& why, SteadyInstant deadline) {
  {
    const MutexLock lock(core_->mutex);
    core_->closed_by = deadline;
  }
  core_->background->Pause();
  core_->engine->Close(why, deadline);
}

void SqliteStore::AwaitBackground() { core_->background->AwaitIdle(); }

StoreCounters SqliteStore::counters() const {
  StoreCounters counters = core_->engine->counters();
  core_->background->AddTo(counters);
  counters.wal_bytes = StoreFileBytes(absl::StrCat(path(), "-wal"));
  counters.database_bytes = StoreFileBytes(path());
  return counters;
}

}  // namespace planb::server
