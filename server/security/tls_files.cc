// SPDX-License-Identifier: Apache-2.0

#include "server/security/tls_files.h"

#include <utility>

namespace planb::server {

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

absl::StatusOr<TlsTexts> ReadTlsFiles(const TlsOptions& options) {
  TlsTexts texts;
  const auto read = [](absl::string_view flag, const std::string& path,
                       tls::PemFile& into) {
    absl::StatusOr<tls::PemFile> file = tls::ReadPemFile(flag, path);
    if (!file.ok()) return file.status();
    into = *std::move(file);
    return absl::OkStatus();
  };
  absl::Status status = read("--tls_cert", options.cert, texts.cert);
  if (status.ok()) status = read("--tls_key", options.key, texts.key);
  if (status.ok() && !options.client_ca.empty()) {
    status = read("--tls_client_ca", options.client_ca, texts.client_ca);
  }
  if (!status.ok()) return status;
  return texts;
}

absl::StatusOr<TlsExpiry> CheckTlsTexts(const TlsTexts& texts, absl::Time now) {
  TlsExpiry expiry;
  const auto server = tls::CheckIdentity(texts.cert, texts.key, now);
  if (!server.ok()) return server.status();
  expiry.server = *server;
  if (!texts.client_ca.text.empty()) {
    const auto ca = tls::CheckAuthorities(texts.client_ca, now);
    if (!ca.ok()) return ca.status();
    expiry.client_ca = *ca;
  }
  return expiry;
}

}  // namespace planb::server
