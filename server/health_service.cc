#include "server/health_service.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

namespace planb::server {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

// How often a watch looks whether its client is still there.
constexpr auto kLook = std::chrono::milliseconds(500);

}  // namespace

HealthService::HealthService(std::vector<std::string> services)
    : services_(std::move(services)) {}

void HealthService::SetServing(bool serving) {
  const std::lock_guard lock(mutex_);
  serving_ = serving;
  changed_.notify_all();
}

void HealthService::Shutdown() {
  const std::lock_guard lock(mutex_);
  serving_ = false;
  shut_down_ = true;
  changed_.notify_all();
}

bool HealthService::Knows(const std::string& service) const {
  return service.empty() || std::find(services_.begin(), services_.end(),
                                      service) != services_.end();
}

HealthService::ServingStatus HealthService::StatusOf(
    const std::string& service) const {
  if (!Knows(service)) return HealthCheckResponse::SERVICE_UNKNOWN;
  return serving_ ? HealthCheckResponse::SERVING
                  : HealthCheckResponse::NOT_SERVING;
}

grpc::Status HealthService::Check(grpc::ServerContext*,
                                  const HealthCheckRequest* request,
                                  HealthCheckResponse* response) {
  if (!Knows(request->service())) {
    return grpc::Status(grpc::StatusCode::NOT_FOUND, "no such service");
  }
  const std::lock_guard lock(mutex_);
  response->set_status(StatusOf(request->service()));
  return grpc::Status::OK;
}

grpc::Status HealthService::Watch(
    grpc::ServerContext* call, const HealthCheckRequest* request,
    grpc::ServerWriter<HealthCheckResponse>* out) {
  std::unique_lock lock(mutex_);
  if (watchers_ >= kMaxWatchers) {
    return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED,
                        "too many watch the health already");
  }
  ++watchers_;
  std::optional<ServingStatus> told;
  bool here = true;
  while (here) {
    const ServingStatus status = StatusOf(request->service());
    const bool last = shut_down_;
    if (status != told) {
      lock.unlock();
      HealthCheckResponse response;
      response.set_status(status);
      here = out->Write(response);
      lock.lock();
      told = status;
    } else if (last) {
      break;
    } else {
      changed_.wait_for(lock, kLook);
      here = !call->IsCancelled();
    }
  }
  --watchers_;
  return here ? grpc::Status(grpc::StatusCode::UNAVAILABLE,
                             "the server is going down")
              : grpc::Status::CANCELLED;
}

}  // namespace planb::server
