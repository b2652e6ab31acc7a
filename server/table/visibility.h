// SPDX-License-Identifier: Apache-2.0

// Which generation lookups see, since when, and who waits for a later one.

#ifndef PLANB_SERVER_TABLE_VISIBILITY_H_
#define PLANB_SERVER_TABLE_VISIBILITY_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/monotonic_time.h"

namespace planb::server {

// For those who have a thread to wait with; Waiters is for the others.
// Thread-safe.
class Visibility {
 public:
  // How many publications' times are remembered.
  static constexpr size_t kTimes = 1024;

  explicit Visibility(uint64_t generation) : generation_(generation) {}

  // `generation` was published at `at`. REQUIRES: it ascends.
  void Advance(uint64_t generation, absl::Time at);

  uint64_t generation() const;

  // Blocks until `generation` is visible. Errors: DEADLINE_EXCEEDED
  // (GENERATION_NOT_VISIBLE), and that of Close.
  absl::Status Await(uint64_t generation, SteadyInstant deadline) const;

  // When `generation` became visible; InfinitePast if that is not known: not
  // yet, or long ago.
  absl::Time Since(uint64_t generation) const;

  // Ends all waiting with `why`.
  void Close(absl::Status why);

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  uint64_t generation_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::pair<uint64_t, absl::Time>> times_ ABSL_GUARDED_BY(mutex_);
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace planb::server

#endif  // PLANB_SERVER_TABLE_VISIBILITY_H_
