// SPDX-License-Identifier: Apache-2.0

// What Prometheus learns about certificates.

#ifndef PLANB_SERVER_SECURITY_TLS_METRICS_H_
#define PLANB_SERVER_SECURITY_TLS_METRICS_H_

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <vector>

#include "server/security/tls_reloader.h"

namespace planb::server {

// Read when scraped. Thread-safe. All series exist, with TLS and without.
class TlsMetrics : public prometheus::Collectable {
 public:
  // `reloader` outlives this; null: no TLS.
  explicit TlsMetrics(const TlsReloader* reloader) : reloader_(reloader) {}

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const TlsReloader* const reloader_;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_SECURITY_TLS_METRICS_H_
