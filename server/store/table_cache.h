// SPDX-License-Identifier: Apache-2.0

// A copy of the tables of a remote store in a directory of this machine. With
// it, a server starts and answers lookups while the store does not answer.

#ifndef PLANB_SERVER_STORE_TABLE_CACHE_H_
#define PLANB_SERVER_STORE_TABLE_CACHE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "lpm/fib/fib.h"
#include "prometheus/collectable.h"
#include "prometheus/metric_family.h"
#include "server/table/snapshot.h"
#include "server/table/store.h"

namespace planb::server {

// The file `index` names the store and a table file for each table, which has
// one generation. A generation is written to a file of its own; then the index
// is replaced, and files that it does not name are removed. So a crash at any
// moment leaves the index of before, or the new one, with all its files.
//
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
  // (CACHE_OF_ANOTHER_STORE); DATA_LOSS (CACHE_CORRUPT), with the file.
  absl::StatusOr<StoredCopy> Load();

  // Writes the generations that are not there yet, and the index. Errors: those
  // of the file system; what was written before remains.
  absl::Status Write(absl::Span<const Table> tables, absl::Time as_of);

  // As of which moment the tables were last written, since the Unix epoch in
  // seconds; 0 if never. How many calls of Write() failed.
  double written() const { return written_; }
  uint64_t failures() const { return failures_; }

 private:
  TableCache(std::string directory, std::string store, int lock)
      : directory_(std::move(directory)),
        store_(std::move(store)),
        lock_(lock) {}

  std::string IndexPath() const;
  // Reads the contents of a table of the index.
  absl::StatusOr<StoredTable> Read(StoredTable empty) const;
  absl::Status WriteAll(absl::Span<const Table> tables, absl::Time as_of)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string directory_;
  const std::string store_;
  const int lock_;  // an open file
  mutable Mutex mutex_;
  // The files that the index names.
  std::vector<std::string> files_ ABSL_GUARDED_BY(mutex_);
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
