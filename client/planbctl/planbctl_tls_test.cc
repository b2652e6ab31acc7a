// SPDX-License-Identifier: Apache-2.0

// planbctl and the library against the real server, by TLS.

#include <gmock/gmock.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/testing/server_process.h"
#include "base/testing/test_certificates.h"
#include "client/batch_lookup.h"
#include "client/channel.h"
#include "client/testing/run_planbctl.h"

namespace planb::client {
namespace {

using testing::Ctl;
using testing::Ended;
using ::testing::HasSubstr;

class PlanbctlTls : public ::testing::Test {
 protected:
  PlanbctlTls() {
    ours_.SetAuthority(authority_.certificate());
    ours_.SetIdentity(authority_.Issue());
    theirs_.SetAuthority(authority_.certificate());
    theirs_.SetIdentity(authority_.Issue());
  }

  // Starts a server that shows `theirs_`, and asks for a certificate if
  // `mutual`.
  void Start(bool mutual) {
    server_ = std::make_unique<ServerProcess>(std::vector<std::string>{
        "--listen=127.0.0.1:0", "--metrics_address=", "--store=none",
        "--generate=100", absl::StrCat("--tls_cert=", theirs_.cert()),
        absl::StrCat("--tls_key=", theirs_.key()),
        absl::StrCat("--tls_client_ca=", mutual ? theirs_.ca() : "")});
    ASSERT_TRUE(server_->AwaitServing()) << server_->Log();
    target_ = absl::StrCat("127.0.0.1:", server_->PortOf("127.0.0.1:0"));
  }

  Ended With(const std::string& flags, const std::string& command = "status") {
    return Ctl(absl::StrCat("--timeout=1m --server=", target_, " ", flags, " ",
                            command));
  }
  std::string Ca() const { return absl::StrCat(" --tls_ca=", ours_.ca()); }
  std::string Identity() const {
    return absl::StrCat(" --tls_cert=", ours_.cert(),
                        " --tls_key=", ours_.key());
  }
  static void ExpectUnreachable(const Ended& ended, const std::string& why) {
    EXPECT_EQ(ended.code, 4) << ended.err;
    EXPECT_THAT(ended.err, HasSubstr(why));
  }

  TestAuthority authority_;
  TestTlsFiles ours_;
  TestTlsFiles theirs_;
  std::unique_ptr<ServerProcess> server_;
  std::string target_;
};

TEST_F(PlanbctlTls, TalksToAServerItTrusts) {
  Start(/*mutual=*/false);
  const Ended status = With(Ca());
  EXPECT_EQ(status.code, 0) << status.err;
  // The commands that open channels of their own, too.
  const Ended announced = With(Ca(), "announce 2001:db8::/32 7");
  EXPECT_EQ(announced.code, 0) << announced.err;
  const Ended lookup = With(Ca(), "lookup 2001:db8::1");
  EXPECT_EQ(lookup.code, 0) << lookup.err;
  EXPECT_THAT(lookup.out, HasSubstr("7"));
  // Nor does it talk to this one in plaintext.
  EXPECT_EQ(With("").code, 4);
}

TEST_F(PlanbctlTls, RefusesAServerOfAnotherAuthority) {
  Start(/*mutual=*/false);
  ours_.SetAuthority(TestAuthority().certificate());
  ExpectUnreachable(With(Ca()), "certificate verify failed");
  // Nor is this one among those that the host trusts.
  ExpectUnreachable(With("--tls_server_name=localhost"),
                    "certificate verify failed");
}

TEST_F(PlanbctlTls, RefusesAServerOfAnotherName) {
  theirs_.SetIdentity(authority_.Issue({.names = "DNS:planb.example"}));
  Start(/*mutual=*/false);
  ExpectUnreachable(With(Ca()), "127.0.0.1 is not in peer certificate");
  const Ended named = With(Ca() + " --tls_server_name=planb.example");
  EXPECT_EQ(named.code, 0) << named.err;
  ExpectUnreachable(With(Ca() + " --tls_server_name=other.example"),
                    "other.example is not in peer certificate");
}

TEST_F(PlanbctlTls, RefusesAServerThatHasExpired) {
  // planb_server would not start with this.
  const TestIdentity expired =
      authority_.Issue({.begins = absl::Now() - absl::Hours(2),
                        .ends = absl::Now() - absl::Hours(1)});
  grpc::SslServerCredentialsOptions options;
  options.pem_key_cert_pairs.push_back({expired.key, expired.certificate});
  grpc::CallbackGenericService nothing;
  int port = 0;
  const std::unique_ptr<grpc::Server> bare =
      grpc::ServerBuilder()
          .AddListeningPort("127.0.0.1:0", grpc::SslServerCredentials(options),
                            &port)
          .RegisterCallbackGenericService(&nothing)
          .BuildAndStart();
  ASSERT_NE(bare, nullptr);
  target_ = absl::StrCat("127.0.0.1:", port);
  ExpectUnreachable(With(Ca()), "certificate verify failed");
  bare->Shutdown();
}

TEST_F(PlanbctlTls, ShowsItsCertificateToAServerThatAsks) {
  Start(/*mutual=*/true);
  const Ended known = With(Ca() + Identity());
  EXPECT_EQ(known.code, 0) << known.err;
  ExpectUnreachable(With(Ca()), "cannot connect to 127.0.0.1");
  ours_.SetIdentity(TestAuthority().Issue());
  ExpectUnreachable(With(Ca() + Identity()), "cannot connect to 127.0.0.1");
}

TEST_F(PlanbctlTls, WhatCannotWorkIsAnErrorOfTheCommandLine) {
  target_ = "127.0.0.1:1";
  for (const auto& [flags, why] :
       {std::pair<std::string, std::string>(
            "--tls_ca=/nonexistent",
            "tls_ca /nonexistent: No such file or directory"),
        {"--tls_cert=" + ours_.cert(), "both or not at all"},
        {"--tls_cert=" + ours_.cert() + " --tls_key=" + theirs_.key(),
         "is not the key"},
        {Ca() + " --server=unix:///tmp/some.sock", "where no TLS is spoken"}}) {
    const Ended ended = With(flags);
    EXPECT_EQ(ended.code, 2) << flags;
    EXPECT_THAT(ended.err, HasSubstr(why));
  }
  EXPECT_THAT(Ctl("help status").out, HasSubstr("--tls_server_name"));
}

TEST_F(PlanbctlTls, NewChannelsOfTheLibraryHaveTheNewestGoodFiles) {
  Start(/*mutual=*/true);
  const auto open = ChannelsTo(
      target_,
      {.tls = TlsOptions{
           .ca = ours_.ca(), .cert = ours_.cert(), .key = ours_.key()}});
  ASSERT_TRUE(open.ok()) << open.status();
  const auto connects = [&] {
    return Connect(*(*open)(), absl::Now() + absl::Minutes(1)).ok();
  };
  EXPECT_TRUE(connects());
  ours_.SetIdentity(TestAuthority().Issue());
  EXPECT_FALSE(connects());
  ours_.SetIdentity(authority_.Issue());
  EXPECT_TRUE(connects());
  ReplaceFile(ours_.key(), "half a k");
  EXPECT_TRUE(connects());
}

}  // namespace
}  // namespace planb::client
