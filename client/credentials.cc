#include "client/credentials.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "base/pem_file.h"

namespace planb::client {
namespace {

absl::Status ReadAuthorities(const std::string& path,
                             grpc::SslCredentialsOptions& into) {
  absl::StatusOr<tls::PemFile> ca = tls::ReadPemFile("tls_ca", path);
  if (!ca.ok()) return ca.status();
  const auto checked = tls::CheckAuthorities(*ca, absl::Now());
  if (!checked.ok()) return checked.status();
  into.pem_root_certs = std::move(ca->text);
  return absl::OkStatus();
}

absl::Status ReadIdentity(const TlsOptions& options,
                          grpc::SslCredentialsOptions& into) {
  absl::StatusOr<tls::PemFile> cert =
      tls::ReadPemFile("tls_cert", options.cert);
  if (!cert.ok()) return cert.status();
  absl::StatusOr<tls::PemFile> key = tls::ReadPemFile("tls_key", options.key);
  if (!key.ok()) return key.status();
  const auto checked = tls::CheckIdentity(*cert, *key, absl::Now());
  if (!checked.ok()) return checked.status();
  into.pem_cert_chain = std::move(cert->text);
  into.pem_private_key = std::move(key->text);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeCredentials(
    const std::optional<TlsOptions>& options) {
  if (!options.has_value()) return grpc::InsecureChannelCredentials();
  if (options->cert.empty() != options->key.empty()) {
    return absl::InvalidArgumentError(
        "tls_cert and tls_key must be given both or not at all");
  }
  grpc::SslCredentialsOptions made;
  absl::Status status;
  if (!options->ca.empty()) status = ReadAuthorities(options->ca, made);
  if (status.ok() && !options->cert.empty()) {
    status = ReadIdentity(*options, made);
  }
  if (!status.ok()) return status;
  return grpc::SslCredentials(made);
}

}  // namespace planb::client
