// SPDX-License-Identifier: Apache-2.0

// Connecting is a step of its own, so that "not reachable" is told apart from
// "refused", and without a retry.

#include "client/planbctl/session.h"

#include <cstdlib>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/call.h"
#include "client/planbctl/flags.h"
#include "client/status.h"
#include "grpc/health/v1/health.grpc.pb.h"

namespace planb::client {

std::string ServerTarget() {
  std::string target = absl::GetFlag(FLAGS_server);
  if (!target.empty()) return target;
  const char* environment = std::getenv("PLANB_SERVER");
  if (environment != nullptr && *environment != '\0') return environment;
  return "unix:///run/planb/planb.sock";
}

ChannelOptions WithFlags(ChannelOptions options) {
  TlsOptions tls = {.ca = absl::GetFlag(FLAGS_tls_ca),
                    .cert = absl::GetFlag(FLAGS_tls_cert),
                    .key = absl::GetFlag(FLAGS_tls_key),
                    .server_name = absl::GetFlag(FLAGS_tls_server_name)};
  if (!tls.ca.empty() || !tls.cert.empty() || !tls.key.empty() ||
      !tls.server_name.empty()) {
    options.tls = std::move(tls);
  }
  return options;
}

absl::Status CheckServerFlags() {
  return MakeChannel(ServerTarget(), WithFlags()).status();
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> ConnectToServer(
    const ChannelOptions& options) {
  const std::string target = ServerTarget();
  auto channel = MakeChannel(target, WithFlags(options));
  if (!channel.ok()) return channel.status();
  const absl::Status connected = Connect(**channel, CallDeadline());
  if (!connected.ok()) {
    return absl::UnavailableError(
        absl::StrCat("cannot connect to ", target, ": ", connected.message(),
                     " (is the server running? is --server or PLANB_SERVER "
                     "right?)"));
  }
  return channel;
}

absl::Time CallDeadline() { return absl::Now() + absl::GetFlag(FLAGS_timeout); }

// One unary call.

absl::StatusOr<grpc::health::v1::HealthCheckResponse::ServingStatus>
CheckHealth(const std::shared_ptr<grpc::Channel>& channel,
            const std::string& service, absl::Time deadline) {
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(service);
  grpc::ClientContext context;
  SetDeadline(context, deadline);
  grpc::health::v1::HealthCheckResponse response;
  absl::Status status =
      FromGrpc(grpc::health::v1::Health::NewStub(channel)->Check(
          &context, request, &response));
  if (!status.ok()) return status;
  return response.status();
}

}  // namespace planb::client
