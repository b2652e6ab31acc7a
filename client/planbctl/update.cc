// SPDX-License-Identifier: Apache-2.0

// planbctl announce, withdraw and load: change a few routes, or load a file.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/monotonic_time.h"
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
  const std::vector<absl::string_view> all(arguments.begin(), arguments.end());
  absl::Span<const absl::string_view> words = all;
  std::vector<Announced> routes;
  while (!words.empty()) {
    Announced& route = routes.emplace_back();
    route.prefix = std::string(words[0]);
    words.remove_prefix(1);
    bool named = false;
    while (!words.empty() && (words[0] == "via" || words[0] == "dev")) {
      named = true;
      const absl::Status status = ConsumeNextHop(words, route.object);
      if (!status.ok()) return status;
    }
    if (named) continue;
    if (words.empty()) {
      return absl::InvalidArgumentError(
          "announce takes PREFIX NEXTHOP or PREFIX via GATEWAY dev INTERFACE");
    }
    const auto id = ParseNextHopId(words[0]);
    if (!id.ok()) return id.status();
    route.id = *id;
    words.remove_prefix(1);
  }
  return routes;
}

// Makes room for objects: deletes as many unused ones as `missing`, of those
// that "announce" made. Another object may wait for its routes. Errors: also
// NEXT_HOP_IN_USE.
absl::Status MakeRoom(const TableClient& client, const NextHopList& list,
                      size_t missing) {
  uint64_t generation = 0;
  const auto used = NamedIds(client, list.groups, generation);
  if (!used.ok()) return used.status();
  v1::UpdateNextHopsRequest request;
  request.set_table(absl::GetFlag(FLAGS_table));
  request.set_writer_epoch(absl::GetFlag(FLAGS_writer_epoch));
  request.set_expected_generation(list.generation);
  for (const NextHop& next_hop : list.next_hops) {
    if (static_cast<size_t>(request.delete_ids_size()) == missing) break;
    if (next_hop.id < kFirstMadeId || next_hop.id >= kEndOfMadeIds ||
        !next_hop.label.empty() || used->contains(next_hop.id)) {
      continue;
    }
    request.add_delete_ids(next_hop.id);
  }
  return client.UpdateNextHops(request, CallDeadline()).status();
}

