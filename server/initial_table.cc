#include "server/initial_table.h"

#include <utility>
#include <vector>

#include "lpm/io/route_file.h"
#include "lpm/synthetic/synthetic.h"
#include "server/log.h"

namespace planb::server {
namespace {

absl::Status ReadFile(const InitialTableOptions& options,
                      std::vector<Route>& routes,
                      std::vector<NextHop>& next_hops) {
  RouteCollector collector;
  const absl::StatusOr<RouteFileReport> report =
      ReadRouteFile(options.routes_file, {.strict = options.strict}, collector);
  if (!report.ok()) return report.status();
  for (const RouteFileProblem& problem : report->problems) {
    Log(LogLevel::kWarning, "skipped a malformed route record",
        {{"file", options.routes_file},
         {"offset", problem.offset},
         {"line", problem.line},
         {"problem", problem.message}});
  }
  Log(report->malformed > 0 || report->truncated ? LogLevel::kWarning
                                                 : LogLevel::kInfo,
      "read routes",
      {{"file", options.routes_file},
       {"routes", report->routes},
       {"malformed", report->malformed},
       {"ignored", report->ignored},
       {"truncated", report->truncated ? 1 : 0}});
  routes = collector.TakeRoutes();
  next_hops = collector.TakeNextHops();
  return absl::OkStatus();
}

}  // namespace

absl::Status LoadInitialTable(const InitialTableOptions& options,
                              Table& table) {
  std::vector<Route> routes;
  UpdateBatch batch;
  if (!options.routes_file.empty()) {
    const absl::Status read = ReadFile(options, routes, batch.next_hops);
    if (!read.ok()) return read;
  } else if (options.generate_v6 + options.generate_v4 > 0) {
    routes = SyntheticTable({.ipv6_routes = options.generate_v6,
                             .ipv4_routes = options.generate_v4,
                             .seed = options.seed});
  }
  if (routes.empty()) return absl::OkStatus();
  batch.changes.reserve(routes.size());
  for (const Route& route : routes) {
    batch.changes.push_back(
        {RouteChange::Op::kUpsert, route.prefix, route.next_hop});
  }
  const absl::StatusOr<UpdateOutcome> outcome = table.Apply(batch);
  if (!outcome.ok()) return outcome.status();
  table.AwaitVisible(outcome->generation);
  return absl::OkStatus();
}

}  // namespace planb::server
