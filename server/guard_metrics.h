// What Prometheus learns about the connection guard.

#ifndef PLANB_SERVER_GUARD_METRICS_H_
#define PLANB_SERVER_GUARD_METRICS_H_

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <vector>

#include "server/connection_guard.h"
#include "server/metric_families.h"

namespace planb::server {

// Of the whole process, as the guard is. Read when scraped. Thread-safe.
class GuardMetrics : public prometheus::Collectable {
 public:
  std::vector<prometheus::MetricFamily> Collect() const override {
    const GuardCounts counts = CountGuarded();
    return {
        GaugeFamily("planb_guard_connections",
                    "Connections of clients that are open, those to the "
                    "metrics port included.",
                    {GaugeOf(MetricValue(counts.open))}),
        CounterFamily("planb_guard_refused_total",
                      "Connections closed when they came: too many, no file, "
                      "or a peer without credit.",
                      {CounterOf(MetricValue(counts.refused))}),
        CounterFamily("planb_guard_ended_total",
                      "Connections ended for what their client sent: out of "
                      "credit, or over a limit.",
                      {CounterOf(MetricValue(counts.ended))})};
  }
};

}  // namespace planb::server

#endif  // PLANB_SERVER_GUARD_METRICS_H_
