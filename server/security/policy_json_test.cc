// SPDX-License-Identifier: Apache-2.0

#include "server/security/policy_json.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace planb::server {
namespace {

TEST(PolicyJson, IsReadAsItIsWritten) {
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

TEST(PolicyJson, RefusesWhatIsNoPolicy) {
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

TEST(PolicyJson, RefusesWhatIsNoRule) {
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

// Deeper than any policy, and than the stack.
TEST(PolicyJson, RefusesNestingWithoutEnd) {
  for (const char* open : {"[", "{\"name\":"}) {
    std::string json;
    for (int i = 0; i < 100'000; ++i) json += open;
    ExpectRefused(json, "no JSON");
  }
}

}  // namespace
}  // namespace planb::server
