#include "server/lookup_metrics.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "server/published.h"

namespace planb::server {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

void Add(std::atomic<uint64_t>& counter, uint64_t value) {
  counter.fetch_add(value, std::memory_order_relaxed);
}

uint64_t Get(const std::atomic<uint64_t>& counter) {
  return counter.load(std::memory_order_relaxed);
}

MetricFamily Counters(const char* name, const char* help,
                      std::vector<ClientMetric> metrics) {
  return {name, help, MetricType::Counter, std::move(metrics)};
}

ClientMetric CounterOf(uint64_t value) {
  ClientMetric metric;
  metric.counter.value = static_cast<double>(value);
  return metric;
}

}  // namespace

LookupMetrics::Shard& LookupMetrics::MyShard() {
  return shards_[ThreadNumber() % kShards];
}

void LookupMetrics::Answered(size_t addresses, size_t misses,
                             absl::Duration elapsed) {
  Shard& shard = MyShard();
  Add(shard.lookups, addresses);
  Add(shard.misses, misses);
  Add(shard.nanoseconds,
      static_cast<uint64_t>(absl::ToInt64Nanoseconds(elapsed)));
  const auto bucket = std::lower_bound(kBounds.begin(), kBounds.end(),
                                       absl::ToDoubleSeconds(elapsed)) -
                      kBounds.begin();
  Add(shard.batches[static_cast<size_t>(bucket)], 1);
}

void LookupMetrics::Failed(absl::string_view reason) {
  const auto known = std::find(kReasons.begin(), kReasons.end() - 1, reason);
  Add(MyShard().failures[static_cast<size_t>(known - kReasons.begin())], 1);
}

std::vector<MetricFamily> LookupMetrics::Collect() const {
  uint64_t lookups = 0;
  uint64_t misses = 0;
  uint64_t nanoseconds = 0;
  std::array<uint64_t, kBounds.size() + 1> batches = {};
  std::array<uint64_t, kReasons.size()> failures = {};
  for (const Shard& shard : shards_) {
    lookups += Get(shard.lookups);
    misses += Get(shard.misses);
    nanoseconds += Get(shard.nanoseconds);
    for (size_t i = 0; i < batches.size(); ++i) {
      batches[i] += Get(shard.batches[i]);
    }
    for (size_t i = 0; i < failures.size(); ++i) {
      failures[i] += Get(shard.failures[i]);
    }
  }
  ClientMetric latency;
  for (size_t i = 0; i < batches.size(); ++i) {
    latency.histogram.sample_count += batches[i];
    latency.histogram.bucket.push_back(
        {latency.histogram.sample_count,
         i < kBounds.size() ? kBounds[i]
                            : std::numeric_limits<double>::infinity()});
  }
  latency.histogram.sample_sum = static_cast<double>(nanoseconds) * 1e-9;
  std::vector<ClientMetric> by_reason;
  for (size_t i = 0; i < kReasons.size(); ++i) {
    by_reason.push_back(CounterOf(failures[i]));
    by_reason.back().label = {{"reason", std::string(kReasons[i])}};
  }
  ClientMetric streams;
  streams.gauge.value =
      static_cast<double>(streams_.load(std::memory_order_relaxed));
  return {
      Counters("planb_lookups_total", "Addresses looked up.",
               {CounterOf(lookups)}),
      Counters("planb_lookup_misses_total", "Addresses that had no route.",
               {CounterOf(misses)}),
      Counters("planb_lookup_batches_total",
               "Batches answered, by BatchLookup and Lookup.",
               {CounterOf(latency.histogram.sample_count)}),
      Counters("planb_lookup_batch_errors_total",
               "Batches that failed, by reason.", std::move(by_reason)),
      {"planb_lookup_batch_duration_seconds",
       "Time to answer one batch inside the server, network excluded.",
       MetricType::Histogram,
       {std::move(latency)}},
      {"planb_lookup_streams",
       "Open BatchLookup streams.",
       MetricType::Gauge,
       {std::move(streams)}},
  };
}

}  // namespace planb::server
