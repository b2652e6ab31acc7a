// SPDX-License-Identifier: Apache-2.0

#include "server/lookup/lookup_metrics.h"

#include <chrono>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "base/mutex.h"
#include "server/base/metric_families.h"

namespace planb::server {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;

constexpr char kDurationFamily[] = "planb_lookup_batch_duration_seconds";

constexpr std::array<double, kSizeBounds> kSizeBoundsShown = [] {
  std::array<double, kSizeBounds> bounds = {};
  for (size_t i = 0; i < bounds.size(); ++i) {
    bounds[i] = static_cast<double>(SizeBound(i));
  }
  return bounds;
}();

uint64_t Get(const std::atomic<uint64_t>& counter) {
  return counter.load(std::memory_order_relaxed);
}

template <size_t size>
void AddAll(const std::array<std::atomic<uint64_t>, size>& counters,
            std::array<uint64_t, size>& totals) {
  for (size_t i = 0; i < size; ++i) totals[i] += Get(counters[i]);
}

}  // namespace

void LookupCounters::Answered(size_t addresses, size_t misses,
                              SteadyInstant::duration elapsed) {
  const int64_t nanoseconds = std::chrono::nanoseconds(elapsed).count();
  Add(LookupCount::kLookups, addresses);
  Add(LookupCount::kMisses, misses);
  Add(nanoseconds_, static_cast<uint64_t>(nanoseconds));
  Add(by_duration_[DurationBucket(nanoseconds)], 1);
  Add(by_size_[SizeBucket(addresses)], 1);
}

void LookupCounters::Failed(absl::string_view reason) {
  const auto known = std::find(kLookupErrorReasons.begin(),
                               kLookupErrorReasons.end() - 1, reason);
  Add(failures_[static_cast<size_t>(known - kLookupErrorReasons.begin())], 1);
}

void LookupCounters::AddTo(LookupTotals& totals) const {
  AddAll(counts_, totals.counts);
  totals.nanoseconds += Get(nanoseconds_);
  totals.held += held_.Total(SteadyNow());
  AddAll(by_duration_, totals.by_duration);
  AddAll(by_size_, totals.by_size);
  AddAll(failures_, totals.failures);
}

LookupCounters& LookupMetrics::AddThread() {
  const MutexLock lock(mutex_);
  threads_.push_back(std::make_unique<LookupCounters>());
  return *threads_.back();
}

void LookupMetrics::SetExample(const Span& span) {
  const absl::Duration took = span.end - span.start;
  const MutexLock lock(mutex_);
  examples_[DurationBucket(absl::ToInt64Nanoseconds(took))] = {
      .family = kDurationFamily,
      .trace_id = span.TraceIdText(),
      .span_id = span.SpanIdText(),
      .value = absl::ToDoubleSeconds(took),
      .at = span.end};
}

std::vector<Exemplar> LookupMetrics::Exemplars() const {
  std::vector<Exemplar> exemplars;
  const MutexLock lock(mutex_);
  for (const std::optional<Exemplar>& each : examples_) {
    if (each.has_value()) exemplars.push_back(*each);
  }
  return exemplars;
}

std::vector<MetricFamily> LookupMetrics::Collect() const {
  LookupTotals totals;
  {
    const MutexLock lock(mutex_);
    for (const auto& thread : threads_) thread->AddTo(totals);
    totals.held = held_ = std::max(held_, totals.held);
  }
  uint64_t batches = 0;
  for (const uint64_t count : totals.by_duration) batches += count;
  std::vector<ClientMetric> failures;
  for (size_t i = 0; i < kLookupErrorReasons.size(); ++i) {
    failures.push_back(
        CounterOf(MetricValue(totals.failures[i]),
                  {{"reason", std::string(kLookupErrorReasons[i])}}));
  }
  std::vector<MetricFamily> families = {
      CounterFamily("planb_lookup_batches_total",
                    "Batches answered: messages of BatchLookup and calls of "
                    "Lookup.",
                    {CounterOf(MetricValue(batches))}),
      CounterFamily("planb_lookup_batch_errors_total",
                    "Batches that failed, in the band of a stream or as a "
                    "call; reasons are the contract's.",
                    std::move(failures)),
      HistogramFamily(
          kDurationFamily,
          "Seconds from when a batch was received whole to when its reply is "
          "ready; waiting for min_generation included, the network not.",
          HistogramOf(kDurationBoundsSeconds, totals.by_duration,
                      MetricValue(totals.nanoseconds) * 1e-9)),
      HistogramFamily(
          "planb_lookup_batch_size",
          "Addresses in the batches that were answered.",
          HistogramOf(
              kSizeBoundsShown, totals.by_size,
              MetricValue(
                  totals.counts[static_cast<size_t>(LookupCount::kLookups)]))),
      CounterFamily(
          "planb_lookup_backpressure_seconds_total",
          "Seconds for which streams were not read from because 8 replies, or "
          "1 MiB of them, waited for a client that did not take them; summed "
          "over the streams, those included that wait just now.",
          {CounterOf(MetricValue(totals.held.count()) * 1e-9)}),
  };
  for (size_t i = 0; i < kLookupCounts; ++i) {
    const LookupSeries& series = kLookupSeries[i];
    const bool counter = absl::EndsWith(series.name, "_total");
    if (families.back().name != series.name) {
      families.push_back(counter ? CounterFamily(series.name, series.help, {})
                                 : GaugeFamily(series.name, series.help, {}));
    }
    MetricLabels labels;
    if (series.label != nullptr) labels = {{series.label, series.label_value}};
    const double value = MetricValue(totals.counts[i]);
    families.back().metric.push_back(counter
                                         ? CounterOf(value, std::move(labels))
                                         : GaugeOf(value, std::move(labels)));
  }
  return families;
}

}  // namespace planb::server
