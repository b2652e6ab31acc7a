// SPDX-License-Identifier: Apache-2.0

#include "server/base/client_channel.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <utility>

#include "absl/time/clock.h"
#include "base/pem_file.h"

namespace planb::server {
namespace {

std::shared_ptr<grpc::ChannelCredentials> Credentials(const TlsProvider* tls) {
  if (tls == nullptr) return grpc::InsecureChannelCredentials();
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(tls->watcher());
  options.watch_root_certs();
  if (tls->has_identity()) options.watch_identity_key_cert_pairs();
  options.set_certificate_verifier(
      std::make_shared<grpc::experimental::HostNameCertificateVerifier>());
  return grpc::experimental::TlsCredentials(options);
}

}  // namespace

std::vector<absl::Status> CheckClientTls(const TlsFiles& files) {
  std::vector<absl::Status> of_files;
  const auto read = [](const TlsFiles::File& file) {
    return tls::ReadPemFile(file.flag, file.path);
  };
  if (!files.ca.path.empty()) {
    const auto ca = read(files.ca);
    of_files.push_back(ca.ok()
                           ? tls::CheckAuthorities(*ca, absl::Now()).status()
                           : ca.status());
  }
  if (!files.cert.path.empty()) {
    const auto cert = read(files.cert);
    const auto key = read(files.key);
    of_files.push_back(cert.status());
    of_files.push_back(key.status());
    if (cert.ok() && key.ok()) {
      of_files.push_back(tls::CheckIdentity(*cert, *key, absl::Now()).status());
    }
  }
  return of_files;
}

absl::StatusOr<std::unique_ptr<TlsProvider>> StartClientTls(
    const TlsFiles& files) {
  if (files.ca.path.empty()) return std::unique_ptr<TlsProvider>();
  return TlsProvider::Start(files, /*valid_now=*/false);
}

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& target,
                                           const TlsProvider* tls,
                                           int max_message_bytes) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(max_message_bytes);
  // etcd closes connections with pings more often than every 5 s.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 3'000);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  // This is the time that an attempt to connect gets; it delays no other one.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5'000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1'000);
  return grpc::CreateCustomChannel(target, Credentials(tls), arguments);
}

}  // namespace planb::server
