// SPDX-License-Identifier: Apache-2.0

// planbctl routes replace and diff: make a table equal to a file, or compare.

#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_format.h"
#include "client/planbctl/command.h"
#include "client/planbctl/flags.h"
#include "client/planbctl/output.h"
#include "client/planbctl/route_source.h"
#include "client/planbctl/session.h"
#include "client/table_client.h"
#include "client/whole_table.h"
#include "lpm/io/route_file.h"
#include "planb/client/output_routes.pb.h"

namespace planb::client {
namespace {

// The content of a file, with sorted routes.
struct Contents {
  std::vector<NextHop> next_hops;
  std::vector<NextHopGroup> groups;
  std::vector<Route> routes;
};

// Reads the file at `path` to its end. A part is not enough: the missing routes
// would be withdrawn.
// Errors: those of a strict ReadRouteFile.
absl::StatusOr<Contents> ReadWhole(const std::string& path) {
  RouteCollector collector;
  const auto report = ReadRouteFile(path, {.strict = true}, collector);
  if (!report.ok()) return report.status();
  return Contents{.next_hops = collector.TakeNextHops(),
                  .groups = collector.TakeGroups(),
                  .routes = collector.TakeRoutes()};
}

absl::StatusOr<v1::ReplaceRoutesResponse> Replace(
    const std::shared_ptr<grpc::Channel>& channel, const Contents& contents) {
  v1::ReplaceRoutesRequest first;
  SetConditions(first);
  RouteReplacer replacer(channel, first, CallDeadline());
  absl::Status status;
  const auto add = [&](const auto& items) {
    for (const auto& item : items) {
      if (status.ok()) status = replacer.Add(item);
    }
  };
  add(contents.next_hops);
  add(contents.groups);
  add(contents.routes);
  if (!status.ok()) return status;
  return replacer.Finish();
}

ExitCode RunReplace(const Arguments& arguments) {
  if (arguments.size() != 1) return FailUsage("routes replace takes one file");
  const auto file = ReadWhole(arguments[0]);
  if (!file.ok()) return FailUsage(file.status().message());
  const auto channel = ConnectToServer();
  if (!channel.ok()) return Fail(channel.status());
  const auto response = Replace(*channel, *file);
  if (!response.ok()) return Fail(response.status());
  PrintChange(DescribeRouteChange(*response));
  return ExitCode::kOk;
}

void Print(const RouteDifference& difference, bool json) {
  const std::string prefix = difference.prefix.ToString();
  const bool added = difference.old_next_hop == kNoRoute;
  const bool removed = difference.next_hop == kNoRoute;
  if (json) {
    output::Difference line;
    line.set_prefix(prefix);
    if (!added) line.set_old_next_hop(difference.old_next_hop);
    if (!removed) line.set_next_hop(difference.next_hop);
    absl::PrintF("%s", JsonLine(line));
  } else if (added) {
    absl::PrintF("+ %s %d\n", prefix, difference.next_hop);
  } else if (removed) {
    absl::PrintF("- %s %d\n", prefix, difference.old_next_hop);
  } else {
    absl::PrintF("~ %s %d -> %d\n", prefix, difference.old_next_hop,
                 difference.next_hop);
  }
}

ExitCode RunDiff(const Arguments& arguments) {
  if (arguments.size() != 1) return FailUsage("routes diff takes one file");
  const auto file = ReadWhole(arguments[0]);
  if (!file.ok()) return FailUsage(file.status().message());
  const auto channel = ConnectToServer();
  if (!channel.ok()) return Fail(channel.status());
  const bool json = absl::GetFlag(FLAGS_json);
  bool differs = false;
  RouteDiff diff(file->routes, [&](const RouteDifference& difference) {
    differs = true;
    Print(difference, json);
  });
  v1::ListRoutesRequest request;
  request.set_table(absl::GetFlag(FLAGS_table));
  const auto generation = TableClient(*channel).ListRoutes(
      request,
      [&](const Route& route) {
        diff.Add(route);
        return absl::OkStatus();
      },
      CallDeadline());
  if (!generation.ok()) return Fail(generation.status());
  diff.Finish();
  return differs ? ExitCode::kNegative : ExitCode::kOk;
}

}  // namespace

const Command kRoutesReplaceCommand = {
    .name = "routes replace",
    .arguments = "FILE",
    .summary = "make a table what a file says",
    .description =
        "Makes the routes of the table exactly those of FILE, in one "
        "step: changes the routes that differ and withdraws those that "
        "are not in FILE. FILE has a format of \"load\". Also sets the next "
        "hops and groups that FILE describes; others stay. If FILE is "
        "malformed anywhere or truncated, nothing changes. \"routes diff\" "
        "shows the changes in advance, --dry_run counts them.",
    .flags = ChangeFlags(),
    .run = RunReplace,
};

const Command kRoutesDiffCommand = {
    .name = "routes diff",
    .arguments = "FILE",
    .summary = "show what \"routes replace\" would do",
    .description =
        "Compares the routes of the table, as lookups see it, with those "
        "of FILE and prints a line for each prefix that differs: \"+ "
        "PREFIX NEXTHOP\" is in FILE only, \"- PREFIX NEXTHOP\" is in the "
        "table only, \"~ PREFIX OLD -> NEW\" has another next hop in FILE. "
        "Exits with 1 if there is a difference, with 2 if FILE is "
        "malformed anywhere.",
    .flags = {},
    .run = RunDiff,
};

}  // namespace planb::client
