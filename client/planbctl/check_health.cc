// One unary call.

#include "client/planbctl/check_health.h"

#include "client/call.h"
#include "client/status.h"
#include "grpc/health/v1/health.grpc.pb.h"

namespace planb::client {

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
