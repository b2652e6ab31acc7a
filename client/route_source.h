// Routing tables that planbctl holds itself: from a file, or made up.

#ifndef PLANB_CLIENT_ROUTE_SOURCE_H_
#define PLANB_CLIENT_ROUTE_SOURCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lpm/io/route_file.h"
#include "lpm/prefix.h"

namespace planb::client {

// Says on stderr what a reader of files could not read of `path`.
void ReportProblems(const std::string& path, const RecordReport& report);

// What is wrong with the file at `path`, with the path, once: readers know it
// of some errors and not of others.
absl::Status OfFile(const std::string& path, const absl::Status& status);

// The routes of a file, sorted, each prefix once; problems go to stderr.
// Errors: those of ReadRouteFile, with the path.
absl::StatusOr<std::vector<Route>> ReadRoutes(const std::string& path);

// The table of --ipv4, --seed and --next_hops with so many IPv6 routes.
std::vector<Route> MadeUpRoutes(uint64_t ipv6_routes);

}  // namespace planb::client

#endif  // PLANB_CLIENT_ROUTE_SOURCE_H_
