// SPDX-License-Identifier: Apache-2.0

#include "server/security/tls_metrics.h"

#include <utility>

#include "absl/time/time.h"

namespace planb::server {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

ClientMetric Labelled(const char* name, const char* value) {
  ClientMetric metric;
  metric.label.push_back({name, value});
  return metric;
}

}  // namespace

std::vector<MetricFamily> TlsMetrics::Collect() const {
  const TlsExpiry expiry =
      reloader_ == nullptr ? TlsExpiry{} : reloader_->expiry();
  MetricFamily expiries = {
      "planb_tls_certificate_expiry_timestamp_seconds",
      "When the first certificate expires of those the server shows (server) "
      "or accepts clients by (ca), seconds since the Unix epoch; 0 if there is "
      "none.",
      MetricType::Gauge,
      {}};
  for (const auto& [kind, time] :
       {std::pair("server", expiry.server), {"ca", expiry.client_ca}}) {
    ClientMetric metric = Labelled("kind", kind);
    metric.gauge.value = absl::ToDoubleSeconds(time - absl::UnixEpoch());
    expiries.metric.push_back(std::move(metric));
  }
  MetricFamily reloads = {
      "planb_tls_reloads_total",
      "Replacements of the certificate files, by what became of them: loaded, "
      "or refused, so that the old ones stayed in use.",
      MetricType::Counter,
      {}};
  for (const bool loaded : {true, false}) {
    ClientMetric metric = Labelled("result", loaded ? "loaded" : "refused");
    if (reloader_ != nullptr) {
      metric.counter.value = static_cast<double>(loaded ? reloader_->loaded()
                                                        : reloader_->refused());
    }
    reloads.metric.push_back(std::move(metric));
  }
  return {std::move(expiries), std::move(reloads)};
}

}  // namespace planb::server
