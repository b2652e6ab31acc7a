// SPDX-License-Identifier: Apache-2.0

#include "server/security/tls_reloader.h"

#include <utility>

#include "absl/time/clock.h"
#include "server/base/log.h"

namespace planb::server {
namespace {

bool Alike(const absl::StatusOr<TlsTexts>& a,
           const absl::StatusOr<TlsTexts>& b) {
  return a.ok() && b.ok() ? *a == *b : a.status() == b.status();
}

}  // namespace

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
  absl::MutexLock lock(&poll_mutex_);
  absl::StatusOr<TlsTexts> reading = ReadTlsFiles(options_);
  if (reading.ok() && *reading == served_) {
    candidate_.reset();
    return;
  }
  if (!candidate_.has_value() || !Alike(*candidate_, reading)) {
    candidate_ = std::move(reading);
    candidate_refused_ = false;
    return;
  }
  const absl::Status adopted = Adopt(reading);
  if (adopted.ok()) {
    loaded_.fetch_add(1);
    candidate_.reset();
    Log(LogLevel::kInfo, "certificates reloaded",
        {{"expires", absl::FormatTime(expiry().server, absl::UTCTimeZone())}});
  } else if (!candidate_refused_) {
    refused_.fetch_add(1);
    candidate_refused_ = true;
    Log(LogLevel::kError, "certificates not reloaded, the old ones stay",
        {{"error", adopted.message()}});
  }
}

absl::Status TlsReloader::Adopt(const absl::StatusOr<TlsTexts>& reading) {
  if (!reading.ok()) return reading.status();
  const auto expiry = CheckTlsTexts(*reading, absl::Now());
  if (!expiry.ok()) return expiry.status();
  absl::Status used = use_(*reading);
  if (!used.ok()) return used;
  served_ = *reading;
  absl::MutexLock lock(&expiry_mutex_);
  expiry_ = *expiry;
  return absl::OkStatus();
}

}  // namespace planb::server
