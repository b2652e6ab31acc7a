// SPDX-License-Identifier: Apache-2.0

#include "server/table/history.h"

#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "absl/strings/str_cat.h"
#include "base/monotonic_time.h"
#include "server/base/error.h"

namespace planb::server {

History::History(size_t max_bytes, uint64_t generation, std::string digest)
    : max_bytes_(max_bytes),
      oldest_(generation),
      oldest_digest_(std::move(digest)) {}

void History::Append(absl::Span<const DeltaPtr> deltas) {
  const std::lock_guard lock(mutex_);
  for (const DeltaPtr& delta : deltas) {
    ABSL_RAW_CHECK(delta->generation == oldest_ + entries_.size() + 1,
                   "a generation is missing");
    entries_.push_back({delta, delta->bytes()});
    bytes_ += entries_.back().bytes;
  }
  while (bytes_ > max_bytes_ && entries_.size() > 1) {
    bytes_ -= entries_.front().bytes;
    oldest_digest_ = entries_.front().delta->digest;
    entries_.pop_front();
    ++oldest_;
  }
  changed_.notify_all();
}

absl::Status History::CheckStart(uint64_t generation,
                                 absl::string_view digest) const {
  const std::lock_guard lock(mutex_);
  if (!closed_.ok()) return closed_;
  const uint64_t newest = oldest_ + entries_.size();
  if (generation < oldest_ || generation > newest) {
    return FieldError(
        absl::StatusCode::kOutOfRange, "HISTORY_COMPACTED", "start_generation",
        absl::StrCat("generation ", generation, " is not kept; the oldest is ",
                     oldest_, ", the newest ", newest));
  }
  if (!digest.empty() && digest != KnownDigest(generation)) {
    return FieldError(
        absl::StatusCode::kOutOfRange, "HISTORY_DIVERGED", "start_digest",
        absl::StrCat("generation ", generation,
                     " has other routes here; the oldest kept is ", oldest_));
  }
  return absl::OkStatus();
}

std::string History::DigestOf(uint64_t generation) const {
  const std::lock_guard lock(mutex_);
  const bool kept =
      generation >= oldest_ && generation <= oldest_ + entries_.size();
  return kept ? KnownDigest(generation) : "";
}

absl::StatusOr<History::DeltaPtr> History::Next(uint64_t generation,
                                                SteadyInstant deadline) const {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline, [&] {
    return oldest_ + entries_.size() > generation || !closed_.ok();
  });
  if (generation < oldest_) {
    return QuotaError(
        "WATCHER_TOO_SLOW", "history",
        absl::StrCat("generation ", generation + 1,
                     " is no longer kept; the oldest to go on from is ",
                     oldest_));
  }
  const uint64_t index = generation - oldest_;
  if (index < entries_.size()) return entries_[index].delta;
  if (!closed_.ok()) return closed_;
  return nullptr;
}

void History::Close(absl::Status why) {
  const std::lock_guard lock(mutex_);
  closed_ = std::move(why);
  changed_.notify_all();
}

uint64_t History::oldest() const {
  const std::lock_guard lock(mutex_);
  return oldest_;
}

uint64_t History::newest() const {
  const std::lock_guard lock(mutex_);
  return oldest_ + entries_.size();
}

size_t History::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace planb::server
