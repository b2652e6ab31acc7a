// Asks a server how it is, by the standard gRPC health service.

#ifndef PLANB_CLIENT_PLANBCTL_CHECK_HEALTH_H_
#define PLANB_CLIENT_PLANBCTL_CHECK_HEALTH_H_

#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpc/health/v1/health.pb.h"

namespace planb::client {

// The status of `service`, or with "" of the whole server.
// Errors: NOT_FOUND if the server does not know the service; UNIMPLEMENTED if
// it has no health service; those of any call.
absl::StatusOr<grpc::health::v1::HealthCheckResponse::ServingStatus>
CheckHealth(const std::shared_ptr<grpc::Channel>& channel,
            const std::string& service, absl::Time deadline);

}  // namespace planb::client

#endif  // PLANB_CLIENT_PLANBCTL_CHECK_HEALTH_H_
