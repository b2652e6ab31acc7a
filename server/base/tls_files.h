// SPDX-License-Identifier: Apache-2.0

// The files of TLS: reading, checking and reloading them, and their metrics.

#ifndef PLANB_SERVER_BASE_TLS_FILES_H_
#define PLANB_SERVER_BASE_TLS_FILES_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/pem_file.h"
#include "prometheus/collectable.h"
#include "prometheus/metric_family.h"
#include "server/base/commit_reload.h"
#include "server/base/periodic.h"

namespace planb::server {

// What connections of one kind are made with, in PEM.
struct TlsFiles {
  struct File {
    std::string flag;  // for messages, such as "--tls_cert"
    std::string path;  // empty: none
  };

  // As metrics and logs call it: server, etcd, follow or otlp.
  std::string kind;
  // The certificate, followed by those of its issuers, and its key. Both or
  // none.
  File cert;
  File key;
  // The authorities that may have signed the other side's certificate.
  File ca;
  // The interval at which the files are read again; positive.
  absl::Duration reload_interval = absl::Seconds(5);
};

// The contents of the files; empty where there is none.
struct TlsTexts {
  tls::PemFile cert;
  tls::PemFile key;
  tls::PemFile ca;

  bool operator==(const TlsTexts& other) const = default;
};

// When the first certificate of each file expires; the Unix epoch if there is
// none.
struct TlsExpiry {
  absl::Time cert = absl::UnixEpoch();
  absl::Time ca = absl::UnixEpoch();
};

// Errors: INVALID_ARGUMENT, naming flag and file.
absl::StatusOr<TlsTexts> ReadTlsFiles(const TlsFiles& files);

// Errors: INVALID_ARGUMENT, naming flag and file, if no connection can be made
// with these at `now`; without `now`: at any time.
absl::StatusOr<TlsExpiry> CheckTlsTexts(const TlsTexts& texts,
                                        std::optional<absl::Time> now);

// All of the above, now. Errors: INVALID_ARGUMENT, of the first that fails.
absl::Status CheckTls(const TlsFiles& files);

// Reads the files at an interval and passes on new valid contents. An operator
// may write the files one after the other, and slowly. So new contents count
// only after two equal readings, an interval apart, unless the operator says
// that they are complete. If they are invalid, the old ones stay in use, which
// is counted and logged once. Owns a thread. Thread-safe.
class TlsReloader {
 public:
  // Called with new contents to serve, one call at a time, and so is what it
  // returns. After an error it is called again at the next interval.
  using Use = std::function<absl::StatusOr<CommitReload>(const TlsTexts&)>;

  // `texts`, which expire at `expiry`, are in use until the files have others.
  TlsReloader(TlsFiles files, TlsTexts texts, TlsExpiry expiry, Use use);

  const std::string& kind() const { return files_.kind; }

  // The expiry of the contents in use.
  TlsExpiry expiry() const;

  // Numbers of replacements that were loaded, and that were refused.
  uint64_t loaded() const { return loaded_.load(); }
  uint64_t refused() const { return refused_.load(); }

  // Called by the thread at each interval.
  void Poll();

  // Reads the files, which are complete. Errors: why they cannot be used.
  absl::StatusOr<CommitReload> Prepare();

 private:
  absl::StatusOr<CommitReload> Look(bool complete);
  // Errors: why `reading` cannot be used.
  absl::StatusOr<CommitReload> Check(const absl::StatusOr<TlsTexts>& reading);

  const TlsFiles files_;
  const Use use_;
  std::atomic<uint64_t> loaded_ = 0;
  std::atomic<uint64_t> refused_ = 0;

  absl::Mutex poll_mutex_;  // held while files are read
  TlsTexts served_ ABSL_GUARDED_BY(poll_mutex_);
  // The last reading if it differs from served_, and whether it was refused.
  std::optional<absl::StatusOr<TlsTexts>> candidate_
      ABSL_GUARDED_BY(poll_mutex_);
  bool candidate_refused_ ABSL_GUARDED_BY(poll_mutex_) = false;

  mutable absl::Mutex expiry_mutex_;
  TlsExpiry expiry_ ABSL_GUARDED_BY(expiry_mutex_);

  Periodic poller_;  // last: uses the other members
};

// Metrics of certificates, read at each scrape. All series exist, also without
// TLS. Thread-safe.
class TlsMetrics : public prometheus::Collectable {
 public:
  // One of a kind at most. They outlive this object.
  explicit TlsMetrics(std::vector<const TlsReloader*> reloaders)
      : reloaders_(std::move(reloaders)) {}

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const std::vector<const TlsReloader*> reloaders_;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_BASE_TLS_FILES_H_
