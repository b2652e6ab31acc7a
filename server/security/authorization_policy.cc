// SPDX-License-Identifier: Apache-2.0

#include "server/security/authorization_policy.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"

namespace planb::server {
namespace {

bool Matches(absl::string_view pattern, absl::string_view text) {
  if (pattern == "*") return !text.empty();
  if (absl::ConsumePrefix(&pattern, "*")) return absl::EndsWith(text, pattern);
  if (absl::ConsumeSuffix(&pattern, "*"))
    return absl::StartsWith(text, pattern);
  return text == pattern;
}

bool AnyMatches(const std::vector<std::string>& patterns,
                absl::string_view text) {
  return std::any_of(
      patterns.begin(), patterns.end(),
      [text](const std::string& pattern) { return Matches(pattern, text); });
}

bool Matches(const PolicyRule& rule, const CallFacts& call) {
  return (rule.principals.empty() ||
          std::any_of(call.principals.begin(), call.principals.end(),
                      [&rule](absl::string_view name) {
                        return AnyMatches(rule.principals, name);
                      })) &&
         (rule.paths.empty() || AnyMatches(rule.paths, call.path)) &&
         std::all_of(rule.headers.begin(), rule.headers.end(),
                     [&call](const PolicyHeader& header) {
                       const auto value = call.header(header.key);
                       return value.has_value() &&
                              AnyMatches(header.values, *value);
                     });
}

const PolicyRule* FirstMatch(const std::vector<PolicyRule>& rules,
                             const CallFacts& call) {
  const auto found = std::find_if(
      rules.begin(), rules.end(),
      [&call](const PolicyRule& rule) { return Matches(rule, call); });
  return found == rules.end() ? nullptr : &*found;
}

}  // namespace

absl::StatusOr<AuthorizationPolicy> AuthorizationPolicy::Parse(
    absl::string_view json) {
  absl::StatusOr<PolicyRules> rules = ReadPolicyJson(json);
  if (!rules.ok()) return rules.status();
  return AuthorizationPolicy(*std::move(rules));
}

Verdict AuthorizationPolicy::Judge(const CallFacts& call) const {
  if (const PolicyRule* const rule = FirstMatch(rules_.deny, call)) {
    return {.allowed = false, .rule = rule->name};
  }
  if (const PolicyRule* const rule = FirstMatch(rules_.allow, call)) {
    return {.allowed = true, .rule = rule->name};
  }
  return {};
}

}  // namespace planb::server
