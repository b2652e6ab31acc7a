// SPDX-License-Identifier: Apache-2.0

#include "server/base/client_channel.h"

#include <grpcpp/create_channel.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/regular_file.h"

namespace planb::server {
namespace {

constexpr size_t kMaxFile = 1 << 20;
// A page of etcd's answers has up to 64 entries of a megabyte.
constexpr int kMaxMessage = 256 << 20;

}  // namespace

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
