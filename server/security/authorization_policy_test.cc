// SPDX-License-Identifier: Apache-2.0

#include "server/security/authorization_policy.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace planb::server {
namespace {

AuthorizationPolicy Policy(absl::string_view deny, absl::string_view allow) {
  auto policy = AuthorizationPolicy::Parse(
      absl::StrCat(R"({"name": "test", "deny_rules": [)", deny,
                   R"(], "allow_rules": [)", allow, "]}"));
  EXPECT_TRUE(policy.ok()) << policy.status();
  return *std::move(policy);
}

struct Call {
  std::string path = "/a.B/C";
  std::vector<std::string> principals = {};
  std::map<std::string, std::string> headers = {};
};

// The rule that allows it; "!" and the rule that denies it, "!" alone if none
// matches.
std::string Judge(const AuthorizationPolicy& policy, const Call& call) {
  const auto header =
      [&call](absl::string_view name) -> std::optional<std::string> {
    const auto found = call.headers.find(std::string(name));
    if (found == call.headers.end()) return std::nullopt;
    return found->second;
  };
  const Verdict verdict = policy.Judge(
      {.path = call.path,
       .principals = {call.principals.begin(), call.principals.end()},
       .header = header});
  return absl::StrCat(verdict.allowed ? "" : "!", verdict.rule);
}

TEST(AuthorizationPolicy, DenyRulesComeFirstAndNoRuleIsADenial) {
  const auto policy =
      Policy(R"({"name": "d", "request": {"paths": ["/a/x"]}})",
             R"({"name": "a", "request": {"paths": ["/a/*"]}})");
  EXPECT_EQ(Judge(policy, {.path = "/a/x"}), "!d");
  EXPECT_EQ(Judge(policy, {.path = "/a/y"}), "a");
  EXPECT_EQ(Judge(policy, {.path = "/b/y"}), "!");
  EXPECT_EQ(Judge(policy, {.path = ""}), "!");
}

TEST(AuthorizationPolicy, ARuleWithoutConditionsMatchesEverything) {
  EXPECT_EQ(Judge(Policy("", R"({"name": "all"})"), {}), "all");
  EXPECT_EQ(Judge(Policy("", R"({"name": "all", "source": {"principals": []},
                                 "request": {"paths": []}})"),
                  {}),
            "all");
}

TEST(AuthorizationPolicy, MatchesWholePrefixSuffixAndPresence) {
  const auto paths = [](absl::string_view pattern) {
    return Policy("", absl::StrCat(R"({"name": "m", "request": {"paths": [")",
                                   pattern, R"("]}})"));
  };
  for (const auto& [pattern, path, allowed] :
       std::vector<std::tuple<const char*, const char*, bool>>{
           {"/a/b", "/a/b", true},
           {"/a/b", "/a/bc", false},
           {"/a/b", "/A/b", false},
           {"/a/*", "/a/", true},
           {"/a/*", "/a", false},
           {"/a/*", "/a/b/c", true},
           {"*/b", "/a/b", true},
           {"*/b", "/a/b/", false},
           {"*", "x", true},
           {"*", "", false}}) {
    EXPECT_EQ(Judge(paths(pattern), {.path = path}), allowed ? "m" : "!")
        << pattern << " " << path;
  }
}

TEST(AuthorizationPolicy, PrincipalsNeedAName) {
  const auto policy = Policy("", R"({"name": "p", "source": {"principals":
      ["spiffe://x/*", "*.example", "CN=me"]}})");
  EXPECT_EQ(Judge(policy, {}), "!");
  EXPECT_EQ(Judge(policy, {.principals = {"", "CN=you"}}), "!");
  EXPECT_EQ(Judge(policy, {.principals = {"CN=me"}}), "p");
  EXPECT_EQ(Judge(policy, {.principals = {"CN=you", "a.example"}}), "p");
  EXPECT_EQ(Judge(policy, {.principals = {"spiffe://x/y"}}), "p");
  const auto anyone = Policy("", R"({"name": "known", "source": {"principals":
      ["*"]}})");
  EXPECT_EQ(Judge(anyone, {}), "!");
  EXPECT_EQ(Judge(anyone, {.principals = {"CN=you"}}), "known");
}

TEST(AuthorizationPolicy, AllHeadersMustMatchEachByOneValue) {
  const auto policy = Policy("", R"({"name": "h", "request": {"headers": [
      {"key": "One", "values": ["1", "uno"]}, {"key": "two", "values": ["*"]}
      ]}})");
  EXPECT_EQ(Judge(policy, {.headers = {{"one", "uno"}}}), "!");
  EXPECT_EQ(Judge(policy, {.headers = {{"one", "uno"}, {"two", "2"}}}), "h");
  EXPECT_EQ(Judge(policy, {.headers = {{"one", "3"}, {"two", "2"}}}), "!");
  EXPECT_EQ(Judge(policy, {.headers = {{"one", "1,uno"}, {"two", "2"}}}), "!");
  EXPECT_EQ(Judge(policy, {.headers = {{"one", "1"}, {"two", ""}}}), "!");
}

TEST(AuthorizationPolicy, ConditionsOfARuleAddUp) {
  const auto policy = Policy("", R"({"name": "r",
      "source": {"principals": ["me"]}, "request": {"paths": ["/x"],
      "headers": [{"key": "k", "values": ["v"]}]}})");
  const Call all = {
      .path = "/x", .principals = {"me"}, .headers = {{"k", "v"}}};
  EXPECT_EQ(Judge(policy, all), "r");
  Call less = all;
  less.principals.clear();
  EXPECT_EQ(Judge(policy, less), "!");
  less = all;
  less.path = "/y";
  EXPECT_EQ(Judge(policy, less), "!");
  less = all;
  less.headers.clear();
  EXPECT_EQ(Judge(policy, less), "!");
}

TEST(AuthorizationPolicy, IsReadFromJson) {
  EXPECT_TRUE(absl::IsInvalidArgument(AuthorizationPolicy::Parse("").status()));
  EXPECT_EQ(Policy("", R"({"name": "all"})").name(), "test");
}

}  // namespace
}  // namespace planb::server
