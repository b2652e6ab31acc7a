// SPDX-License-Identifier: Apache-2.0

// Whether this server can be sent lookups, and why not: one truth for the
// health service and the pages over HTTP.

#ifndef PLANB_SERVER_OBSERVE_HEALTH_STATE_H_
#define PLANB_SERVER_OBSERVE_HEALTH_STATE_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"

namespace planb::server {

// Thread-safe. Starts, serves, drains, ends, in this order and never back;
// phases may be left out. Ready is who serves and meets the condition, which is
// asked anew each time: there is no copy of it to be out of date.
class HealthState {
 public:
  // Why lookups are not to be sent here although they would be answered, in
  // one line; "" if they are. Quick, and never blocks.
  using Condition = std::function<std::string()>;

  // The tables are loaded, lookups are answered. `condition` may be called
  // until Drain() returns.
  void Serve(Condition condition = nullptr);

  // From now on not ready, whatever the condition.
  void Drain();

  // The process is about to end: who watches is to go.
  void End();

  bool ended() const;

  // True if the tables are loaded: from Serve() on.
  bool loaded() const;

  // "" if ready, else the reason in one line.
  std::string WhyNotReady() const;

  // Changes with the phase.
  uint64_t version() const;

  // Returns when version() is not `seen` any more, or after `at_most`.
  void AwaitChange(uint64_t seen, absl::Duration at_most) const;

 private:
  enum class Phase : uint64_t { kStarting, kServing, kDraining, kEnded };

  void Enter(Phase phase) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  Phase phase_ ABSL_GUARDED_BY(mutex_) = Phase::kStarting;
  bool loaded_ ABSL_GUARDED_BY(mutex_) = false;
  Condition condition_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace planb::server

#endif  // PLANB_SERVER_OBSERVE_HEALTH_STATE_H_
