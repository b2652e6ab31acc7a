// SPDX-License-Identifier: Apache-2.0

#include "server/store/sqlite_background.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "server/base/log.h"
#include "server/store/store_entry.h"
#include "server/store/store_snapshot.h"

namespace planb::server {
namespace {

constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

// A pass of a checkpoint.
struct Passed {
  absl::Status status;
  bool done = false;  // all of the log is in the database
  int64_t log_pages = 0;
};

Passed Pass(Sql& sql) {
  int log = 0;
  int moved = 0;
  Passed passed = {.status =
                       sql.Checkpoint(SQLITE_CHECKPOINT_PASSIVE, &log, &moved)};
  passed.done = passed.status.ok() && log == moved;
  passed.log_pages = log;
  // Busy: a writer was changing the index of the log, or another process runs a
  // checkpoint.
  if ((sqlite3_errcode(sql.sql()) & 0xff) == SQLITE_BUSY) {
    passed.status = absl::OkStatus();
  }
  return passed;
}

}  // namespace

SqliteBackground::SqliteBackground(SqliteEngine& engine,
                                   std::unique_ptr<Sql> checkpoints,
                                   const Options& options)
    : engine_(engine),
      sql_(std::move(checkpoints)),
      options_(options),
      next_snapshot_(options.next_snapshot),
      due_(options.checkpoint_pages) {}

void SqliteBackground::End() {
  const MutexLock lock(mutex_);
  ending_ = resting_ = true;
  changed_.notify_all();
}

void SqliteBackground::Pause() {
  const MutexLock lock(mutex_);
  resting_ = true;
}

bool SqliteBackground::resting() const {
  const MutexLock lock(mutex_);
  return resting_;
}

void SqliteBackground::Logged(int64_t pages) {
  const MutexLock lock(mutex_);
  pages_ = pages;
  if (pages_ >= due_) changed_.notify_all();
}

void SqliteBackground::Sweep() {
  const MutexLock lock(mutex_);
  sweep_ = true;
  changed_.notify_all();
}

void SqliteBackground::AwaitIdle() {
  MutexLock lock(mutex_);
  changed_.wait(lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return ending_ || (idle_ && !HasWork());
  });
}

void SqliteBackground::OfferSnapshot(
    const std::string& table, absl::FunctionRef<TableVersion()> version) {
  const std::optional<TableHead> end = engine_.EndOf(table);
  if (!end.has_value() ||
      end->log_bytes <= std::max(options_.log_bytes, end->snapshot_bytes / 2)) {
    return;
  }
  {
    const MutexLock lock(mutex_);
    uint64_t& from = from_bytes_[table];
    if (end->log_bytes < from) return;
    from = kNever;
  }
  Offer offer = {*end, version()};
  const MutexLock lock(mutex_);
  offers_.push_back(std::move(offer));
  changed_.notify_all();
}

void SqliteBackground::AddTo(StoreCounters& counters) const {
  counters.checkpoints = checkpoints_.load();
  counters.checkpoint_failures = checkpoint_failures_.load();
  counters.snapshots = snapshots_.load();
  counters.snapshot_failures = snapshot_failures_.load();
}

void SqliteBackground::Loop() {
  for (;;) {
    CheckpointIfDue();
    std::optional<Offer> offer;
    {
      MutexLock lock(mutex_);
      idle_ = true;
      changed_.notify_all();
      changed_.wait(lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return ending_ || HasWork();
      });
      idle_ = false;
      if (ending_) break;
      if (pages_ >= due_) continue;
      if (!offers_.empty()) {
        offer = std::move(offers_.front());
        offers_.pop_front();
      } else {
        sweep_ = false;
      }
    }
    const absl::Status status = offer.has_value()
                                    ? WriteSnapshot(*std::move(offer))
                                    : DeleteLeftovers();
    if (!status.ok() && !resting()) {
      Log(LogLevel::kWarning, "the store could not be compacted",
          {{"error", status.message()}});
    }
  }
  sql_.reset();
}

