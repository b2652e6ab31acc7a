// SPDX-License-Identifier: Apache-2.0

#include "server/initial_table.h"

#include <algorithm>

#include "lpm/io/route_file.h"
#include "lpm/synthetic/synthetic.h"
#include "server/base/log.h"

namespace planb::server {
namespace {

absl::Status ReadFile(const InitialTableOptions& options, UpdateBatch& batch) {
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
  batch.replacement = collector.TakeRoutes();
  batch.next_hops = collector.TakeNextHops();
  batch.groups = collector.TakeGroups();
  return absl::OkStatus();
}

}  // namespace

absl::Status LoadInitialTable(const InitialTableOptions& options,
                              Table& table) {
  if (table.state().accepted > 0) {
    Log(LogLevel::kInfo, "kept the stored table; no initial routes are read");
    return absl::OkStatus();
  }
  UpdateBatch batch;
  if (!options.routes_file.empty()) {
    const absl::Status read = ReadFile(options, batch);
    if (!read.ok()) return read;
  } else if (options.generate_v6 + options.generate_v4 > 0) {
    batch.replacement = SyntheticTable({.ipv6_routes = options.generate_v6,
                                        .ipv4_routes = options.generate_v4,
                                        .seed = options.seed});
  }
  if (!batch.replacement.has_value()) return absl::OkStatus();
  std::sort(batch.replacement->begin(), batch.replacement->end());
  const absl::StatusOr<UpdateOutcome> outcome = table.Apply(batch);
  if (!outcome.ok()) return outcome.status();
  return table.AwaitVisible(outcome->generation);
}

}  // namespace planb::server
