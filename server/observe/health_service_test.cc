// SPDX-License-Identifier: Apache-2.0

#include "server/observe/health_service.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "grpc/health/v1/health.grpc.pb.h"
#include "server/testing/running_server.h"

namespace planb::server {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

HealthCheckRequest For(const std::string& service) {
  HealthCheckRequest request;
  request.set_service(service);
  return request;
}

TEST(Health, CheckKnowsTheServices) {
  RunningServer running;
  const auto stub = Health::NewStub(running.unix_socket());
  for (const char* service :
       {"", "planb.v1.RouteLookup", "planb.v1.RouteTable"}) {
    grpc::ClientContext context;
    HealthCheckResponse response;
    EXPECT_TRUE(stub->Check(&context, For(service), &response).ok());
    EXPECT_EQ(response.status(), HealthCheckResponse::SERVING) << service;
  }
  grpc::ClientContext context;
  HealthCheckResponse response;
  EXPECT_EQ(stub->Check(&context, For("other"), &response).error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST(Health, WatchersGetTheEnd) {
  RunningServer running;
  const auto stub = Health::NewStub(running.unix_socket());
  grpc::ClientContext known_context, unknown_context;
  const auto known = stub->Watch(&known_context, For(""));
  const auto unknown = stub->Watch(&unknown_context, For("other"));
  HealthCheckResponse response;
  ASSERT_TRUE(known->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  ASSERT_TRUE(unknown->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVICE_UNKNOWN);
  std::thread drain([&] { running.server().Drain(absl::Seconds(5)); });
  ASSERT_TRUE(known->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  EXPECT_FALSE(known->Read(&response));
  EXPECT_EQ(known->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_FALSE(unknown->Read(&response));
  EXPECT_EQ(unknown->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  drain.join();
}

TEST(Health, WatchersAreBounded) {
  RunningServer running;
  const auto stub = Health::NewStub(running.unix_socket());
  struct Watcher {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<HealthCheckResponse>> reader;
  };
  const auto watch = [&] {
    auto watcher = std::make_unique<Watcher>();
    watcher->reader = stub->Watch(&watcher->context, For(""));
    HealthCheckResponse response;
    if (!watcher->reader->Read(&response)) {
      EXPECT_EQ(watcher->reader->Finish().error_code(),
                grpc::StatusCode::RESOURCE_EXHAUSTED);
      watcher.reset();
    }
    return watcher;
  };
  std::vector<std::unique_ptr<Watcher>> watchers;
  for (size_t i = 0; i < size_t{HealthService::kMaxWatchers}; ++i) {
    watchers.push_back(watch());
    ASSERT_NE(watchers.back(), nullptr) << i;
  }
  EXPECT_EQ(watch(), nullptr);
  watchers.front()->context.TryCancel();
  std::unique_ptr<Watcher> next;
  while (next == nullptr) next = watch();
  for (const auto& watcher : watchers) watcher->context.TryCancel();
  next->context.TryCancel();
}

}  // namespace
}  // namespace planb::server
