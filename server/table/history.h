// SPDX-License-Identifier: Apache-2.0

// The last changes of a table, for those who follow it. Bounded: who falls
// behind what is kept has to start over from a list.

#ifndef PLANB_SERVER_TABLE_HISTORY_H_
#define PLANB_SERVER_TABLE_HISTORY_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/monotonic_time.h"
#include "server/table/update.h"

namespace planb::server {

// Thread-safe. Holds the deltas of the generations above oldest(), without a
// gap, up to newest().
class History {
 public:
  using DeltaPtr = std::shared_ptr<const Delta>;

  // Begins at `generation`, whose routes have that digest. Forgets the oldest
  // deltas when all of them have more than `max_bytes` together.
  History(size_t max_bytes, uint64_t generation, std::string digest);

  // Adds what became visible, in order. REQUIRES: generations go on by 1.
  void Append(absl::Span<const DeltaPtr> deltas);

  // Whether one who has `generation`, with this digest ("": unknown), can go on
  // from there. Errors: OUT_OF_RANGE (HISTORY_COMPACTED, HISTORY_DIVERGED),
  // saying the oldest that is kept; that of Close.
  absl::Status CheckStart(uint64_t generation, absl::string_view digest) const;

  // Table.digest of `generation`; "" if it is not kept.
  std::string DigestOf(uint64_t generation) const;

  // The delta of `generation` + 1: waits for it until the deadline, and is
  // nullptr if it did not come. Errors: RESOURCE_EXHAUSTED (WATCHER_TOO_SLOW)
  // if it was forgotten; that of Close, but not before what came was handed
  // out.
  absl::StatusOr<DeltaPtr> Next(uint64_t generation,
                                SteadyInstant deadline) const;

  // Ends all waiting with `why`.
  void Close(absl::Status why);

  uint64_t oldest() const;
  uint64_t newest() const;
  size_t bytes() const;

 private:
  // REQUIRES: `generation` is kept.
  const std::string& KnownDigest(uint64_t generation) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return generation == oldest_
               ? oldest_digest_
               : entries_[generation - oldest_ - 1].delta->digest;
  }

  struct Entry {
    DeltaPtr delta;
    size_t bytes;
  };

  const size_t max_bytes_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::deque<Entry> entries_ ABSL_GUARDED_BY(mutex_);
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t oldest_ ABSL_GUARDED_BY(mutex_);
  std::string oldest_digest_ ABSL_GUARDED_BY(mutex_);
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace planb::server

#endif  // PLANB_SERVER_TABLE_HISTORY_H_
