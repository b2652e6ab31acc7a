// SPDX-License-Identifier: Apache-2.0

#include "server/security/tls.h"

#include <grpcpp/security/tls_credentials_options.h>

#include <utility>

namespace planb::server {
namespace {

std::shared_ptr<grpc::ServerCredentials> Credentials(
    const TlsProvider& provider) {
  grpc::experimental::TlsServerCredentialsOptions options(provider.watcher());
  options.watch_identity_key_cert_pairs();
  if (provider.has_ca()) {
    options.watch_root_certs();
    options.set_cert_request_type(
        GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return grpc::experimental::TlsServerCredentials(options);
}

TlsFiles FilesOf(const TlsOptions& options) {
  return {.kind = "server",
          .cert = {"--tls_cert", options.cert},
          .key = {"--tls_key", options.key},
          .ca = {"--tls_client_ca", options.client_ca},
          .reload_interval = options.reload_interval};
}

}  // namespace

absl::Status CheckTlsOptions(const TlsOptions& options) {
  if (options.cert.empty() != options.key.empty()) {
    return absl::InvalidArgumentError(
        "--tls_cert and --tls_key must be given both or not at all");
  }
  if (!options.client_ca.empty() && options.cert.empty()) {
    return absl::InvalidArgumentError(
        "--tls_client_ca needs --tls_cert and --tls_key");
  }
  if (options.reload_interval <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError("--tls_reload_interval must be positive");
  }
  return absl::OkStatus();
}

absl::Status CheckTls(const TlsOptions& options) {
  absl::Status valid = CheckTlsOptions(options);
  if (!valid.ok() || !options.enabled()) return valid;
  return CheckTls(FilesOf(options));
}

ServerTls::ServerTls(std::unique_ptr<TlsProvider> provider)
    : provider_(std::move(provider)), credentials_(Credentials(*provider_)) {}

absl::StatusOr<std::unique_ptr<ServerTls>> ServerTls::Start(
    const TlsOptions& options) {
  const absl::Status valid = CheckTlsOptions(options);
  if (!valid.ok()) return valid;
  auto provider = TlsProvider::Start(FilesOf(options), /*valid_now=*/true);
  if (!provider.ok()) return provider.status();
  return std::unique_ptr<ServerTls>(new ServerTls(*std::move(provider)));
}

}  // namespace planb::server
