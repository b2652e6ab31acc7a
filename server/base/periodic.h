// SPDX-License-Identifier: Apache-2.0

// Calls a function periodically on its own thread.

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
      const std::lock_guard lock(mutex_);
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
  std::thread thread_;  // last: uses the other members
};

}  // namespace planb::server

#endif  // PLANB_SERVER_BASE_PERIODIC_H_
