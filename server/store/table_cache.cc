// SPDX-License-Identifier: Apache-2.0

#include "server/store/table_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "server/base/error.h"
#include "server/base/metric_families.h"
#include "server/store/commit_watermark.h"
#include "server/store/sqlite_database.h"

namespace planb::server {
namespace {

absl::Status Unusable(absl::string_view reason, absl::string_view what) {
  return Error(absl::StatusCode::kFailedPrecondition, reason, what);
}

// The time since this machine has booted, suspended or not.
absl::Duration SinceBoot() {
  timespec now = {};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return absl::DurationFromTimespec(now);
}

double UnixSeconds(absl::Time time) {
  return absl::ToDoubleSeconds(time - absl::UnixEpoch());
}

// StoreState::about of a copy: as of when it is, by the wall clock and since
// which boot, and of which store.
std::string AboutCopy(absl::Time as_of, const std::string& store) {
  return absl::StrCat(
      absl::ToUnixNanos(as_of), " ", ThisBoot(), " ",
      absl::ToInt64Nanoseconds(SinceBoot() - (absl::Now() - as_of)), " ",
      store);
}

// Whether an error of a database with this reason is for good.
bool IsUseless(absl::string_view reason) {
  return reason == "STORE_CORRUPT" || reason == "STORE_TOO_NEW" ||
         reason == "STORE_TOO_OLD";
}

}  // namespace

absl::StatusOr<std::unique_ptr<TableCache>> TableCache::Open(
    const std::string& directory, const std::string& store) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  const int file = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (error || file < 0 || access(directory.c_str(), W_OK) != 0) {
    const int why = error ? error.value() : errno;
    if (file >= 0) close(file);
    return Unusable("CACHE_UNWRITABLE",
                    absl::StrCat(directory, ": ", std::strerror(why)));
  }
  std::unique_ptr<TableCache> cache(new TableCache(directory, store, file));
  if (flock(file, LOCK_EX | LOCK_NB) == 0) return cache;
  return Unusable("CACHE_IN_USE",
                  absl::StrCat(directory, " is in use by another server"));
}

TableCache::~TableCache() {
  // Closing it writes to the files, which are another server's without the
  // lock.
  sql_ = nullptr;
  close(lock_);
}

absl::Status TableCache::OpenIt() {
  if (sql_ != nullptr) return absl::OkStatus();
  auto opened = OpenDatabase({.path = path_}, /*new_store_id=*/0);
  if (!opened.ok()) return opened.status();
  sql_ = *std::move(opened);
  return absl::OkStatus();
}

absl::StatusOr<StoredCopy> TableCache::Read() {
  absl::Status status = OpenIt();
  if (!status.ok()) return status;
  auto state = ReadState(*sql_);
  if (!state.ok()) return state.status();
  const std::vector<std::string> about =
      absl::StrSplit(state->about, absl::MaxSplits(' ', 3));
  int64_t as_of = 0;
  uint64_t boot = 0;
  int64_t then = 0;
  if (about.size() != 4 || !absl::SimpleAtoi(about[0], &as_of) ||
      !absl::SimpleAtoi(about[1], &boot) ||
      !absl::SimpleAtoi(about[2], &then)) {
    return sql_->Damaged("is no copy of tables");
  }
  if (about[3] != store_) {
    return Unusable("CACHE_OF_ANOTHER_STORE",
                    absl::StrCat(path_, " has the tables of ", about[3],
                                 ", not of ", store_));
  }
  StoredCopy copy = {.as_of = absl::FromUnixNanos(as_of),
                     .age = SinceBoot() - absl::Nanoseconds(then)};
  if (boot == 0 || boot != ThisBoot() || copy.age < absl::ZeroDuration()) {
    copy.age = absl::InfiniteDuration();
  }
  auto tables = ReadTables(*sql_, *state);
  if (!tables.ok()) return tables.status();
  copy.tables = *std::move(tables);
  for (const StoredTable& table : copy.tables) {
    known_[table.name] = {table.id, table.generation, table.fib.prefix_lengths,
                          table.tail_digest};
  }
  written_ = UnixSeconds(copy.as_of);
  return copy;
}

