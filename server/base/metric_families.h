// SPDX-License-Identifier: Apache-2.0

// Makes prometheus-cpp's families of metrics from plain numbers.

#ifndef PLANB_SERVER_BASE_METRIC_FAMILIES_H_
#define PLANB_SERVER_BASE_METRIC_FAMILIES_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "prometheus/client_metric.h"
#include "prometheus/metric_family.h"

namespace planb::server {

using MetricLabels = std::vector<prometheus::ClientMetric::Label>;

// Values in a metric are doubles.
template <typename Number>
double MetricValue(Number number) {
  return static_cast<double>(number);
}

prometheus::ClientMetric CounterOf(double value, MetricLabels labels = {});
prometheus::ClientMetric GaugeOf(double value, MetricLabels labels = {});
// `counts` are not cumulative; the last one counts values above all bounds.
// REQUIRES: counts.size() == bounds.size() + 1.
prometheus::ClientMetric HistogramOf(absl::Span<const double> bounds,
                                     absl::Span<const uint64_t> counts,
                                     double sum);

inline prometheus::MetricFamily CounterFamily(
    const char* name, const char* help,
    std::vector<prometheus::ClientMetric> metrics) {
  return {name, help, prometheus::MetricType::Counter, std::move(metrics)};
}

inline prometheus::MetricFamily GaugeFamily(
    const char* name, const char* help,
    std::vector<prometheus::ClientMetric> metrics) {
  return {name, help, prometheus::MetricType::Gauge, std::move(metrics)};
}

inline prometheus::MetricFamily HistogramFamily(
    const char* name, const char* help, prometheus::ClientMetric histogram) {
  return {
      name, help, prometheus::MetricType::Histogram, {std::move(histogram)}};
}

// An observation of a histogram that a trace explains.
struct Exemplar {
  std::string family;
  std::string trace_id, span_id;  // in hexadecimal digits
  double value = 0;
  absl::Time at;
};

// The families in the text format of OpenMetrics 1.0, which has exemplars: each
// is with the first bucket that counts it. REQUIRES: the names of counters end
// with _total.
std::string OpenMetricsText(
    const std::vector<prometheus::MetricFamily>& families,
    absl::Span<const Exemplar> exemplars);

}  // namespace planb::server

#endif  // PLANB_SERVER_BASE_METRIC_FAMILIES_H_
