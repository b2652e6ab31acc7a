// SPDX-License-Identifier: Apache-2.0

#include "server/base/tls_files.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/base/log.h"
#include "server/base/metric_families.h"

namespace planb::server {
namespace {

bool Alike(const absl::StatusOr<TlsTexts>& a,
           const absl::StatusOr<TlsTexts>& b) {
  return a.ok() && b.ok() ? *a == *b : a.status() == b.status();
}

absl::Time First(const TlsExpiry& expiry) {
  if (expiry.cert == absl::UnixEpoch()) return expiry.ca;
  if (expiry.ca == absl::UnixEpoch()) return expiry.cert;
  return std::min(expiry.cert, expiry.ca);
}

constexpr absl::string_view kKinds[] = {"server", "etcd", "follow", "otlp"};

// The label of the expiry of TlsFiles::ca.
std::string LabelOfCa(absl::string_view kind) {
  return kind == "server" ? "ca" : absl::StrCat(kind, "_ca");
}

}  // namespace

absl::StatusOr<TlsTexts> ReadTlsFiles(const TlsFiles& files) {
  TlsTexts texts;
  for (const auto& [file, into] : {std::pair(&files.cert, &texts.cert),
                                   {&files.key, &texts.key},
                                   {&files.ca, &texts.ca}}) {
    if (file->path.empty()) continue;
    absl::StatusOr<tls::PemFile> read =
        tls::ReadPemFile(file->flag, file->path);
    if (!read.ok()) return read.status();
    *into = *std::move(read);
  }
  return texts;
}

absl::StatusOr<TlsExpiry> CheckTlsTexts(const TlsTexts& texts,
                                        std::optional<absl::Time> now) {
  TlsExpiry expiry;
  if (!texts.cert.text.empty()) {
    const auto cert = tls::CheckIdentity(texts.cert, texts.key, now);
    if (!cert.ok()) return cert.status();
    expiry.cert = *cert;
  }
  if (!texts.ca.text.empty()) {
    const auto ca = tls::CheckAuthorities(texts.ca, now);
    if (!ca.ok()) return ca.status();
    expiry.ca = *ca;
  }
  return expiry;
}

absl::Status CheckTls(const TlsFiles& files) {
  const absl::StatusOr<TlsTexts> texts = ReadTlsFiles(files);
  if (!texts.ok()) return texts.status();
  return CheckTlsTexts(*texts, absl::Now()).status();
}

TlsReloader::TlsReloader(TlsFiles files, TlsTexts texts, TlsExpiry expiry,
                         Use use)
    : files_(std::move(files)),
      use_(std::move(use)),
      served_(std::move(texts)),
      expiry_(expiry),
      poller_(files_.reload_interval, [this] { Poll(); }) {}

TlsExpiry TlsReloader::expiry() const {
  absl::MutexLock lock(&expiry_mutex_);
  return expiry_;
}

void TlsReloader::Poll() {
  const auto adopt = Look(/*complete=*/false);
  if (adopt.ok()) (*adopt)();
}

absl::StatusOr<CommitReload> TlsReloader::Prepare() {
  return Look(/*complete=*/true);
}

absl::StatusOr<CommitReload> TlsReloader::Look(bool complete) {
  absl::MutexLock lock(&poll_mutex_);
  absl::StatusOr<TlsTexts> reading = ReadTlsFiles(files_);
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
        {{"kind", kind()}, {"error", adopt.status().message()}});
  }
  return adopt;
}

absl::StatusOr<CommitReload> TlsReloader::Check(
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
        {{"kind", kind()},
         {"expires", absl::FormatTime(First(expiry), absl::UTCTimeZone())}});
    absl::MutexLock expiry_lock(&expiry_mutex_);
    expiry_ = expiry;
  };
}

std::vector<prometheus::MetricFamily> TlsMetrics::Collect() const {
  std::vector<prometheus::ClientMetric> expiries, reloads;
  for (const absl::string_view kind : kKinds) {
    const auto found = std::find_if(
        reloaders_.begin(), reloaders_.end(),
        [&](const TlsReloader* each) { return each->kind() == kind; });
    const TlsReloader* const reloader =
        found == reloaders_.end() ? nullptr : *found;
    const TlsExpiry expiry =
        reloader == nullptr ? TlsExpiry{} : reloader->expiry();
    for (const auto& [label, time] : {std::pair(std::string(kind), expiry.cert),
                                      {LabelOfCa(kind), expiry.ca}}) {
      expiries.push_back(GaugeOf(
          absl::ToDoubleSeconds(time - absl::UnixEpoch()), {{"kind", label}}));
    }
    for (const bool loaded : {true, false}) {
      const uint64_t count = reloader == nullptr ? 0
                             : loaded            ? reloader->loaded()
                                                 : reloader->refused();
      reloads.push_back(CounterOf(MetricValue(count),
                                  {{"kind", std::string(kind)},
                                   {"result", loaded ? "loaded" : "refused"}}));
    }
  }
  return {
      GaugeFamily(
          "planb_tls_certificate_expiry_timestamp_seconds",
          "When the first certificate expires of those that the server shows "
          "its clients (server), etcd, the followed server (follow) or the "
          "collector (otlp), or accepts them by (ca, etcd_ca, follow_ca, "
          "otlp_ca), seconds since the Unix epoch; 0 if there is none.",
          std::move(expiries)),
      CounterFamily(
          "planb_tls_reloads_total",
          "Replacements of the certificate files; refused: the old ones stayed "
          "in use.",
          std::move(reloads))};
}

}  // namespace planb::server
