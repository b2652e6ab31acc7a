// SPDX-License-Identifier: Apache-2.0

// Metrics of the process, by the names that Prometheus' client libraries have
// agreed on, and which build this binary is.

#ifndef PLANB_SERVER_OBSERVE_PROCESS_METRICS_H_
#define PLANB_SERVER_OBSERVE_PROCESS_METRICS_H_

#include <vector>

#include "absl/strings/string_view.h"
#include "prometheus/collectable.h"
#include "prometheus/metric_family.h"

namespace planb::server {

struct BuildInfo {
  absl::string_view version;   // "1.2.3"
  absl::string_view compiler;  // "gcc 12.2.0"
};

// The same for every build of the same sources by the same compiler: builds are
// reproducible.
BuildInfo GetBuildInfo();

// Thread-safe. Reads /proc at each scrape, which takes microseconds, and more
// with many open files. A value that cannot be read is 0. Exports
// planb_build_info as well.
class ProcessMetrics : public prometheus::Collectable {
 public:
  ProcessMetrics();

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  // Seconds since the Unix epoch. Computed once: a change of the wall clock
  // does not change it.
  const double start_time_;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_OBSERVE_PROCESS_METRICS_H_
