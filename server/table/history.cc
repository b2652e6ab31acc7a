// SPDX-License-Identifier: Apache-2.0

#include "server/table/history.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/base/internal/raw_logging.h"
#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "base/monotonic_time.h"
#include "base/mutex.h"
#include "server/base/error.h"

namespace planb::server {

History::History(size_t max_bytes, uint64_t generation, std::string digest)
    : max_bytes_(max_bytes),
      oldest_(generation),
      oldest_digest_(std::move(digest)) {}

std::deque<History::Entry>::const_iterator History::After(
    uint64_t generation) const {
  const auto next = std::partition_point(
      entries_.begin(), entries_.end(), [generation](const Entry& entry) {
        return entry.delta->previous < generation;
      });
  const bool follows =
      next != entries_.end() && next->delta->previous == generation;
  return follows ? next : entries_.end();
}

const std::string* History::KnownDigest(uint64_t generation) const {
  if (generation == oldest_) return &oldest_digest_;
  if (generation == Newest()) return &entries_.back().delta->digest;
  const auto next = After(generation);
  return next == entries_.end() ? nullptr : &std::prev(next)->delta->digest;
}

void History::Append(absl::Span<const DeltaPtr> deltas) {
  const MutexLock lock(mutex_);
  for (const DeltaPtr& delta : deltas) {
    ABSL_RAW_CHECK(delta->previous == Newest(), "a generation is missing");
    entries_.push_back({delta, delta->bytes()});
    bytes_ += entries_.back().bytes;
  }
  Trim();
  changed_.notify_all();
}

void History::Trim() {
  while (bytes_ > max_bytes_ && entries_.size() > 1) {
    const Entry& oldest = entries_.front();
    const bool held =
        !held_.empty() && oldest.delta->generation > *held_.begin();
    if (held && bytes_ <= 2 * max_bytes_) return;
    bytes_ -= oldest.bytes;
    oldest_ = oldest.delta->generation;
    oldest_digest_ = oldest.delta->digest;
    entries_.pop_front();
  }
}

History::Hold History::KeepWhatFollows() {
  std::multiset<uint64_t>::iterator at;
  {
    const MutexLock lock(mutex_);
    at = held_.insert(Newest());
  }
  return Hold(nullptr, [this, at](void*) {
    const MutexLock lock(mutex_);
    held_.erase(at);
    Trim();
  });
}

absl::Status History::CheckStart(uint64_t generation,
                                 absl::string_view digest) const {
  const MutexLock lock(mutex_);
  if (!closed_.ok()) return closed_;
  const std::string* const known = KnownDigest(generation);
  if (known == nullptr) {
    return FieldError(
        absl::StatusCode::kOutOfRange, "HISTORY_COMPACTED", "start_generation",
        absl::StrCat("generation ", generation, " is not kept; the oldest is ",
                     oldest_, ", the newest ", Newest()));
  }
  if (!digest.empty() && digest != *known) {
    return FieldError(
        absl::StatusCode::kOutOfRange, "HISTORY_DIVERGED", "start_digest",
        absl::StrCat("generation ", generation,
                     " has other contents here; the oldest kept is ", oldest_));
  }
  return absl::OkStatus();
}

std::string History::DigestOf(uint64_t generation) const {
  const MutexLock lock(mutex_);
  const std::string* const known = KnownDigest(generation);
  return known == nullptr ? "" : *known;
}

absl::StatusOr<History::DeltaPtr> History::Next(uint64_t generation,
                                                SteadyInstant deadline) const {
  MutexLock lock(mutex_);
  changed_.wait_until(lock, deadline,
                      [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                        return Newest() > generation || !closed_.ok();
                      });
  const auto next = After(generation);
  if (next != entries_.end()) return next->delta;
  if (Newest() != generation) {
    return QuotaError(
        "WATCHER_TOO_SLOW", "history",
        absl::StrCat("the changes after generation ", generation,
                     " are no longer kept; the oldest to go on from is ",
                     oldest_));
  }
  if (!closed_.ok()) return closed_;
  return nullptr;
}

std::shared_ptr<const History::Encoded> History::Encode(
    const Delta& delta,
    absl::FunctionRef<std::vector<std::string>(const Delta&)> encode) {
  const size_t most = max_bytes_ / 4;
  if (delta.bytes() > most) return nullptr;
  const MutexLock lock(encoding_);
  const auto kept = encoded_.find(delta.generation);
  if (kept != encoded_.end()) return kept->second;
  const bool behind =
      !encoded_.empty() && delta.generation < encoded_.begin()->first;
  if (behind && encoded_bytes_ + delta.bytes() > most) return nullptr;
  auto encoded = std::make_shared<Encoded>();
  for (std::string& message : encode(delta)) {
    encoded->bytes += sizeof(std::string) + message.capacity();
    encoded->messages.push_back(
        std::make_shared<const std::string>(std::move(message)));
  }
  encoded_.emplace(delta.generation, encoded);
  encoded_bytes_ += encoded->bytes;
  while (encoded_bytes_ > most) {
    encoded_bytes_ -= encoded_.begin()->second->bytes;
    encoded_.erase(encoded_.begin());
  }
  return encoded;
}

absl::Status History::AwaitNewest(uint64_t generation,
                                  SteadyInstant deadline) const {
  MutexLock lock(mutex_);
  changed_.wait_until(lock, deadline,
                      [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                        return Newest() >= generation || !closed_.ok();
                      });
  return closed_;
}

void History::Close(absl::Status why) {
  const MutexLock lock(mutex_);
  closed_ = std::move(why);
  changed_.notify_all();
}

uint64_t History::oldest() const {
  const MutexLock lock(mutex_);
  return oldest_;
}

uint64_t History::newest() const {
  const MutexLock lock(mutex_);
  return Newest();
}

size_t History::bytes() const {
  const MutexLock lock(mutex_);
  return bytes_;
}

}  // namespace planb::server
