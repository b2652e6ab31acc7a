// What is counted on the control path, and the tables' state at scrape time.

#ifndef PLANB_SERVER_CONTROL_METRICS_H_
#define PLANB_SERVER_CONTROL_METRICS_H_

#include <memory>
#include <vector>

#include "absl/strings/string_view.h"
#include "prometheus/collectable.h"
#include "prometheus/counter.h"
#include "prometheus/histogram.h"
#include "prometheus/metric_family.h"
#include "prometheus/registry.h"
#include "server/tables.h"

namespace planb::server {

// Thread-safe. All series exist from the start.
class ControlMetrics {
 public:
  ControlMetrics();

  // A rebuild ended successfully after `seconds`.
  void Rebuilt(double seconds);

  // An UpdateRoutes batch was answered; `result` is "accepted", "unchanged",
  // "validated" or "refused". Others count as "refused".
  void Updated(absl::string_view result);

  std::shared_ptr<prometheus::Collectable> collectable() const {
    return registry_;
  }

 private:
  std::shared_ptr<prometheus::Registry> registry_;
  prometheus::Histogram* rebuild_duration_;
  prometheus::Counter* rebuilds_;
  prometheus::Counter* accepted_;
  prometheus::Counter* unchanged_;
  prometheus::Counter* validated_;
  prometheus::Counter* refused_;
};

// Gauges of every table, read when scraped. Thread-safe.
class TableMetrics : public prometheus::Collectable {
 public:
  // `tables` outlives this.
  TableMetrics(Tables& tables, absl::string_view kernel)
      : tables_(tables), kernel_(kernel) {}

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  Tables& tables_;
  const std::string kernel_;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_CONTROL_METRICS_H_
