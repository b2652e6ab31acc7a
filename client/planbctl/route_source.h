// SPDX-License-Identifier: Apache-2.0

// Routing tables that planbctl holds itself: from a file, or made up.

#ifndef PLANB_CLIENT_PLANBCTL_ROUTE_SOURCE_H_
#define PLANB_CLIENT_PLANBCTL_ROUTE_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
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

// What lies between two tables: those routes that one has and the other has
// not, or not so.

// A prefix whose route differs. kNoRoute: it has none there.
struct RouteDifference {
  Prefix prefix;
  NextHopId old_next_hop = kNoRoute;
  NextHopId next_hop = kNoRoute;

  friend bool operator==(const RouteDifference&,
                         const RouteDifference&) = default;
};

// Compares a table that comes route by route with one at hand: one pass over
// both, no memory. Thread-compatible.
class RouteDiff {
 public:
  using OnDifference = std::function<void(const RouteDifference&)>;

  // `wanted` is sorted, has each prefix once, and outlives this. Differences
  // come sorted by prefix.
  RouteDiff(absl::Span<const Route> wanted, OnDifference on_difference)
      : wanted_(wanted), on_difference_(std::move(on_difference)) {}

  // The next route of the other table, sorted.
  void Add(const Route& route);
  // After the last one.
  void Finish();

 private:
  const absl::Span<const Route> wanted_;
  const OnDifference on_difference_;
  // Of wanted_, the first one not compared yet.
  size_t next_ = 0;
};

}  // namespace planb::client

#endif  // PLANB_CLIENT_PLANBCTL_ROUTE_SOURCE_H_
