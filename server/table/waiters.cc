// SPDX-License-Identifier: Apache-2.0

#include "server/table/waiters.h"

#include <algorithm>
#include <utility>

#include "server/base/error.h"

namespace planb::server {
namespace {

absl::Status TooLate() {
  return Error(absl::StatusCode::kDeadlineExceeded, "GENERATION_NOT_VISIBLE",
               "the generation did not become visible in time");
}

}  // namespace

Waiters::Waiters(size_t max_waiters)
    : max_waiters_(max_waiters), caller_([this] { CallLoop(); }) {}

Waiters::~Waiters() {
  Close(DrainingError());
  caller_.join();
}

absl::Status Waiters::Wait(uint64_t generation, SteadyInstant deadline,
                           Callback done) {
  absl::Status outcome;
  {
    const std::lock_guard lock(mutex_);
    if (visible_ >= generation) {
      outcome = absl::OkStatus();
    } else if (!closed_.ok()) {
      outcome = closed_;
    } else if (deadline <= SteadyNow()) {
      outcome = TooLate();
    } else if (queue_.size() + ready_.size() >= max_waiters_) {
      return QuotaError("TOO_MANY_WAITERS", "waiters",
                        "too many requests wait for a generation",
                        absl::Milliseconds(100));
    } else {
      const auto [it, fresh] =
          queue_.emplace(std::pair(deadline, next_number_++),
                         Waiter{generation, std::move(done)});
      if (it == queue_.begin()) changed_.notify_one();
      return absl::OkStatus();
    }
  }
  done(outcome);
  return absl::OkStatus();
}

void Waiters::Advance(uint64_t generation) {
  const std::lock_guard lock(mutex_);
  visible_ = std::max(visible_, generation);
  std::erase_if(queue_, [this](auto& entry) {
    if (entry.second.generation > visible_) return false;
    ready_.push_back(std::move(entry.second.done));
    return true;
  });
  if (!ready_.empty()) changed_.notify_one();
}

void Waiters::Close(const absl::Status& why) {
  Queue left;
  std::deque<Callback> ready;
  {
    const std::lock_guard lock(mutex_);
    if (closed_.ok()) closed_ = why;
    left.swap(queue_);
    ready.swap(ready_);
    changed_.notify_one();
  }
  for (const Callback& done : ready) done(absl::OkStatus());
  for (const auto& [key, waiter] : left) waiter.done(why);
}

size_t Waiters::size() const {
  const std::lock_guard lock(mutex_);
  return queue_.size() + ready_.size();
}

void Waiters::CallLoop() {
  std::unique_lock lock(mutex_);
  while (closed_.ok()) {
    if (!ready_.empty()) {
      const Callback done = std::move(ready_.front());
      ready_.pop_front();
      lock.unlock();
      done(absl::OkStatus());
      lock.lock();
      continue;
    }
    if (queue_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const SteadyInstant deadline = queue_.begin()->first.first;
    if (deadline > SteadyNow()) {
      changed_.wait_until(lock, deadline);
    } else {
      const Callback done = std::move(queue_.begin()->second.done);
      queue_.erase(queue_.begin());
      lock.unlock();
      done(TooLate());
      lock.lock();
    }
  }
}

}  // namespace planb::server
