// grpc.health.v1.Health, the standard health service, by gRPC's synchronous
// interface. gRPC's own implementation uses the callback interface, and with
// one such method in a server, threads of gRPC's pool poll all connections and
// take them from the lookup threads: a quarter of the throughput was lost so.

#ifndef PLANB_SERVER_HEALTH_SERVICE_H_
#define PLANB_SERVER_HEALTH_SERVICE_H_

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "grpc/health/v1/health.grpc.pb.h"

namespace planb::server {

// Thread-safe. All services it knows serve, or none does.
class HealthService final : public grpc::health::v1::Health::Service {
 public:
  // Watch takes a thread for each that watches; so many may.
  static constexpr size_t kMaxWatchers = 32;

  // Knows `services`, and "" for the server as a whole. Not serving at first.
  explicit HealthService(std::vector<std::string> services);

  void SetServing(bool serving);

  // Says NOT_SERVING once more and ends all watches.
  void Shutdown();

  // Errors: NOT_FOUND if there is no such service.
  grpc::Status Check(grpc::ServerContext* call,
                     const grpc::health::v1::HealthCheckRequest* request,
                     grpc::health::v1::HealthCheckResponse* response) override;

  // Errors: RESOURCE_EXHAUSTED if too many watch; UNAVAILABLE at the end.
  grpc::Status Watch(
      grpc::ServerContext* call,
      const grpc::health::v1::HealthCheckRequest* request,
      grpc::ServerWriter<grpc::health::v1::HealthCheckResponse>* out) override;

 private:
  using ServingStatus = grpc::health::v1::HealthCheckResponse::ServingStatus;

  bool Knows(const std::string& service) const;
  ServingStatus StatusOf(const std::string& service) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::vector<std::string> services_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool serving_ ABSL_GUARDED_BY(mutex_) = false;
  bool shut_down_ ABSL_GUARDED_BY(mutex_) = false;
  size_t watchers_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_HEALTH_SERVICE_H_
