// SPDX-License-Identifier: Apache-2.0

// Who may call what: gRPC's authorization policies, read and applied.
//
// The language is gRPC's (proposal A43), so what is known about it holds. The
// engine is not: Debian's gRPC 1.51 has the headers of it but leaves the code
// out, and it would not tell of the calls that it refuses, nor of files that it
// cannot use.
//
// gRPC's authorization policies (its proposal A43) as JSON, read to the letter:
// a key that is not known, a value of another kind, a key given twice are
// errors. What is left out matches everything, so in a policy a slip of the pen
// opens a door.

#ifndef PLANB_SERVER_SECURITY_AUTHORIZATION_POLICY_H_
#define PLANB_SERVER_SECURITY_AUTHORIZATION_POLICY_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace planb::server {

// Of the strings below, with A any text: "A" matches itself, "A*" what begins
// with it, "*A" what ends with it, "*" whatever is not empty.

// Matches a call that has this header with one of the values.
struct PolicyHeader {
  std::string key;  // in lower case
  std::vector<std::string> values;
};

// Matches a call that fulfils all three; an empty one is fulfilled.
struct PolicyRule {
  std::string name;
  // One of them matches one of the client's names.
  std::vector<std::string> principals;
  // One of them matches "/SERVICE/METHOD".
  std::vector<std::string> paths;
  // All of them match.
  std::vector<PolicyHeader> headers;
};

// Names of rules are unique within a list; `allow` is not empty.
struct PolicyRules {
  std::string name;
  std::vector<PolicyRule> deny;
  std::vector<PolicyRule> allow;
};

// Errors: INVALID_ARGUMENT, for people, in one line, saying where.
absl::StatusOr<PolicyRules> ReadPolicyJson(absl::string_view json);

// What a policy can ask of a call.
struct CallFacts {
  // "/package.Service/Method".
  absl::string_view path;
  // The names that the client's certificate proves; none without TLS.
  std::vector<absl::string_view> principals;
  // The value of the header with this name in lower case, if it is there.
  absl::FunctionRef<std::optional<std::string>(absl::string_view name)> header;
};

struct Verdict {
  bool allowed = false;
  // The rule that decided, alive as long as the policy; empty if none matched.
  absl::string_view rule = {};
};

// Immutable, hence thread-safe.
class AuthorizationPolicy {
 public:
  explicit AuthorizationPolicy(PolicyRules rules) : rules_(std::move(rules)) {}

  // Errors: those of ReadPolicyJson.
  static absl::StatusOr<AuthorizationPolicy> Parse(absl::string_view json);

  const std::string& name() const { return rules_.name; }

  // Time is linear in the size of the policy.
  Verdict Judge(const CallFacts& call) const;

 private:
  PolicyRules rules_;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_SECURITY_AUTHORIZATION_POLICY_H_
