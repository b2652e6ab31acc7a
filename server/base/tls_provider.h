// SPDX-License-Identifier: Apache-2.0

// Gives gRPC the files of TLS, and new ones while it runs.
//
// gRPC's file watcher accepts any content: with a key that does not match its
// certificate, or half a file, every new connection fails until the next good
// pair. So gRPC watches files in memory, not those of the operator. Only
// content that was checked goes into them.

#ifndef PLANB_SERVER_BASE_TLS_PROVIDER_H_
#define PLANB_SERVER_BASE_TLS_PROVIDER_H_

#include <grpcpp/security/tls_certificate_provider.h>

#include <memory>

#include "absl/status/statusor.h"
#include "server/base/commit_reload.h"
#include "server/base/memory_file.h"
#include "server/base/tls_files.h"

namespace planb::server {

// Owns the files in memory, gRPC's watcher and the reloader. New connections
// see a change of the files after at most two reload intervals and a second,
// gRPC's own interval. Open connections stay. Thread-safe.
class TlsProvider {
 public:
  // Reads and checks the files, and starts to watch them. With `valid_now`,
  // certificates that are not valid at this time are an error; without, they
  // are logged.
  // Errors: INVALID_ARGUMENT, naming flag and file; those of MemoryFile.
  static absl::StatusOr<std::unique_ptr<TlsProvider>> Start(
      const TlsFiles& files, bool valid_now);

  // REQUIRES: what is made with it ends before this object.
  const std::shared_ptr<grpc::experimental::CertificateProviderInterface>&
  watcher() const {
    return watcher_;
  }
  // What it has.
  bool has_identity() const { return identity_ != nullptr; }
  bool has_ca() const { return ca_ != nullptr; }

  TlsReloader& reloader() { return *reloader_; }

 private:
  TlsProvider() = default;

  absl::StatusOr<CommitReload> Prepare(const TlsTexts& fresh);

  std::unique_ptr<MemoryFile> identity_;  // certificates, then the key
  std::unique_ptr<MemoryFile> ca_;
  std::shared_ptr<grpc::experimental::CertificateProviderInterface> watcher_;
  std::unique_ptr<TlsReloader> reloader_;  // destroyed first: writes the files
};

}  // namespace planb::server

#endif  // PLANB_SERVER_BASE_TLS_PROVIDER_H_
