// SPDX-License-Identifier: Apache-2.0

#include "server/base/metric_families.h"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <cstddef>
#include <limits>

#include "absl/base/internal/raw_logging.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

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

std::string OpenMetricsText(
    const std::vector<prometheus::MetricFamily>& families,
    absl::Span<const Exemplar> exemplars) {
  std::string out;
  for (const prometheus::MetricFamily& family : families) {
    std::string text = prometheus::TextSerializer().Serialize({family});
    const bool counter = family.type == prometheus::MetricType::Counter;
    std::vector<const Exemplar*> left;
    for (const Exemplar& exemplar : exemplars) {
      if (exemplar.family == family.name) left.push_back(&exemplar);
    }
    for (absl::string_view line :
         absl::StrSplit(text, '\n', absl::SkipEmpty())) {
      if (counter && absl::StartsWith(line, "# ")) {
        // The family's name has no suffix there.
        const size_t suffix = family.name.size() - sizeof("_total") + 1;
        const size_t at = line.find(family.name);
        absl::StrAppend(&out, line.substr(0, at + suffix),
                        line.substr(at + family.name.size()), "\n");
        continue;
      }
      absl::StrAppend(&out, line);
      const size_t bound = line.find("le=\"");
      if (!left.empty() && bound != absl::string_view::npos) {
        const absl::string_view digits = line.substr(bound + 4);
        double le = std::numeric_limits<double>::infinity();
        if (digits.substr(0, 4) != "+Inf") {
          (void)absl::SimpleAtod(digits.substr(0, digits.find('"')), &le);
        }
        const auto first =
            std::find_if(left.begin(), left.end(),
                         [&](const Exemplar* e) { return e->value <= le; });
        if (first != left.end()) {
          absl::StrAppend(
              &out, " # {trace_id=\"", (*first)->trace_id, "\",span_id=\"",
              (*first)->span_id, "\"} ", (*first)->value, " ",
              absl::StrFormat("%.3f", absl::ToDoubleSeconds(
                                          (*first)->at - absl::UnixEpoch())));
          std::erase_if(left,
                        [&](const Exemplar* e) { return e->value <= le; });
        }
      }
      out += "\n";
    }
  }
  return out + "# EOF\n";
}

}  // namespace planb::server
