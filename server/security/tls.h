// SPDX-License-Identifier: Apache-2.0

// TLS of the server: makes gRPC's credentials from files.
//
// Connections outlive the certificates they were made with. A client of an
// authority that is removed is refused when it connects again;
// --max_connection_age bounds the time until then.

#ifndef PLANB_SERVER_SECURITY_TLS_H_
#define PLANB_SERVER_SECURITY_TLS_H_

#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/base/tls_files.h"
#include "server/base/tls_provider.h"

namespace planb::server {

// As the flags --tls_cert, --tls_key, --tls_client_ca, --tls_reload_interval.
struct TlsOptions {
  // Paths of the certificate, followed by those of its issuers, and of its key.
  // Both or none.
  std::string cert;
  std::string key;
  // Clients of these authorities may connect. Empty: any client may.
  std::string client_ca;
  // The interval at which the files are read again.
  absl::Duration reload_interval = absl::Seconds(5);

  bool enabled() const { return !cert.empty(); }
};

// Errors: INVALID_ARGUMENT, naming the flags: one of a pair is missing, or the
// interval is not positive.
absl::Status CheckTlsOptions(const TlsOptions& options);

// The same, and of the files: INVALID_ARGUMENT if no connection can be made
// with them now.
absl::Status CheckTls(const TlsOptions& options);

// Owns the credentials and their provider. Thread-safe.
class ServerTls {
 public:
  // Reads and checks the files, and starts to watch them.
  // Errors: INVALID_ARGUMENT, naming the option or file; those of MemoryFile.
  // REQUIRES: options.enabled() or CheckTlsOptions(options) is an error.
  static absl::StatusOr<std::unique_ptr<ServerTls>> Start(
      const TlsOptions& options);

  // TLS 1.2 and 1.3. For any number of addresses. REQUIRES: servers with these
  // credentials end before this object.
  const std::shared_ptr<grpc::ServerCredentials>& credentials() const {
    return credentials_;
  }

  TlsReloader& reloader() { return provider_->reloader(); }

 private:
  explicit ServerTls(std::unique_ptr<TlsProvider> provider);

  const std::unique_ptr<TlsProvider> provider_;
  const std::shared_ptr<grpc::ServerCredentials> credentials_;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_SECURITY_TLS_H_
