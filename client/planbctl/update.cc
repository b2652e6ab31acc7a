// SPDX-License-Identifier: Apache-2.0

// planbctl announce, withdraw and load: change a few routes, or load a file.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_format.h"
#include "base/monotonic_time.h"
#include "client/call.h"
#include "client/planbctl/command.h"
#include "client/planbctl/flags.h"
#include "client/planbctl/output.h"
#include "client/planbctl/route_source.h"
#include "client/planbctl/session.h"
#include "client/table_client.h"
#include "client/whole_table.h"
#include "lpm/io/route_file.h"
#include "planb/client/output.pb.h"

namespace planb::client {

namespace {

using v1::RouteUpdate;

// Appends a change; with --strict, `strict` is its op. If `prefix` is
// malformed, prints an error and returns false.
bool AddUpdate(const std::string& prefix, NextHopId next_hop,
               RouteUpdate::Op strict, v1::UpdateRoutesRequest& request) {
  const auto parsed = Prefix::Parse(prefix);
  if (!parsed.ok()) {
    FailUsage(parsed.status().message());
    return false;
  }
  RouteUpdate* const update = request.add_updates();
  *update = ToUpdate({*parsed, next_hop});
  if (absl::GetFlag(FLAGS_strict)) update->set_op(strict);
  return true;
}

ExitCode Send(v1::UpdateRoutesRequest request) {
  SetConditions(request);
  return CallServer(
      [&](const auto& channel) {
        return TableClient(channel).UpdateRoutes(request, CallDeadline());
      },
      PrintChange);
}

// A route of the command line: to an id, or to a gateway and interface.
struct Announced {
  std::string prefix;
  NextHopId id = kNoRoute;
  NextHop object;  // without an id; if `id` is kNoRoute
};

// Reads "PREFIX NEXTHOP" and "PREFIX [via GATEWAY] [dev INTERFACE]", repeated.
absl::StatusOr<std::vector<Announced>> ParseRoutes(const Arguments& arguments) {
  std::vector<Announced> routes;
  for (size_t i = 0; i < arguments.size();) {
    Announced& route = routes.emplace_back();
    route.prefix = arguments[i++];
    bool named = false;
    while (i + 1 < arguments.size() &&
           (arguments[i] == "via" || arguments[i] == "dev")) {
      named = true;
      if (arguments[i] == "dev") {
        route.object.interface = arguments[i + 1];
      } else {
        const auto gateway = Address::Parse(arguments[i + 1]);
        if (!gateway.ok()) return gateway.status();
        route.object.gateway = *gateway;
      }
      i += 2;
    }
    if (named) continue;
    if (i == arguments.size()) {
      return absl::InvalidArgumentError(
          "announce takes PREFIX NEXTHOP or PREFIX via GATEWAY dev INTERFACE");
    }
    const auto id = ParseNextHopId(arguments[i++]);
    if (!id.ok()) return id.status();
    route.id = *id;
  }
  return routes;
}

// What the ids of the table's objects stand for: gateways and interfaces alone.
using KnownIds = std::map<NextHopId, std::string>;

KnownIds Known(const NextHopList& list) {
  KnownIds known;
  for (const NextHop& next_hop : list.next_hops) {
    known[next_hop.id] = TextOf(
        NextHop{.gateway = next_hop.gateway, .interface = next_hop.interface});
  }
  for (const NextHopGroup& group : list.groups) known[group.id] = "group";
  return known;
}

// The lowest id of an object with this gateway and interface; adds it to
// `known` and `request` if it is new. A new id is a hash of the two, so that
// other clients choose the same one, and out of the way of small ids.
NextHopId IdOf(NextHop wanted, KnownIds& known,
               v1::UpdateRoutesRequest& request) {
  constexpr NextHopId kFirst = 1 << 23;
  const std::string name = TextOf(wanted);
  for (const auto& [id, text] : known) {
    if (text == name) return id;
  }
  uint32_t hash = 2166136261;  // FNV-1a
  for (const char c : name) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 16777619;
  }
  wanted.id = kFirst + hash % kFirst;
  while (known.contains(wanted.id)) {
    wanted.id = kFirst + (wanted.id + 1) % kFirst;
  }
  known[wanted.id] = name;
  *request.add_next_hops() = ToProto(wanted);
  return wanted.id;
}

// Sends the routes, and the objects that the table lacks, in one step.
ExitCode SendRoutes(const std::vector<Announced>& routes) {
  const bool named =
      std::any_of(routes.begin(), routes.end(),
                  [](const Announced& r) { return r.id == kNoRoute; });
  const auto channel = ConnectToServer();
  if (!channel.ok()) return Fail(channel.status());
  const TableClient client(*channel);
  constexpr int kAttempts = 5;
  for (int attempt = 1;; ++attempt) {
    NextHopList list;
    if (named) {
      auto listed =
          client.ListNextHops(absl::GetFlag(FLAGS_table), CallDeadline());
      if (!listed.ok()) return Fail(listed.status());
      list = *std::move(listed);
    }
    v1::UpdateRoutesRequest request;
    KnownIds known = Known(list);
    for (const Announced& route : routes) {
      const NextHopId id =
          route.id != kNoRoute ? route.id : IdOf(route.object, known, request);
      if (!AddUpdate(route.prefix, id, RouteUpdate::OP_INSERT, request)) {
        return ExitCode::kUsage;
      }
    }
    SetConditions(request);
    // Another client may have taken the ids meanwhile.
    const bool guarded = named && !request.has_expected_generation();
    if (guarded) request.set_expected_generation(list.generation);
    const auto response = client.UpdateRoutes(request, CallDeadline());
    if (response.ok()) return PrintChange(*response);
    if (!guarded || attempt == kAttempts ||
        ErrorReason(response.status()) != "GENERATION_MISMATCH") {
      return Fail(response.status());
    }
  }
}

ExitCode Announce(const Arguments& arguments) {
  const auto routes = ParseRoutes(arguments);
  if (!routes.ok()) return FailUsage(routes.status().message());
  return SendRoutes(*routes);
}

ExitCode Withdraw(const Arguments& arguments) {
  v1::UpdateRoutesRequest request;
  for (const std::string& argument : arguments) {
    if (!AddUpdate(argument, kNoRoute, RouteUpdate::OP_DELETE_STRICT,
                   request)) {
      return ExitCode::kUsage;
    }
  }
  return Send(std::move(request));
}

}  // namespace

