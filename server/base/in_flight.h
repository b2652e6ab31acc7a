// SPDX-License-Identifier: Apache-2.0

// Counts open streams, so that draining can wait for the last.

#ifndef PLANB_SERVER_BASE_IN_FLIGHT_H_
#define PLANB_SERVER_BASE_IN_FLIGHT_H_

#include <cstddef>

#include "absl/base/thread_annotations.h"
#include "base/monotonic_time.h"
#include "base/mutex.h"

namespace planb::server {

// Thread-safe.
class InFlight {
 public:
  void Begin() {
    const MutexLock lock(mutex_);
    ++count_;
  }

  // Begins one unless `limit` are open. False: it has not begun.
  bool TryBegin(size_t limit) {
    const MutexLock lock(mutex_);
    if (count_ >= limit) return false;
    ++count_;
    return true;
  }

  void End() {
    const MutexLock lock(mutex_);
    if (--count_ == 0) idle_.notify_all();
  }

  size_t count() {
    const MutexLock lock(mutex_);
    return count_;
  }

  // Returns when none is open, or at the deadline.
  void AwaitIdle(SteadyInstant deadline) {
    MutexLock lock(mutex_);
    idle_.wait_until(
        lock, deadline,
        [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return count_ == 0; });
  }

 private:
  Mutex mutex_;
  CondVar idle_;
  size_t count_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_BASE_IN_FLIGHT_H_
