// SPDX-License-Identifier: Apache-2.0

#include "server/store/sqlite_store.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "lpm/io/table_file.h"
#include "server/base/log.h"
#include "server/store/sqlite_reader.h"
#include "server/store/store_entry.h"
#include "server/store/store_snapshot.h"

namespace planb::server {
namespace {

// Batches of one call are one entry, up to this size.
constexpr size_t kEntryBytes = 16 << 20;
constexpr size_t kGenerationBytes = 8;

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
absl::Status AppendEntry(Entry& entry, Sql& sql, TableRow& row) {
  for (const auto& [previous, generation] : entry.steps) {
    if (previous != row.end_generation) {
      return absl::InternalError(
          absl::StrCat("a batch changes generation ", previous, " of table ",
                       row.name, ", which is at ", row.end_generation));
    }
    row.end_generation = generation;
  }
  std::string generation;
  AppendLittle(row.end_generation, generation);
  entry.bytes.replace(0, kGenerationBytes, generation);
  return WriteEntry(sql, entry.bytes, row);
}

// Replaces the log of a table by a snapshot, a part in each transaction.
class SnapshotWriter {
 public:
  SnapshotWriter(TableRow before, uint64_t number, TableVersion version)
      : before_(std::move(before)),
        row_(before_),
        source_(before_.name, std::move(version)) {
    row_.generation = source_.version().generation;
    row_.snapshot = row_.snapshot_checksum = number;
    row_.parts = row_.snapshot_bytes = 0;
    row_.first = before_.next;
    row_.base = before_.chain;
  }

  // True when the snapshot has taken the log's place.
  absl::StatusOr<bool> Step(StoreTransaction& transaction) {
    const absl::StatusOr<std::string> part = source_.Next();
    if (!part.ok()) return part.status();
    absl::Status status;
    if (!part->empty()) {
      row_.snapshot_checksum = Xxh3(*part, row_.snapshot_checksum);
      row_.snapshot_bytes += part->size();
      status = WritePart(transaction.sql(), row_.snapshot, row_.parts++, *part);
    } else if (const auto now = transaction.Find(row_.name);
               // It may have been deleted meanwhile, and created again.
               now.has_value() && now->id == before_.id &&
               now->first == before_.first && now->base == before_.base) {
      row_.next = now->next;
      row_.chain = now->chain;
      row_.end_generation = now->end_generation;
      row_.log_bytes = now->log_bytes - before_.log_bytes;
      status = WriteTableRow(transaction.sql(), row_);
      transaction.Put(row_.name, row_);
    }
    if (!status.ok()) return status;
    return part->empty();
  }

 private:
  const TableRow before_;
  TableRow row_;
  SnapshotSource source_;
};

}  // namespace

struct SqliteStore::Snapshots {
  Mutex mutex;
  uint64_t next ABSL_GUARDED_BY(mutex) = 0;
  // The bytes of log from which each table may be offered. A table may not
  // while its snapshot is being written.
  std::map<std::string, uint64_t> from_bytes ABSL_GUARDED_BY(mutex);
  uint64_t written ABSL_GUARDED_BY(mutex) = 0;
  uint64_t failures ABSL_GUARDED_BY(mutex) = 0;
};

absl::StatusOr<std::unique_ptr<SqliteStore>> SqliteStore::Open(
    SqliteStoreOptions options) {
  auto engine = SqliteEngine::Open(std::move(options));
  if (!engine.ok()) return engine.status();
  return std::unique_ptr<SqliteStore>(new SqliteStore(*std::move(engine)));
}

SqliteStore::SqliteStore(std::shared_ptr<SqliteEngine> engine)
    : engine_(std::move(engine)),
      snapshots_(std::make_shared<Snapshots>()),
      thread_([engine = engine_] { engine->Loop(); }) {
  const MutexLock lock(snapshots_->mutex);
  snapshots_->next = engine_->last_snapshot() + 1;
}

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
  std::vector<StoredTable> stored;
  const absl::Status status =
      engine_->Read([&stored](Sql& sql, const TableRows& rows) -> absl::Status {
        auto read = ReadStoredTables(sql, rows);
        if (!read.ok()) return read.status();
        stored = *std::move(read);
        return absl::OkStatus();
      });
  if (!status.ok()) return status;
  // Not before all rows are verified: a damaged key looks like a leftover.
  Sweep();
  return stored;
}

