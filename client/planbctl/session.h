// SPDX-License-Identifier: Apache-2.0

// The server that the flags name, and how long to wait for it.

#ifndef PLANB_CLIENT_PLANBCTL_SESSION_H_
#define PLANB_CLIENT_PLANBCTL_SESSION_H_

#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/channel.h"
#include "grpc/health/v1/health.pb.h"

namespace planb::client {

// --server, else PLANB_SERVER, else the default socket.
std::string ServerTarget();

// `options` with TLS, if any flag of it is given.
ChannelOptions WithFlags(ChannelOptions options = {});

// OK if a channel to the server can be made.
// Errors: INVALID_ARGUMENT: the target is malformed, a file of TLS is no good.
absl::Status CheckServerFlags();

// A channel to it, connected within --timeout.
// Errors: UNAVAILABLE if it cannot be reached; those of CheckServerFlags (main
// has refused these before any command runs).
absl::StatusOr<std::shared_ptr<grpc::Channel>> ConnectToServer(
    const ChannelOptions& options = {});

// When a call made now has to end, by --timeout.
absl::Time CallDeadline();

// The status of `service`, or with "" of the whole server, by the standard gRPC
// health service.
// Errors: NOT_FOUND if the server does not know the service; UNIMPLEMENTED if
// it has no health service; those of any call.
absl::StatusOr<grpc::health::v1::HealthCheckResponse::ServingStatus>
CheckHealth(const std::shared_ptr<grpc::Channel>& channel,
            const std::string& service, absl::Time deadline);

}  // namespace planb::client

#endif  // PLANB_CLIENT_PLANBCTL_SESSION_H_
