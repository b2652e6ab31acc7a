// SPDX-License-Identifier: Apache-2.0

// TLS of the server: from options to what gRPC listens with.
//
// gRPC's file watcher takes whatever it finds: with a key that does not match
// its certificate, or half a file, it refuses every new connection until the
// next good pair. So it does not watch the operator's files but files in
// memory, into which only goes what was checked.
//
// Connections outlive the certificates they were made with: a client whose
// authority is gone is refused when it connects again, which the server's
// --max_connection_age brings about.

#ifndef PLANB_SERVER_SECURITY_TLS_H_
#define PLANB_SERVER_SECURITY_TLS_H_

#include <grpcpp/security/server_credentials.h>

#include <memory>

#include "absl/status/statusor.h"
#include "server/security/memory_file.h"
#include "server/security/tls_files.h"

namespace planb::server {

// Thread-safe.
class ServerTls {
 public:
  // Reads and checks the files, and goes on watching them.
  // Errors: INVALID_ARGUMENT (an option, or a file: named); those of
  // MemoryFile.
  // REQUIRES: options.enabled() or CheckTlsOptions(options) is an error.
  static absl::StatusOr<std::unique_ptr<ServerTls>> Start(
      const TlsOptions& options);

  // TLS 1.2 and 1.3. New connections see a change of the files within two
  // reload intervals and gRPC's own, which is a second. Good for any number of
  // addresses. REQUIRES: servers that listen with these end before this does.
  const std::shared_ptr<grpc::ServerCredentials>& credentials() const {
    return credentials_;
  }

  TlsReloader& reloader() { return *reloader_; }

 private:
  ServerTls() = default;

  absl::Status Init(const TlsOptions& options, TlsTexts texts);

  std::unique_ptr<MemoryFile> identity_;   // certificates, then the key
  std::unique_ptr<MemoryFile> client_ca_;  // null if clients are not asked
  std::shared_ptr<grpc::ServerCredentials> credentials_;
  std::unique_ptr<TlsReloader> reloader_;  // ends first: it writes the files
};

}  // namespace planb::server

#endif  // PLANB_SERVER_SECURITY_TLS_H_
