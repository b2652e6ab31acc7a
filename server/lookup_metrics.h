// What is counted on the lookup path: sharded by thread, so that counting costs
// a few uncontended additions, and summed only when somebody scrapes.

#ifndef PLANB_SERVER_LOOKUP_METRICS_H_
#define PLANB_SERVER_LOOKUP_METRICS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "prometheus/collectable.h"
#include "prometheus/metric_family.h"

namespace planb::server {

// Thread-safe; counting is wait-free.
class LookupMetrics : public prometheus::Collectable {
 public:
  // Upper bounds of the latency histogram in seconds: 1-2-5 from 1 us to 10 s.
  static constexpr std::array<double, 22> kBounds = {
      1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3,
      5e-3, 1e-2, 2e-2, 5e-2, 1e-1, 2e-1, 5e-1, 1.,   2.,   5.,   10.};

  // Reasons a batch may fail for; every series exists from the start.
  static constexpr std::array<absl::string_view, 11> kReasons = {
      "MESSAGE_MALFORMED",
      "ADDRESSES_LENGTH",
      "ADDRESS_INVALID",
      "FLOW_HASHES_LENGTH",
      "TABLE_NOT_FOUND",
      "BATCH_TOO_LARGE",
      "PREFIX_LENGTHS_UNDECIDED",
      "GENERATION_NOT_VISIBLE",
      "TOO_MANY_WAITERS",
      "DRAINING",
      "OTHER",
  };

  // A batch of `addresses` was answered in `elapsed`; `misses` had no route.
  void Answered(size_t addresses, size_t misses, absl::Duration elapsed);

  // A batch failed; reasons not in kReasons count as "OTHER".
  void Failed(absl::string_view reason);

  void StreamOpened() { streams_.fetch_add(1, std::memory_order_relaxed); }
  void StreamClosed() { streams_.fetch_sub(1, std::memory_order_relaxed); }

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  using Counter = std::atomic<uint64_t>;

  // Threads share a shard only where there are more than kShards.
  static constexpr size_t kShards = 64;
  struct alignas(64) Shard {
    Counter lookups{0};
    Counter misses{0};
    Counter nanoseconds{0};
    // Batches by latency; the last is for those above all bounds.
    std::array<Counter, kBounds.size() + 1> batches{};
    std::array<Counter, kReasons.size()> failures{};
  };

  Shard& MyShard();

  std::array<Shard, kShards> shards_;
  std::atomic<int64_t> streams_{0};
};

}  // namespace planb::server

#endif  // PLANB_SERVER_LOOKUP_METRICS_H_
