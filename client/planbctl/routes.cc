// SPDX-License-Identifier: Apache-2.0

// planbctl routes list and get: what is in a table.

#include <optional>
#include <string>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/convert.h"
#include "client/planbctl/command.h"
#include "client/planbctl/flags.h"
#include "client/planbctl/output.h"
#include "client/planbctl/session.h"
#include "client/status.h"
#include "client/table_client.h"
#include "planb/client/output_routes.pb.h"

namespace planb::client {
namespace {

// One route a line, which "load" would read.
void Print(const Route& route, bool json) {
  if (json) {
    output::Route line;
    line.set_prefix(route.prefix.ToString());
    line.set_next_hop(route.next_hop);
    absl::PrintF("%s", JsonLine(line));
  } else {
    absl::PrintF("%-24s %d\n", route.prefix.ToString(), route.next_hop);
  }
}

ExitCode List(const Arguments& arguments) {
  if (arguments.size() > 1) return FailUsage("routes list takes one prefix");
  const std::optional<MatchChoice> match = absl::GetFlag(FLAGS_match);
  v1::ListRoutesRequest request;
  request.set_table(absl::GetFlag(FLAGS_table));
  request.set_next_hop_id(absl::GetFlag(FLAGS_next_hop));
  if (arguments.empty()) {
    if (match.has_value()) return FailUsage("--match needs a prefix");
  } else {
    const auto prefix = Prefix::Parse(arguments[0]);
    if (!prefix.ok()) return FailUsage(prefix.status().message());
    *request.mutable_prefix() = ToProto(*prefix);
    request.set_match(match.value_or(MatchChoice()).match);
  }
  const auto channel = ConnectToServer();
  if (!channel.ok()) return Fail(channel.status());
  const bool json = absl::GetFlag(FLAGS_json);
  const auto generation = TableClient(*channel).ListRoutes(
      request,
      [json](const Route& route) {
        Print(route, json);
        return absl::OkStatus();
      },
      CallDeadline());
  return generation.ok() ? ExitCode::kOk : Fail(generation.status());
}

ExitCode Get(const Arguments& arguments) {
  if (arguments.size() != 1) return FailUsage("routes get takes one prefix");
  const auto prefix = Prefix::Parse(arguments[0]);
  if (!prefix.ok()) return FailUsage(prefix.status().message());
  const auto channel = ConnectToServer();
  if (!channel.ok()) return Fail(channel.status());
  const auto route = TableClient(*channel).GetRoute(absl::GetFlag(FLAGS_table),
                                                    *prefix, CallDeadline());
  const bool json = absl::GetFlag(FLAGS_json);
  if (route.ok()) {
    Print(*route, json);
    return ExitCode::kOk;
  }
  if (ErrorReason(route.status()) != "ROUTE_NOT_FOUND") {
    return Fail(route.status());
  }
  if (json) {
    Print({*prefix, kNoRoute}, json);
  } else {
    absl::PrintF("%-24s no route\n", prefix->ToString());
  }
  return ExitCode::kNegative;
}

}  // namespace

const Command kRoutesListCommand = {
    .name = "routes list",
    .arguments = "[PREFIX]",
    .summary = "print routes of a table",
    .description =
        "Prints the routes of one generation, the one that lookups see: a line "
        "\"PREFIX NEXTHOP\" for each, as load reads them; IPv4 first, sorted. "
        "With PREFIX, only those that --match says. All has to have arrived "
        "within --timeout.",
    .flags = {"match", "next_hop"},
    .run = List,
};

const Command kRoutesGetCommand = {
    .name = "routes get",
    .arguments = "PREFIX",
    .summary = "print the route of exactly this prefix",
    .description =
        "Prints the route of PREFIX itself, not of prefixes that hold it, as "
        "\"routes list\" does. Exits with 1 if there is none.",
    .flags = {},
    .run = Get,
};

}  // namespace planb::client
