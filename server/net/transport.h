// SPDX-License-Identifier: Apache-2.0

// What gRPC is told about connections: limits against clients that ask for too
// much, and signs of life.

#ifndef PLANB_SERVER_NET_TRANSPORT_H_
#define PLANB_SERVER_NET_TRANSPORT_H_

#include <grpcpp/server_builder.h>

#include <cstddef>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/socket_options.h"
#include "server/net/admission.h"

namespace planb::server {

struct TransportOptions {
  SocketOptions sockets;
  ConnectionLimits connections;
  // Bytes of one message received.
  int max_message_bytes = 16 << 20;
  // Bytes that gRPC may hold for all connections together; above it, it stops
  // reading, then gives up calls.
  size_t memory_quota_bytes = size_t{256} << 20;
  // Threads for the calls that change or show tables, each call its own.
  int max_control_calls = 256;
  // Calls open at once on one connection; further ones wait at the client.
  int max_connection_streams = 1'000;
  // A connection from which nothing came for so long is asked for a sign of
  // life, and closed when it gives none within the timeout.
  absl::Duration keepalive_time = absl::Minutes(1);
  absl::Duration keepalive_timeout = absl::Seconds(20);
  // Clients that ask for signs of life more often are sent away.
  absl::Duration min_ping_interval = absl::Seconds(10);
  // A connection without calls for so long is closed; one as old as the age is
  // asked to go, and closed after the grace. Infinite: never.
  absl::Duration max_connection_idle = absl::InfiniteDuration();
  absl::Duration max_connection_age = absl::InfiniteDuration();
  absl::Duration max_connection_age_grace = absl::Seconds(30);
  // A connection that has not begun as one should within this is closed.
  absl::Duration handshake_timeout = absl::Seconds(20);
};

// Errors: INVALID_ARGUMENT, naming the option.
absl::Status CheckTransport(const TransportOptions& options);

// REQUIRES: CheckTransport(options) is OK.
void SetTransport(const TransportOptions& options,
                  grpc::ServerBuilder& builder);

}  // namespace planb::server

#endif  // PLANB_SERVER_NET_TRANSPORT_H_
