// SPDX-License-Identifier: Apache-2.0

// Looks at the files of TLS again and again, and hands on what is new and good.

#ifndef PLANB_SERVER_SECURITY_TLS_RELOADER_H_
#define PLANB_SERVER_SECURITY_TLS_RELOADER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/base/periodic.h"
#include "server/security/tls_files.h"

namespace planb::server {

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

}  // namespace planb::server

#endif  // PLANB_SERVER_SECURITY_TLS_RELOADER_H_