const Command kAnnounceCommand = {
    .name = "announce",
    .arguments = "PREFIX NEXTHOP [PREFIX NEXTHOP]...",
    .summary = "add routes, or change their next hops",
    .description =
        "Announces routes in one step, all or none. NEXTHOP is the id of "
        "a next hop, 1 to 4294967294; or \"via GATEWAY\", \"dev "
        "INTERFACE\" or both, which is the next-hop object with that gateway "
        "and interface: it is made in the same step if the table has none. "
        "Prints the generation of the "
        "change, and the numbers of routes added, changed and unchanged.",
    .flags = ChangeFlags({"strict"}),
    .run = Announce,
};

const Command kWithdrawCommand = {
    .name = "withdraw",
    .arguments = "PREFIX...",
    .summary = "remove routes",
    .description =
        "Withdraws routes in one step, all or none. A prefix without a "
        "route is an error only with --strict. Prints the generation of "
        "the change, and the number of routes removed.",
    .flags = ChangeFlags({"strict"}),
    .run = Withdraw,
};

namespace {

// Passes records to the loader, and keeps an error of the server apart from one
// of the file.
class LoaderSink : public RouteSink {
 public:
  explicit LoaderSink(RouteLoader& loader) : loader_(loader) {}

  absl::Status OnNextHop(const NextHop& next_hop) override {
    return server_error_ = loader_.Add(next_hop);
  }
  absl::Status OnRoute(const Route& route) override {
    return server_error_ = loader_.Add(route);
  }
  absl::Status OnGroup(const NextHopGroup& group) override {
    return server_error_ = loader_.Add(group);
  }
  const absl::Status& server_error() const { return server_error_; }

