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
#include <iterator>
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
inline constexpr std::array<absl::string_view, 13> kLookupErrorReasons = {
    "MESSAGE_MALFORMED",
    "ADDRESSES_LENGTH",
    "ADDRESS_INVALID",
    "FLOW_HASHES_LENGTH",
    "TABLE_NOT_FOUND",
    "BATCH_TOO_LARGE",
    "REQUEST_TOO_LARGE",
    "PREFIX_LENGTHS_UNDECIDED",
    "GENERATION_NOT_VISIBLE",
    "TABLE_NOT_COMPLETE",
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

// What each thread counts, and the series that shows it, in the same order. A
// name that does not end with _total is a gauge's. Consecutive ones with the
// same name are one family.
enum class LookupCount { kLookups, kMisses, kReceived, kSent, kSlow, kStreams };
struct LookupSeries {
  const char* name;
  const char* help;
  const char* label = nullptr;
  const char* label_value = nullptr;
};
inline constexpr char kLookupBytesHelp[] =
    "Bytes of messages, HTTP/2 and what is below not counted; replies count "
    "when gRPC has taken them.";
inline constexpr LookupSeries kLookupSeries[] = {
    {"planb_lookups_total", "Addresses looked up."},
    {"planb_lookup_misses_total", "Addresses that had no route."},
    {"planb_lookup_bytes_total", kLookupBytesHelp, "direction", "received"},
    {"planb_lookup_bytes_total", kLookupBytesHelp, "direction", "sent"},
    {"planb_slow_batches_total", "Batches that took --slow_batch or longer."},
    {"planb_lookup_streams", "Open BatchLookup streams."},
};
inline constexpr size_t kLookupCounts = std::size(kLookupSeries);
static_assert(kLookupCounts == static_cast<size_t>(LookupCount::kStreams) + 1);

// The sums over all threads. A plain value.
struct LookupTotals {
  std::array<uint64_t, kLookupCounts> counts = {};
  uint64_t nanoseconds = 0;
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

  void Add(LookupCount what, uint64_t value) {
    Add(counts_[static_cast<size_t>(what)], value);
  }
  void Subtract(LookupCount what, uint64_t value) { Add(what, -value); }

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

  std::array<Counter, kLookupCounts> counts_{};
  Counter nanoseconds_{0};
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
