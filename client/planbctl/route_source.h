// SPDX-License-Identifier: Apache-2.0

// Routing tables that planbctl holds itself: from a file, or made up.

#ifndef PLANB_CLIENT_PLANBCTL_ROUTE_SOURCE_H_
#define PLANB_CLIENT_PLANBCTL_ROUTE_SOURCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lpm/io/route_file.h"
#include "lpm/prefix.h"

namespace planb::client {

// Says on stderr what a reader of files could not read of `path`.
void ReportProblems(const std::string& path, const RecordReport& report);

// The routes of a file, sorted, each prefix once; problems go to stderr.
// Errors: those of ReadRouteFile.
absl::StatusOr<std::vector<Route>> ReadRoutes(const std::string& path);

// The table of --ipv4, --seed and --next_hops with so many IPv6 routes.
std::vector<Route> MadeUpRoutes(uint64_t ipv6_routes);

}  // namespace planb::client

#endif  // PLANB_CLIENT_PLANBCTL_ROUTE_SOURCE_H_
