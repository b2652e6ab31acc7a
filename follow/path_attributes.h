// SPDX-License-Identifier: Apache-2.0

// What of a path in a table dump its next hop means: the choice that planb-feed
// calls `attributes`, with the same meaning for the same path.

#ifndef PLANB_FOLLOW_PATH_ATTRIBUTES_H_
#define PLANB_FOLLOW_PATH_ATTRIBUTES_H_

#include <string>

#include "absl/strings/string_view.h"
#include "lpm/io/route_file.h"

namespace planb {

enum class PathParts {
  kGateway,  // nothing
  kOrigin,   // the AS that the route comes from
  kFull,     // AS path, communities, LOCAL_PREF and MED
};

// The words "gateway", "origin" and "full", as values of flags.
std::string AbslUnparseFlag(PathParts parts);
bool AbslParseFlag(absl::string_view text, PathParts* parts,
                   std::string* error);

// Encodes that of paths; none for kGateway. What is longer than the contract
// allows is cut: the far end of the AS path and the highest communities.
PathEncoder EncoderOf(PathParts parts);

}  // namespace planb

#endif  // PLANB_FOLLOW_PATH_ATTRIBUTES_H_