 private:
  RouteLoader& loader_;
  absl::Status server_error_;
};

ExitCode Show(const LoadReport& load, const RouteFileReport& file,
              absl::Duration took) {
  output::Load line;
  line.set_routes(Number(load.routes));
  line.set_next_hops(Number(load.next_hops));
  line.set_groups(Number(load.groups));
  line.set_chunks(Number(load.chunks));
  line.set_added(Number(load.added));
  line.set_changed(Number(load.changed));
  line.set_unchanged(Number(load.unchanged));
  line.set_generation(Number(load.generation));
  line.set_visible_generation(Number(load.visible_generation));
  line.set_malformed(Number(file.malformed));
  line.set_ignored(Number(file.ignored));
  line.set_truncated(file.truncated);
  line.set_seconds(absl::ToDoubleSeconds(took));
  Print(line, absl::StrFormat(
                  "%d routes and %d next hops in %.2f s: %d added, %d changed, "
                  "%d unchanged; generation %d; %d records malformed%s\n",
                  load.routes, load.next_hops, line.seconds(), load.added,
                  load.changed, load.unchanged, load.generation, file.malformed,
                  file.truncated ? "; the file is truncated" : ""));
  return file.malformed > 0 || file.truncated ? ExitCode::kNegative
                                              : ExitCode::kOk;
}

ExitCode Run(const Arguments& arguments) {
  const std::string& path = arguments[0];
  const auto channel = ConnectToServer();
  if (!channel.ok()) return Fail(channel.status());
  const absl::Time start = MonotonicNow();
  const TableClient client(*channel);
  std::optional<Progress> progress("routes");
  RouteLoader loader(
      client, {.table = absl::GetFlag(FLAGS_table),
               .chunk = absl::GetFlag(FLAGS_chunk),
               .ack = absl::GetFlag(FLAGS_ack).value,
               .ack_replicas = absl::GetFlag(FLAGS_ack_replicas),
               .writer_epoch = absl::GetFlag(FLAGS_writer_epoch),
               .request_id = absl::GetFlag(FLAGS_request_id),
               .timeout = absl::GetFlag(FLAGS_timeout),
               .on_chunk = [&progress](const LoadReport& report) {
                 progress->Show(report.routes, absl::StrCat(", generation ",
                                                            report.generation));
               }});
  LoaderSink sink(loader);
  const auto file =
      ReadRouteFile(path, {.strict = absl::GetFlag(FLAGS_strict)}, sink);
  if (!sink.server_error().ok() || !file.ok()) progress.reset();
  if (!sink.server_error().ok()) return Fail(sink.server_error());
  if (!file.ok()) return FailUsage(file.status().message());
  ReportProblems(path, *file);
  const auto load = loader.Finish();
  progress.reset();
  if (!load.ok()) return Fail(load.status());
  return Show(*load, *file, MonotonicNow() - start);
}

}  // namespace

const Command kLoadCommand = {
    .name = "load",
    .arguments = "FILE",
    .summary = "announce all routes of a file",
    .description =
        "Reads routes from FILE and announces them in chunks, in the "
        "order of the file: of a repeated prefix, the last route counts. "
        "Routes of the table that are not in FILE stay. Each chunk is "
        "applied as a whole or not at all. The last chunk waits for "
        "--ack. With --request_id, chunks are named ID/1, ID/2, ..., and "
        "a repeated load with the same --chunk does not apply a chunk "
        "twice. FILE is text (\"PREFIX/LEN NEXTHOP\" a line) or MRT "
        "TABLE_DUMP_V2 (RFC 6396), plain, gzipped or bzip2ed, or a "
        "snapshot. Next hops and groups in FILE become objects of the "
        "table.\n\nMalformed records are reported and skipped. Exits with 1 "
        "if there were malformed records or FILE is truncated; all other "
        "routes are loaded. With --strict the first malformed record ends "
        "the load with 2; earlier chunks stay applied.",
    .flags = {"ack", "ack_replicas", "writer_epoch", "request_id", "chunk",
              "strict"},
    .run = Run,
};

}  // namespace planb::client