void SqliteBackground::CheckpointIfDue() {
  int64_t pages;
  {
    const MutexLock lock(mutex_);
    if (resting_ || pages_ < due_) return;
    pages = pages_;
  }
  Pass(*sql_);
  // Shared: the engine may run the job after it has given up waiting for it.
  auto second = std::make_shared<Passed>();
  const absl::Status run =
      engine_.RunAlone([second](const SqliteEngine::Parts& parts) {
        *second = Pass(parts.sql);
        return second->status;
      });
  const bool done = run.ok() && second->done;
  if (done) {
    checkpoints_.fetch_add(1);
  } else if (!run.ok() && !resting() &&
             checkpoint_failures_.fetch_add(1) == 0) {
    Log(LogLevel::kWarning, "store checkpoint failed",
        {{"error", run.message()}});
  }
  const MutexLock lock(mutex_);
  // A reader, such as an operator's shell, or a full disk can prevent the log
  // from being reused. Then the next checkpoint is due only after as many pages
  // again, not at the next commit.
  due_ = options_.checkpoint_pages +
         (done ? 0 : std::max(second->log_pages, pages));
  pages_ = 0;
}

absl::Status SqliteBackground::WriteSnapshot(Offer offer) {
  const TableRow before = offer.end.row;
  TableRow row = before;
  row.generation = offer.version.generation;
  row.snapshot = next_snapshot_++;
  row.parts = 0;
  row.snapshot_checksum = row.snapshot;
  row.first = offer.end.next;
  row.base = offer.end.chain;
  const uint64_t log_bytes = offer.end.log_bytes;
  uint64_t snapshot_bytes = 0;
  absl::Status status = WriteParts(std::move(offer), row, snapshot_bytes);
  if (status.ok()) {
    status = engine_.Run([before, row, log_bytes, snapshot_bytes](
                             StoreTransaction& transaction) -> absl::Status {
      const TableHead* const head = transaction.Find(row.name);
      // The table may have been deleted meanwhile, and created again.
      if (head == nullptr || head->row.id != before.id ||
          head->row.first != before.first || head->row.base != before.base) {
        return absl::OkStatus();
      }
      TableHead next = *head;
      next.row = row;
      next.log_bytes -= log_bytes;
      next.snapshot_bytes = snapshot_bytes;
      transaction.Put(std::move(next));
      return transaction.writer().WriteTable(row);
    });
  }
  const MutexLock lock(mutex_);
  sweep_ = true;
  if (status.ok()) {
    snapshots_.fetch_add(1);
    from_bytes_.erase(row.name);
  } else {
    snapshot_failures_.fetch_add(1);
    // Not again at once.
    from_bytes_[row.name] = log_bytes + options_.log_bytes;
  }
  return status;
}

absl::Status SqliteBackground::WriteParts(Offer offer, TableRow& row,
                                          uint64_t& bytes) {
  SnapshotSource source(row.name, std::move(offer.version));
  for (;; ++row.parts) {
    absl::StatusOr<std::string> part = source.Next();
    if (!part.ok()) return part.status();
    if (part->empty()) return absl::OkStatus();
    if (resting()) return absl::CancelledError("the store is closed");
    row.snapshot_checksum = ChainChecksum(*part, row.snapshot_checksum);
    bytes += part->size();
    absl::Status status = engine_.Run(
        [snapshot = row.snapshot, number = row.parts,
         written = *std::move(part)](StoreTransaction& transaction) {
          return transaction.writer().WritePart(snapshot, number, written);
        });
    if (!status.ok()) return status;
    CheckpointIfDue();
  }
}

absl::Status SqliteBackground::DeleteLeftovers() {
  while (!resting()) {
    auto found = std::make_shared<std::optional<Leftovers>>();
    // A transaction only if there is something to delete.
    absl::Status status = engine_.RunAlone(
        [found](const SqliteEngine::Parts& parts) -> absl::Status {
          auto leftovers = parts.writer.FindLeftovers(parts.state);
          if (leftovers.ok()) *found = *leftovers;
          return leftovers.status();
        });
    if (!status.ok() || !found->has_value()) return status;
    // The rows have kept their table's id from being used again.
    status = engine_.Run([leftovers = **found](StoreTransaction& transaction) {
      return transaction.writer().Delete(leftovers);
    });
    if (!status.ok()) return status;
    CheckpointIfDue();
  }
  return absl::OkStatus();
}

}  // namespace planb::server