// Sends the routes, and the objects that the table lacks, in one step.
ExitCode SendRoutes(const std::vector<Announced>& routes) {
  const bool named =
      std::any_of(routes.begin(), routes.end(),
                  [](const Announced& r) { return r.id == kNoRoute; });
  const auto channel = ConnectToServer();
  if (!channel.ok()) return Fail(channel.status());
  const TableClient client(*channel);
  NextHopList list;
  v1::UpdateRoutesRequest request;
  bool malformed = false;
  std::optional<v1::UpdateRoutesResponse> response;
  const auto send = [&]() -> absl::Status {
    if (named) {
      auto listed =
          client.ListNextHops(absl::GetFlag(FLAGS_table), CallDeadline());
      if (!listed.ok()) return listed.status();
      list = *std::move(listed);
    }
    KnownObjects known(list);
    request.Clear();
    for (const Announced& route : routes) {
      const NextHopId id = route.id != kNoRoute
                               ? route.id
                               : known.FindOrAdd(route.object, false);
      malformed = !AddUpdate(route.prefix, id, RouteUpdate::OP_INSERT, request);
      if (malformed) return absl::OkStatus();
    }
    for (const NextHop& next_hop : known.missing().next_hops) {
      *request.add_next_hops() = ToProto(next_hop);
    }
    SetConditions(request);
    // Another client may have taken the ids meanwhile, or pruned the objects.
    if (named && !request.has_expected_generation()) {
      request.set_expected_generation(list.generation);
    }
    auto answer = client.UpdateRoutes(request, CallDeadline());
    if (!answer.ok()) return answer.status();
    response = *std::move(answer);
    return absl::OkStatus();
  };
  const auto send_again = [&] {
    if (!named || absl::GetFlag(FLAGS_expected_generation).has_value()) {
      return send();
    }
    return RetryConflicts(send);
  };
  absl::Status status = send_again();
  // With a condition or only to validate, this command must not change more.
  if (ErrorReason(status) == "NEXT_HOPS_FULL" && named &&
      !absl::GetFlag(FLAGS_dry_run) &&
      !absl::GetFlag(FLAGS_expected_generation).has_value()) {
    const absl::Status room =
        MakeRoom(client, list, static_cast<size_t>(request.next_hops_size()));
    const std::string lost = ErrorReason(room);
    if (room.ok() || lost == "GENERATION_MISMATCH" ||
        lost == "NEXT_HOP_IN_USE") {
      status = send_again();
    }
  }
  if (malformed) return ExitCode::kUsage;
  return status.ok() ? PrintChange(*response) : Fail(status);
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

const RegisteredCommand kAnnounceCommand({
    .name = "announce",
    .arguments = "PREFIX NEXTHOP [PREFIX NEXTHOP]...",
    .summary = "add routes, or change their next hops",
    .description =
        "Announces routes in one step, all or none. NEXTHOP is the id of "
        "a next hop, 1 to 4294967294; or \"via GATEWAY\", \"dev "
        "INTERFACE\" or both, which is the next-hop object with that gateway "
        "and interface: it is made in the same step if the table has none. "
        "If the table may have no more objects, unused ones that \"announce\" "
        "made before make room. "
        "Prints the generation of the "
        "change, and the numbers of routes added, changed and unchanged.",
    .flags = ChangeFlags({"strict"}),
    .run = Announce,
});

const RegisteredCommand kWithdrawCommand({
    .name = "withdraw",
    .arguments = "PREFIX...",
    .summary = "remove routes",
    .description =
        "Withdraws routes in one step, all or none. A prefix without a "
        "route is an error only with --strict. Prints the generation of "
        "the change, and the number of routes removed.",
    .flags = ChangeFlags({"strict"}),
    .run = Withdraw,
});

// Passes records to the loader, and keeps an error of the server apart from one
// of the file. The loader's chunks get the table's ids, and the objects that
// the table lacks, when they are sent.
class LoaderSink : public RouteSink {
 public:
  LoaderSink(FileObjects& objects, RouteLoader& loader)
      : objects_(objects), loader_(loader) {}

  absl::Status OnNextHop(const NextHop& next_hop) override {
    return Arrive(next_hop, next_hops_);
  }
  absl::Status OnGroup(const NextHopGroup& group) override {
    return Arrive(group, groups_);
  }
  absl::Status OnRoute(const Route& route) override {
    ++routes_;
    // May send the chunk before, which must not have objects of this route: a
    // call has at most --chunk of them.
    server_error_ = loader_.Add(route);
    AddArrived();
    return server_error_;
  }
  // Call last, before the loader's Finish.
  absl::Status End() {
    const bool many = objects_.pending() + next_hops_.size() + groups_.size() >
                      absl::GetFlag(FLAGS_chunk);
    if (many) server_error_ = objects_.Make();
    AddArrived();
    return server_error_;
  }
  const absl::Status& server_error() const { return server_error_; }
  uint64_t routes() const { return routes_; }

 private:
  template <typename Object>
  absl::Status Arrive(const Object& object, std::vector<Object>& arrived) {
    if (next_hops_.size() + groups_.size() >=
        std::max<size_t>(absl::GetFlag(FLAGS_chunk), 1)) {
      AddArrived();
      server_error_ = objects_.Make();
    }
    arrived.push_back(object);
    return server_error_;
  }
  void AddArrived() {
    for (const NextHop& next_hop : next_hops_) objects_.Add(next_hop);
    for (const NextHopGroup& group : groups_) objects_.Add(group);
    next_hops_.clear();
    groups_.clear();
  }

  FileObjects& objects_;
  RouteLoader& loader_;
  // Those since the last route.
  std::vector<NextHop> next_hops_;
  std::vector<NextHopGroup> groups_;
  uint64_t routes_ = 0;  // that were read
  absl::Status server_error_;
};

// Fails with how far the load came. What was lost on the way may be sent again.
ExitCode FailLoad(const absl::Status& error, uint64_t acknowledged,
                  uint64_t read) {
  const bool again = IsRetryable(error) || absl::IsDeadlineExceeded(error);
  return Fail(
      {error.code(),
       absl::StrFormat("%s; %d of %d routes that were read were acknowledged "
                       "before that%s",
                       error.message(), acknowledged, read,
                       again ? "; run it again" : "")});
}

ExitCode Show(const LoadReport& load, const FileObjects& objects,
              const RouteFileReport& file, absl::Duration took) {
  output::Load line;
  line.set_routes(load.routes);
  line.set_next_hops(objects.next_hops());
  line.set_groups(objects.groups());
  line.set_chunks(load.chunks);
  line.set_added(load.added);
  line.set_changed(load.changed);
  line.set_unchanged(load.unchanged);
  line.set_generation(load.generation);
  line.set_visible_generation(load.visible_generation);
  line.set_malformed(file.malformed);
  line.set_ignored(file.ignored);
  for (const auto& [type, count] : file.ignored_by) {
    (*line.mutable_ignored_by())[type] = count;
  }
  line.set_paths_skipped(file.paths_skipped);
  line.set_paths_cut(file.paths_cut);
  line.set_routes_lost(file.routes_lost);
  line.set_repeated(file.repeated);
  line.set_truncated(file.truncated);
  line.set_seconds(absl::ToDoubleSeconds(took));
  const std::string counts = ProblemCounts(file);
  Print(line, absl::StrFormat(
                  "%d routes and %d next hops in %.2f s: %d added, %d changed, "
                  "%d unchanged; generation %d; %s\n",
                  load.routes, objects.next_hops(), line.seconds(), load.added,
                  load.changed, load.unchanged, load.generation,
                  counts.empty() ? "0 records malformed" : counts));
  return file.whole() ? ExitCode::kOk : ExitCode::kNegative;
}

ExitCode Run(const Arguments& arguments) {
  const auto channel = ConnectToServer();
  if (!channel.ok()) return Fail(channel.status());
  const absl::Time start = MonotonicNow();
  const TableClient client(*channel);
  std::optional<Progress> progress("routes");
  FileObjects objects(&client);
  bool sent = false;
  uint64_t changes = 0;  // of the chunks before
  uint64_t acknowledged = 0;
  RouteLoader loader(
      client, {.table = absl::GetFlag(FLAGS_table),
               .chunk = absl::GetFlag(FLAGS_chunk),
               .ack = absl::GetFlag(FLAGS_ack).value,
               .ack_replicas = absl::GetFlag(FLAGS_ack_replicas),
               .writer_epoch = absl::GetFlag(FLAGS_writer_epoch),
               .request_id = absl::GetFlag(FLAGS_request_id),
               .timeout = absl::GetFlag(FLAGS_timeout),
               .prepare =
                   [&](v1::UpdateRoutesRequest& chunk) {
                     // A chunk that is sent again may have lost its objects.
                     if (std::exchange(sent, true)) objects.Unsettle();
                     return objects.Prepare(chunk);
                   },
               .on_chunk =
                   [&](const LoadReport& report) {
                     sent = false;
                     acknowledged = report.routes;
                     const uint64_t all = report.added + report.changed;
                     objects.Settle(report.generation,
                                    std::exchange(changes, all) != all);
                     progress->Show(
                         report.routes,
                         absl::StrCat(", generation ", report.generation));
                   }});
  LoaderSink sink(objects, loader);
  const auto file = ReadRoutes(arguments[0], absl::GetFlag(FLAGS_strict), sink);
  if (file.ok()) sink.End().IgnoreError();  // server_error() has it
  if (!sink.server_error().ok() || !file.ok()) progress.reset();
  if (!sink.server_error().ok()) {
    return FailLoad(sink.server_error(), acknowledged, sink.routes());
  }
  if (!file.ok()) return FailFile(file.status());
  const auto load = loader.Finish();
  progress.reset();
  if (!load.ok()) return FailLoad(load.status(), acknowledged, sink.routes());
  return Show(*load, objects, *file, MonotonicNow() - start);
}

const RegisteredCommand kLoadCommand({
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
        "twice. FILE (\"-\": the standard input) is text, an MRT table dump "
        "(RFC 6396) or a snapshot, plain or compressed (gzip, bzip2, xz, "
        "zstd; to at most 64 MiB plus 1000 times its size). Text has one "
        "form, which its first well-formed line shows: "
        "\"PREFIX/LEN NEXTHOP\" a line, or prefixes alone with --next_hop; "
        "\"PREFIX via GATEWAY dev INTERFACE\", as \"announce\" takes it; "
        "what \"ip route show\", \"ip -6 route show\" and \"birdc show "
        "route\" print (several next hops are a group; the lowest metric, or "
        "the selected route of the first table, counts); CAIDA's pfx2as (the "
        "first AS number is "
        "the next hop); or CSV with a header and --csv_columns (any text is "
        "CSV then). A prefix with "
        "different next hops is reported. Next hops and groups of FILE are "
        "found by what they mean: "
        "an object of the table with the same gateway and interface is used, "
        "and one that the table lacks is made before the first route that "
        "names it. It keeps the id of FILE only if that is free. No object "
        "of the table is changed.\n\nOf the paths of a prefix in an MRT file, "
        "wherever they are, those with a gateway come first; then as in RFC "
        "4271 section 9.1 the highest LOCAL_PREF (absent: 100), the shortest "
        "AS path (a set counts one, a confederation nothing), the lowest "
        "origin, the lowest MED of the paths of one neighbor AS (absent: 0), "
        "and the peer with the lowest BGP identifier, then address. "
        "--attributes says what of that path makes a next hop; an empty AS "
        "path is the peer's.\n\nMalformed records are reported and "
        "skipped; records of other kinds, such as BGP4MP, are counted by type; "
        "so are paths that could not be read, and routes that are lost because "
        "none of their paths could. Exits with 1 "
        "if there were malformed records or lost routes or FILE is truncated; "
        "all other routes are loaded, also of a compressed FILE whose "
        "checksum, at its end, is wrong: \"routes replace\" takes all or "
        "nothing. With --strict the first of them ends "
        "the load with 2; earlier chunks stay applied. If the server fails, "
        "the error says how many routes it has acknowledged; the same load may "
        "be run again. A FILE that gives no "
        "route is refused: with 2 if it is of another kind, which is named, "
        "with 1 if nothing in it could be read, or nothing is in it and "
        "--allow_empty is not given.",
    .flags = {"ack", "ack_replicas", "writer_epoch", "request_id", "chunk",
              "strict", "allow_empty", "next_hop", "csv_columns", "attributes"},
    .run = Run,
});

}  // namespace
}  // namespace planb::client
