// SPDX-License-Identifier: Apache-2.0

// Does something again and again, on a thread of its own.

#ifndef PLANB_SERVER_BASE_PERIODIC_H_
#define PLANB_SERVER_BASE_PERIODIC_H_

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/monotonic_time.h"

namespace planb::server {

// Calls `run` an interval after it began, and then an interval after each call
// has returned, until destroyed, which another thread than its own is to do. By
// the clock that never jumps: absl waits by the wall clock, and would wait an
// hour longer when that is set back by one.
class Periodic {
 public:
  // REQUIRES: `interval` is positive; infinity is never.
  Periodic(absl::Duration interval, std::function<void()> run)
      : interval_(interval),
        run_(std::move(run)),
        thread_([this] { Loop(); }) {}

  // Waits for a call that has begun, but not for the next.
  ~Periodic() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    stopped_.notify_one();
    thread_.join();
  }

  Periodic(const Periodic&) = delete;
  Periodic& operator=(const Periodic&) = delete;

 private:
  // True if it is to end, else false after an interval.
  bool AwaitStop() {
    std::unique_lock lock(mutex_);
    return stopped_.wait_until(lock, SteadyAfter(interval_),
                               [this] { return stop_; });
  }

  void Loop() {
    while (!AwaitStop()) run_();
  }

  const absl::Duration interval_;
  const std::function<void()> run_;
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: uses the rest
};

}  // namespace planb::server

#endif  // PLANB_SERVER_BASE_PERIODIC_H_
