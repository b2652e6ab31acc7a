// SPDX-License-Identifier: Apache-2.0

#include "benchmarks/serving/rpc/bare_server.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/batch_lookup.h"
#include "client/channel.h"
#include "client/load/trace.h"
#include "lpm/synthetic/reference_table.h"
#include "lpm/synthetic/synthetic.h"

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
  const std::vector<Route> routes = SyntheticTable({.ipv6_routes = 3000});
  const auto fib = Fib::Build(Family::kIpv6, routes).value();
  Start(*fib);
  // Large enough to come in several pieces, and to be cut within addresses.
  const size_t batch = 20011;
  const client::Trace trace = *client::MakeTrace(
      TraceKind::kMatch, Family::kIpv6, routes, 20 * batch, 1, batch);
  const std::vector<NextHopId> expected = trace.Expect(ReferenceTable(routes));
  BatchLookup stream(channel_, {.max_in_flight = 10});
  size_t sent = 0, received = 0;
  while (received < 20) {
    if (sent < 20 && stream.in_flight() < 10) {
      ASSERT_TRUE(stream.Send(trace.Get(sent++)).ok());
      continue;
    }
    BatchResult result;
    ASSERT_TRUE(stream.Receive(result).ok());
    EXPECT_EQ(absl::MakeConstSpan(result.next_hops),
              trace.Slice(expected, received++));
  }
  EXPECT_EQ(stream.in_flight(), 0u);
}

TEST_F(BareServerTest, AClientThatReadsLateGetsEverything) {
  const std::vector<Route> routes = SyntheticTable({.ipv6_routes = 100});
  const auto fib = Fib::Build(Family::kIpv6, routes).value();
  Start(*fib);
  const std::string addresses(16 * 1000, '\x20');
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
  const auto fib = Fib::Build(Family::kIpv6, {}).value();
  Start(*fib);
  BatchLookup stream(channel_, {});
  ASSERT_TRUE(stream.Send({.addresses_v4 = "1234"}).ok());
  BatchResult result;
  EXPECT_EQ(stream.Receive(result).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(BareServer, SaysThatItCannotListen) {
  const auto fib = Fib::Build(Family::kIpv6, {}).value();
  EXPECT_EQ(BareServer::Start({"unix:///no/such/folder"}, *fib).status().code(),
            absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace planb::rpc
