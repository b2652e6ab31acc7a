// SPDX-License-Identifier: Apache-2.0

// gRPC's settings of connections: limits against greedy clients, and keepalive.

#ifndef PLANB_SERVER_NET_TRANSPORT_H_
#define PLANB_SERVER_NET_TRANSPORT_H_

#include <grpcpp/resource_quota.h>
#include <grpcpp/server_builder.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/socket_options.h"
#include "server/net/admission.h"

namespace planb::server {

struct TransportOptions {
  SocketOptions sockets;
  ConnectionLimits connections;
  // Bytes of one message received.
  int max_message_bytes = 16 << 20;
  // Bytes that gRPC may hold for all connections together. Above that it stops
  // reading, then ends calls.
  size_t memory_quota_bytes = size_t{256} << 20;
  // Threads for calls of RouteTable. Each call has one.
  int max_control_calls = 256;
  // Open calls on one connection. Further calls wait at the client.
  int max_connection_streams = 1'000;
  // A connection that has sent nothing for so long gets a ping. It is closed if
  // it does not answer within the timeout.
  absl::Duration keepalive_time = absl::Minutes(1);
  absl::Duration keepalive_timeout = absl::Seconds(20);
  // Connections with more frequent pings are closed.
  absl::Duration min_ping_interval = absl::Seconds(10);
  // A connection without calls for so long is closed. One that reaches the age
  // is asked to close, and is closed after the grace. Infinite: never.
  absl::Duration max_connection_idle = absl::InfiniteDuration();
  absl::Duration max_connection_age = absl::InfiniteDuration();
  absl::Duration max_connection_age_grace = absl::Seconds(30);
  // A connection is closed if its handshake takes longer.
  absl::Duration handshake_timeout = absl::Seconds(20);
};

// How gRPC's threads wait for their connections. With "poll", each thread that
// serves lookups waits for its own connections: a batch is read, answered and
// written by one thread. A wait costs O(connections of the thread). With
// "epoll", one thread at a time waits for all connections of the process, and
// wakes the thread that a batch belongs to; a wait costs O(1). "auto" is "poll"
// if `max_connections` allows it, unless the environment has
// GRPC_POLL_STRATEGY, which is gRPC's own setting.
// Process-wide. REQUIRES: the process has one thread and has not used gRPC.
// Returns what is used. Errors: INVALID_ARGUMENT.
absl::StatusOr<std::string> SetPolling(const std::string& polling,
                                       uint32_t max_connections);

// Sets the limits of a quota, which servers of one process may share.
void SetQuota(const TransportOptions& options, grpc::ResourceQuota& quota);

// Errors: INVALID_ARGUMENT, naming the option.
absl::Status CheckTransport(const TransportOptions& options);

// REQUIRES: CheckTransport(options) is OK.
void SetTransport(const TransportOptions& options,
                  const grpc::ResourceQuota& quota,
                  grpc::ServerBuilder& builder);

}  // namespace planb::server

#endif  // PLANB_SERVER_NET_TRANSPORT_H_
