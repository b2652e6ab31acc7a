// SPDX-License-Identifier: Apache-2.0

// Which generation of a table lookups see, since when, and the calls that wait
// for a later one.

#ifndef PLANB_SERVER_TABLE_VISIBILITY_H_
#define PLANB_SERVER_TABLE_VISIBILITY_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/monotonic_time.h"
#include "base/mutex.h"
#include "server/base/executor.h"

namespace planb::server {

// The visible generation of one table, and two ways to wait for a later one.
// Await() blocks its thread: it is for updates, which have a thread for each
// call. CallWhenVisible() keeps a callback: it is for lookups, where a thread
// serves many streams. Callbacks run without a lock, most of them on a thread
// of the executor, so that a slow callback never delays the thread that
// publishes. Thread-safe.
class Visibility {
 public:
  // How many publication times are kept.
  static constexpr size_t kTimes = 1024;

  // OK: the generation is visible. DEADLINE_EXCEEDED
  // (GENERATION_NOT_VISIBLE): it was not by the deadline. Otherwise the status
  // given to Close().
  using Callback = std::function<void(absl::Status)>;

  // `executor` must outlive this. `generation` is visible from the start. At
  // most `max_waiting` callbacks are kept at a time.
  Visibility(Executor& executor, uint64_t generation, size_t max_waiting);
  // Closes with UNAVAILABLE (DRAINING) if Close() was not called.
  ~Visibility();
  Visibility(const Visibility&) = delete;
  Visibility& operator=(const Visibility&) = delete;

  // `generation` was published at `at`. Ignored if it is not newer than the
  // visible one.
  void Advance(uint64_t generation, absl::Time at);

  uint64_t generation() const;

  // When `generation` became visible. InfinitePast if that is not known: it is
  // not visible yet, or its time is no longer kept.
  absl::Time Since(uint64_t generation) const;

  // Blocks until `generation` is visible. Errors: DEADLINE_EXCEEDED
  // (GENERATION_NOT_VISIBLE), and the status given to Close().
  absl::Status Await(uint64_t generation, SteadyInstant deadline) const;

  // Calls `done` exactly once. Calls it before returning if the outcome is
  // known: `generation` is visible, the deadline has passed, or Close() was
  // called. Otherwise calls it later, from another thread. Errors:
  // RESOURCE_EXHAUSTED (TOO_MANY_WAITERS); then `done` is never called.
  absl::Status CallWhenVisible(uint64_t generation, SteadyInstant deadline,
                               Callback done);

  // Ends all waiting with `why`; generations that are visible still succeed.
  // Runs the remaining callbacks before it returns, except one that is running
  // already. Only the first call has an effect on later waits.
  void Close(const absl::Status& why);

  // How many callbacks are kept.
  size_t waiting() const;

 private:
  struct Waiter {
    uint64_t generation;
    Callback done;
  };
  // Ordered by deadline. A number makes equal deadlines distinct.
  using Queue = std::map<std::pair<SteadyInstant, uint64_t>, Waiter>;

  // Calls all callbacks that are due.
  void CallDue();

  const size_t max_waiting_;
  const uint64_t first_;  // visible from the start
  mutable Mutex mutex_;
  mutable CondVar advanced_;  // or closed
  uint64_t generation_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::pair<uint64_t, absl::Time>> times_ ABSL_GUARDED_BY(mutex_);
  Queue queue_ ABSL_GUARDED_BY(mutex_);
  // Their generation is visible; they are still to be called.
  std::deque<Callback> ready_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_number_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);
  Executor::Job caller_;  // last: it uses all of the above
};

}  // namespace planb::server

#endif  // PLANB_SERVER_TABLE_VISIBILITY_H_
