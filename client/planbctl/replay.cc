// SPDX-License-Identifier: Apache-2.0

// planbctl replay: applies recorded BGP updates at their recorded times.

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_format.h"
#include "client/load/update_replayer.h"
#include "client/planbctl/command.h"
#include "client/planbctl/flags.h"
#include "client/planbctl/record.h"
#include "client/planbctl/route_source.h"
#include "client/planbctl/session.h"
#include "client/planbctl/table_objects.h"
#include "client/table_client.h"
#include "lpm/io/bgp_updates.h"
#include "planb/client/output.pb.h"

ABSL_FLAG(double, speed, 1,
          "Speed relative to the recording; 0: as fast as possible.");

namespace planb::client {
namespace {

// Passes changes to the replayer with the table's ids. Makes the objects before
// the first change that names them.
class TableIdsSink : public TraceSink {
 public:
  TableIdsSink(const TableClient& client, UpdateReplayer& replayer)
      : objects_(&client), replayer_(replayer) {}

  absl::Status OnNextHop(const NextHop& next_hop) override {
    objects_.Add(next_hop);
    return absl::OkStatus();
  }
  absl::Status OnChanges(const std::vector<TraceChange>& changes) override {
    absl::Status status = objects_.Make();
    if (!status.ok()) return status;
    std::vector<TraceChange> translated = changes;
    for (TraceChange& change : translated) {
      change.route.next_hop = objects_.ToTable(change.route.next_hop);
    }
    objects_.Relist();
    return replayer_.OnChanges(translated);
  }

  const FileObjects& objects() const { return objects_; }

 private:
  FileObjects objects_;
  UpdateReplayer& replayer_;
};

// Keeps an error of the server apart from one of the file.
class ReplaySink : public UpdateSink {
 public:
  ReplaySink(const TableClient& client, UpdateReplayer& replayer)
      : client_(client), ids_(client, replayer), trace_(1, ids_) {}

  absl::Status OnUpdate(const UpdateEvent& event) override {
    if (!std::exchange(has_base_, true)) server_error_ = AddBase();
    if (server_error_.ok()) server_error_ = trace_.OnUpdate(event);
    return server_error_;
  }
  const absl::Status& server_error() const { return server_error_; }
  // Of the updates, unless a route of the table had it.
  uint64_t next_hops() const {
    return ids_.objects().next_hops() - base_next_hops_;
  }

 private:
  // The routes of --table, which the updates may withdraw.
  absl::Status AddBase() {
    const std::string table = absl::GetFlag(FLAGS_table);
    const auto list = client_.ListNextHops(table, CallDeadline());
    if (!list.ok()) return list.status();
    std::map<NextHopId, NextHop> next_hops;
    for (const NextHop& next_hop : list->next_hops) {
      next_hops[next_hop.id] = next_hop;
    }
    v1::ListRoutesRequest request;
    request.set_table(table);
    const absl::Status status =
        client_
            .ListRoutes(
                request,
                [&](const Route& route) {
                  const auto hop = next_hops.find(route.next_hop);
                  return trace_.AddBase(route.prefix, hop == next_hops.end()
                                                          ? NextHop()
                                                          : hop->second);
                },
                CallDeadline())
            .status();
    base_next_hops_ = ids_.objects().next_hops();
    return status;
  }

