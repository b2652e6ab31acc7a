// The server's own words on its health, and errors where it has none.

#include "client/planbctl/check_health.h"

#include <gtest/gtest.h>

#include "absl/time/clock.h"
#include "client/testing/fake_server.h"

namespace planb::client {
namespace {

using grpc::health::v1::HealthCheckResponse;

TEST(CheckHealth, ServingAndNot) {
  testing::FakeServer server;
  const auto channel = server.Channel();
  const auto check = [&](const std::string& service) {
    return CheckHealth(channel, service, absl::Now() + absl::Seconds(10));
  };
  EXPECT_EQ(*check(""), HealthCheckResponse::SERVING);
  server.SetServing(false);
  EXPECT_EQ(*check(""), HealthCheckResponse::NOT_SERVING);
  EXPECT_TRUE(absl::IsNotFound(check("no.such.Service").status()));
  server.Die();
  EXPECT_TRUE(absl::IsUnavailable(check("").status()));
}

}  // namespace
}  // namespace planb::client
