// SPDX-License-Identifier: Apache-2.0

// The policy in force while its file changes.

#include "server/security/authorization.h"

#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/testing/await.h"

namespace planb::server {
namespace {

// The tests call Reload() themselves.
constexpr absl::Duration kNever = absl::Hours(24);

// A policy in a file.
class AuthorizerTest : public testing::Test {
 protected:
  AuthorizerTest() { Write(Only("/a")); }
  ~AuthorizerTest() override { unlink(path_.c_str()); }

  // Allows this path alone.
  static std::string Only(absl::string_view path) {
    return absl::StrCat(
        R"({"name": "only )", path,
        R"(", "allow_rules": [{"name": "it", "request": {"paths": [")", path,
        R"("]}}]})");
  }

  // Replaces the file atomically, as operators should.
  void Write(const std::string& text) {
    std::ofstream(path_ + ".new") << text;
    ASSERT_EQ(std::rename((path_ + ".new").c_str(), path_.c_str()), 0);
  }

  static bool Allows(Authorizer& authorizer, absl::string_view path) {
    const auto header = [](absl::string_view) -> std::optional<std::string> {
      return std::nullopt;
    };
    return authorizer.Allow({.path = path, .principals = {}, .header = header});
  }

  static testing::AssertionResult Counts(const Authorizer& authorizer,
                                         const std::string& line) {
    const std::string text = prometheus::TextSerializer().Serialize(
        authorizer.collectable()->Collect());
    if (absl::StrContains(text, line + "\n"))
      return testing::AssertionSuccess();
    return testing::AssertionFailure() << "no " << line << " in\n" << text;
  }

  // Of this process alone.
  const std::string path_ =
      absl::StrCat("/tmp/planb_", getpid(), "_policy.json");
};

TEST_F(AuthorizerTest, CountsDenialsByService) {
  Authorizer authorizer({path_, kNever});
  ASSERT_TRUE(authorizer.Start().ok());
  for (const char* service : {"lookup", "control", "other"}) {
    EXPECT_TRUE(Counts(
        authorizer, absl::StrCat("planb_authorization_denied_total{service=\"",
                                 service, "\"} 0")));
  }
  EXPECT_TRUE(Allows(authorizer, "/a"));
  EXPECT_FALSE(Allows(authorizer, "/planb.v1.RouteLookup/BatchLookup"));
  EXPECT_FALSE(Allows(authorizer, "/planb.v1.RouteTable/UpdateRoutes"));
  EXPECT_FALSE(Allows(authorizer, "/planb.v1.RouteTable/GetTable"));
  EXPECT_FALSE(Allows(authorizer, "/planb.v1.RouteTableau/GetTable"));
  EXPECT_FALSE(Allows(authorizer, ""));
  EXPECT_FALSE(Allows(authorizer, std::string(100'000, 'x')));
  EXPECT_TRUE(Counts(authorizer,
                     "planb_authorization_denied_total{service=\"lookup\"} 1"));
  EXPECT_TRUE(Counts(
      authorizer, "planb_authorization_denied_total{service=\"control\"} 2"));
  EXPECT_TRUE(Counts(authorizer,
                     "planb_authorization_denied_total{service=\"other\"} 3"));
}

TEST_F(AuthorizerTest, HasAllSeriesWithoutPolicy) {
  Authorizer authorizer({});
  EXPECT_FALSE(authorizer.enabled());
  EXPECT_TRUE(authorizer.Start().ok());
  EXPECT_TRUE(Counts(authorizer, "planb_authorization_policy_errors_total 0"));
}

TEST_F(AuthorizerTest, LoadsValidPoliciesOnly) {
  Authorizer authorizer({path_, kNever});
  ASSERT_TRUE(authorizer.Start().ok());
  Write(Only("/b"));
  EXPECT_TRUE(Allows(authorizer, "/a")) << "before it was read";
  authorizer.Reload();
  EXPECT_FALSE(Allows(authorizer, "/a"));
  EXPECT_TRUE(Allows(authorizer, "/b"));
  EXPECT_TRUE(Counts(authorizer, "planb_authorization_policy_errors_total 0"));
  for (const char* bad : {"", "{\"name\":", "{\"name\": \"allows nothing\"}"}) {
    Write(bad);
    authorizer.Reload();
    EXPECT_TRUE(Allows(authorizer, "/b")) << bad;
  }
  EXPECT_TRUE(Counts(authorizer, "planb_authorization_policy_errors_total 3"));
  unlink(path_.c_str());
  authorizer.Reload();
  EXPECT_TRUE(Allows(authorizer, "/b"));
  // Counted at each reading.
  authorizer.Reload();
  EXPECT_TRUE(Counts(authorizer, "planb_authorization_policy_errors_total 5"));
  Write(Only("/c"));
  authorizer.Reload();
  EXPECT_TRUE(Allows(authorizer, "/c"));
  EXPECT_FALSE(Allows(authorizer, "/b"));
  EXPECT_TRUE(Counts(authorizer, "planb_authorization_policy_errors_total 5"));
}

TEST_F(AuthorizerTest, OldTextIsNoError) {
  Authorizer authorizer({path_, kNever});
  ASSERT_TRUE(authorizer.Start().ok());
  Write("broken");
  authorizer.Reload();
  Write(Only("/a"));
  authorizer.Reload();
  EXPECT_TRUE(Allows(authorizer, "/a"));
  EXPECT_TRUE(Counts(authorizer, "planb_authorization_policy_errors_total 1"));
}

TEST_F(AuthorizerTest, DoesNotBlockOnPipe) {
  Authorizer authorizer({path_, absl::Milliseconds(1)});
  ASSERT_TRUE(authorizer.Start().ok());
  ASSERT_EQ(mkfifo((path_ + ".new").c_str(), 0600), 0);
  ASSERT_EQ(std::rename((path_ + ".new").c_str(), path_.c_str()), 0);
  authorizer.Reload();
  EXPECT_TRUE(Allows(authorizer, "/a"));
  Write(Only("/b"));
  authorizer.Reload();
  EXPECT_TRUE(Allows(authorizer, "/b"));
}

TEST_F(AuthorizerTest, WatchesTheFile) {
  Authorizer authorizer({path_, absl::Milliseconds(1)});
  ASSERT_TRUE(authorizer.Start().ok());
  ASSERT_FALSE(Allows(authorizer, "/b"));
  Write(Only("/b"));
  EXPECT_TRUE(Await([&] { return Allows(authorizer, "/b"); }));
}

TEST_F(AuthorizerTest, DoesNotStartWithoutValidPolicy) {
  const auto refusal = [](const AuthorizationOptions& options) {
    const absl::Status status = Authorizer(options).Start();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  EXPECT_EQ(
      refusal({"/nowhere/policy"}),
      "--authorization_policy=/nowhere/policy: No such file or directory");
  EXPECT_EQ(refusal({"/tmp"}),
            "--authorization_policy=/tmp: is no regular file");
  Write(std::string((1 << 20) + 1, ' '));
  EXPECT_TRUE(absl::StrContains(refusal({path_}), "is larger than"));
  Write("{}");
  EXPECT_EQ(refusal({path_}), absl::StrCat("--authorization_policy=", path_,
                                           ": name: is missing"));
  Write(Only("/a"));
  EXPECT_TRUE(absl::StrContains(refusal({path_, absl::ZeroDuration()}),
                                "--authorization_reload_interval"));
}

}  // namespace
}  // namespace planb::server
