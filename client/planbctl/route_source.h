// SPDX-License-Identifier: Apache-2.0

// Routing tables within planbctl: read from a file, synthetic, or compared.

#ifndef PLANB_CLIENT_PLANBCTL_ROUTE_SOURCE_H_
#define PLANB_CLIENT_PLANBCTL_ROUTE_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/planbctl/command.h"
#include "client/planbctl/table_objects.h"
#include "client/table_client.h"
#include "lpm/io/byte_source.h"
#include "lpm/io/route_file.h"
#include "lpm/prefix.h"

namespace planb::client {

// Prints the problems of reading `path` to stderr, and `counts`, its
// ProblemCounts, unless empty.
void ReportProblems(const std::string& path, const RecordReport& report,
                    const std::string& counts);

// Opens a file; "-" is the standard input. Errors: those of OpenFile.
absl::StatusOr<std::unique_ptr<ByteSource>> OpenRoutes(const std::string& path);

// Reads `source`, the file at `path`, as ReadRouteFile does, by --allow_empty,
// --next_hop, --csv_columns and --attributes. Prints problems to stderr.
absl::StatusOr<RouteFileReport> ReadRoutes(const std::string& path,
                                           std::unique_ptr<ByteSource> source,
                                           bool strict, RouteSink& sink);

// The same, opened by OpenRoutes.
absl::StatusOr<RouteFileReport> ReadRoutes(const std::string& path, bool strict,
                                           RouteSink& sink);

// Prints why a file cannot be used. Returns kNegative if nothing in it could be
// read, or nothing is in it, else kUsage.
ExitCode FailFile(const absl::Status& status);

// The routes of a file, sorted, each prefix once. `objects`, if not null, gets
// its next hops and groups, `whole` whether all of it was read. Errors: those
// of ReadRouteFile.
absl::StatusOr<std::vector<Route>> ReadRoutes(const std::string& path,
                                              NextHopList* objects = nullptr,
                                              bool* whole = nullptr);

// A table has 24 bytes a route and is made within a minute or so.
inline constexpr uint64_t kMostMadeUp = 10'000'000;

// The synthetic table of --ipv4, --seed and --next_hops with `ipv6_routes`.
// Errors: INVALID_ARGUMENT if it would have more than kMostMadeUp routes.
absl::StatusOr<std::vector<Route>> MadeUpRoutes(uint64_t ipv6_routes);

// A prefix with different routes in two tables. kNoRoute: no route.
struct RouteDifference {
  Prefix prefix;
  NextHopId old_next_hop = kNoRoute;
  NextHopId next_hop = kNoRoute;

  friend bool operator==(const RouteDifference&,
                         const RouteDifference&) = default;
};

// Compares a table that arrives route by route with one in memory, in one pass.
// Thread-compatible.
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
  // Index of the first route of wanted_ not compared yet.
  size_t next_ = 0;
};

// Passes the differences of the visible routes of --table, as the old ones, and
// `routes`, sorted, to `on_difference`. Ids that mean the same are equal:
// `known` has the objects of both. Errors: those of ListRoutes.
absl::Status CompareWithTable(const TableClient& client,
                              const KnownObjects& known,
                              std::vector<Route> routes,
                              RouteDiff::OnDifference on_difference);

}  // namespace planb::client

#endif  // PLANB_CLIENT_PLANBCTL_ROUTE_SOURCE_H_
