// SPDX-License-Identifier: Apache-2.0

#include "server/health_listener.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/server_builder_option.h>
#include <grpcpp/resource_quota.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/grpc_time.h"

namespace planb::server {
namespace {

// For calls that are being answered when it ends.
constexpr absl::Duration kLastCalls = absl::Milliseconds(500);
// A request for health has a service's name, and no more.
constexpr int kMaxMessageBytes = 4096;
constexpr size_t kMemoryQuotaBytes = size_t{16} << 20;
// Those who watch, those who ask, and those who wait for either.
constexpr int kMaxThreads = HealthService::kMaxWatchers + 16;
constexpr int kMaxConnectionStreams = HealthService::kMaxWatchers;
constexpr int kMaxConnections = 256;
constexpr int kKeepaliveMs = 60'000;
constexpr int kKeepaliveTimeoutMs = 20'000;
constexpr int kMaxIdleMs = 300'000;

// Without the services that a gRPC library adds to every server, such as
// reflection, which registers itself when the process starts.
class NothingElse final : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments*) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>*
                         plugins) override {
    plugins->clear();
  }
};

void Bound(grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  grpc::ResourceQuota quota("planb_health");
  quota.Resize(kMemoryQuotaBytes);
  quota.SetMaxThreads(kMaxThreads);
  builder.SetResourceQuota(quota);
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             kMaxConnectionStreams);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                             kKeepaliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kMaxIdleMs);
}

}  // namespace

absl::StatusOr<std::unique_ptr<HealthListener>> HealthListener::Start(
    const std::string& address, const HealthState& state) {
  if (IsUnixAddress(address)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", address, "\" is no address for health; expected HOST:PORT"));
  }
  std::unique_ptr<HealthListener> listener(new HealthListener(state));
  grpc::ServerBuilder builder;
  builder.SetOption(std::make_unique<NothingElse>());
  const absl::StatusOr<int> port = listener->acceptor_.Listen(
      address, {}, grpc::InsecureServerCredentials(), builder);
  if (!port.ok()) return port.status();
  listener->port_ = *port;
  Bound(builder);
  builder.RegisterService(&listener->service_);
  listener->server_ = builder.BuildAndStart();
  if (listener->server_ == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("cannot serve health on ", address));
  }
  listener->acceptor_.Start();
  return listener;
}

HealthListener::HealthListener(const HealthState& state)
    : service_(state),
      acceptor_({.limits = {.max_connections = kMaxConnections}}) {}

HealthListener::~HealthListener() {
  acceptor_.Stop();
  if (server_ == nullptr) return;
  server_->Shutdown(GrpcAfter(kLastCalls));
  server_->Wait();
}

}  // namespace planb::server
