// SPDX-License-Identifier: Apache-2.0

// Certificates and authorities change while a server runs.

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/testing/await.h"
#include "base/testing/test_certificates.h"
#include "server/security/tls.h"
#include "server/testing/running_server.h"
#include "server/testing/tls_probe.h"

namespace planb::server {
namespace {

// A server with mutual TLS and quick reloading.
class TlsRotationTest : public testing::Test {
 protected:
  TlsRotationTest() {
    files_.SetIdentity(authority_.Issue({.common_name = "first"}));
    files_.SetAuthority(clients_.certificate());
  }

  TlsOptions Options() const {
    return {.cert = files_.cert(),
            .key = files_.key(),
            .client_ca = files_.ca(),
            .reload_interval = absl::Milliseconds(20)};
  }

  TestAuthority authority_;
  TestAuthority clients_;
  const TestIdentity client_ = clients_.Issue();
  TestTlsFiles files_;
};

// A BatchLookup stream that stays open.
class OpenStream {
 public:
  OpenStream(int port, const std::string& ca, const TestIdentity& identity)
      : stub_(v1::RouteLookup::NewStub(grpc::CreateChannel(
            absl::StrCat("127.0.0.1:", port),
            grpc::SslCredentials({.pem_root_certs = ca,
                                  .pem_private_key = identity.key,
                                  .pem_cert_chain = identity.certificate})))),
        stream_(stub_->BatchLookup(&context_)) {}
  ~OpenStream() { context_.TryCancel(); }

  bool Answers() {
    v1::BatchLookupResponse response;
    return stream_->Write({}) && stream_->Read(&response);
  }

