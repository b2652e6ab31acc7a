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

// The rule that allows the call, or "!" and the rule that denies it. "!" alone
// if none matches.
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

TEST(AuthorizationPolicy, DenyRulesComeFirstAndNoMatchIsDenied) {
  const auto policy =
      Policy(R"({"name": "d", "request": {"paths": ["/a/x"]}})",
             R"({"name": "a", "request": {"paths": ["/a/*"]}})");
  EXPECT_EQ(Judge(policy, {.path = "/a/x"}), "!d");
  EXPECT_EQ(Judge(policy, {.path = "/a/y"}), "a");
  EXPECT_EQ(Judge(policy, {.path = "/b/y"}), "!");
  EXPECT_EQ(Judge(policy, {.path = ""}), "!");
}

TEST(AuthorizationPolicy, RuleWithoutConditionsMatchesAll) {
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

TEST(AuthorizationPolicy, PrincipalsNeedName) {
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

TEST(AuthorizationPolicy, RuleMatchesIfAllConditionsMatch) {
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

TEST(PolicyJson, ReadsEveryField) {
  const auto rules = ReadPolicyJson(R"({
    "name": "all of it",
    "deny_rules": [{"name": "d", "request": {"paths": ["/a/B", "*/C"]}}],
    "allow_rules": [
      {"name": "first", "source": {"principals": ["spiffe://x/*", "*"]}},
      {"name": "second", "source": {}, "request": {"headers": [
        {"key": "X-One", "values": ["1", "2"]}]}},
      {"name": "d"}
    ]})");
  ASSERT_TRUE(rules.ok()) << rules.status();
  EXPECT_EQ(rules->name, "all of it");
  ASSERT_EQ(rules->deny.size(), 1u);
  using Strings = std::vector<std::string>;
  EXPECT_EQ(rules->deny[0].name, "d");
  EXPECT_EQ(rules->deny[0].paths, (Strings{"/a/B", "*/C"}));
  ASSERT_EQ(rules->allow.size(), 3u);
  EXPECT_EQ(rules->allow[0].name, "first");
  EXPECT_EQ(rules->allow[0].principals, (Strings{"spiffe://x/*", "*"}));
  ASSERT_EQ(rules->allow[1].headers.size(), 1u);
  EXPECT_EQ(rules->allow[1].headers[0].key, "x-one");
  EXPECT_EQ(rules->allow[1].headers[0].values, (Strings{"1", "2"}));
  EXPECT_TRUE(rules->allow[2].principals.empty());
  EXPECT_TRUE(rules->allow[2].paths.empty());
  EXPECT_TRUE(rules->allow[2].headers.empty());
}

void ExpectRefused(const std::string& json, const std::string& says) {
  const absl::Status status = ReadPolicyJson(json).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << json << "\n" << status;
  EXPECT_TRUE(absl::StrContains(status.message(), says)) << json << "\n"
                                                         << says << "\n"
                                                         << status;
  EXPECT_FALSE(absl::StrContains(status.message(), '\n')) << status;
}

TEST(PolicyJson, RefusesInvalidPolicies) {
  const std::string rules = R"("allow_rules": [{"name": "r"}])";
  for (const auto& [json, says] :
       std::vector<std::pair<std::string, std::string>>{
           {"", "no JSON"},
           {"{", "no JSON"},
           {R"({"name": "n", "name": "n", )" + rules + "}", "no JSON"},
           {R"({"name": "n", )" + rules + ", " + rules + "}", "no JSON"},
           {R"({"name": "n", )" + rules + "} {}", "no JSON"},
           {"[]", "must be an object"},
           {"null", "must be an object"},
           {"{" + rules + "}", "name: is missing"},
           {R"({"name": 1, )" + rules + "}", "name: must be a string"},
           {R"({"name": "", )" + rules + "}", "name: must not be empty"},
           {R"({"name": "n"})", "allow_rules: without any"},
           {R"({"name": "n", "allow_rules": []})", "allow_rules: without any"},
           {R"({"name": "n", "deny": [], )" + rules + "}",
            "\"deny\" is not known"},
           {R"({"name": "n", "deny_rules": null, )" + rules + "}",
            "deny_rules: must be an array"},
           {R"({"name": "n", "allow_rules": {"name": "r"}})",
            "allow_rules: must be an array"},
           {R"({"name": "n", "allow_rules": [{"name": "r"}, {"name": "r"}]})",
            "allow_rules: two are named \"r\""},
           {R"({"name": "n", "deny_rules": [{"name": "d"}, 1], )" + rules + "}",
            "deny_rules[1]: must be an object"},
       }) {
    ExpectRefused(json, says);
  }
}

TEST(PolicyJson, RefusesInvalidRules) {
  for (const auto& [rule, says] :
       std::vector<std::pair<std::string, std::string>>{
           {"", "allow_rules[0].name: is missing"},
           {R"("name": "r", "path": [])", "allow_rules[0]: \"path\" is not"},
           {R"("name": "r", "name": "s")", "no JSON"},
           {R"("name": "r", "source": null)",
            "allow_rules[0].source: must be an object"},
           {R"("name": "r", "source": {"principal": []})",
            "\"principal\" is not known"},
           {R"("name": "r", "source": {"principals": [""]})",
            "principals[0]: must not be empty"},
           {R"("name": "r", "request": [])", "request: must be an object"},
           {R"("name": "r", "request": {"paths": null})",
            "request.paths: must be an array"},
           {R"("name": "r", "request": {"paths": "/a"})",
            "request.paths: must be an array"},
           {R"("name": "r", "request": {"paths": ["/a", 7]})",
            "request.paths[1]: must be a string"},
           {R"("name": "r", "request": {"paths": ["/a/*/b"]})",
            "paths[0]: \"/a/*/b\": one *"},
           {R"("name": "r", "request": {"paths": ["*/a/*"]})", "one *"},
           {R"("name": "r", "request": {"paths": ["**"]})", "one *"},
           {R"("name": "r", "request": {"headers": {}})",
            "headers: must be an array"},
           {R"("name": "r", "request": {"headers": [{"key": "k"}]})",
            "headers[0]: has no values"},
           {R"("name": "r", "request": {"headers": [{"values": ["v"]}]})",
            "headers[0].key: is missing"},
           {R"("name": "r", "request": {"headers":
               [{"key": ":path", "values": ["v"]}]})",
            "\":path\" cannot be used"},
           {R"("name": "r", "request": {"headers":
               [{"key": "Grpc-Timeout", "values": ["v"]}]})",
            "\"grpc-timeout\" cannot be used"},
           {R"("name": "r", "request": {"headers":
               [{"key": "TE", "values": ["v"]}]})",
            "\"te\" cannot be used"},
       }) {
    ExpectRefused(
        absl::StrCat(R"({"name": "n", "allow_rules": [{)", rule, "}]}"), says);
  }
}

// Deeper than any policy, and deeper than the stack.
TEST(PolicyJson, RefusesDeepNesting) {
  for (const char* open : {"[", "{\"name\":"}) {
    std::string json;
    for (int i = 0; i < 100'000; ++i) json += open;
    ExpectRefused(json, "no JSON");
  }
}

}  // namespace
}  // namespace planb::server
