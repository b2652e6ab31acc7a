// SPDX-License-Identifier: Apache-2.0

#include "server/observe/health_service.h"

#include <optional>

#include "absl/cleanup/cleanup.h"
#include "planb/v1/route_lookup.grpc.pb.h"
#include "planb/v1/route_table.grpc.pb.h"

namespace planb::server {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

// How often a watch checks whether its client is still there, and whether the
// readiness condition has changed, which notifies nothing.
constexpr absl::Duration kLook = absl::Milliseconds(500);

}  // namespace

HealthService::ServingStatus HealthService::StatusOf(
    const std::string& service) const {
  const auto serving = [](bool yes) {
    return yes ? HealthCheckResponse::SERVING
               : HealthCheckResponse::NOT_SERVING;
  };
  if (service == kStartup) return serving(!state_.ended());
  if (service.empty() || service == v1::RouteLookup::service_full_name() ||
      service == v1::RouteTable::service_full_name()) {
    return serving(state_.WhyNotReady().empty());
  }
  return HealthCheckResponse::SERVICE_UNKNOWN;
}

grpc::Status HealthService::Check(grpc::ServerContext*,
                                  const HealthCheckRequest* request,
                                  HealthCheckResponse* response) {
  const ServingStatus status = StatusOf(request->service());
  if (status == HealthCheckResponse::SERVICE_UNKNOWN) {
    return grpc::Status(grpc::StatusCode::NOT_FOUND, "no such service");
  }
  response->set_status(status);
  return grpc::Status::OK;
}

grpc::Status HealthService::Watch(
    grpc::ServerContext* call, const HealthCheckRequest* request,
    grpc::ServerWriter<HealthCheckResponse>* out) {
  const absl::Cleanup leave = [this] { --watchers_; };
  if (++watchers_ > kMaxWatchers) {
    return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED,
                        "too many Watch calls are open");
  }
  std::optional<ServingStatus> told;
  bool here = true;
  while (here) {
    // In this order: a change during these lines is seen in the next round, and
    // the last status is sent before the watch ends.
    const uint64_t version = state_.version();
    const bool last = state_.ended();
    const ServingStatus status = StatusOf(request->service());
    if (status != told) {
      HealthCheckResponse response;
      response.set_status(status);
      here = out->Write(response);
      told = status;
    } else if (last) {
      break;
    } else {
      state_.AwaitChange(version, kLook);
      here = !call->IsCancelled();
    }
  }
  return here ? grpc::Status(grpc::StatusCode::UNAVAILABLE,
                             "the server is going down")
              : grpc::Status::CANCELLED;
}

}  // namespace planb::server
