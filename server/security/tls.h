// SPDX-License-Identifier: Apache-2.0

// TLS of the server: makes gRPC's credentials from files.
//
// gRPC's file watcher accepts any content: with a key that does not match its
// certificate, or half a file, every new connection fails until the next good
// pair. So gRPC watches files in memory, not those of the operator. Only
// content that was checked goes into them.
//
// Connections outlive the certificates they were made with. A client whose
// authority is removed is refused when it connects again; --max_connection_age
// bounds the time until then.

#ifndef PLANB_SERVER_SECURITY_TLS_H_
#define PLANB_SERVER_SECURITY_TLS_H_

#include <grpcpp/security/server_credentials.h>

#include <memory>

#include "absl/status/statusor.h"
#include "server/base/memory_file.h"
#include "server/base/tls_files.h"

namespace planb::server {

// Owns the files in memory, the credentials and the reloader. Thread-safe.
class ServerTls {
 public:
  // Reads and checks the files, and starts to watch them.
  // Errors: INVALID_ARGUMENT, naming the option or file; those of MemoryFile.
  // REQUIRES: options.enabled() or CheckTlsOptions(options) is an error.
  static absl::StatusOr<std::unique_ptr<ServerTls>> Start(
      const TlsOptions& options);

  // TLS 1.2 and 1.3. New connections see a change of the files after at most
  // two reload intervals and a second, gRPC's own interval. For any number of
  // addresses. REQUIRES: servers with these credentials end before this object.
  const std::shared_ptr<grpc::ServerCredentials>& credentials() const {
    return credentials_;
  }

  TlsReloader& reloader() { return *reloader_; }

 private:
  ServerTls() = default;

  absl::Status Init(const TlsOptions& options, TlsTexts texts);
  absl::StatusOr<Adoption> Prepare(const TlsTexts& fresh);

  std::unique_ptr<MemoryFile> identity_;   // certificates, then the key
  std::unique_ptr<MemoryFile> client_ca_;  // null: clients need no certificate
  std::shared_ptr<grpc::ServerCredentials> credentials_;
  std::unique_ptr<TlsReloader> reloader_;  // destroyed first: writes the files
};

}  // namespace planb::server

#endif  // PLANB_SERVER_SECURITY_TLS_H_
