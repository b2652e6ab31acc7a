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
#include "server/base/tls_files.h"
#include "server/base/tls_provider.h"

namespace planb::server {

// Null without an authority: connections are in plaintext. A certificate that
// is not valid now is no error: a server with a copy of its tables starts, and
// takes the next certificate. Errors: those of TlsProvider.
absl::StatusOr<std::unique_ptr<TlsProvider>> StartClientTls(
    const TlsFiles& files);

// Reads the files. Of each: OK, or INVALID_ARGUMENT that names the flag: it
// cannot be read or is no such PEM, a certificate is not valid now, the key is
// that of another certificate.
std::vector<absl::Status> CheckClientTls(const TlsFiles& files);

// Does not connect. Notices within 13 s that the other side is gone, and
// connects again within a second, with the certificates of that time. `tls` is
// of StartClientTls(), and outlives the channel. Longer messages fail their
// call with RESOURCE_EXHAUSTED.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& target,
                                           const TlsProvider* tls,
                                           int max_message_bytes = 256 << 20);

}  // namespace planb::server

#endif  // PLANB_SERVER_BASE_CLIENT_CHANNEL_H_
