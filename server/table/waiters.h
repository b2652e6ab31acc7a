// SPDX-License-Identifier: Apache-2.0

// Those who wait for a generation to become visible: update acks and lookups
// with a min_generation. Nobody blocks a thread; each leaves a callback.

#ifndef PLANB_SERVER_TABLE_WAITERS_H_
#define PLANB_SERVER_TABLE_WAITERS_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "base/monotonic_time.h"

namespace planb::server {

// Thread-safe. Bounded: at most `max_waiters` callbacks are kept.
//
// std::mutex, here and everywhere in the server: Debian's abseil is built with
// lock-order checking, and only pthread mutexes are seen by a TSan that must
// live with packaged libraries.
class Waiters {
 public:
  // OK: the generation is visible. DEADLINE_EXCEEDED: it was not in time. Else:
  // why nobody waits any more.
  using Callback = std::function<void(absl::Status)>;

  explicit Waiters(size_t max_waiters);
  ~Waiters();  // Calls Close(UNAVAILABLE).

  // Calls `done` exactly once: at once, if `generation` is visible already or
  // the deadline has passed; else from another thread.
  // Errors: RESOURCE_EXHAUSTED (then `done` is never called).
  absl::Status Wait(uint64_t generation, SteadyInstant deadline, Callback done);

  // Says that `generation` is visible. Those who waited for it are called back
  // from the waiters' own thread, so that whoever publishes is not held up.
  void Advance(uint64_t generation);

  // Calls back all who wait, with `why` unless their generation came; later
  // Waits end so at once.
  void Close(const absl::Status& why);

  size_t size() const;

 private:
  struct Waiter {
    uint64_t generation;
    Callback done;
  };
  // Ordered by deadline; equal deadlines are told apart by a number.
  using Queue = std::map<std::pair<SteadyInstant, uint64_t>, Waiter>;

  void CallLoop();

  const size_t max_waiters_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Queue queue_ ABSL_GUARDED_BY(mutex_);
  std::deque<Callback> ready_ ABSL_GUARDED_BY(mutex_);
  uint64_t visible_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t next_number_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);
  std::thread caller_;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_TABLE_WAITERS_H_
