// SPDX-License-Identifier: Apache-2.0

// The files that TLS of the server needs, read together and checked together.

#ifndef PLANB_SERVER_SECURITY_TLS_FILES_H_
#define PLANB_SERVER_SECURITY_TLS_FILES_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/pem_file.h"

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

}  // namespace planb::server

#endif  // PLANB_SERVER_SECURITY_TLS_FILES_H_