  const TableClient& client_;
  bool has_base_ = false;
  uint64_t base_next_hops_ = 0;
  TableIdsSink ids_;
  UpdateTrace trace_;
  absl::Status server_error_;
};

// The sums over all files.
struct Files {
  uint64_t updates = 0;
  uint64_t malformed = 0;
  uint64_t ignored = 0;
  std::map<std::string, uint64_t> ignored_by;
  bool truncated = false;
};

output::Replay Describe(const ReplayReport& report, const Files& files,
                        uint64_t next_hops) {
  output::Replay line;
  line.set_updates(files.updates);
  line.set_malformed(files.malformed);
  line.set_ignored(files.ignored);
  for (const auto& [type, count] : files.ignored_by) {
    (*line.mutable_ignored_by())[type] = count;
  }
  line.set_truncated(files.truncated);
  line.set_changes(report.changes);
  line.set_next_hops(next_hops);
  line.set_batches(report.batches);
  line.set_refused(report.refused);
  line.set_generation(report.generation);
  line.set_visible_generation(report.visible_generation);
  line.set_recorded_seconds(absl::ToDoubleSeconds(report.recorded));
  const double seconds = absl::ToDoubleSeconds(report.took);
  line.set_seconds(seconds);
  line.set_changes_per_second(static_cast<double>(report.changes) / seconds);
  const auto milliseconds = [](absl::Duration duration) {
    return absl::ToDoubleMilliseconds(duration);
  };
  line.set_send_lag_ms_max(milliseconds(report.send_lag.Max()));
  line.set_answer_lag_ms_p50(milliseconds(report.answer_lag.Quantile(0.5)));
  line.set_answer_lag_ms_p99(milliseconds(report.answer_lag.Quantile(0.99)));
  line.set_answer_lag_ms_max(milliseconds(report.answer_lag.Max()));
  return line;
}

std::string TextOf(const output::Replay& replay) {
  return absl::StrFormat(
      "%d changes of %d updates (%.1f s) in %.2f s: %.0f a second, %d "
      "batches, %d refused; generation %d\n"
      "lag: sent at most %.2f ms late; answered after %.2f ms (p50), %.2f ms "
      "(p99), %.2f ms at most\n",
      replay.changes(), replay.updates(), replay.recorded_seconds(),
      replay.seconds(), replay.changes_per_second(), replay.batches(),
      replay.refused(), replay.generation(), replay.send_lag_ms_max(),
      replay.answer_lag_ms_p50(), replay.answer_lag_ms_p99(),
      replay.answer_lag_ms_max());
}

ExitCode Run(const Arguments& arguments) {
  const double speed = absl::GetFlag(FLAGS_speed);
  if (!(speed >= 0)) return FailUsage("--speed must not be negative");
  const auto channel = ConnectToServer();
  if (!channel.ok()) return Fail(channel.status());
  UpdateReplayer replayer(
      *channel, {.stream = {.table = absl::GetFlag(FLAGS_table),
                            .ack = absl::GetFlag(FLAGS_ack).value,
                            .ack_replicas = absl::GetFlag(FLAGS_ack_replicas),
                            .writer_epoch = absl::GetFlag(FLAGS_writer_epoch)},
                 .speed = speed,
                 .batch = absl::GetFlag(FLAGS_chunk),
                 .require_next_hops = true,
                 .timeout = absl::GetFlag(FLAGS_timeout)});
  const TableClient client(*channel);
  ReplaySink sink(client, replayer);
  Files files;
  for (const std::string& path : arguments) {
    const auto report =
        ReadBgpUpdates(path, {.strict = absl::GetFlag(FLAGS_strict)}, sink);
    if (!sink.server_error().ok()) return Fail(sink.server_error());
    if (!report.ok()) return FailUsage(report.status().message());
    ReportProblems(path, *report, ProblemCounts(*report));
    files.ignored += report->ignored;
    for (const auto& [type, count] : report->ignored_by) {
      files.ignored_by[type] += count;
    }
    files.updates += report->updates;
    files.malformed += report->malformed;
    files.truncated = files.truncated || report->truncated;
  }
  const auto report = replayer.Finish();
  if (!report.ok()) return Fail(report.status());
  const output::Replay line = Describe(*report, files, sink.next_hops());
  Print(line, TextOf(line));
  if (report->refused > 0) return Fail(report->first_refusal);
  return files.malformed > 0 || files.truncated ? ExitCode::kNegative
                                                : ExitCode::kOk;
}

const RegisteredCommand kReplayCommand({
    .name = "replay",
    .arguments = "FILE...",
    .summary = "replay recorded BGP updates",
    .description =
        "Reads MRT update files (BGP4MP of RFC 6396; plain or "
        "compressed) in the given order and applies the recorded changes, "
        "with the recorded gaps divided by --speed. Sends changes that "
        "are due together in batches of at most --chunk. A second change "
        "of a prefix begins another batch. If several peers announce a "
        "prefix, the peer that appears first in the files "
        "counts. A route that the table has before, as of \"load\", ends when "
        "its peer withdraws the prefix, or any peer if its next hop does not "
        "tell whose it is. Gateways are found by what they mean, as by "
        "\"load\".\n\nReports the rate, the delay until batches were sent, "
        "and the delay until they were answered, both from the time they "
        "were due (--speed=0: from the time they were sent). Exits with 3 "
        "if a batch was refused, with 1 if malformed records were "
        "skipped, with 2 if FILE has no BGP4MP record but others, as a table "
        "dump.",
    .flags = {"speed", "chunk", "ack", "ack_replicas", "writer_epoch",
              "strict"},
    .run = Run,
});

}  // namespace
}  // namespace planb::client