absl::StatusOr<StoredCopy> TableCache::Load() {
  const MutexLock lock(mutex_);
  if (StoreFileBytes(path_) == 0) {
    return absl::NotFoundError(absl::StrCat(path_, " was never written"));
  }
  known_.clear();
  auto copy = Read();
  const std::string reason = ErrorReason(copy.status());
  if (copy.ok() || reason == "CACHE_OF_ANOTHER_STORE") return copy;
  if (!IsUseless(reason)) {
    return Error(absl::StatusCode::kUnavailable, "CACHE_UNREADABLE",
                 copy.status().message());
  }
  return Error(absl::StatusCode::kDataLoss, "CACHE_CORRUPT",
               absl::StrCat(copy.status().message(),
                            "; start the server with its store, or remove the "
                            "directory"));
}

absl::Status TableCache::TryWrite(absl::Span<const Table> tables,
                                  absl::Time as_of) {
  absl::Status status = OpenIt();
  if (status.ok()) status = sql_->Run("BEGIN IMMEDIATE");
  if (!status.ok()) return status;
  auto state = ReadState(*sql_);
  if (!state.ok()) return state.status();
  if (known_.empty()) {
    // Rows that take the place of others would leave a damaged page as it is.
    const auto structure = sql_->Text("PRAGMA quick_check(1)");
    if (!structure.ok()) return structure.status();
    if (*structure != "ok") return sql_->Damaged(*structure);
  }
  state->about = AboutCopy(as_of, store_);
  ++state->sequence;
  std::map<std::string, Version> known;
  std::set<std::string> gone;
  for (const auto& [name, row] : state->tables) gone.insert(name);
  for (const Table& table : tables) {
    gone.erase(table.name);
    TableRow row = state->tables[table.name];
    const Pinned& pinned = table.pinned;
    const Version& version = known[table.name] = {
        table.id, pinned.generation, table.fib.prefix_lengths, pinned.digest};
    const auto before = known_.find(table.name);
    if (row.id != 0 && before != known_.end() && before->second == version) {
      continue;
    }
    // A commit that fails may have been one all the same.
    known_.erase(table.name);
    row.name = table.name;
    row.remote_id = table.id;
    row.prefix_lengths = table.fib.prefix_lengths;
    status = PutTable(*sql_, std::move(row),
                      {.generation = pinned.generation,
                       .digest = pinned.digest,
                       .routes = pinned.routes,
                       .next_hops = pinned.next_hops,
                       .complete_since = pinned.complete_since},
                      *state);
    // SQLite may have rolled back: it would commit another statement at once.
    if (!status.ok()) return status;
  }
  for (const std::string& name : gone) {
    status = RemoveTable(*sql_, name, *state);
    if (!status.ok()) return status;
  }
  status = WriteState(*sql_, *state);
  if (status.ok()) status = sql_->Run("COMMIT");
  if (status.ok()) known_ = std::move(known);
  return status;
}

absl::Status TableCache::Write(absl::Span<const Table> tables,
                               absl::Time as_of) {
  const MutexLock lock(mutex_);
  absl::Status status = TryWrite(tables, as_of);
  if (IsUseless(ErrorReason(status))) {
    sql_ = nullptr;
    for (const char* suffix : {"", "-wal", "-shm"}) {
      unlink(absl::StrCat(path_, suffix).c_str());
    }
    status = TryWrite(tables, as_of);
  }
  if (status.ok()) {
    KeepLog(*sql_, false);
    written_ = UnixSeconds(as_of);
  } else {
    // With what is left of the transaction.
    sql_ = nullptr;
    ++failures_;
  }
  return status;
}

std::vector<prometheus::MetricFamily> CacheMetrics::Collect() const {
  return {
      GaugeFamily("planb_cache_timestamp_seconds",
                  "As of when the copy of the tables (--cache) was last "
                  "written, in seconds since the Unix epoch; 0 without one.",
                  {GaugeOf(cache_ == nullptr ? 0 : cache_->written())}),
      CounterFamily(
          "planb_cache_write_errors_total",
          "Attempts to write the copy of the tables (--cache) that failed; the "
          "one "
          "before stays.",
          {CounterOf(cache_ == nullptr ? 0 : MetricValue(cache_->failures()))}),
  };
}

}  // namespace planb::server
