// SPDX-License-Identifier: Apache-2.0

#include "server/base/metric_families.h"

#include <cstddef>
#include <limits>

#include "absl/base/internal/raw_logging.h"

namespace planb::server {

using prometheus::ClientMetric;

ClientMetric CounterOf(double value, MetricLabels labels) {
  ClientMetric metric;
  metric.counter.value = value;
  metric.label = std::move(labels);
  return metric;
}

ClientMetric GaugeOf(double value, MetricLabels labels) {
  ClientMetric metric;
  metric.gauge.value = value;
  metric.label = std::move(labels);
  return metric;
}

ClientMetric HistogramOf(absl::Span<const double> bounds,
                         absl::Span<const uint64_t> counts, double sum) {
  ABSL_RAW_CHECK(counts.size() == bounds.size() + 1, "a bucket has no bound");
  ClientMetric metric;
  for (size_t i = 0; i < counts.size(); ++i) {
    metric.histogram.sample_count += counts[i];
    metric.histogram.bucket.push_back(
        {metric.histogram.sample_count,
         i < bounds.size() ? bounds[i]
                           : std::numeric_limits<double>::infinity()});
  }
  metric.histogram.sample_sum = sum;
  return metric;
}

}  // namespace planb::server
