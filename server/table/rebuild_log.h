// SPDX-License-Identifier: Apache-2.0

// The recent rebuilds of all tables, for the status page.

#ifndef PLANB_SERVER_TABLE_REBUILD_LOG_H_
#define PLANB_SERVER_TABLE_REBUILD_LOG_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/mutex.h"

namespace planb::server {

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

#endif  // PLANB_SERVER_TABLE_REBUILD_LOG_H_