 private:
  std::unique_ptr<v1::RouteLookup::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<
      grpc::ClientReaderWriter<v1::BatchLookupRequest, v1::BatchLookupResponse>>
      stream_;
};

TEST_F(TlsRotationTest, NewCertificateDropsNoConnection) {
  RunningServer server({.tls = Options()});
  const int port = server.server().port(0);
  const TlsProbeOptions probe = {.ca = authority_.certificate(),
                                 .identity = client_};
  OpenStream stream(port, authority_.certificate(), client_);
  ASSERT_TRUE(stream.Answers());
  EXPECT_EQ(ProbeTls(port, probe).common_name, "first");
  files_.SetIdentity(authority_.Issue({.common_name = "second"}));
  // New connections are served meanwhile, with either certificate.
  EXPECT_TRUE(Await([&] {
    const TlsProbe seen = ProbeTls(port, probe);
    EXPECT_TRUE(seen.taken) << seen.error;
    EXPECT_TRUE(stream.Answers());
    return seen.common_name == "second";
  }));
  EXPECT_TRUE(stream.Answers());
}

TEST_F(TlsRotationTest, RefusesClientsOfRemovedAuthority) {
  RunningServer server({.tls = Options()});
  const int port = server.server().port(0);
  TestAuthority successors;
  const TestIdentity successor = successors.Issue();
  const auto taken = [&](const TestIdentity& identity) {
    return ProbeTls(port, {.identity = identity}).taken;
  };
  OpenStream stream(port, authority_.certificate(), client_);
  ASSERT_TRUE(stream.Answers());
  EXPECT_TRUE(taken(client_));
  EXPECT_FALSE(taken(successor));
  // First both authorities, as in a rotation without an outage...
  files_.SetAuthority(clients_.certificate() + successors.certificate());
  EXPECT_TRUE(Await([&] { return taken(successor); }));
  EXPECT_TRUE(taken(client_));
  // ...then only the new one.
  files_.SetAuthority(successors.certificate());
  EXPECT_TRUE(Await([&] { return !taken(client_); }));
  for (int i = 0; i < 10; ++i) {
    EXPECT_FALSE(taken(client_));
    EXPECT_TRUE(taken(successor));
  }
  // Open connections stay: see --max_connection_age.
  EXPECT_TRUE(stream.Answers());
}

TEST_F(TlsRotationTest, MaxConnectionAgeEndsRevokedConnections) {
  RunningServer server({.tls = Options(),
                        .transport = {.max_connection_age = absl::Seconds(1)}});
  const int port = server.server().port(0);
  const auto table = v1::RouteTable::NewStub(grpc::CreateChannel(
      absl::StrCat("127.0.0.1:", port),
      grpc::SslCredentials({.pem_root_certs = authority_.certificate(),
                            .pem_private_key = client_.key,
                            .pem_cert_chain = client_.certificate})));
  const auto served = [&] {
    grpc::ClientContext context;
    v1::Table response;
    return table->GetTable(&context, {}, &response).ok();
  };
  ASSERT_TRUE(served());
  files_.SetAuthority(TestAuthority().certificate());
  ASSERT_TRUE(
      Await([&] { return !ProbeTls(port, {.identity = client_}).taken; }));
  EXPECT_TRUE(Await([&] { return !served(); }));
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(served());
}

// Takes 3 s: gRPC reads its files once a second.
TEST_F(TlsRotationTest, DoesNotResumeSessionsAfterRevocation) {
  RunningServer server({.tls = Options()});
  const int port = server.server().port(0);
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    files_.SetAuthority(clients_.certificate());
    TlsProbeOptions options = {.identity = client_, .max_version = version};
    ASSERT_TRUE(Await([&] { return ProbeTls(port, options).taken; }));
    const TlsProbe before = ProbeTls(port, options);
    ASSERT_TRUE(before.taken) << before.error;
    options.session = before.session.get();
    EXPECT_TRUE(ProbeTls(port, options).resumed) << before.version;
    TestAuthority successors;
    files_.SetAuthority(successors.certificate());
    EXPECT_TRUE(Await([&] {
      return ProbeTls(port, {.identity = successors.Issue()}).taken;
    }));
    const TlsProbe after = ProbeTls(port, options);
    EXPECT_FALSE(after.taken) << before.version;
    EXPECT_FALSE(after.resumed) << before.version;
  }
}

TEST_F(TlsRotationTest, KeepsServingAfterBadReplacement) {
  auto tls = ServerTls::Start(Options());
  ASSERT_TRUE(tls.ok()) << tls.status();
  const TlsReloader& reloader = (*tls)->reloader();
  grpc::CallbackGenericService nothing;
  int port = 0;
  const std::unique_ptr<grpc::Server> server =
      grpc::ServerBuilder()
          .AddListeningPort("127.0.0.1:0", (*tls)->credentials(), &port)
          .RegisterCallbackGenericService(&nothing)
          .BuildAndStart();
  ASSERT_NE(server, nullptr);
  const TlsProbeOptions probe = {.ca = authority_.certificate(),
                                 .identity = client_};
  const TestIdentity fresh = authority_.Issue({.common_name = "second"});
  for (const TestIdentity& bad :
       {TestIdentity{fresh.certificate, authority_.Issue().key},
        TestIdentity{fresh.certificate.substr(0, 200), fresh.key}}) {
    const uint64_t before = reloader.refused();
    files_.SetIdentity(bad);
    ASSERT_TRUE(Await([&] { return reloader.refused() > before; }));
    // gRPC reads its files once a second, so this shows it if the bad files
    // got through.
    const absl::Time end = absl::Now() + absl::Milliseconds(1500);
    while (absl::Now() < end) {
      const TlsProbe seen = ProbeTls(port, probe);
      EXPECT_TRUE(seen.taken) << seen.error;
      EXPECT_EQ(seen.common_name, "first");
      absl::SleepFor(absl::Milliseconds(100));
    }
    // Twice if the reloader saw one file replaced without the other.
    EXPECT_LE(reloader.refused(), before + 2);
  }
  files_.SetIdentity(fresh);
  EXPECT_TRUE(
      Await([&] { return ProbeTls(port, probe).common_name == "second"; }));
  EXPECT_EQ(reloader.loaded(), 1u);
  server->Shutdown();
}

}  // namespace
}  // namespace planb::server
