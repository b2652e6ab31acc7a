// SPDX-License-Identifier: Apache-2.0

// Channels over TLS with files that change while they are in use.

#include "server/base/client_channel.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/testing/await.h"
#include "base/testing/test_certificates.h"
#include "planb/v1/route_table.grpc.pb.h"

namespace planb::server {
namespace {

// Before gRPC starts. Its other resolver leaks what it knows of localhost,
// which LeakSanitizer reports.
const bool kNative = setenv("GRPC_DNS_RESOLVER", "native", 1) == 0;

// A server without methods, for clients of `authority`. Not thread-safe.
class BareServer {
 public:
  // `port` 0 picks a free one.
  BareServer(TestAuthority& authority, const TestIdentity& identity,
             int port = 0) {
    grpc::SslServerCredentialsOptions options(
        GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
    options.pem_root_certs = authority.certificate();
    options.pem_key_cert_pairs.push_back({identity.key, identity.certificate});
    server_ = grpc::ServerBuilder()
                  .AddListeningPort(absl::StrCat("[::]:", port),
                                    grpc::SslServerCredentials(options), &port_)
                  .RegisterCallbackGenericService(&nothing_)
                  .BuildAndStart();
    EXPECT_NE(server_, nullptr);
  }
  ~BareServer() { server_->Shutdown(std::chrono::system_clock::now()); }

  int port() const { return port_; }

 private:
  grpc::CallbackGenericService nothing_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

// UNIMPLEMENTED from a server that takes the connection.
grpc::Status Call(const std::shared_ptr<grpc::Channel>& channel) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kPatience));
  v1::Table table;
  return v1::RouteTable::NewStub(channel)->GetTable(&context, {}, &table);
}

class ClientChannelTest : public testing::Test {
 protected:
  ClientChannelTest() {
    EXPECT_TRUE(kNative);
    Set(authority_);
  }

  void Set(TestAuthority& authority,
           const TestCertificateOptions& options = {}) {
    files_.SetAuthority(authority.certificate());
    files_.SetIdentity(authority.Issue(options));
  }

  std::unique_ptr<TlsProvider> Start() const {
    auto tls = StartClientTls({.kind = "etcd",
                               .cert = {"--etcd_cert", files_.cert()},
                               .key = {"--etcd_key", files_.key()},
                               .ca = {"--etcd_ca", files_.ca()},
                               .reload_interval = absl::Milliseconds(20)});
    EXPECT_TRUE(tls.ok()) << tls.status();
    return *std::move(tls);
  }

  static bool Taken(const TlsProvider& tls, const std::string& host, int port) {
    const auto channel = MakeChannel(absl::StrCat(host, ":", port), &tls);
    return Call(channel).error_code() == grpc::StatusCode::UNIMPLEMENTED;
  }

  TestAuthority authority_;
  TestTlsFiles files_;
};

TEST_F(ClientChannelTest, ConnectsToNamesAndAddressesOfTheCertificateAlone) {
  const auto tls = Start();
  const BareServer server(authority_, authority_.Issue());
  for (const char* host : {"localhost", "127.0.0.1", "[::1]"}) {
    EXPECT_TRUE(Taken(*tls, host, server.port())) << host;
  }
  const BareServer other(authority_,
                         authority_.Issue({.names = "DNS:other.example"}));
  for (const char* host : {"localhost", "127.0.0.1", "[::1]"}) {
    EXPECT_FALSE(Taken(*tls, host, other.port())) << host;
  }
}

TEST_F(ClientChannelTest, RefusesAServerOfAnotherAuthority) {
  const auto tls = Start();
  TestAuthority others;
  const BareServer server(authority_, others.Issue());
  EXPECT_FALSE(Taken(*tls, "localhost", server.port()));
}

TEST_F(ClientChannelTest, ConnectsAnewWithTheFilesOfThatTime) {
  const auto tls = Start();
  auto server = std::make_unique<BareServer>(authority_, authority_.Issue());
  const int port = server->port();
  const auto channel = MakeChannel(absl::StrCat("localhost:", port), tls.get());
  const auto taken = [&] {
    return Call(channel).error_code() == grpc::StatusCode::UNIMPLEMENTED;
  };
  EXPECT_TRUE(taken());
  // The key of another certificate changes nothing.
  files_.SetIdentity({authority_.Issue().certificate, authority_.Issue().key});
  EXPECT_TRUE(Await([&] { return tls->reloader().refused() > 0; }));
  EXPECT_TRUE(Taken(*tls, "127.0.0.1", port));

  TestAuthority next;
  Set(next);
  server.reset();
  server = std::make_unique<BareServer>(next, next.Issue(), port);
  EXPECT_TRUE(Await(taken));
}

TEST_F(ClientChannelTest, StartsWithAnExpiredCertificateAndTakesTheNextOne) {
  const TestCertificateOptions expired = {
      .begins = absl::Now() - absl::Hours(2),
      .ends = absl::Now() - absl::Hours(1)};
  Set(authority_, expired);
  const auto tls = Start();
  const BareServer server(authority_, authority_.Issue());
  EXPECT_FALSE(Taken(*tls, "localhost", server.port()));
  Set(authority_);
  EXPECT_TRUE(Await([&] { return Taken(*tls, "localhost", server.port()); }));
  // It does not go back to an expired one.
  Set(authority_, expired);
  EXPECT_TRUE(Await([&] { return tls->reloader().refused() > 0; }));
  EXPECT_TRUE(Taken(*tls, "127.0.0.1", server.port()));
}

TEST_F(ClientChannelTest, RefusesFilesThatNeverFit) {
  files_.SetIdentity({authority_.Issue().certificate, authority_.Issue().key});
  const auto start = [&](const std::string& ca) {
    return StartClientTls({.kind = "etcd",
                           .cert = {"--etcd_cert", files_.cert()},
                           .key = {"--etcd_key", files_.key()},
                           .ca = {"--etcd_ca", ca}})
        .status();
  };
  for (const auto& [ca, says] : {std::pair(files_.ca(), "--etcd_key"),
                                 {std::string("/nowhere"), "--etcd_ca"}}) {
    const absl::Status refused = start(ca);
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
    EXPECT_TRUE(absl::StrContains(refused.message(), says)) << refused;
  }
}

TEST(ClientChannel, IsInPlaintextWithoutAnAuthority) {
  const auto tls = StartClientTls({});
  ASSERT_TRUE(tls.ok()) << tls.status();
  EXPECT_EQ(*tls, nullptr);
}

}  // namespace
}  // namespace planb::server
