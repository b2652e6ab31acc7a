// SPDX-License-Identifier: Apache-2.0

// Channels to other servers: those that keep a store, and a collector.

#ifndef PLANB_SERVER_BASE_CLIENT_CHANNEL_H_
#define PLANB_SERVER_BASE_CLIENT_CHANNEL_H_

#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace planb::server {

// Files in PEM. An authority's certificate makes connections use TLS; the other
// two, together, are the client's.
struct ClientTls {
  std::string ca_file;
  std::string cert_file;
  std::string key_file;
};

// Does not connect. Notices within 13 s that the other side is gone, and
// connects again within a second. Errors: INVALID_ARGUMENT for files that
// cannot be read.
absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(
    const std::string& target, const ClientTls& tls);

}  // namespace planb::server

#endif  // PLANB_SERVER_BASE_CLIENT_CHANNEL_H_
