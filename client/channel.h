// SPDX-License-Identifier: Apache-2.0

// Channels to a PlanB Lookup server.

#ifndef PLANB_CLIENT_CHANNEL_H_
#define PLANB_CLIENT_CHANNEL_H_

#include <grpcpp/channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/monotonic_time.h"
#include "base/socket_options.h"

namespace planb::client {

// TLS 1.2 or 1.3, with files in PEM. All fields may be empty.
struct TlsOptions {
  // File with the certificate authorities for the server's certificate. Empty:
  // the authorities that this host trusts.
  std::string ca;
  // Files with the client's certificate chain and its key, for a server that
  // asks for them. Set both or none.
  std::string cert;
  std::string key;
  // The name required in the server's certificate. Empty: the target's host.
  std::string server_name;
};

// Reads and checks the files. Without options: plaintext.
// Errors: INVALID_ARGUMENT, naming option and file, for a file that is
// unreadable or not PEM, a key that does not match its certificate, or a
// certificate that is not valid now.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeCredentials(
    const std::optional<TlsOptions>& options);

// Largest message either side may send, in bytes.
inline constexpr int kMaxMessageBytes = 16 << 20;

struct ChannelOptions {
  // Open a connection of its own. By default gRPC uses one connection for all
  // channels of this process to the same target.
  bool own_connection = false;
  // Without: plaintext. Unix sockets are always plaintext.
  std::optional<TlsOptions> tls = std::nullopt;
  // A connection with calls on it that was silent for so long gets a ping. If
  // that is not answered within the timeout, the connection is closed, and its
  // calls end with UNAVAILABLE. So a watch, which only reads, notices a peer
  // that is gone. The server closes connections with more pings than one in its
  // --min_ping_interval, by default 10 s. gRPC reads a connection that no call
  // waits on every 5 s: a timeout has to be longer.
  absl::Duration keepalive_time = absl::Seconds(20);
  absl::Duration keepalive_timeout = absl::Seconds(20);
};

// Makes a channel to `target`: "unix:///run/planb/planb.sock", "host:port",
// "[::1]:50051", or a "dns:", "ipv4:" or "ipv6:" target of gRPC, which may have
// several addresses. Does not connect yet: the first call does. Reads the TLS
// files once: make a new channel before the certificate expires.
// Errors: INVALID_ARGUMENT for another form of `target`, or for a Unix socket
// with TLS; those of MakeCredentials.
absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(
    absl::string_view target, const ChannelOptions& options = {});

// Makes the channel for an attempt to connect. With a new channel, gRPC's
// backoff of a channel does not delay the attempt.
using OpenChannel = std::function<std::shared_ptr<grpc::Channel>()>;

// Channels to `target` as by MakeChannel, each with its own connection. Each
// reads the TLS files again, and uses the last usable ones. Thread-safe.
// Errors: those of MakeChannel.
absl::StatusOr<OpenChannel> ChannelsTo(absl::string_view target,
                                       const ChannelOptions& options = {});

// Connects now. Returns OK at the first success.
// Errors: UNAVAILABLE, with gRPC's reason, when an attempt has failed for every
// address of the target; DEADLINE_EXCEEDED if `deadline` passes first.
absl::Status Connect(grpc::Channel& channel, Deadline deadline);

// Internal. Sets `options` on each socket that a channel made with `arguments`
// connects, also when it reconnects. A socket gets its options before it is
// connected, so this function takes every TCP socket for loopback. Clear
// loopback_congestion for a channel to another host.
void SetSocketOptions(const SocketOptions& options,
                      grpc::ChannelArguments& arguments);

}  // namespace planb::client

#endif  // PLANB_CLIENT_CHANNEL_H_