absl::StatusOr<uint64_t> SqliteStore::CreateTable(const std::string& name,
                                                  uint64_t generation,
                                                  const FibOptions& fib) {
  const absl::Status status = engine_->Run(
      [name, generation, fib](StoreTransaction& transaction) -> absl::Status {
        ABSL_RAW_CHECK(!transaction.Find(name).has_value(),
                       "the table is not stored yet");
        absl::StatusOr<TableRow> row =
            NewTableRow(transaction.sql(), name, generation);
        if (!row.ok()) return row.status();
        row->prefix_lengths = fib.prefix_lengths;
        transaction.Put(name, *row);
        return WriteTableRow(transaction.sql(), *row);
      });
  if (!status.ok()) return status;
  return 0;
}

absl::Status SqliteStore::DeleteTable(const std::string& name, uint64_t /*id*/,
                                      uint64_t generation) {
  const absl::Status status = engine_->Run(
      [name, generation](StoreTransaction& transaction) -> absl::Status {
        const std::optional<TableRow> row = transaction.Find(name);
        ABSL_RAW_CHECK(row.has_value(), "the table is stored");
        uint64_t& floor = transaction.row().generation_floor;
        floor = std::max(floor, generation);
        transaction.Put(name, std::nullopt);
        return transaction.sql().Change("DELETE FROM tables WHERE id = ?",
                                        row->id);
      });
  if (status.ok()) Sweep();
  return status;
}

uint64_t SqliteStore::generation_floor() const {
  return engine_->generation_floor();
}

void SqliteStore::StartAppend(const std::string& table, uint64_t /*id*/,
                              uint64_t /*position*/,
                              absl::Span<const AcceptedBatch> batches,
                              Done done) {
  if (batches.empty()) return done(absl::OkStatus());
  engine_->Start(
      [table, entries = MakeEntries(batches)](
          StoreTransaction& transaction) mutable -> absl::Status {
        std::optional<TableRow> row = transaction.Find(table);
        ABSL_RAW_CHECK(row.has_value(), "the table is stored");
        for (Entry& entry : entries) {
          absl::Status status = AppendEntry(entry, transaction.sql(), *row);
          if (!status.ok()) return status;
        }
        transaction.Put(table, std::move(row));
        return absl::OkStatus();
      },
      std::move(done));
}

void SqliteStore::OfferSnapshot(const std::string& table, uint64_t /*id*/,
                                absl::FunctionRef<TableVersion()> version) {
  const std::optional<TableRow> end = engine_->Find(table);
  const uint64_t log_bytes = engine_->options().log_bytes;
  if (!end.has_value() ||
      end->log_bytes <= std::max(log_bytes, end->snapshot_bytes / 2)) {
    return;
  }
  uint64_t number;
  {
    const MutexLock lock(snapshots_->mutex);
    uint64_t& from = snapshots_->from_bytes[table];
    if (end->log_bytes < from) return;
    from = std::numeric_limits<uint64_t>::max();
    number = snapshots_->next++;
  }
  const auto writer = std::make_shared<SnapshotWriter>(*end, number, version());
  engine_->AddTask(
      {.step = [writer](StoreTransaction& t) { return writer->Step(t); },
       .done =
           [snapshots = snapshots_, table,
            again = end->log_bytes + log_bytes](const absl::Status& status) {
             const MutexLock lock(snapshots->mutex);
             ++(status.ok() ? snapshots->written : snapshots->failures);
             // After a failure not again at once.
             snapshots->from_bytes[table] = status.ok() ? 0 : again;
           }});
  Sweep();
}

void SqliteStore::Sweep() {
  engine_->AddTask(
      {.step = [](StoreTransaction& t) { return DeleteLeftovers(t.sql()); }});
}

void SqliteStore::Close(const absl::Status& why, SteadyInstant deadline) {
  engine_->Close(why, deadline);
}

void SqliteStore::AwaitBackground() { engine_->AwaitTasks(); }

StoreCounters SqliteStore::counters() const {
  const SqliteEngine::Counters engine = engine_->counters();
  const MutexLock lock(snapshots_->mutex);
  return {engine.commits, engine.failures, snapshots_->written,
          snapshots_->failures};
}

}  // namespace planb::server
