// SPDX-License-Identifier: Apache-2.0

// grpc.health.v1.Health, the standard health service, by gRPC's synchronous
// interface. gRPC's own implementation uses the callback interface. With one
// such method in a server, threads of gRPC's pool poll all connections and take
// them from the lookup threads, which costs a quarter of the throughput.

#ifndef PLANB_SERVER_OBSERVE_HEALTH_SERVICE_H_
#define PLANB_SERVER_OBSERVE_HEALTH_SERVICE_H_

#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/sync_stream.h>

#include <atomic>
#include <cstddef>
#include <string>

#include "grpc/health/v1/health.pb.h"
#include "server/observe/health_state.h"

namespace planb::server {

// Thread-safe. Knows these names:
//   "", planb.v1.RouteLookup, planb.v1.RouteTable   SERVING if ready
//   startup    SERVING while the process is up, also while it loads tables or
//              drains: for probes that must not wait for routes
//
// Requests are bytes, so that a long one is refused before it is parsed.
class HealthService final : public grpc::Service {
 public:
  // The Watch calls open at once. Each takes a thread.
  static constexpr int kMaxWatchers = 32;
  static constexpr char kStartup[] = "startup";

  // `state` outlives the service.
  explicit HealthService(const HealthState& state);

 private:
  // Both: INVALID_ARGUMENT, RESOURCE_EXHAUSTED (the request is malformed or too
  // long).
  //
  // Errors: NOT_FOUND if there is no such service.
  grpc::Status Check(grpc::ServerContext* call, const grpc::ByteBuffer* request,
                     grpc::health::v1::HealthCheckResponse* response);
  // Sends a change of phase at once, other changes within half a second.
  // Errors: RESOURCE_EXHAUSTED (too many Watch calls); UNAVAILABLE at the end.
  grpc::Status Watch(
      grpc::ServerContext* call, const grpc::ByteBuffer* request,
      grpc::ServerWriter<grpc::health::v1::HealthCheckResponse>* out);

  using ServingStatus = grpc::health::v1::HealthCheckResponse::ServingStatus;

  ServingStatus StatusOf(const std::string& service) const;

  const HealthState& state_;
  std::atomic<int> watchers_{0};
};

}  // namespace planb::server

#endif  // PLANB_SERVER_OBSERVE_HEALTH_SERVICE_H_
