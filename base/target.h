// SPDX-License-Identifier: Apache-2.0

// Targets of gRPC channels, as texts: gRPC accepts nearly any and fails only at
// the first call, with a message about resolvers.

#ifndef PLANB_BASE_TARGET_H_
#define PLANB_BASE_TARGET_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace planb {

// Errors: INVALID_ARGUMENT if `target` is neither HOST:PORT nor unix:PATH nor
// another name with a scheme that gRPC knows, such as dns:///HOST:PORT, which
// gRPC itself checks. `what`, such as a flag, begins the message.
absl::Status CheckTarget(absl::string_view what, absl::string_view target);

// True for a Unix socket, with a path or an abstract name.
bool IsUnixTarget(absl::string_view target);

// True if the other end of `target`, of CheckTarget(), may be on another host.
bool LeavesHost(absl::string_view target);

}  // namespace planb

#endif  // PLANB_BASE_TARGET_H_
