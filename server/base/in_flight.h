// SPDX-License-Identifier: Apache-2.0

// Counts open streams, so that draining can wait for the last.

#ifndef PLANB_SERVER_BASE_IN_FLIGHT_H_
#define PLANB_SERVER_BASE_IN_FLIGHT_H_

#include <condition_variable>
#include <cstddef>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "base/monotonic_time.h"

namespace planb::server {

// Thread-safe.
class InFlight {
 public:
  void Begin() {
    const std::lock_guard lock(mutex_);
    ++count_;
  }

  // Begins one unless `limit` are open. False: it has not begun.
  bool TryBegin(size_t limit) {
    const std::lock_guard lock(mutex_);
    if (count_ >= limit) return false;
    ++count_;
    return true;
  }

  void End() {
    const std::lock_guard lock(mutex_);
    if (--count_ == 0) idle_.notify_all();
  }

  size_t count() {
    const std::lock_guard lock(mutex_);
    return count_;
  }

  // Returns when none is open, or at the deadline.
  void AwaitIdle(SteadyInstant deadline) {
    std::unique_lock lock(mutex_);
    idle_.wait_until(lock, deadline, [this] { return count_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable idle_;
  size_t count_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_BASE_IN_FLIGHT_H_
