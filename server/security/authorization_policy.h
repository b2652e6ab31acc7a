// SPDX-License-Identifier: Apache-2.0

// Who may call what: gRPC's authorization policies, read and applied.
//
// The language is gRPC's (proposal A43), so what is known about it holds. The
// engine is not: Debian's gRPC 1.51 has the headers of it but leaves the code
// out, and it would not tell of the calls that it refuses, nor of files that it
// cannot use.

#ifndef PLANB_SERVER_SECURITY_AUTHORIZATION_POLICY_H_
#define PLANB_SERVER_SECURITY_AUTHORIZATION_POLICY_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/security/policy_json.h"

namespace planb::server {

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
