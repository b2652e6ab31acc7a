// SPDX-License-Identifier: Apache-2.0

// What this process is and takes: the names and meanings that Prometheus'
// client libraries have agreed on, and planb_build_info.

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

// Thread-safe. Reads /proc when scraped: microseconds, and some for each open
// file. What cannot be read there is 0.
class ProcessMetrics : public prometheus::Collectable {
 public:
  ProcessMetrics();

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  // Seconds since the Unix epoch; asked for once, so that it does not follow
  // the wall clock about.
  const double start_time_;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_OBSERVE_PROCESS_METRICS_H_
