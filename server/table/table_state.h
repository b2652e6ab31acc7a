// SPDX-License-Identifier: Apache-2.0

// The state of a table at one moment, and its recent rebuilds: for GetTable,
// metrics and the status page.

#ifndef PLANB_SERVER_TABLE_TABLE_STATE_H_
#define PLANB_SERVER_TABLE_TABLE_STATE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "lpm/fib/fib_bound.h"
#include "server/table/rib.h"

namespace planb::server {

// Counts of rebuilds and the result of the last one. A plain value.
struct BuildState {
  uint64_t incremental = 0;
  uint64_t full = 0;
  uint64_t failed = 0;
  absl::Duration last_took;
  absl::Time last_at = absl::InfinitePast();
  std::string last_error;  // empty if the last rebuild succeeded
};

// A plain value.
struct TableState {
  std::string name;
  bool prefix_lengths = false;  // FibOptions
  uint64_t accepted = 0;
  uint64_t visible = 0;
  uint64_t persisted = 0;
  uint64_t writer_epoch = 0;
  RoutesByLength lengths_v4 = {};
  RoutesByLength lengths_v6 = {};
  uint64_t routes_v4 = 0;
  uint64_t routes_v6 = 0;
  uint64_t next_hops = 0;
  uint64_t groups = 0;
  uint64_t intervals_v4 = 0;
  uint64_t intervals_v6 = 0;
  std::string digest;
  uint64_t rib_bytes = 0;
  uint64_t fib_bytes = 0;
  uint64_t retired_fib_bytes = 0;
  // The time since the oldest FIB that is still read was replaced; 0 if only
  // the visible one is read.
  absl::Duration oldest_fib_age;
  uint64_t history_bytes = 0;
  uint64_t oldest_watch = 0;
  uint64_t memory_bound = 0;
  uint64_t memory_limit = 0;
  uint64_t max_routes = 0;
  BuildState builds;
  std::string store = "none";
  std::string store_path;
  std::string store_sync;  // "full", "normal" or "off"; empty without a store
  // Why the table no longer follows other servers; empty if it does.
  std::string store_error;
};

// One rebuild. A plain value.
struct RebuildRecord {
  std::string table;
  uint64_t generation = 0;
  bool full = false;  // compiled all routes; unspecified if it failed
  absl::Duration took;
  absl::Time at;
  std::string error;  // empty if the snapshot was published
};

// The last kKept rebuilds of all tables. Thread-safe.
class RebuildLog {
 public:
  static constexpr size_t kKept = 20;

  void Add(RebuildRecord record) {
    const MutexLock lock(mutex_);
    if (newest_first_.size() == kKept) newest_first_.pop_back();
    newest_first_.push_front(std::move(record));
  }

  std::vector<RebuildRecord> NewestFirst() const {
    const MutexLock lock(mutex_);
    return {newest_first_.begin(), newest_first_.end()};
  }

 private:
  mutable Mutex mutex_;
  std::deque<RebuildRecord> newest_first_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace planb::server

#endif  // PLANB_SERVER_TABLE_TABLE_STATE_H_
