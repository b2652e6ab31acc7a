// SPDX-License-Identifier: Apache-2.0

// gRPC's authorization policies (its proposal A43) as JSON, read to the letter:
// a key that is not known, a value of another kind, a key given twice are
// errors. What is left out matches everything, so in a policy a slip of the pen
// opens a door.

#ifndef PLANB_SERVER_SECURITY_POLICY_JSON_H_
#define PLANB_SERVER_SECURITY_POLICY_JSON_H_

#include <string>
#include <vector>

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

}  // namespace planb::server

#endif  // PLANB_SERVER_SECURITY_POLICY_JSON_H_
