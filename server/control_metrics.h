// What is counted on the control path, and the tables' state at scrape time.

#ifndef PLANB_SERVER_CONTROL_METRICS_H_
#define PLANB_SERVER_CONTROL_METRICS_H_

#include <array>
#include <memory>
#include <string>
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

  // What tables are to tell, which they do for as long as this lives.
  TableEvents Events();

  // A batch of updates was answered; `result` is "accepted", "unchanged",
  // "validated" or "refused". Others count as "refused".
  void Updated(absl::string_view result);

  std::shared_ptr<prometheus::Collectable> collectable() const {
    return registry_;
  }

 private:
  std::shared_ptr<prometheus::Registry> registry_;
  // Of what changed, and of everything.
  std::array<prometheus::Histogram*, 2> rebuild_durations_;
  std::array<prometheus::Counter*, 2> rebuilds_;
  prometheus::Counter* failed_rebuilds_;
  prometheus::Histogram* visibility_;
  prometheus::Histogram* store_duration_;
  prometheus::Counter* store_errors_;
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
