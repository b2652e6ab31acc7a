// SPDX-License-Identifier: Apache-2.0

#include "server/security/authorization_policy.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

namespace planb::server {
namespace {

using google::protobuf::Value;

// Converts JSON values, with the path to each for errors. Keeps the first
// error; results after it are meaningless. Not thread-safe.
class Reader {
 public:
  absl::Status status;

  template <typename... Words>
  void Fail(const std::string& place, const Words&... words) {
    status.Update(absl::InvalidArgumentError(
        absl::StrCat(place, place.empty() ? "" : ": ", words...)));
  }

  // The members of an object that may have these and no others; null if absent.
  template <size_t n>
  std::array<const Value*, n> Members(const std::string& place,
                                      const Value& value,
                                      const std::array<const char*, n>& keys) {
    std::array<const Value*, n> members = {};
    if (!value.has_struct_value()) {
      Fail(place, "must be an object");
      return members;
    }
    for (const auto& [key, member] : value.struct_value().fields()) {
      const auto known = std::find(keys.begin(), keys.end(), key);
      if (known == keys.end()) {
        Fail(place, "\"", key, "\" is not known");
      } else {
        members[static_cast<size_t>(known - keys.begin())] = &member;
      }
    }
    return members;
  }

  // A string that must be present and not empty.
  std::string Text(const std::string& place, const Value* value) {
    if (value == nullptr) {
      Fail(place, "is missing");
    } else if (!value->has_string_value()) {
      Fail(place, "must be a string");
    } else if (value->string_value().empty()) {
      Fail(place, "must not be empty");
    } else {
      return value->string_value();
    }
    return "";
  }

  // The result of `read(place, value)` for each item; empty if absent.
  template <typename Read>
  auto Items(const std::string& place, const Value* value, Read read) {
    std::vector<decltype(read(place, *value))> items;
    if (value == nullptr) return items;
    if (!value->has_list_value()) {
      Fail(place, "must be an array");
      return items;
    }
    for (const Value& item : value->list_value().values()) {
      items.push_back(read(absl::StrCat(place, "[", items.size(), "]"), item));
    }
    return items;
  }

  std::string Pattern(const std::string& place, const Value& value) {
    std::string text = Text(place, &value);
    // A star elsewhere would not be a wildcard.
    const auto stars = std::count(text.begin(), text.end(), '*');
    if (stars > 1 ||
        (stars == 1 && text.front() != '*' && text.back() != '*')) {
      Fail(place, "\"", text, "\": one * at most, at the beginning or the end");
    }
    return text;
  }

  std::vector<std::string> Patterns(const std::string& place,
                                    const Value* value) {
    return Items(place, value, [this](const std::string& at, const Value& v) {
      return Pattern(at, v);
    });
  }

  PolicyHeader Header(const std::string& place, const Value& value) {
    const auto [key, values] = Members<2>(place, value, {"key", "values"});
    PolicyHeader header = {
        .key = absl::AsciiStrToLower(Text(absl::StrCat(place, ".key"), key)),
        .values = Patterns(absl::StrCat(place, ".values"), values)};
    // Headers of HTTP and gRPC themselves do not reach the policy.
    constexpr std::array kReserved = {"host",
                                      "connection",
                                      "keep-alive",
                                      "proxy-authenticate",
                                      "proxy-authorization",
                                      "te",
                                      "trailer",
                                      "transfer-encoding",
                                      "upgrade"};
    if (absl::StartsWith(header.key, ":") ||
        absl::StartsWith(header.key, "grpc-") ||
        std::find(kReserved.begin(), kReserved.end(), header.key) !=
            kReserved.end()) {
      Fail(place, "\"", header.key, "\" cannot be used");
    }
    if (header.values.empty()) Fail(place, "has no values");
    return header;
  }

  PolicyRule Rule(const std::string& place, const Value& value) {
    const auto [name, source, request] =
        Members<3>(place, value, {"name", "source", "request"});
    PolicyRule rule = {.name = Text(absl::StrCat(place, ".name"), name)};
    if (source != nullptr) {
      const std::string at = absl::StrCat(place, ".source");
      const auto [principals] = Members<1>(at, *source, {"principals"});
      rule.principals = Patterns(absl::StrCat(at, ".principals"), principals);
    }
    if (request != nullptr) {
      const std::string at = absl::StrCat(place, ".request");
      const auto [paths, headers] =
          Members<2>(at, *request, {"paths", "headers"});
      rule.paths = Patterns(absl::StrCat(at, ".paths"), paths);
      rule.headers = Items(absl::StrCat(at, ".headers"), headers,
                           [this](const std::string& in, const Value& v) {
                             return Header(in, v);
                           });
    }
    return rule;
  }

  std::vector<PolicyRule> Rules(const std::string& place, const Value* value) {
    auto rules = Items(
        place, value,
        [this](const std::string& at, const Value& v) { return Rule(at, v); });
    std::set<std::string> names;
    for (const PolicyRule& rule : rules) {
      if (!names.insert(rule.name).second) {
        Fail(place, "two are named \"", rule.name, "\"");
      }
    }
    return rules;
  }
};

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

absl::StatusOr<PolicyRules> ReadPolicyJson(absl::string_view json) {
  Value root;
  const auto parsed = google::protobuf::util::JsonStringToMessage(
      {json.data(), json.size()}, &root);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "no JSON: ",
        absl::StrReplaceAll(parsed.message().ToString(), {{"\n", " "}})));
  }
  Reader reader;
  const auto [name, deny, allow] =
      reader.Members<3>("", root, {"name", "deny_rules", "allow_rules"});
  PolicyRules rules = {.name = reader.Text("name", name),
                       .deny = reader.Rules("deny_rules", deny),
                       .allow = reader.Rules("allow_rules", allow)};
  if (rules.allow.empty()) {
    reader.Fail("allow_rules", "without any the policy would allow no call");
  }
  if (!reader.status.ok()) return reader.status;
  return rules;
}

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
