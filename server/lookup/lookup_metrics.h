// SPDX-License-Identifier: Apache-2.0

// What lookups did, as a scrape shows it: the sum of what each thread counted.

#ifndef PLANB_SERVER_LOOKUP_LOOKUP_METRICS_H_
#define PLANB_SERVER_LOOKUP_LOOKUP_METRICS_H_

#include <memory>
#include <mutex>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "prometheus/collectable.h"
#include "prometheus/metric_family.h"
#include "server/lookup/lookup_counters.h"
#include "server/table/backpressure_clock.h"

namespace planb::server {

// Thread-safe. All series exist from the start.
class LookupMetrics : public prometheus::Collectable {
 public:
  // Without `counting` everything stays 0: see LookupCounters.
  explicit LookupMetrics(bool counting = true) : counting_(counting) {}

  // Counters for one more thread, which live as long as this.
  LookupCounters& AddThread() ABSL_LOCKS_EXCLUDED(mutex_);

  std::vector<prometheus::MetricFamily> Collect() const override
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const bool counting_;
  mutable std::mutex mutex_;
  // What was shown last: a counter that decreases is taken for a restart.
  mutable BackpressureClock::Nanoseconds held_ ABSL_GUARDED_BY(mutex_){0};
  std::vector<std::unique_ptr<LookupCounters>> threads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace planb::server

#endif  // PLANB_SERVER_LOOKUP_LOOKUP_METRICS_H_
