// SPDX-License-Identifier: Apache-2.0

// A copy of the tables of a remote store in a directory of this machine. With
// it, a server starts and answers lookups while the store does not answer.

#ifndef PLANB_SERVER_STORE_TABLE_CACHE_H_
#define PLANB_SERVER_STORE_TABLE_CACHE_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "lpm/fib/fib.h"
#include "prometheus/collectable.h"
#include "prometheus/metric_family.h"
#include "server/store/sqlite_sql.h"
#include "server/table/snapshot.h"
#include "server/table/store.h"

namespace planb::server {

// A database like that of a store, in which each write is one transaction.
// Holds a lock on the directory, so that one server at a time uses it.
// Thread-safe.
class TableCache {
 public:
  struct Table {
    std::string name;
    uint64_t id = 0;  // StoredTable::id
    FibOptions fib;
    Pinned pinned;
  };

  // Creates the directory if it is absent. `store` is Store::path(), with its
  // kind. Errors: FAILED_PRECONDITION (CACHE_IN_USE) if another server has the
  // directory, (CACHE_UNWRITABLE) if it cannot be used.
  static absl::StatusOr<std::unique_ptr<TableCache>> Open(
      const std::string& directory, const std::string& store);
  ~TableCache();
  TableCache(const TableCache&) = delete;
  TableCache& operator=(const TableCache&) = delete;

  // The tables as they were last written; each is checked against its digest.
  // Their age is known if this machine has not booted since: the wall clock may
  // be behind after that, and a copy of long ago must not look fresh.
  // Errors: NOT_FOUND if none were written; FAILED_PRECONDITION
  // (CACHE_OF_ANOTHER_STORE); DATA_LOSS (CACHE_CORRUPT), with the file;
  // UNAVAILABLE (CACHE_UNREADABLE) if the copy may be good.
  absl::StatusOr<StoredCopy> Load();

  // Makes these the tables, in place of a damaged copy as well. A table is
  // written unless this object loaded or wrote the same before. Errors: those
  // of Sql; what was written before remains.
  absl::Status Write(absl::Span<const Table> tables, absl::Time as_of);

  // As of which moment the tables were last written, since the Unix epoch in
  // seconds; 0 if never. How many calls of Write() failed.
  double written() const { return written_; }
  uint64_t failures() const { return failures_; }

 private:
  // Two stores may give the same id and generation to different contents.
  struct Version {
    uint64_t id = 0;
    uint64_t generation = 0;
    bool prefix_lengths = false;
    std::string digest;

    friend bool operator==(const Version&, const Version&) = default;
  };

  TableCache(const std::string& directory, std::string store, int lock)
      : path_(directory + "/tables.db"),
        store_(std::move(store)),
        lock_(lock) {}

  absl::Status OpenIt() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<StoredCopy> Read() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status TryWrite(absl::Span<const Table> tables, absl::Time as_of)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string path_;
  const std::string store_;
  const int lock_;  // the open directory
  Mutex mutex_;
  std::unique_ptr<Sql> sql_ ABSL_GUARDED_BY(mutex_);  // null: not open yet
  // What the file has, by the names of tables, as far as it was verified or
  // written here: a row that another process wrote may be damaged.
  std::map<std::string, Version> known_ ABSL_GUARDED_BY(mutex_);
  // Not guarded: a write to a disk that hangs must not hold up the metrics.
  std::atomic<double> written_ = 0;
  std::atomic<uint64_t> failures_ = 0;
};

// Metrics of a cache; zeros without one. Thread-safe.
class CacheMetrics : public prometheus::Collectable {
 public:
  explicit CacheMetrics(std::shared_ptr<const TableCache> cache)
      : cache_(std::move(cache)) {}

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const std::shared_ptr<const TableCache> cache_;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_STORE_TABLE_CACHE_H_
