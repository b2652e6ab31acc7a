// SPDX-License-Identifier: Apache-2.0

#include "benchmarks/serving/rpc/exchange.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lpm/synthetic/reference_table.h"
#include "lpm/synthetic/synthetic.h"

namespace planb::rpc {
namespace {

// A server in a thread of its own, which ends with its one client.
class Serving {
 public:
  Serving(bool tcp, Answerer answerer, Waiting waiting) {
    const std::string path =
        absl::StrCat("unix:///tmp/planb_exchange_test.", getpid());
    auto listener = ListenOn(tcp ? "127.0.0.1:0" : path);
    EXPECT_TRUE(listener.ok()) << listener.status();
    address_ = tcp ? absl::StrCat("127.0.0.1:", LocalPort(*listener)) : path;
    thread_ = std::thread([this, answerer = std::move(answerer), waiting,
                           listener = *std::move(listener)] {
      const auto socket = Accept(listener);
      status_ = socket.ok() ? ServeExchange(*socket, answerer, waiting)
                            : socket.status();
    });
  }
  ~Serving() { static_cast<void>(Join()); }

  absl::StatusOr<Socket> Connect() { return ConnectTo(address_); }

  // How serving ended. The client must be gone.
  absl::Status Join() {
    if (thread_.joinable()) thread_.join();
    return status_;
  }

 private:
  std::string address_;
  absl::Status status_;
  std::thread thread_;
};

class ExchangeTest : public ::testing::TestWithParam<
                         std::tuple<bool, client::AddressForm, Waiting>> {
 protected:
  bool tcp() const { return std::get<0>(GetParam()); }
  client::AddressForm form() const { return std::get<1>(GetParam()); }
  Waiting waiting() const { return std::get<2>(GetParam()); }
};

TEST_P(ExchangeTest, AnswersAreTheReferencesAndAreTimed) {
  const std::vector<Route> routes = SyntheticTable({.ipv6_routes = 3000});
  const auto fib = Fib::Build(Family::kIpv6, routes).value();
  // Polling threads hold each other up where cores are few: once will do.
  const std::vector<size_t> batches = waiting() == Waiting::kSpin
                                          ? std::vector<size_t>{1000}
                                          : std::vector<size_t>{1, 7, 70000};
  for (const size_t batch : batches) {
    const client::Trace trace = *client::MakeTrace(
        TraceKind::kMatch, Family::kIpv6, routes,
        std::min<size_t>(100 * batch, 80000), 1, batch, form());
    Serving server(tcp(), AnswersOf(*fib), waiting());
    {
      auto socket = server.Connect();
      ASSERT_TRUE(socket.ok()) << socket.status();
      auto client = ExchangeClient::Start(*std::move(socket), trace, waiting());
      ASSERT_TRUE(client.ok()) << client.status();
      EXPECT_EQ(client->Check(trace.Expect(ReferenceTable(routes))),
                absl::OkStatus());
      // Deep enough that replies fill the sockets while requests do.
      for (const size_t depth : {1, 3, 16}) {
        const auto result = client->Run(depth, absl::Milliseconds(10));
        ASSERT_TRUE(result.ok()) << result.status();
        EXPECT_GE(result->batches, 1u);
        EXPECT_EQ(result->latency.count(), result->batches);
        EXPECT_GE(result->elapsed, absl::Milliseconds(10));
      }
    }
    EXPECT_EQ(server.Join(), absl::OkStatus());
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, ExchangeTest,
    ::testing::Combine(::testing::Bool(),
                       ::testing::Values(client::AddressForm::kFull,
                                         client::AddressForm::kUpper),
                       ::testing::Values(Waiting::kBlock, Waiting::kSpin)));

TEST(Exchange, AWrongAnswerIsNoticed) {
  const std::vector<Route> routes = SyntheticTable({.ipv6_routes = 1000});
  const client::Trace trace = *client::MakeTrace(
      TraceKind::kMatch, Family::kIpv6, routes, 100, 1, /*batch=*/10);
  const auto fib = Fib::Build(Family::kIpv6, routes).value();
  Serving server(
      false,
      [&](size_t width, const char* addresses, size_t count, char* next_hops) {
        AnswersOf (*fib)(width, addresses, count, next_hops);
        next_hops[count * 4 - 1] = '\x7f';
      },
      Waiting::kBlock);
  auto client =
      ExchangeClient::Start(*server.Connect(), trace, Waiting::kBlock);
  ASSERT_TRUE(client.ok());
  const absl::Status status =
      client->Check(trace.Expect(ReferenceTable(routes)));
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("address 9 "), absl::string_view::npos)
      << status;
}

TEST(Exchange, AHelloWithoutSenseIsRefused) {
  Serving server(
      false, [](size_t, const char*, size_t, char*) {}, Waiting::kBlock);
  {
    const auto socket = server.Connect();
    ASSERT_TRUE(socket.ok());
    const uint32_t hello[] = {10, 12};
    ASSERT_EQ(write(socket->fd(), hello, sizeof(hello)),
              static_cast<ssize_t>(sizeof(hello)));
  }
  EXPECT_EQ(server.Join().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Sockets, AddressesWithoutSenseAreRefused) {
  for (const char* address :
       {"", "unix:", "localhost:80", "127.0.0.1", "127.0.0.1:65536"}) {
    EXPECT_EQ(ConnectTo(address).status().code(),
              absl::StatusCode::kInvalidArgument)
        << address;
  }
}

}  // namespace
}  // namespace planb::rpc
