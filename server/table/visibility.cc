// SPDX-License-Identifier: Apache-2.0

#include "server/table/visibility.h"

#include <algorithm>

#include "server/base/error.h"

namespace planb::server {

void Visibility::Advance(uint64_t generation, absl::Time at) {
  const std::lock_guard lock(mutex_);
  generation_ = generation;
  times_.emplace_back(generation, at);
  if (times_.size() > kTimes) times_.pop_front();
  changed_.notify_all();
}

uint64_t Visibility::generation() const {
  const std::lock_guard lock(mutex_);
  return generation_;
}

absl::Status Visibility::Await(uint64_t generation,
                               SteadyInstant deadline) const {
  std::unique_lock lock(mutex_);
  const auto decided = [this, generation] {
    return generation_ >= generation || !closed_.ok();
  };
  changed_.wait_until(lock, deadline, decided);
  if (generation_ >= generation) return absl::OkStatus();
  if (!closed_.ok()) return closed_;
  return Error(absl::StatusCode::kDeadlineExceeded, "GENERATION_NOT_VISIBLE",
               "the generation did not become visible in time");
}

absl::Time Visibility::Since(uint64_t generation) const {
  const std::lock_guard lock(mutex_);
  const auto it = std::partition_point(
      times_.begin(), times_.end(),
      [generation](const auto& entry) { return entry.first < generation; });
  // The first that is known may not have been the first that showed it.
  const bool known =
      it != times_.end() && (it != times_.begin() || times_.size() < kTimes);
  return known ? it->second : absl::InfinitePast();
}

void Visibility::Close(absl::Status why) {
  const std::lock_guard lock(mutex_);
  closed_ = std::move(why);
  changed_.notify_all();
}

}  // namespace planb::server
