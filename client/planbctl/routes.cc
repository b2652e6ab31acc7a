// SPDX-License-Identifier: Apache-2.0

// planbctl routes list, get, explain, replace and diff, and snapshot import.

#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/call.h"
#include "client/planbctl/command.h"
#include "client/planbctl/flags.h"
#include "client/planbctl/output.h"
#include "client/planbctl/record.h"
#include "client/planbctl/route_source.h"
#include "client/planbctl/session.h"
#include "client/planbctl/table_objects.h"
#include "client/table_client.h"
#include "client/whole_table.h"
#include "lpm/io/byte_source.h"
#include "lpm/io/route_file.h"
#include "lpm/io/table_file.h"
#include "planb/client/output.pb.h"

ABSL_FLAG(
    std::optional<planb::client::Choice<planb::v1::ListRoutesRequest::Match>>,
    match, std::nullopt,
    "With PREFIX: exact (its own route), covering (also routes of prefixes "
    "that contain it) or subtree (also routes of prefixes within it; the "
    "default).");

namespace planb::client {

namespace {

// One route a line, a format that "load" reads.
ExitCode PrintRoute(const Route& route, absl::string_view next_hop) {
  Print(ToProto(route),
        absl::StrFormat("%-24s %s\n", route.prefix.ToString(), next_hop));
  return ExitCode::kOk;
}
ExitCode PrintRoute(const Route& route) {
  return PrintRoute(route, absl::StrCat(route.next_hop));
}

ExitCode List(const Arguments& arguments) {
  const auto match = absl::GetFlag(FLAGS_match);
  v1::ListRoutesRequest request;
  request.set_table(absl::GetFlag(FLAGS_table));
  request.set_next_hop_id(absl::GetFlag(FLAGS_next_hop).id);
  if (arguments.empty()) {
    if (match.has_value()) return FailUsage("--match needs a prefix");
  } else {
    const auto prefix = Prefix::Parse(arguments[0]);
    if (!prefix.ok()) return FailUsage(prefix.status().message());
    *request.mutable_prefix() = ToProto(*prefix);
    request.set_match(match.has_value() ? match->value
                                        : v1::ListRoutesRequest::MATCH_SUBTREE);
  }
  const auto print = [](const Route& route) {
    PrintRoute(route);
    return absl::OkStatus();
  };
  return CallServer(
      [&](const auto& channel) {
        return TableClient(channel).ListRoutes(request, print, CallDeadline());
      },
      [](uint64_t) { return ExitCode::kOk; });
}

ExitCode Get(const Arguments& arguments) {
  const auto prefix = Prefix::Parse(arguments[0]);
  if (!prefix.ok()) return FailUsage(prefix.status().message());
  const auto channel = ConnectToServer();
  if (!channel.ok()) return Fail(channel.status());
  const auto route = TableClient(*channel).GetRoute(absl::GetFlag(FLAGS_table),
                                                    *prefix, CallDeadline());
  if (route.ok()) return PrintRoute(*route);
  if (ErrorReason(route.status()) != "ROUTE_NOT_FOUND") {
    return Fail(route.status());
  }
  PrintRoute({*prefix, kNoRoute}, "no route");
  return ExitCode::kNegative;
}

const RegisteredCommand kRoutesListCommand({
    .name = "routes list",
    .arguments = "[PREFIX]",
    .summary = "print routes of a table",
    .description =
        "Prints the routes of the generation that lookups see, one a "
        "line: \"PREFIX NEXTHOP\", a format that \"load\" reads. IPv4 comes "
        "first, and the lines are sorted. With PREFIX, prints only the "
        "routes that --match selects. The whole list must arrive within "
        "--timeout.",
    .flags = {"match", "next_hop"},
    .run = List,
});

const RegisteredCommand kRoutesGetCommand({
    .name = "routes get",
    .arguments = "PREFIX",
    .summary = "print the route of exactly this prefix",
    .description =
        "Prints the route of exactly PREFIX, in the format of \"routes "
        "list\". Exits with 1 if there is none.",
    .run = Get,
});

ExitCode ShowExplanation(const Address& address,
                         const v1::ExplainLookupResponse& response) {
  output::Explanation asked;
  asked.set_address(address.ToString());
  const PrintedFields fields = FieldsOf(response, FieldsOf(asked));
  std::string text = FormText(fields);
  uint32_t best = kNoRoute;
  for (const v1::Route& match : response.matches()) {
    const auto route = FromProto(match);
    if (!route.ok()) return Fail(BrokenContract(route.status().message()));
    absl::StrAppendFormat(&text, "%c %-22s %d\n", best == kNoRoute ? '*' : ' ',
                          route->prefix.ToString(), route->next_hop);
    if (best == kNoRoute) best = route->next_hop;
  }
  Print(fields, text);
  if (best != response.next_hop_id()) {
    return Fail(absl::InternalError(
        absl::StrCat("lookups answer ", response.next_hop_id(),
                     ", but the longest route leads to ", best)));
  }
  return best == kNoRoute ? ExitCode::kNegative : ExitCode::kOk;
}

ExitCode Explain(const Arguments& arguments) {
  const auto parsed = Address::Parse(arguments[0]);
  if (!parsed.ok()) return FailUsage(parsed.status().message());
  const Address address = Unmapped(*parsed);
  v1::ExplainLookupRequest request;
  request.set_table(absl::GetFlag(FLAGS_table));
  request.set_address(address.ToPacked());
  if (const auto flow = absl::GetFlag(FLAGS_flow_hash)) {
    request.set_flow_hash(*flow);
  }
  return CallServer(
      [&](const auto& channel) {
        return TableClient(channel).ExplainLookup(request, CallDeadline());
      },
      [&](const v1::ExplainLookupResponse& response) {
        return ShowExplanation(address, response);
      });
}

const RegisteredCommand kRoutesExplainCommand({
    .name = "routes explain",
    .arguments = "ADDRESS",
    .summary = "show why an address goes where it goes",
    .description =
        "Shows the next hop of ADDRESS, the object of the next hop, and "
        "every route whose prefix contains ADDRESS, the longest first. "
        "The longest decides and is marked with \"*\". If the next hop is a "
        "group, shows its members (ID*WEIGHT) and, with --flow_hash, the "
        "member that the flow takes. Exits with 1 if ADDRESS has no "
        "route, and with 3 if the answer is not the next hop of the "
        "longest route. An IPv4-mapped address, ::ffff:192.0.2.1, is explained "
        "as the IPv4 address in it.",
    .flags = {"flow_hash"},
    .run = Explain,
});

// The content of a file, with sorted routes.
struct Contents {
  NextHopList objects;
  std::vector<Route> routes;
};

// Reads `source`, the file at `path`, to its end. A part is not enough: the
// missing routes would be withdrawn. Errors: those of a strict ReadRouteFile.
absl::StatusOr<Contents> ReadWhole(const std::string& path,
                                   std::unique_ptr<ByteSource> source) {
  RouteCollector collector;
  const auto report =
      ReadRoutes(path, std::move(source), /*strict=*/true, collector);
  if (!report.ok()) return report.status();
  return Contents{.objects = {.next_hops = collector.TakeNextHops(),
                              .groups = collector.TakeGroups()},
                  .routes = collector.TakeRoutes()};
}

absl::StatusOr<Contents> ReadWhole(const std::string& path) {
  auto source = OpenRoutes(path);
  if (!source.ok()) return source.status();
  return ReadWhole(path, *std::move(source));
}

absl::StatusOr<v1::ReplaceRoutesResponse> Send(
    const std::shared_ptr<grpc::Channel>& channel,
    const v1::ReplaceRoutesRequest& first, const NextHopList& objects,
    const std::vector<Route>& routes) {
  RouteReplacer replacer(channel, first, CallDeadline());
  absl::Status status;
  Progress progress(
      "routes, next hops and groups",
      objects.next_hops.size() + objects.groups.size() + routes.size());
  uint64_t added = 0;
  const auto add = [&](const auto& items) {
    for (const auto& item : items) {
      if (status.ok()) status = replacer.Add(item);
      if (++added % 1024 == 0) progress.Show(added);
    }
  };
  add(objects.next_hops);
  add(objects.groups);
  add(routes);
  if (!status.ok()) return status;
  return replacer.Finish();
}

absl::StatusOr<v1::ReplaceRoutesResponse> Replace(
    const std::shared_ptr<grpc::Channel>& channel, const Contents& file) {
  v1::ReplaceRoutesRequest first;
  SetConditions(first);
  const NextHopList& described = file.objects;
  if (described.next_hops.empty() && described.groups.empty()) {
    return Send(channel, first, {}, file.routes);
  }
  const TableClient client(channel);
  const bool conditional = first.has_expected_generation();
  if (!first.request_id().empty() && !conditional && !first.validate_only()) {
    // A repeated request has the same contents and conditions. So the objects
    // are made before, and neither they nor a generation are a part of it.
    FileObjects objects(&client);
    objects.Add(described);
    absl::Status made = objects.Make();
    if (!made.ok()) return made;
    std::vector<Route> routes = file.routes;
    for (Route& route : routes) {
      route.next_hop = objects.ToTable(route.next_hop);
    }
    return Send(channel, first, {}, routes);
  }
  absl::StatusOr<v1::ReplaceRoutesResponse> response;
  const auto send = [&]() -> absl::Status {
    std::vector<Route> routes = file.routes;
    const auto known = UseTableIds(client, described, routes);
    if (!known.ok()) return known.status();
    v1::ReplaceRoutesRequest request = first;
    // Other clients may make or prune objects meanwhile.
    if (!conditional) {
      request.set_expected_generation(known->missing().generation);
    }
    response = Send(channel, request, known->missing(), routes);
    return response.status();
  };
  const absl::Status status = conditional ? send() : RetryConflicts(send);
  if (!status.ok()) return status;
  return response;
}

ExitCode ReplaceBy(const absl::StatusOr<Contents>& file) {
  if (!file.ok()) return FailFile(file.status());
  return CallServer(
      [&](const auto& channel) { return Replace(channel, *file); },
      PrintChange);
}

ExitCode RunReplace(const Arguments& arguments) {
  return ReplaceBy(ReadWhole(arguments[0]));
}

// Passes on the bytes of a source and keeps them, but not those of a file that
// begins as no snapshot does: it may be larger than memory.
class Keeper final : public ByteSource {
 public:
  Keeper(ByteSource& from, std::string& kept) : from_(from), kept_(kept) {}

