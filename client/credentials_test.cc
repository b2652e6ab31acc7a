// What cannot work is told before anybody connects. What then works is in
// planbctl_tls_test.cc.

#include "client/credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/testing/test_certificates.h"

namespace planb::client {
namespace {

using server::TestAuthority;
using server::TestTlsFiles;
using ::testing::HasSubstr;

std::string Why(const TlsOptions& options) {
  const absl::Status status = MakeCredentials(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

TEST(MakeCredentials, TakesWhatIsGood) {
  TestAuthority authority;
  TestTlsFiles files;
  files.SetAuthority(authority.certificate());
  files.SetIdentity(authority.Issue());
  EXPECT_TRUE(MakeCredentials(std::nullopt).ok());
  EXPECT_TRUE(MakeCredentials(TlsOptions{}).ok());
  EXPECT_TRUE(MakeCredentials(TlsOptions{.ca = files.ca()}).ok());
  EXPECT_TRUE(MakeCredentials(TlsOptions{.ca = files.ca(),
                                         .cert = files.cert(),
                                         .key = files.key(),
                                         .server_name = "planb.example"})
                  .ok());
}

TEST(MakeCredentials, RefusesWhatIsNot) {
  TestAuthority authority;
  TestTlsFiles files;
  files.SetAuthority("no certificate");
  files.SetIdentity({authority.Issue().certificate, authority.Issue().key});
  EXPECT_EQ(Why({.ca = "/nonexistent"}),
            "tls_ca /nonexistent: No such file or directory");
  EXPECT_EQ(
      Why({.ca = files.ca()}),
      absl::StrCat("tls_ca ", files.ca(), ": holds no certificate in PEM"));
  EXPECT_EQ(Why({.cert = files.cert(), .key = files.key()}),
            absl::StrCat("tls_key ", files.key(),
                         ": is not the key of the certificate in tls_cert ",
                         files.cert()));
  EXPECT_THAT(Why({.cert = files.cert()}), HasSubstr("both or not at all"));
  EXPECT_THAT(Why({.key = files.key()}), HasSubstr("both or not at all"));
  files.SetIdentity(authority.Issue({.begins = absl::Now() - absl::Hours(2),
                                     .ends = absl::Now() - absl::Hours(1)}));
  EXPECT_THAT(Why({.cert = files.cert(), .key = files.key()}),
              HasSubstr("certificate 1 expired at"));
}

}  // namespace
}  // namespace planb::client
