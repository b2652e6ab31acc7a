// SPDX-License-Identifier: Apache-2.0

// The files that TLS of the server needs: read together, checked together,
// looked at again and again, and what Prometheus learns about them.

#ifndef PLANB_SERVER_SECURITY_TLS_FILES_H_
#define PLANB_SERVER_SECURITY_TLS_FILES_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/pem_file.h"
#include "prometheus/collectable.h"
#include "prometheus/metric_family.h"
#include "server/base/periodic.h"

namespace planb::server {

// As the flags --tls_cert, --tls_key, --tls_client_ca, --tls_reload_interval.
struct TlsOptions {
  // Paths. The certificate, with those of its issuers after it, and its key;
  // both or none.
  std::string cert;
  std::string key;
  // Authorities whose clients may connect; empty: any client may.
  std::string client_ca;
  // How often to look at the files again.
  absl::Duration reload_interval = absl::Seconds(5);

  bool enabled() const { return !cert.empty(); }
};

// Errors: INVALID_ARGUMENT, naming the flags: one of a pair is missing, an
// interval that is none.
absl::Status CheckTlsOptions(const TlsOptions& options);

// What the files hold. `client_ca` is empty if there is none.
struct TlsTexts {
  tls::PemFile cert;
  tls::PemFile key;
  tls::PemFile client_ca;

  bool operator==(const TlsTexts& other) const = default;
};

// When the first certificate of each kind expires; the Unix epoch if there is
// none.
struct TlsExpiry {
  absl::Time server = absl::UnixEpoch();
  absl::Time client_ca = absl::UnixEpoch();
};

// Errors: INVALID_ARGUMENT, naming flag and file.
// REQUIRES: options.enabled() and CheckTlsOptions(options) is OK.
absl::StatusOr<TlsTexts> ReadTlsFiles(const TlsOptions& options);

// Errors: INVALID_ARGUMENT, naming flag and file, if a server could not serve
// with these at `now`.
absl::StatusOr<TlsExpiry> CheckTlsTexts(const TlsTexts& texts, absl::Time now);

// Thread-safe. A thread of its own.
//
// Whoever rotates certificates may write the files one after the other, and
// slowly. So what is new counts only once it was read twice alike, an interval
// apart; and if it then cannot be used, what was there before stays in use,
// which is logged and counted once.
class TlsReloader {
 public:
  // Called with what to serve from now on, never twice at a time. On an error
  // it is called again after the next interval.
  using Use = std::function<absl::Status(const TlsTexts&)>;

  // Serves `texts`, whose expiry is `expiry`, until the files have others.
  TlsReloader(const TlsOptions& options, TlsTexts texts, TlsExpiry expiry,
              Use use);

  // Of what is served now.
  TlsExpiry expiry() const;

  // Replacements that were taken, and that were refused.
  uint64_t loaded() const { return loaded_.load(); }
  uint64_t refused() const { return refused_.load(); }

  // What the thread does each interval.
  void Poll();

 private:
  // OK if `reading` is now served.
  absl::Status Adopt(const absl::StatusOr<TlsTexts>& reading)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(poll_mutex_);

  const TlsOptions options_;
  const Use use_;
  std::atomic<uint64_t> loaded_ = 0;
  std::atomic<uint64_t> refused_ = 0;

  absl::Mutex poll_mutex_;  // held while files are read
  TlsTexts served_ ABSL_GUARDED_BY(poll_mutex_);
  // The last reading, if it is not what is served; and whether it was refused.
  std::optional<absl::StatusOr<TlsTexts>> candidate_
      ABSL_GUARDED_BY(poll_mutex_);
  bool candidate_refused_ ABSL_GUARDED_BY(poll_mutex_) = false;

  mutable absl::Mutex expiry_mutex_;
  TlsExpiry expiry_ ABSL_GUARDED_BY(expiry_mutex_);

  Periodic poller_;  // last: uses the rest
};

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

#endif  // PLANB_SERVER_SECURITY_TLS_FILES_H_
