// SPDX-License-Identifier: Apache-2.0

#include "server/table/visibility.h"

#include <algorithm>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "server/base/error.h"

namespace planb::server {
namespace {

absl::Status TooLate() {
  return Error(absl::StatusCode::kDeadlineExceeded, "GENERATION_NOT_VISIBLE",
               "the generation did not become visible in time");
}

}  // namespace

Visibility::Visibility(Executor& executor, uint64_t generation,
                       size_t max_waiting)
    : max_waiting_(max_waiting),
      first_(generation),
      generation_(generation),
      caller_(executor, [this] { CallDue(); }) {}

Visibility::~Visibility() { Close(DrainingError()); }

void Visibility::Advance(uint64_t generation, absl::Time at) {
  const MutexLock lock(mutex_);
  if (generation <= generation_) return;
  generation_ = generation;
  times_.emplace_back(generation, at);
  if (times_.size() > kTimes) times_.pop_front();
  std::erase_if(queue_,
                [this](auto& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                  if (entry.second.generation > generation_) return false;
                  ready_.push_back(std::move(entry.second.done));
                  return true;
                });
  advanced_.notify_all();
  if (!ready_.empty()) caller_.ScheduleNow();
}

uint64_t Visibility::generation() const {
  const MutexLock lock(mutex_);
  return generation_;
}

absl::Time Visibility::Since(uint64_t generation) const {
  if (generation <= first_) return absl::InfinitePast();
  const MutexLock lock(mutex_);
  const auto it = std::partition_point(
      times_.begin(), times_.end(),
      [generation](const auto& entry) { return entry.first < generation; });
  // If times were dropped, the oldest one kept may not be the first publication
  // that had this generation.
  const bool known =
      it != times_.end() && (it != times_.begin() || times_.size() < kTimes);
  return known ? it->second : absl::InfinitePast();
}

absl::Status Visibility::Await(uint64_t generation,
                               SteadyInstant deadline) const {
  MutexLock lock(mutex_);
  advanced_.wait_until(lock, deadline,
                       [this, generation]()
                           ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                             return generation_ >= generation || !closed_.ok();
                           });
  if (generation_ >= generation) return absl::OkStatus();
  if (!closed_.ok()) return closed_;
  return TooLate();
}

absl::Status Visibility::CallWhenVisible(uint64_t generation,
                                         SteadyInstant deadline,
                                         Callback done) {
  absl::Status outcome;
  {
    const MutexLock lock(mutex_);
    if (generation_ >= generation) {
      outcome = absl::OkStatus();
    } else if (!closed_.ok()) {
      outcome = closed_;
    } else if (deadline <= SteadyNow()) {
      outcome = TooLate();
    } else if (queue_.size() + ready_.size() >= max_waiting_) {
      return QuotaError("TOO_MANY_WAITERS", "waiters",
                        "too many requests wait for a generation",
                        absl::Milliseconds(100));
    } else {
      const auto [it, fresh] =
          queue_.emplace(std::pair(deadline, next_number_++),
                         Waiter{generation, std::move(done)});
      if (it == queue_.begin()) caller_.Schedule(deadline);
      return absl::OkStatus();
    }
  }
  done(outcome);
  return absl::OkStatus();
}

void Visibility::Close(const absl::Status& why) {
  Queue left;
  std::deque<Callback> ready;
  {
    const MutexLock lock(mutex_);
    if (closed_.ok()) closed_ = why;
    left.swap(queue_);
    ready.swap(ready_);
    advanced_.notify_all();
  }
  for (const Callback& done : ready) done(absl::OkStatus());
  for (const auto& [key, waiter] : left) waiter.done(why);
}

size_t Visibility::waiting() const {
  const MutexLock lock(mutex_);
  return queue_.size() + ready_.size();
}

void Visibility::CallDue() {
  MutexLock lock(mutex_);
  while (!ready_.empty() || !queue_.empty()) {
    Callback done;
    absl::Status outcome;
    if (!ready_.empty()) {
      done = std::move(ready_.front());
      ready_.pop_front();
    } else {
      const SteadyInstant deadline = queue_.begin()->first.first;
      if (deadline > SteadyNow()) {
        caller_.Schedule(deadline);
        return;
      }
      done = std::move(queue_.begin()->second.done);
      queue_.erase(queue_.begin());
      outcome = TooLate();
    }
    lock.unlock();
    done(outcome);
    lock.lock();
  }
}

}  // namespace planb::server
