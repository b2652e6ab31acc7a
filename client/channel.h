// SPDX-License-Identifier: Apache-2.0

// Channels to a PlanB Lookup server.

#ifndef PLANB_CLIENT_CHANNEL_H_
#define PLANB_CLIENT_CHANNEL_H_

#include <grpcpp/channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/socket_options.h"

namespace planb::client {

// How the ends of a channel prove what they are: TLS 1.2 or 1.3, by files in
// PEM. All may be empty.
struct TlsOptions {
  // Authorities of which one must have signed the server's certificate; empty:
  // those that this host trusts.
  std::string ca;
  // Our certificate, with those of its issuers, and its key, for a server that
  // asks; both or none.
  std::string cert;
  std::string key;
  // The name that the server's certificate must have; empty: the target's host.
  std::string server_name;
};

// Reads and checks the files. Without options: plaintext.
// Errors: INVALID_ARGUMENT, naming option and file: unreadable, not PEM, a key
// of another certificate, a certificate that is not valid now.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeCredentials(
    const std::optional<TlsOptions>& options);

// Largest message either side may send, in bytes.
inline constexpr int kMaxMessageBytes = 16 << 20;

struct ChannelOptions {
  // Open a connection that no other channel of this process shares. gRPC
  // otherwise carries all channels to one target over one connection.
  bool own_connection = false;
  // Without: plaintext, as on Unix sockets always.
  std::optional<TlsOptions> tls = std::nullopt;
};

// Makes a channel to `target`: "unix:///run/planb/planb.sock", "host:port" or
// "[::1]:50051". Does not connect yet: the first call does. Reads the files of
// TLS once: a channel that is kept for longer than its certificate lives has to
// be made again. Errors: INVALID_ARGUMENT if `target` cannot be one of these,
// or is a Unix socket and TLS is asked for; those of MakeCredentials.
absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(
    absl::string_view target, const ChannelOptions& options = {});

// The same with `credentials` that MakeCredentials(options.tls) has made.
absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(
    absl::string_view target, const ChannelOptions& options,
    const std::shared_ptr<grpc::ChannelCredentials>& credentials);

// Connects now. Returns at the first success; UNAVAILABLE as soon as one
// attempt to reach every address of the target has failed, with gRPC's reason,
// such as what is wrong with the server's certificate; DEADLINE_EXCEEDED
// if `deadline` passes first.
absl::Status Connect(grpc::Channel& channel, absl::Time deadline);

// The options of base/socket_options.h for the sockets of a channel.

// Sets `options` on each socket that a channel made with `arguments` connects,
// also when it reconnects. TCP sockets are taken for loopback: a socket gets
// its options before it is connected, so only the caller knows where the server
// is. An empty loopback_congestion leaves the sockets of a channel to another
// host as they are.
void SetSocketOptions(const SocketOptions& options,
                      grpc::ChannelArguments& arguments);

}  // namespace planb::client

#endif  // PLANB_CLIENT_CHANNEL_H_
