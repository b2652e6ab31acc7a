// SPDX-License-Identifier: Apache-2.0

// planbctl load: a routing table from a file into the server.

#include <cstdio>
#include <string>

#include "absl/flags/flag.h"
#include "absl/strings/str_format.h"
#include "base/monotonic_time.h"
#include "client/planbctl/change.h"
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

// Hands what the file holds to the loader, and remembers whether it was the
// server that stopped the reading.
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

// A word on stderr, at most twice a second.
class Progress {
 public:
  void Show(const LoadReport& report) {
    if (MonotonicNow() - shown_ < absl::Milliseconds(500)) return;
    shown_ = MonotonicNow();
    absl::FPrintF(stderr, "planbctl: %d routes sent, generation %d\n",
                  report.routes, report.generation);
  }

 private:
  absl::Time shown_ = MonotonicNow();
};

void Print(const LoadReport& load, const RouteFileReport& file,
           absl::Duration took) {
  if (absl::GetFlag(FLAGS_json)) {
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
    absl::PrintF("%s", JsonLine(line));
    return;
  }
  absl::PrintF(
      "%d routes and %d next hops in %.2f s: %d added, %d changed, %d "
      "unchanged; generation %d; %d records malformed%s\n",
      load.routes, load.next_hops, absl::ToDoubleSeconds(took), load.added,
      load.changed, load.unchanged, load.generation, file.malformed,
      file.truncated ? "; the file is truncated" : "");
}

ExitCode Run(const Arguments& arguments) {
  if (arguments.size() != 1) return FailUsage("load takes one file");
  const std::string& path = arguments[0];
  const auto channel = ConnectToServer();
  if (!channel.ok()) return Fail(channel.status());
  const absl::Time start = MonotonicNow();
  const TableClient client(*channel);
  Progress progress;
  RouteLoader loader(client,
                     {.table = absl::GetFlag(FLAGS_table),
                      .chunk = absl::GetFlag(FLAGS_chunk),
                      .ack = AckFromFlag(),
                      .writer_epoch = absl::GetFlag(FLAGS_writer_epoch),
                      .request_id = absl::GetFlag(FLAGS_request_id),
                      .timeout = absl::GetFlag(FLAGS_timeout),
                      .on_chunk = [&progress](const LoadReport& report) {
                        progress.Show(report);
                      }});
  LoaderSink sink(loader);
  const auto file =
      ReadRouteFile(path, {.strict = absl::GetFlag(FLAGS_strict)}, sink);
  if (!sink.server_error().ok()) return Fail(sink.server_error());
  if (!file.ok()) return FailUsage(file.status().message());
  ReportProblems(path, *file);
  const auto load = loader.Finish();
  if (!load.ok()) return Fail(load.status());
  Print(*load, *file, MonotonicNow() - start);
  return file->malformed > 0 || file->truncated ? ExitCode::kNegative
                                                : ExitCode::kOk;
}

}  // namespace

const Command kLoadCommand = {
    .name = "load",
    .arguments = "FILE",
    .summary = "announce all routes of a file",
    .description =
        "Reads routes from FILE and announces them in chunks, in the "
        "file's order: of a prefix given twice, the last counts. Routes "
        "of the table that are not in the file stay. Each chunk is all or "
        "nothing; --ack is what the last one waits for. With --request_id, "
        "chunks are named ID/1, ID/2, ..., and a load that is repeated with "
        "the same --chunk skips what it has done. "
        "FILE is text (\"PREFIX/LEN NEXTHOP\" a line) or MRT "
        "TABLE_DUMP_V2 (RFC 6396), plain, gzipped or bzip2ed, or a "
        "snapshot. Next hops and groups that the file describes become objects "
        "of the table.\n\nMalformed "
        "records are reported and skipped. Exits with 1 if there were "
        "any, or if the file breaks off; what was read is loaded all the "
        "same. With --strict the first one ends the load with 2; chunks "
        "sent before it stay.",
    .flags = {"ack", "writer_epoch", "request_id", "chunk", "strict"},
    .run = Run,
};

}  // namespace planb::client
