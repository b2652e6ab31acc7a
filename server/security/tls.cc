// SPDX-License-Identifier: Apache-2.0

#include "server/security/tls.h"

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace planb::server {
namespace {

// gRPC's shortest interval. The files are in memory, so reading them is cheap.
constexpr unsigned kWatchSeconds = 1;

// Certificates and key are in one file, so that they change together. A reader
// of PEM skips blocks of other types.
std::string Identity(const TlsTexts& texts) {
  return absl::StrCat(texts.cert.text, "\n", texts.key.text);
}

std::shared_ptr<grpc::ServerCredentials> Credentials(
    const MemoryFile& identity, const MemoryFile* client_ca) {
  using grpc::experimental::FileWatcherCertificateProvider;
  grpc::experimental::TlsServerCredentialsOptions options(
      client_ca == nullptr
          ? std::make_shared<FileWatcherCertificateProvider>(
                identity.path(), identity.path(), kWatchSeconds)
          : std::make_shared<FileWatcherCertificateProvider>(
                identity.path(), identity.path(), client_ca->path(),
                kWatchSeconds));
  options.watch_identity_key_cert_pairs();
  if (client_ca != nullptr) {
    options.watch_root_certs();
    options.set_cert_request_type(
        GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return grpc::experimental::TlsServerCredentials(options);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ServerTls>> ServerTls::Start(
    const TlsOptions& options) {
  const absl::Status valid = CheckTlsOptions(options);
  if (!valid.ok()) return valid;
  absl::StatusOr<TlsTexts> texts = ReadTlsFiles(options);
  if (!texts.ok()) return texts.status();
  std::unique_ptr<ServerTls> made(new ServerTls);
  const absl::Status ready = made->Init(options, *std::move(texts));
  if (!ready.ok()) return ready;
  return made;
}

absl::Status ServerTls::Init(const TlsOptions& options, TlsTexts texts) {
  const auto expiry = CheckTlsTexts(texts, absl::Now());
  if (!expiry.ok()) return expiry.status();
  auto identity = MemoryFile::Create("planb tls identity", Identity(texts));
  if (!identity.ok()) return identity.status();
  identity_ = *std::move(identity);
  if (!options.client_ca.empty()) {
    auto ca = MemoryFile::Create("planb tls client ca", texts.client_ca.text);
    if (!ca.ok()) return ca.status();
    client_ca_ = *std::move(ca);
  }
  credentials_ = Credentials(*identity_, client_ca_.get());
  reloader_ = std::make_unique<TlsReloader>(
      options, std::move(texts), *expiry,
      [this](const TlsTexts& fresh) { return Prepare(fresh); });
  return absl::OkStatus();
}

absl::StatusOr<Adoption> ServerTls::Prepare(const TlsTexts& fresh) {
  auto identity = identity_->Prepare(Identity(fresh));
  if (!identity.ok() || client_ca_ == nullptr) return identity;
  auto ca = client_ca_->Prepare(fresh.client_ca.text);
  if (!ca.ok()) return ca.status();
  return [identity = *std::move(identity), ca = *std::move(ca)] {
    identity();
    ca();
  };
}

}  // namespace planb::server
