// SPDX-License-Identifier: Apache-2.0

// The recent changes of a table, for watchers. Bounded: a watcher that falls
// behind the oldest change kept has to start over from the whole table.

#ifndef PLANB_SERVER_TABLE_HISTORY_H_
#define PLANB_SERVER_TABLE_HISTORY_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/monotonic_time.h"
#include "base/mutex.h"
#include "server/table/update.h"

namespace planb::server {

// The deltas that lead from oldest() to newest(), without a gap. Generations
// ascend and are otherwise opaque: each delta names the one before it.
// Thread-safe.
class History {
 public:
  using DeltaPtr = std::shared_ptr<const Delta>;

  // Starts at `generation`. `digest` is its digest; empty: unknown. Drops the
  // oldest deltas while all together have more than `max_bytes`. The newest is
  // kept, however large: watchers of the generation before it can continue.
  History(size_t max_bytes, uint64_t generation, std::string digest);

  // Keeps the deltas after newest() beyond `max_bytes`, up to twice that, as
  // long as the result lives: time for a watcher that is sent the whole table
  // to catch up. It must not outlive the history.
  using Hold = std::shared_ptr<void>;
  [[nodiscard]] Hold KeepWhatFollows();

  // Adds deltas that became visible. REQUIRES: each follows the one before it,
  // and the first of them newest().
  void Append(absl::Span<const DeltaPtr> deltas);

  // OK if a watcher that has `generation` can continue from it. An empty
  // `digest` is not compared. Errors: OUT_OF_RANGE (HISTORY_COMPACTED,
  // HISTORY_DIVERGED) with the oldest generation kept; the status given to
  // Close().
  absl::Status CheckStart(uint64_t generation, absl::string_view digest) const;

  // Table.digest of `generation`; empty if it is not kept.
  std::string DigestOf(uint64_t generation) const;

  // The delta that follows `generation`. Waits for it until the deadline;
  // nullptr if it does not arrive. Errors: RESOURCE_EXHAUSTED
  // (WATCHER_TOO_SLOW) if it was dropped; the status given to Close() if there
  // is no later delta.
  absl::StatusOr<DeltaPtr> Next(uint64_t generation,
                                SteadyInstant deadline) const;

  // What watchers are sent of one generation.
  struct Encoded {
    // One that gRPC has not sent yet keeps itself, and not the others.
    std::vector<std::shared_ptr<const std::string>> messages;
    size_t bytes = 0;  // of all
  };
  // That of `delta`, made with `encode` once for all watchers. Besides the
  // deltas, a quarter of `max_bytes` holds those of the latest generations.
  // Null if `delta` alone has more, or is older than these and has no room:
  // each watcher then encodes it in parts.
  std::shared_ptr<const Encoded> Encode(
      const Delta& delta,
      absl::FunctionRef<std::vector<std::string>(const Delta&)> encode);

  // Waits until newest() is at least `generation`, or until the deadline.
  // Errors: the status given to Close().
  absl::Status AwaitNewest(uint64_t generation, SteadyInstant deadline) const;

  // Ends all waiting with `why`.
  void Close(absl::Status why);

  uint64_t oldest() const;
  uint64_t newest() const;
  size_t bytes() const;

 private:
  struct Entry {
    DeltaPtr delta;
    size_t bytes;
  };

  void Trim() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t Newest() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return entries_.empty() ? oldest_ : entries_.back().delta->generation;
  }
  // The entry that follows `generation`; end() if there is none. O(log size).
  std::deque<Entry>::const_iterator After(uint64_t generation) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Null if `generation` is not kept.
  const std::string* KnownDigest(uint64_t generation) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t max_bytes_;
  mutable Mutex mutex_;
  mutable CondVar changed_;
  std::deque<Entry> entries_ ABSL_GUARDED_BY(mutex_);
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t oldest_ ABSL_GUARDED_BY(mutex_);
  std::string oldest_digest_ ABSL_GUARDED_BY(mutex_);
  std::multiset<uint64_t> held_ ABSL_GUARDED_BY(mutex_);  // generations
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);

  // Held while a generation is encoded: other watchers wait for the result.
  Mutex encoding_;
  // By generation.
  std::map<uint64_t, std::shared_ptr<const Encoded>> encoded_
      ABSL_GUARDED_BY(encoding_);
  size_t encoded_bytes_ ABSL_GUARDED_BY(encoding_) = 0;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_TABLE_HISTORY_H_
