// SPDX-License-Identifier: Apache-2.0

#include "server/base/client_channel.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/pem_file.h"
#include "base/socket_options.h"

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

absl::Status CheckTarget(absl::string_view what, absl::string_view target) {
  for (const absl::string_view scheme :
       {"unix:", "unix-abstract:", "dns:", "ipv4:", "ipv6:"}) {
    if (absl::StartsWith(target, scheme) && target.size() > scheme.size()) {
      return absl::OkStatus();
    }
  }
  const size_t colon = target.rfind(':');
  uint32_t port = 0;
  // An IPv6 address is in brackets, and no host has a slash, as URLs have.
  const absl::string_view host = target.substr(0, colon);
  const bool bracketed =
      absl::StartsWith(host, "[") && absl::EndsWith(host, "]");
  if (colon != absl::string_view::npos && colon > 0 &&
      (bracketed || !absl::StrContains(host, ':')) &&
      !absl::StrContains(host, '/') &&
      absl::SimpleAtoi(target.substr(colon + 1), &port) && port > 0 &&
      port <= 65535) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      what, ": \"", target, "\" is neither HOST:PORT nor unix:PATH"));
}

bool LeavesHost(absl::string_view target) {
  if (absl::StartsWith(target, "unix:") ||
      absl::StartsWith(target, "unix-abstract:")) {
    return false;
  }
  for (const absl::string_view scheme : {"dns:", "ipv4:", "ipv6:"}) {
    if (absl::ConsumePrefix(&target, scheme)) break;
  }
  const size_t slash = target.rfind('/');
  if (slash != absl::string_view::npos) target.remove_prefix(slash + 1);
  for (absl::string_view host : absl::StrSplit(target, ',')) {
    if (!absl::EndsWith(host, "]")) host = host.substr(0, host.rfind(':'));
    if (!IsLoopbackHost(host)) return true;
  }
  return false;
}

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
