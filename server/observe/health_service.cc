// SPDX-License-Identifier: Apache-2.0

#include "server/observe/health_service.h"

#include <grpcpp/impl/rpc_service_method.h>
#include <grpcpp/support/method_handler.h>

#include <functional>
#include <optional>

#include "absl/cleanup/cleanup.h"
#include "planb/v1/route_lookup.grpc.pb.h"
#include "planb/v1/route_table.grpc.pb.h"
#include "server/base/decoded_size.h"
#include "server/base/error.h"

namespace planb::server {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

// How often a watch checks whether its client is still there, and whether the
// readiness condition has changed, which notifies nothing.
constexpr absl::Duration kPollInterval = absl::Milliseconds(500);
// A request is the name of a service.
constexpr DecodedLimits kLimits = {.bytes = size_t{64} << 10};

// Parses `bytes`.
absl::Status Parse(const grpc::ByteBuffer& bytes, HealthCheckRequest& request) {
  grpc::ByteBuffer own = bytes;  // shares the slices
  const auto size = DecodedSize<HealthCheckRequest>(own, kLimits);
  return size.ok() ? ParseAndFree(own, request) : size.status();
}

}  // namespace

HealthService::HealthService(const HealthState& state) : state_(state) {
  using grpc::internal::RpcMethod;
  AddMethod(new grpc::internal::RpcServiceMethod(
      "/grpc.health.v1.Health/Check", RpcMethod::NORMAL_RPC,
      new grpc::internal::RpcMethodHandler<HealthService, grpc::ByteBuffer,
                                           HealthCheckResponse>(
          std::mem_fn(&HealthService::Check), this)));
  AddMethod(new grpc::internal::RpcServiceMethod(
      "/grpc.health.v1.Health/Watch", RpcMethod::SERVER_STREAMING,
      new grpc::internal::ServerStreamingHandler<
          HealthService, grpc::ByteBuffer, HealthCheckResponse>(
          std::mem_fn(&HealthService::Watch), this)));
}

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
                                  const grpc::ByteBuffer* bytes,
                                  HealthCheckResponse* response) {
  HealthCheckRequest request;
  const absl::Status parsed = Parse(*bytes, request);
  if (!parsed.ok()) return ToGrpc(parsed);
  const ServingStatus status = StatusOf(request.service());
  if (status == HealthCheckResponse::SERVICE_UNKNOWN) {
    return grpc::Status(grpc::StatusCode::NOT_FOUND, "no such service");
  }
  response->set_status(status);
  return grpc::Status::OK;
}

grpc::Status HealthService::Watch(
    grpc::ServerContext* call, const grpc::ByteBuffer* bytes,
    grpc::ServerWriter<HealthCheckResponse>* out) {
  HealthCheckRequest request;
  const absl::Status parsed = Parse(*bytes, request);
  if (!parsed.ok()) return ToGrpc(parsed);
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
    const ServingStatus status = StatusOf(request.service());
    if (status != told) {
      HealthCheckResponse response;
      response.set_status(status);
      here = out->Write(response);
      told = status;
    } else if (last) {
      break;
    } else {
      state_.AwaitChange(version, kPollInterval);
      here = !call->IsCancelled();
    }
  }
  return here ? grpc::Status(grpc::StatusCode::UNAVAILABLE,
                             "the server is going down")
              : grpc::Status::CANCELLED;
}

}  // namespace planb::server
