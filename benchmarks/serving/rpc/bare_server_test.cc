// SPDX-License-Identifier: Apache-2.0

#include "benchmarks/serving/rpc/bare_server.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "benchmarks/serving/rpc/workload.h"
#include "client/batch_lookup.h"
#include "client/channel.h"

namespace planb::rpc {
namespace {

using client::BatchLookup;
using client::BatchResult;

class BareServerTest : public ::testing::Test {
 protected:
  void Start(const Fib& fib) {
    auto server = BareServer::Start({"127.0.0.1:0"}, fib);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ = *client::MakeChannel(
        absl::StrCat("127.0.0.1:", server_->port(0)), {.own_connection = true});
  }

  std::unique_ptr<BareServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(BareServerTest, AnswersBatchesAsTheReferenceDoes) {
  const std::vector<Route> routes = *LoadRoutes("", 3000);
  const auto fib = Fib::Build(Family::kIpv6, routes).value();
  Start(*fib);
  // Large enough to come in several pieces, and to be cut within addresses.
  const size_t batch = 20011;
  const std::string trace = PackedTrace(routes, AddressForm::kFull, 20 * batch);
  const std::vector<NextHopId> expected =
      ExpectedAnswers(routes, AddressForm::kFull, trace);
  BatchLookup stream(channel_, {.max_in_flight = 10});
  size_t sent = 0, received = 0;
  while (received < 20) {
    if (sent < 20 && stream.in_flight() < 10) {
      ASSERT_TRUE(stream
                      .Send({.addresses_v6 = absl::string_view(trace).substr(
                                 16 * batch * sent, 16 * batch)})
                      .ok());
      ++sent;
      continue;
    }
    BatchResult result;
    ASSERT_TRUE(stream.Receive(result).ok());
    ASSERT_EQ(result.next_hops.size(), batch);
    EXPECT_TRUE(std::equal(
        result.next_hops.begin(), result.next_hops.end(),
        expected.begin() + static_cast<ptrdiff_t>(batch * received)));
    ++received;
  }
  EXPECT_EQ(stream.in_flight(), 0u);
}

TEST_F(BareServerTest, AClientThatReadsLateGetsEverything) {
  const std::vector<Route> routes = *LoadRoutes("", 100);
  const auto fib = Fib::Build(Family::kIpv6, routes).value();
  Start(*fib);
  const std::string addresses = PackedTrace(routes, AddressForm::kFull, 1000);
  BatchLookup stream(channel_, {.max_in_flight = 500});
  for (int i = 0; i < 500; ++i) {
    ASSERT_TRUE(stream.Send({.addresses_v6 = addresses}).ok());
  }
  BatchResult result;
  for (int i = 0; i < 500; ++i) {
    ASSERT_TRUE(stream.Receive(result).ok());
    ASSERT_EQ(result.next_hops.size(), 1000u);
  }
  EXPECT_EQ(stream.in_flight(), 0u);
}

TEST_F(BareServerTest, RefusesWhatItCannotAnswer) {
  const auto fib = Fib::Build(Family::kIpv6, *LoadRoutes("", 100)).value();
  Start(*fib);
  BatchLookup stream(channel_, {});
  ASSERT_TRUE(stream.Send({.addresses_v4 = "1234"}).ok());
  BatchResult result;
  EXPECT_EQ(stream.Receive(result).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(BareServer, SaysThatItCannotListen) {
  const auto fib = Fib::Build(Family::kIpv6, *LoadRoutes("", 100)).value();
  EXPECT_EQ(BareServer::Start({"unix:///no/such/folder"}, *fib).status().code(),
            absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace planb::rpc
