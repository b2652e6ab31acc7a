// SPDX-License-Identifier: Apache-2.0

// What this binary is: for metrics, status pages and logs.

#ifndef PLANB_SERVER_OBSERVE_BUILD_INFO_H_
#define PLANB_SERVER_OBSERVE_BUILD_INFO_H_

#include "absl/strings/string_view.h"

namespace planb::server {

struct BuildInfo {
  absl::string_view version;   // "1.2.3"
  absl::string_view compiler;  // "gcc 12.2.0"
};

// The same for every build of the same sources by the same compiler: builds are
// reproducible.
BuildInfo GetBuildInfo();

}  // namespace planb::server

#endif  // PLANB_SERVER_OBSERVE_BUILD_INFO_H_