  absl::StatusOr<size_t> Read(char* out, size_t size) override {
    const auto count = from_.Read(out, size);
    const absl::string_view head =
        absl::string_view(kept_).substr(0, kTableFileMagic.size());
    if (count.ok() && absl::StartsWith(kTableFileMagic, head)) {
      kept_.append(out, *count);
    }
    return count;
  }

 private:
  ByteSource& from_;
  std::string& kept_;
};

ExitCode RunImport(const Arguments& arguments) {
  const std::string& path = arguments[0];
  auto source = OpenRoutes(path);
  if (source.ok()) source = Decompress(*std::move(source));
  if (!source.ok()) return FailUsage(source.status().message());
  std::string bytes;
  const auto file = ReadWhole(path, std::make_unique<Keeper>(**source, bytes));
  if (!absl::StartsWith(bytes, kTableFileMagic)) return ReplaceBy(file);
  if (absl::IsFailedPrecondition(file.status())) return FailFile(file.status());
  // The server says what is wrong with a damaged snapshot, of which the rest
  // was not read.
  Keeper rest(**source, bytes);
  for (std::string piece(size_t{64} << 10, '\0');;) {
    const auto count = rest.Read(piece.data(), piece.size());
    if (!count.ok()) {
      return FailUsage(absl::IsDataLoss(count.status())
                           ? absl::StrCat(path, ": ", count.status().message())
                           : count.status().message());
    }
    if (*count == 0) break;
  }
  std::istringstream snapshot(std::move(bytes));
  return CallServer(
      [&](const auto& channel) {
        v1::ImportSnapshotRequest first;
        SetConditions(first);
        return SnapshotTransfer(channel).Import(first, snapshot,
                                                CallDeadline());
      },
      PrintChange);
}

void PrintDifference(const RouteDifference& difference) {
  const std::string prefix = difference.prefix.ToString();
  const NextHopId from = difference.old_next_hop;
  const NextHopId to = difference.next_hop;
  output::Difference line;
  line.set_prefix(prefix);
  if (from != kNoRoute) line.set_old_next_hop(from);
  if (to != kNoRoute) line.set_next_hop(to);
  Print(line, from == kNoRoute ? absl::StrFormat("+ %s %d\n", prefix, to)
              : to == kNoRoute
                  ? absl::StrFormat("- %s %d\n", prefix, from)
                  : absl::StrFormat("~ %s %d -> %d\n", prefix, from, to));
}

ExitCode RunDiff(const Arguments& arguments) {
  auto file = ReadWhole(arguments[0]);
  if (!file.ok()) return FailFile(file.status());
  const auto channel = ConnectToServer();
  if (!channel.ok()) return Fail(channel.status());
  const TableClient client(*channel);
  const auto known = UseTableIds(client, file->objects, file->routes);
  if (!known.ok()) return Fail(known.status());
  bool differs = false;
  const absl::Status compared =
      CompareWithTable(client, *known, std::move(file->routes),
                       [&](const RouteDifference& difference) {
                         differs = true;
                         PrintDifference(difference);
                       });
  if (!compared.ok()) return Fail(compared);
  return differs ? ExitCode::kNegative : ExitCode::kOk;
}

const RegisteredCommand kRoutesReplaceCommand({
    .name = "routes replace",
    .arguments = "FILE",
    .summary = "make a table what a file says",
    .description =
        "Makes the routes of the table exactly those of FILE, in one "
        "step: changes the routes that differ and withdraws those that "
        "are not in FILE. FILE has a format of \"load\". Next hops and "
        "groups of FILE are found by what they mean, as by \"load\"; those "
        "that the table lacks are made in the same step, and no other is "
        "changed. If FILE is "
        "malformed anywhere or truncated, or gives no route, nothing changes: "
        "an empty table needs an empty FILE and --allow_empty. \"routes diff\" "
        "shows the changes in advance, --dry_run counts them.",
    .flags = ChangeFlags({"allow_empty", "next_hop", "csv_columns",
                          "attributes"}),
    .run = RunReplace,
});

const RegisteredCommand kRoutesDiffCommand({
    .name = "routes diff",
    .arguments = "FILE",
    .summary = "show what \"routes replace\" would do",
    .description =
        "Compares the routes of the table, as lookups see it, with those "
        "of FILE and prints a line for each prefix that differs: \"+ "
        "PREFIX NEXTHOP\" is in FILE only, \"- PREFIX NEXTHOP\" is in the "
        "table only, \"~ PREFIX OLD -> NEW\" has another next hop in FILE. "
        "If FILE describes next hops, compares what they mean. "
        "Exits with 1 if there is a difference or nothing is in FILE and "
        "--allow_empty is not given, with 2 if FILE is malformed anywhere or "
        "of another kind.",
    .flags = {"allow_empty", "next_hop", "csv_columns", "attributes"},
    .run = RunDiff,
});

const RegisteredCommand kSnapshotImportCommand({
    .name = "snapshot import",
    .arguments = "FILE",
    .summary = "make a table what a snapshot says",
    .description =
        "Replaces the whole table, next hops and groups included, by a "
        "FILE of \"snapshot export\" (\"-\": the standard input), plain "
        "or compressed, in one step. A damaged file changes nothing, nor "
        "does a snapshot of a table without routes, unless --allow_empty is "
        "given. Another FILE of \"load\" is taken as by \"routes replace\", "
        "which changes no object that the table has.",
    .flags = ChangeFlags({"allow_empty", "next_hop", "csv_columns",
                          "attributes"}),
    .run = RunImport,
});

}  // namespace
}  // namespace planb::client
