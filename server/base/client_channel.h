// SPDX-License-Identifier: Apache-2.0

// Channels to other servers: those that keep a store, and a collector.

#ifndef PLANB_SERVER_BASE_CLIENT_CHANNEL_H_
#define PLANB_SERVER_BASE_CLIENT_CHANNEL_H_

#include <grpcpp/channel.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace planb::server {

// Files in PEM. An authority's certificate makes connections use TLS; the other
// two, together, are the client's.
struct ClientTls {
  std::string ca_file;
  std::string cert_file;
  std::string key_file;
};

// Errors: INVALID_ARGUMENT if `target` is neither HOST:PORT nor unix:PATH nor
// another name with a scheme that gRPC knows, such as dns:///HOST:PORT. `what`,
// such as a flag, begins the message.
absl::Status CheckTarget(absl::string_view what, absl::string_view target);

// Reads the files. Of each: OK, or INVALID_ARGUMENT that names the flag,
// --`prefix`_ca and so on: it cannot be read or is no such PEM, a certificate
// is not valid now, the key is that of another certificate.
std::vector<absl::Status> CheckClientTls(absl::string_view prefix,
                                         const ClientTls& tls);

// Does not connect. Notices within 13 s that the other side is gone, and
// connects again within a second. Errors: INVALID_ARGUMENT for files that
// cannot be read.
absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(
    const std::string& target, const ClientTls& tls);

}  // namespace planb::server

#endif  // PLANB_SERVER_BASE_CLIENT_CHANNEL_H_
