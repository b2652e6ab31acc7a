// SPDX-License-Identifier: Apache-2.0

#include "server/base/client_channel.h"

#include <grpcpp/create_channel.h>

#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/pem_file.h"
#include "base/regular_file.h"

namespace planb::server {
namespace {

constexpr size_t kMaxFile = 1 << 20;
// A page of etcd's answers has up to 64 entries of a megabyte.
constexpr int kMaxMessage = 256 << 20;

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
  if (colon != absl::string_view::npos && colon > 0 &&
      absl::SimpleAtoi(target.substr(colon + 1), &port) && port > 0 &&
      port <= 65535) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      what, ": \"", target, "\" is neither HOST:PORT nor unix:PATH"));
}

std::vector<absl::Status> CheckClientTls(absl::string_view prefix,
                                         const ClientTls& tls) {
  std::vector<absl::Status> of_files;
  const auto read = [&](absl::string_view name, const std::string& path) {
    return tls::ReadPemFile(absl::StrCat("--", prefix, name), path);
  };
  if (!tls.ca_file.empty()) {
    const auto ca = read("_ca", tls.ca_file);
    of_files.push_back(ca.ok()
                           ? tls::CheckAuthorities(*ca, absl::Now()).status()
                           : ca.status());
  }
  if (!tls.cert_file.empty()) {
    const auto cert = read("_cert", tls.cert_file);
    const auto key = read("_key", tls.key_file);
    of_files.push_back(cert.status());
    of_files.push_back(key.status());
    if (cert.ok() && key.ok()) {
      of_files.push_back(tls::CheckIdentity(*cert, *key, absl::Now()).status());
    }
  }
  return of_files;
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(
    const std::string& target, const ClientTls& tls) {
  std::shared_ptr<grpc::ChannelCredentials> credentials =
      grpc::InsecureChannelCredentials();
  if (!tls.ca_file.empty()) {
    grpc::SslCredentialsOptions options;
    for (const auto& [file, text] :
         {std::pair{&tls.ca_file, &options.pem_root_certs},
          std::pair{&tls.cert_file, &options.pem_cert_chain},
          std::pair{&tls.key_file, &options.pem_private_key}}) {
      if (file->empty()) continue;
      auto read = ReadRegularFile(*file, kMaxFile);
      if (!read.ok()) {
        return absl::InvalidArgumentError(
            absl::StrCat(*file, ": ", read.status().message()));
      }
      *text = *std::move(read);
    }
    credentials = grpc::SslCredentials(options);
  }
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessage);
  // etcd closes connections with pings more often than every 5 s.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 3'000);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1'000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1'000);
  return grpc::CreateCustomChannel(target, credentials, arguments);
}

}  // namespace planb::server
