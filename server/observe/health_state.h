// SPDX-License-Identifier: Apache-2.0

// Whether this server is ready for lookups, and if not, why. The health service
// and the pages over HTTP share this state.

#ifndef PLANB_SERVER_OBSERVE_HEALTH_STATE_H_
#define PLANB_SERVER_OBSERVE_HEALTH_STATE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/mutex.h"

namespace planb::server {

// Thread-safe. The phases are: starting, serving, draining, ended. They never
// go back, and may be skipped. The server is ready if it is serving and the
// readiness condition holds. The condition is evaluated at each query.
class HealthState {
 public:
  // "" if it holds, else the reason in one line. Quick, and never blocks.
  using Condition = std::function<std::string()>;

  // The tables are loaded and lookups are answered. `condition` may be called
  // until Drain() or End() returns.
  void Serve(Condition condition = nullptr);

  // From now on the server is not ready.
  void Drain();

  // The process is about to end: watches end.
  void End();

  bool ended() const;

  // True from Serve() on: the tables are loaded.
  bool loaded() const;

  // "" if ready, else the reason in one line.
  std::string WhyNotReady() const;

  // Changes with the phase.
  uint64_t version() const;

  // Blocks until version() differs from `seen`, at most `at_most`.
  void AwaitChange(uint64_t seen, absl::Duration at_most) const;

 private:
  enum class Phase : uint64_t { kStarting, kServing, kDraining, kEnded };

  void Enter(Phase phase) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  mutable CondVar changed_;
  Phase phase_ ABSL_GUARDED_BY(mutex_) = Phase::kStarting;
  bool loaded_ ABSL_GUARDED_BY(mutex_) = false;
  Condition condition_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace planb::server

#endif  // PLANB_SERVER_OBSERVE_HEALTH_STATE_H_
