// SPDX-License-Identifier: Apache-2.0

// Which clients can use a server with TLS, in real handshakes.

#include "server/security/tls.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/testing/await.h"
#include "base/testing/test_certificates.h"
#include "server/testing/running_server.h"

namespace planb::server {
namespace {

using ::testing::HasSubstr;

const TestCertificateOptions kExpired = {.begins = absl::Now() - absl::Hours(2),
                                         .ends = absl::Now() - absl::Hours(1)};

// The status of one call on a new connection.
grpc::Status Call(
    const std::string& target,
    const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const auto channel =
      grpc::CreateCustomChannel(target, credentials, arguments);
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kPatience));
  v1::Table table;
  return v1::RouteTable::NewStub(channel)->GetTable(&context, {}, &table);
}

class TlsTest : public testing::Test {
 protected:
  TlsTest() {
    files_.SetIdentity(authority_.Issue());
    files_.SetAuthority(clients_.certificate());
  }

  void Start(const TlsOptions& options) {
    server_ = std::make_unique<RunningServer>(ServerOptions{.tls = options});
  }
  TlsOptions OneSided() const {
    return {.cert = files_.cert(), .key = files_.key()};
  }
  TlsOptions Mutual() const {
    TlsOptions options = OneSided();
    options.client_ca = files_.ca();
    return options;
  }

  std::string Target() const {
    return absl::StrCat("127.0.0.1:", server_->server().port(0));
  }
  grpc::Status CallAs(const TestIdentity& identity) {
    return Call(Target(), grpc::SslCredentials(
                              {.pem_root_certs = authority_.certificate(),
                               .pem_private_key = identity.key,
                               .pem_cert_chain = identity.certificate}));
  }
  // The server refuses the connection, so the call has no answer.
  void ExpectRefused(const TestIdentity& identity) {
    EXPECT_EQ(CallAs(identity).error_code(), grpc::StatusCode::UNAVAILABLE);
  }
  static std::string StartError(const TlsOptions& options) {
    const auto server =
        Server::Start({.listen = {"127.0.0.1:0"}, .tls = options});
    EXPECT_TRUE(absl::IsInvalidArgument(server.status())) << server.status();
    return std::string(server.status().message());
  }

  TestAuthority authority_;
  TestAuthority clients_;
  TestTlsFiles files_;
  std::unique_ptr<RunningServer> server_;
};

TEST_F(TlsTest, EncryptsTcp) {
  Start(OneSided());
  const grpc::Status status = CallAs({});
  EXPECT_TRUE(status.ok()) << status.error_message();
  // A plaintext client gets no answer.
  EXPECT_EQ(Call(Target(), grpc::InsecureChannelCredentials()).error_code(),
            grpc::StatusCode::UNAVAILABLE);
}

TEST_F(TlsTest, CarriesStreamsOfLookups) {
  Start(OneSided());
  const auto stub = v1::RouteLookup::NewStub(grpc::CreateChannel(
      Target(),
      grpc::SslCredentials({.pem_root_certs = authority_.certificate()})));
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kPatience));
  const auto stream = stub->BatchLookup(&context);
  v1::BatchLookupRequest request;
  request.set_request_id(7);
  request.set_addresses_v6(std::string(size_t{16} * 10'000, '\x20'));
  v1::BatchLookupResponse response;
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(stream->Write(request));
    ASSERT_TRUE(stream->Read(&response));
    EXPECT_EQ(response.request_id(), 7u);
    EXPECT_EQ(response.next_hops().size(), size_t{4} * 10'000);
  }
}

TEST_F(TlsTest, UnixSocketsStayPlaintext) {
  Start(Mutual());
  const grpc::Status status = Call(absl::StrCat("unix://", server_->socket()),
                                   grpc::InsecureChannelCredentials());
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST_F(TlsTest, ServesOnlyClientsOfItsAuthority) {
  Start(Mutual());
  const grpc::Status status = CallAs(clients_.Issue());
  EXPECT_TRUE(status.ok()) << status.error_message();
  ExpectRefused({});
  ExpectRefused(clients_.Issue(kExpired));
  ExpectRefused(authority_.Issue());
  // An authority with the same name and another key.
  TestAuthority impostor;
  ExpectRefused(impostor.Issue());
  // Refusals do not affect valid clients.
  EXPECT_TRUE(CallAs(clients_.Issue()).ok());
}

TEST_F(TlsTest, DoesNotStartWithInvalidFiles) {
  const TestIdentity expired = authority_.Issue(kExpired);
  files_.SetIdentity(expired);
  EXPECT_THAT(StartError(OneSided()),
              HasSubstr(absl::StrCat("--tls_cert ", files_.cert(),
                                     ": certificate 1 expired at ")));
  files_.SetIdentity({expired.certificate, authority_.Issue().key});
  EXPECT_EQ(StartError(OneSided()),
            absl::StrCat("--tls_key ", files_.key(),
                         ": is not the key of the certificate in --tls_cert ",
                         files_.cert()));
  files_.SetIdentity(authority_.Issue());
  TestAuthority gone(kExpired);
  files_.SetAuthority(gone.certificate());
  EXPECT_THAT(StartError(Mutual()),
              HasSubstr(absl::StrCat("--tls_client_ca ", files_.ca(),
                                     ": certificate 1 expired at ")));
  EXPECT_EQ(StartError({.cert = files_.cert(), .key = "/nonexistent"}),
            "--tls_key /nonexistent: No such file or directory");
  EXPECT_THAT(StartError({.key = files_.key()}), HasSubstr("both"));
}

TEST(TlsOptions, RefusesInvalidOnes) {
  for (const auto& [options, says] :
       {std::pair<TlsOptions, const char*>{{.cert = "c"}, "both"},
        {{.key = "k"}, "both"},
        {{.client_ca = "a"}, "--tls_client_ca needs"},
        {{.cert = "c", .key = "k", .reload_interval = absl::ZeroDuration()},
         "--tls_reload_interval"}}) {
    const absl::Status status = CheckTlsOptions(options);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << says;
    EXPECT_THAT(status.message(), HasSubstr(says));
  }
  EXPECT_TRUE(CheckTlsOptions({}).ok());
  EXPECT_TRUE(
      CheckTlsOptions({.cert = "c", .key = "k", .client_ca = "a"}).ok());
}

}  // namespace
}  // namespace planb::server
