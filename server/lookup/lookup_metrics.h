// SPDX-License-Identifier: Apache-2.0

// Counters of lookups, and the metrics made of them. Each thread has its own
// counters, so that counting is a load, an addition and a store in a cache line
// that no other thread writes. A scrape sums them.

#ifndef PLANB_SERVER_LOOKUP_LOOKUP_METRICS_H_
#define PLANB_SERVER_LOOKUP_LOOKUP_METRICS_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "base/monotonic_time.h"
#include "base/mutex.h"
#include "prometheus/collectable.h"
#include "prometheus/metric_family.h"
#include "server/base/duration_buckets.h"
#include "server/base/metric_families.h"
#include "server/base/trace.h"
#include "server/table/backpressure_clock.h"

namespace planb::server {

// The reasons that a batch can fail for. Every series exists from the start.
inline constexpr std::array<absl::string_view, 12> kLookupErrorReasons = {
    "MESSAGE_MALFORMED",
    "ADDRESSES_LENGTH",
    "ADDRESS_INVALID",
    "FLOW_HASHES_LENGTH",
    "TABLE_NOT_FOUND",
    "BATCH_TOO_LARGE",
    "REQUEST_TOO_LARGE",
    "PREFIX_LENGTHS_UNDECIDED",
    "GENERATION_NOT_VISIBLE",
    "TOO_MANY_WAITERS",
    "DRAINING",
    "OTHER",
};

// Buckets for the sizes of batches: up to 1, 4, 16, ... addresses.
inline constexpr size_t kSizeBounds = 10;
constexpr uint64_t SizeBound(size_t bucket) {
  return uint64_t{1} << 2 * bucket;
}
static_assert(SizeBound(kSizeBounds - 1) == 262'144);
// The last bucket is for larger batches.
inline size_t SizeBucket(size_t addresses) {
  const auto bits =
      static_cast<size_t>(std::bit_width(addresses - (addresses > 0 ? 1 : 0)));
  return std::min((bits + 1) / 2, kSizeBounds);
}

// The sums over all threads. A plain value.
struct LookupTotals {
  uint64_t lookups = 0;
  uint64_t misses = 0;
  uint64_t nanoseconds = 0;
  uint64_t received = 0;  // bytes
  uint64_t sent = 0;
  uint64_t slow = 0;
  uint64_t streams = 0;
  BackpressureClock::Nanoseconds held{0};
  std::array<uint64_t, kDurationBuckets> by_duration = {};
  std::array<uint64_t, kSizeBounds + 1> by_size = {};
  std::array<uint64_t, kLookupErrorReasons.size()> failures = {};
};

// The counters of one thread. AddTo is for any thread, all else for the one;
// all is wait-free.
class alignas(64) LookupCounters {
 public:
  LookupCounters() = default;
  LookupCounters(const LookupCounters&) = delete;
  LookupCounters& operator=(const LookupCounters&) = delete;

  // A batch of `addresses` was answered in `elapsed`; `misses` had no route.
  void Answered(size_t addresses, size_t misses,
                SteadyInstant::duration elapsed);
  // A batch failed. A reason that is not in kLookupErrorReasons counts as
  // OTHER.
  void Failed(absl::string_view reason);

  // A batch took --slow_batch or longer.
  void Slow() { Add(slow_, 1); }

  // Bytes of messages.
  void Received(size_t bytes) { Add(received_, bytes); }
  void Sent(size_t bytes) { Add(sent_, bytes); }

  void StreamOpened() { Add(streams_, 1); }
  void StreamClosed() { Add(streams_, ~uint64_t{0}); }
  // A stream stops reading because too many replies wait, or goes on.
  void HoldStream() { held_.Begin(SteadyNow()); }
  void ReleaseStream() { held_.End(SteadyNow()); }

  // Adds all counters to `totals`.
  void AddTo(LookupTotals& totals) const;

 private:
  using Counter = std::atomic<uint64_t>;

  // REQUIRES: no other thread adds.
  static void Add(Counter& counter, uint64_t value) {
    counter.store(counter.load(std::memory_order_relaxed) + value,
                  std::memory_order_relaxed);
  }

  Counter lookups_{0};
  Counter misses_{0};
  Counter nanoseconds_{0};
  Counter received_{0};
  Counter sent_{0};
  Counter slow_{0};
  Counter streams_{0};
  BackpressureClock held_;
  std::array<Counter, kDurationBuckets> by_duration_{};
  std::array<Counter, kSizeBounds + 1> by_size_{};
  std::array<Counter, kLookupErrorReasons.size()> failures_{};
};

// Owns the counters of all threads. All series exist from the start.
// Thread-safe.
class LookupMetrics : public prometheus::Collectable {
 public:
  // Counters for one more thread. They live as long as this object.
  LookupCounters& AddThread() ABSL_LOCKS_EXCLUDED(mutex_);

  std::vector<prometheus::MetricFamily> Collect() const override
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Makes the span of a batch the example of its duration's bucket.
  void SetExample(const Span& span) ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<Exemplar> Exemplars() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  std::array<std::optional<Exemplar>, kDurationBuckets> examples_
      ABSL_GUARDED_BY(mutex_);
  mutable Mutex mutex_;
  // The last value shown. Prometheus takes a counter that decreases for a
  // restart.
  mutable BackpressureClock::Nanoseconds held_ ABSL_GUARDED_BY(mutex_){0};
  std::vector<std::unique_ptr<LookupCounters>> threads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace planb::server

#endif  // PLANB_SERVER_LOOKUP_LOOKUP_METRICS_H_
