// SPDX-License-Identifier: Apache-2.0

// Calls a function periodically on its own thread.

#ifndef PLANB_SERVER_BASE_PERIODIC_H_
#define PLANB_SERVER_BASE_PERIODIC_H_

#include <functional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/monotonic_time.h"
#include "base/mutex.h"

namespace planb::server {

// Calls `run` one interval after its construction, and then one interval after
// each call has returned, until it is destroyed. Waits by the monotonic clock:
// absl waits by the wall clock, which may be set back. Another thread than its
// own destroys it.
class Periodic {
 public:
  // REQUIRES: `interval` is positive. Infinite: `run` is never called.
  Periodic(absl::Duration interval, std::function<void()> run)
      : interval_(interval),
        run_(std::move(run)),
        thread_([this] { Loop(); }) {}

  // Waits for a call that has begun; begins no other.
  ~Periodic() {
    {
      const MutexLock lock(mutex_);
      stop_ = true;
    }
    stopped_.notify_one();
    thread_.join();
  }

  Periodic(const Periodic&) = delete;
  Periodic& operator=(const Periodic&) = delete;

 private:
  // True as soon as the thread is to end; false after an interval.
  bool AwaitStop() {
    MutexLock lock(mutex_);
    return stopped_.wait_until(
        lock, SteadyAfter(interval_),
        [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stop_; });
  }

  void Loop() {
    while (!AwaitStop()) run_();
  }

  const absl::Duration interval_;
  const std::function<void()> run_;
  Mutex mutex_;
  CondVar stopped_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: uses the other members
};

}  // namespace planb::server

#endif  // PLANB_SERVER_BASE_PERIODIC_H_
