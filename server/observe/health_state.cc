// SPDX-License-Identifier: Apache-2.0

#include "server/observe/health_state.h"

#include <algorithm>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"

namespace planb::server {

void HealthState::Enter(Phase phase) {
  phase_ = std::max(phase_, phase);
  changed_.notify_all();
}

void HealthState::Serve(Condition condition) {
  const MutexLock lock(mutex_);
  condition_ = std::move(condition);
  loaded_ = true;
  Enter(Phase::kServing);
}

void HealthState::Drain() {
  const MutexLock lock(mutex_);
  condition_ = nullptr;
  Enter(Phase::kDraining);
}

void HealthState::End() {
  const MutexLock lock(mutex_);
  condition_ = nullptr;
  Enter(Phase::kEnded);
}

bool HealthState::ended() const {
  const MutexLock lock(mutex_);
  return phase_ == Phase::kEnded;
}

bool HealthState::loaded() const {
  const MutexLock lock(mutex_);
  return loaded_;
}

std::string HealthState::WhyNotReady() const {
  const MutexLock lock(mutex_);
  switch (phase_) {
    case Phase::kStarting:
      return "starting: the tables are being loaded";
    case Phase::kServing:
      return condition_ == nullptr ? "" : condition_();
    case Phase::kDraining:
    case Phase::kEnded:
      break;
  }
  return "draining: the server is going down";
}

uint64_t HealthState::version() const {
  const MutexLock lock(mutex_);
  return static_cast<uint64_t>(phase_);
}

void HealthState::AwaitChange(uint64_t seen, absl::Duration at_most) const {
  MutexLock lock(mutex_);
  changed_.wait_for(lock, absl::ToChronoNanoseconds(at_most),
                    [this, seen]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                      return static_cast<uint64_t>(phase_) != seen;
                    });
}

}  // namespace planb::server
