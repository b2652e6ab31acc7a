// SPDX-License-Identifier: Apache-2.0

#include "client/planbctl/route_source.h"

#include <cstdio>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/utf8.h"
#include "client/planbctl/flags.h"
#include "client/planbctl/session.h"
#include "follow/path_attributes.h"
#include "lpm/synthetic/synthetic.h"

ABSL_FLAG(uint32_t, next_hops, 64,
          "Synthetic routes use the next hops 1 to this.");

ABSL_FLAG(planb::client::OptionalNextHop, next_hop, {},
          "routes list: only routes to this next hop; 0: all. Others: the next "
          "hop of prefixes that stand alone in FILE; 0: these are malformed.");
ABSL_FLAG(planb::PathParts, attributes, planb::PathParts::kGateway,
          "FILE is an MRT table dump, and this of a path makes its next hop "
          "beside the gateway: gateway (nothing), origin (the AS that the "
          "route comes from), or full (AS path, communities, LOCAL_PREF and "
          "MED). What a next hop cannot have is cut and counted.");
ABSL_FLAG(std::vector<std::string>, csv_columns, {},
          "FILE is CSV, and these are the names of its columns: of the prefix, "
          "the next hop (an id or a gateway) and the interface, as in "
          "network,asn. The latter two may be left out.");

namespace planb::client {

void ReportProblems(const std::string& path, const RecordReport& report,
                    const std::string& counts) {
  for (const RouteFileProblem& problem : report.problems) {
    absl::FPrintF(stderr, "planbctl: %s: %s\n",
                  Printable(PlaceIn(path, {problem.offset, problem.line})),
                  Printable(problem.message));
  }
  if (!counts.empty()) {
    absl::FPrintF(stderr, "planbctl: %s: %s\n", Printable(path), counts);
  }
}

absl::StatusOr<std::unique_ptr<ByteSource>> OpenRoutes(
    const std::string& path) {
  return path == "-" ? OpenStandardInput() : OpenFile(path);
}

absl::StatusOr<RouteFileReport> ReadRoutes(const std::string& path,
                                           std::unique_ptr<ByteSource> source,
                                           bool strict, RouteSink& sink) {
  auto report = planb::ReadRoutes(
      path, std::move(source),
      {.strict = strict,
       .allow_empty = absl::GetFlag(FLAGS_allow_empty),
       .next_hop = absl::GetFlag(FLAGS_next_hop).id,
       .csv_columns = absl::GetFlag(FLAGS_csv_columns),
       .path_encoder = EncoderOf(absl::GetFlag(FLAGS_attributes))},
      sink);
  if (report.ok()) ReportProblems(path, *report, ProblemCounts(*report));
  return report;
}

absl::StatusOr<RouteFileReport> ReadRoutes(const std::string& path, bool strict,
                                           RouteSink& sink) {
  auto source = OpenRoutes(path);
  if (!source.ok()) return source.status();
  return ReadRoutes(path, *std::move(source), strict, sink);
}

ExitCode FailFile(const absl::Status& status) {
  const ExitCode code = FailUsage(status.message());
  return absl::IsFailedPrecondition(status) ? ExitCode::kNegative : code;
}

absl::StatusOr<std::vector<Route>> ReadRoutes(const std::string& path,
                                              NextHopList* objects,
                                              bool* whole) {
  RouteCollector collector;
  const auto report = ReadRoutes(path, /*strict=*/false, collector);
  if (!report.ok()) return report.status();
  if (whole != nullptr) *whole = report->whole();
  if (objects != nullptr) {
    objects->next_hops = collector.TakeNextHops();
    objects->groups = collector.TakeGroups();
  }
  return collector.TakeRoutes();
}

absl::StatusOr<std::vector<Route>> MadeUpRoutes(uint64_t ipv6_routes) {
  const uint64_t ipv4_routes = absl::GetFlag(FLAGS_ipv4);
  if (ipv6_routes > kMostMadeUp || ipv4_routes > kMostMadeUp - ipv6_routes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cannot make up ", ipv6_routes, " IPv6 routes and ", ipv4_routes,
        " IPv4 routes: ", kMostMadeUp, " together are the most"));
  }
  return SyntheticTable({.ipv6_routes = ipv6_routes,
                         .ipv4_routes = ipv4_routes,
                         .seed = absl::GetFlag(FLAGS_seed),
                         .next_hops = absl::GetFlag(FLAGS_next_hops)});
}

void RouteDiff::Add(const Route& route) {
  while (next_ < wanted_.size() && wanted_[next_].prefix < route.prefix) {
    const Route& added = wanted_[next_++];
    on_difference_({added.prefix, kNoRoute, added.next_hop});
  }
  if (next_ == wanted_.size() || wanted_[next_].prefix != route.prefix) {
    on_difference_({route.prefix, route.next_hop, kNoRoute});
    return;
  }
  const NextHopId wanted = wanted_[next_++].next_hop;
  if (wanted != route.next_hop) {
    on_difference_({route.prefix, route.next_hop, wanted});
  }
}

void RouteDiff::Finish() {
  for (; next_ < wanted_.size(); ++next_) {
    on_difference_({wanted_[next_].prefix, kNoRoute, wanted_[next_].next_hop});
  }
}

absl::Status CompareWithTable(const TableClient& client,
                              const KnownObjects& known,
                              std::vector<Route> routes,
                              RouteDiff::OnDifference on_difference) {
  for (Route& route : routes) {
    route.next_hop = known.Canonical(route.next_hop);
  }
  RouteDiff diff(routes, std::move(on_difference));
  const auto add = [&](Route route) {
    route.next_hop = known.Canonical(route.next_hop);
    diff.Add(route);
    return absl::OkStatus();
  };
  v1::ListRoutesRequest request;
  request.set_table(absl::GetFlag(FLAGS_table));
  const auto listed = client.ListRoutes(request, add, CallDeadline());
  if (!listed.ok()) return listed.status();
  diff.Finish();
  return absl::OkStatus();
}

}  // namespace planb::client
