// SPDX-License-Identifier: Apache-2.0

// Authorization policies: which clients may call which methods.
//
// The language is gRPC's (proposal A43), the engine is not. Debian's gRPC 1.51
// has only the headers of gRPC's engine; and that engine reports neither the
// calls that it refuses nor files that it cannot use.
//
// The JSON is read strictly: an unknown key, a value of another type and a
// repeated key are errors. A condition that is left out matches every call, so
// a misspelled key would allow too much.

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

// Strings below are patterns. With A any text, "A" matches A itself, "A*" text
// that begins with A, "*A" text that ends with A, "*" any text that is not
// empty.

// Matches a call that has this header with one of these values.
struct PolicyHeader {
  std::string key;  // in lower case
  std::vector<std::string> values;
};

// Matches a call that meets all three conditions. An empty condition is met.
struct PolicyRule {
  std::string name;
  // One matches a name of the client.
  std::vector<std::string> principals;
  // One matches "/SERVICE/METHOD".
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

// Errors: INVALID_ARGUMENT, with a message of one line that has the path to the
// fault.
absl::StatusOr<PolicyRules> ReadPolicyJson(absl::string_view json);

// The properties of a call that policies can use.
struct CallFacts {
  // "/package.Service/Method".
  absl::string_view path;
  // The names in the client's certificate; none without TLS.
  std::vector<absl::string_view> principals;
  // The value of the header with this name in lower case, if the call has it.
  absl::FunctionRef<std::optional<std::string>(absl::string_view name)> header;
};

struct Verdict {
  bool allowed = false;
  // The rule that decided, valid as long as the policy. Empty: none matched.
  absl::string_view rule = {};
};

// An immutable value, hence thread-safe.
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
