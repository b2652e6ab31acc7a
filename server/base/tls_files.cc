// SPDX-License-Identifier: Apache-2.0

#include "server/base/tls_files.h"

#include <utility>

#include "absl/time/clock.h"
#include "server/base/log.h"

namespace planb::server {
namespace {

bool Alike(const absl::StatusOr<TlsTexts>& a,
           const absl::StatusOr<TlsTexts>& b) {
  return a.ok() && b.ok() ? *a == *b : a.status() == b.status();
}

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

ClientMetric Labelled(const char* name, const char* value) {
  ClientMetric metric;
  metric.label.push_back({name, value});
  return metric;
}

}  // namespace

absl::Status CheckTlsOptions(const TlsOptions& options) {
  if (options.cert.empty() != options.key.empty()) {
    return absl::InvalidArgumentError(
        "--tls_cert and --tls_key must be given both or not at all");
  }
  if (!options.client_ca.empty() && options.cert.empty()) {
    return absl::InvalidArgumentError(
        "--tls_client_ca needs --tls_cert and --tls_key");
  }
  if (options.reload_interval <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError("--tls_reload_interval must be positive");
  }
  return absl::OkStatus();
}

absl::StatusOr<TlsTexts> ReadTlsFiles(const TlsOptions& options) {
  TlsTexts texts;
  const auto read = [](absl::string_view flag, const std::string& path,
                       tls::PemFile& into) {
    absl::StatusOr<tls::PemFile> file = tls::ReadPemFile(flag, path);
    if (!file.ok()) return file.status();
    into = *std::move(file);
    return absl::OkStatus();
  };
  absl::Status status = read("--tls_cert", options.cert, texts.cert);
  if (status.ok()) status = read("--tls_key", options.key, texts.key);
  if (status.ok() && !options.client_ca.empty()) {
    status = read("--tls_client_ca", options.client_ca, texts.client_ca);
  }
  if (!status.ok()) return status;
  return texts;
}

absl::StatusOr<TlsExpiry> CheckTlsTexts(const TlsTexts& texts, absl::Time now) {
  TlsExpiry expiry;
  const auto server = tls::CheckIdentity(texts.cert, texts.key, now);
  if (!server.ok()) return server.status();
  expiry.server = *server;
  if (!texts.client_ca.text.empty()) {
    const auto ca = tls::CheckAuthorities(texts.client_ca, now);
    if (!ca.ok()) return ca.status();
    expiry.client_ca = *ca;
  }
  return expiry;
}

absl::Status CheckTls(const TlsOptions& options) {
  absl::Status valid = CheckTlsOptions(options);
  if (!valid.ok() || !options.enabled()) return valid;
  const absl::StatusOr<TlsTexts> texts = ReadTlsFiles(options);
  if (!texts.ok()) return texts.status();
  return CheckTlsTexts(*texts, absl::Now()).status();
}

TlsReloader::TlsReloader(const TlsOptions& options, TlsTexts texts,
                         TlsExpiry expiry, Use use)
    : options_(options),
      use_(std::move(use)),
      served_(std::move(texts)),
      expiry_(expiry),
      poller_(options_.reload_interval, [this] { Poll(); }) {}

TlsExpiry TlsReloader::expiry() const {
  absl::MutexLock lock(&expiry_mutex_);
  return expiry_;
}

void TlsReloader::Poll() {
  const auto adopt = Look(/*complete=*/false);
  if (adopt.ok()) (*adopt)();
}

absl::StatusOr<Adoption> TlsReloader::Prepare() {
  return Look(/*complete=*/true);
}

absl::StatusOr<Adoption> TlsReloader::Look(bool complete) {
  absl::MutexLock lock(&poll_mutex_);
  absl::StatusOr<TlsTexts> reading = ReadTlsFiles(options_);
  if (reading.ok() && *reading == served_) {
    candidate_.reset();
    return [] {};
  }
  const bool again = candidate_.has_value() && Alike(*candidate_, reading);
  if (!again) {
    candidate_ = reading;
    candidate_refused_ = false;
    if (!complete) return [] {};
  }
  auto adopt = Check(reading);
  if (!adopt.ok() && !candidate_refused_) {
    refused_.fetch_add(1);
    candidate_refused_ = true;
    Log(LogLevel::kError, "certificates not reloaded, the old ones stay",
        {{"error", adopt.status().message()}});
  }
  return adopt;
}

absl::StatusOr<Adoption> TlsReloader::Check(
    const absl::StatusOr<TlsTexts>& reading) {
  if (!reading.ok()) return reading.status();
  const auto expiry = CheckTlsTexts(*reading, absl::Now());
  if (!expiry.ok()) return expiry.status();
  auto use = use_(*reading);
  if (!use.ok()) return use.status();
  return [this, texts = *reading, expiry = *expiry, use = *std::move(use)] {
    absl::MutexLock lock(&poll_mutex_);
    if (texts == served_) return;  // adopted meanwhile
    use();
    served_ = texts;
    candidate_.reset();
    loaded_.fetch_add(1);
    Log(LogLevel::kInfo, "certificates reloaded",
        {{"expires", absl::FormatTime(expiry.server, absl::UTCTimeZone())}});
    absl::MutexLock expiry_lock(&expiry_mutex_);
    expiry_ = expiry;
  };
}

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
