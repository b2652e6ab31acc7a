// SPDX-License-Identifier: Apache-2.0

// Reads bytes as a route file, an update file or a table file, and keeps the
// results.

#ifndef PLANB_LPM_IO_TESTING_READ_H_
#define PLANB_LPM_IO_TESTING_READ_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/internal/raw_logging.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "lpm/io/bgp_updates.h"
#include "lpm/io/byte_source.h"
#include "lpm/io/route_file.h"
#include "lpm/io/route_sink.h"
#include "lpm/io/table_file.h"
#include "lpm/io/testing/bytes.h"

namespace planb {

// Returns its bytes, then an error.
class FailingSource : public ByteSource {
 public:
  FailingSource(std::string bytes, absl::Status error)
      : bytes_(StringSource(std::move(bytes))), error_(std::move(error)) {}
  absl::StatusOr<size_t> Read(char* out, size_t size) override {
    absl::StatusOr<size_t> count = bytes_->Read(out, size);
    if (count.ok() && *count == 0) return error_;
    return count;
  }

 private:
  const std::unique_ptr<ByteSource> bytes_;
  const absl::Status error_;
};

// Returns the fields of each line that bgpdump prints for the file; none if it
// is not installed. It is the witness of another reader of MRT.
inline std::optional<std::vector<std::vector<std::string>>> Bgpdump(
    const std::string& path) {
  if (system("command -v bgpdump > /dev/null 2>&1") != 0) return std::nullopt;
  // bgpdump frees what a record took, and malloc would give it back to the
  // system each time, which takes two thirds of the processor's time.
  FILE* const pipe = popen(absl::StrCat("MALLOC_TOP_PAD_=67108864 bgpdump -m '",
                                        path, "' 2> /dev/null")
                               .c_str(),
                           "r");
  std::string output;
  char buffer[4096];
  while (const size_t size = fread(buffer, 1, sizeof(buffer), pipe)) {
    output.append(buffer, size);
  }
  pclose(pipe);
  std::vector<std::vector<std::string>> lines;
  for (const absl::string_view line :
       absl::StrSplit(output, '\n', absl::SkipEmpty())) {
    lines.push_back(absl::StrSplit(line, '|'));
  }
  return lines;
}

// Keeps all items in order.
struct ListSink : RouteSink {
  absl::Status OnNextHop(const NextHop& next_hop) override {
    next_hops.push_back(next_hop);
    return absl::OkStatus();
  }
  absl::Status OnRoute(const Route& route) override {
    routes.push_back(route);
    return absl::OkStatus();
  }
  absl::Status OnGroup(const NextHopGroup& group) override {
    groups.push_back(group);
    return absl::OkStatus();
  }

  std::vector<Route> routes;
  std::vector<NextHop> next_hops;
  std::vector<NextHopGroup> groups;
};

struct Reading {
  absl::Status status;
  RouteFileReport report;
  std::vector<NextHop> next_hops;
  std::vector<Route> routes;
  std::vector<NextHopGroup> groups;

  // "2001:db8::/32 1" each, in the order of the file.
  std::vector<std::string> Lines() const {
    std::vector<std::string> lines;
    for (const Route& route : routes) {
      lines.push_back(
          absl::StrCat(route.prefix.ToString(), " ", route.next_hop));
    }
    return lines;
  }

  // "2 routes, 1 hops" and, unless 0: "3 groups", "4 malformed",
  // "5 paths skipped", "6 routes lost", "7 repeated", "8 ignored"; "truncated";
  // the error.
  std::string Summary() const {
    std::string text =
        absl::StrCat(report.routes, " routes, ", report.next_hops, " hops");
    const auto add = [&](uint64_t count, absl::string_view what) {
      if (count > 0) absl::StrAppend(&text, ", ", count, " ", what);
    };
    add(report.groups, "groups");
    add(report.malformed, "malformed");
    add(report.paths_skipped, "paths skipped");
    add(report.routes_lost, "routes lost");
    add(report.repeated, "repeated");
    add(report.ignored, "ignored");
    if (report.truncated) text += ", truncated";
    if (!status.ok()) absl::StrAppend(&text, ", ", status.ToString());
    return text;
  }
};

// Reads with one format's reader.
inline Reading ReadWith(
    const std::function<absl::Status(ByteReader&, RouteOutput&)>& reader,
    std::string bytes, bool strict = false, size_t piece = SIZE_MAX) {
  ListSink sink;
  ByteReader in(StringSource(std::move(bytes), piece));
  RouteOutput out("F", strict, sink);
  absl::Status status = reader(in, out);
  return {status, out.report(), sink.next_hops, sink.routes, sink.groups};
}

// Reads as ReadRouteFile does, detection and decompression included.
inline Reading ReadAny(std::string bytes, RouteFileOptions options = {},
                       size_t piece = SIZE_MAX) {
  ListSink sink;
  absl::StatusOr<RouteFileReport> report =
      ReadRoutes("F", StringSource(std::move(bytes), piece), options, sink);
  return {report.status(), report.ok() ? *report : RouteFileReport{},
          sink.next_hops, sink.routes, sink.groups};
}

struct UpdateReading : UpdateSink {
  absl::Status OnUpdate(const UpdateEvent& event) override {
    events.push_back(event);
    return absl::OkStatus();
  }

  // A line for each prefix, as in "1785420000.000000 AS1 192.0.2.1 A
  // 2001:db8::/32 2001:db8::1", "... W 10.0.0.0/8"; with " #7" for a path
  // identifier and " local" for a message that the collector sent.
  std::vector<std::string> Lines() const {
    std::vector<std::string> lines;
    for (const UpdateEvent& event : events) {
      const int64_t micros = absl::ToUnixMicros(event.at);
      const std::string head =
          absl::StrFormat("%d.%06d AS%d %s", micros / 1000000, micros % 1000000,
                          event.peer.as_number, event.peer.address.ToString());
      const auto add = [&](absl::string_view kind, const NlriPrefix& nlri,
                           absl::string_view gateway) {
        lines.push_back(absl::StrCat(
            head, kind, nlri.prefix.ToString(), gateway,
            nlri.path_id != 0 ? absl::StrCat(" #", nlri.path_id) : "",
            event.local ? " local" : ""));
      };
      for (const NlriPrefix& nlri : event.update.withdraws) {
        add(" W ", nlri, "");
      }
      for (const BgpAnnounce& announce : event.update.announces) {
        add(" A ", announce.nlri,
            announce.gateway ? absl::StrCat(" ", announce.gateway->ToString())
                             : " no gateway");
      }
    }
    return lines;
  }

  absl::Status status;
  BgpUpdatesReport report;
  std::vector<UpdateEvent> events;
};

inline UpdateReading ReadUpdates(std::string bytes, bool strict = false,
                                 size_t piece = SIZE_MAX) {
  UpdateReading reading;
  absl::StatusOr<BgpUpdatesReport> report = ReadBgpUpdates(
      "F", StringSource(std::move(bytes), piece), {.strict = strict}, reading);
  reading.status = report.status();
  if (report.ok()) reading.report = *report;
  return reading;
}

struct TableReading : TableFileSink {
  absl::Status OnHeader(const TableFileHeader& header) override {
    contents.header = header;
    return absl::OkStatus();
  }
  absl::Status OnNextHop(const NextHop& next_hop) override {
    contents.next_hops.push_back(next_hop);
    return absl::OkStatus();
  }
  absl::Status OnGroup(const NextHopGroup& group) override {
    contents.groups.push_back(group);
    return absl::OkStatus();
  }
  absl::Status OnRoute(const Route& route) override {
    contents.routes.push_back(route);
    return absl::OkStatus();
  }
  absl::Status OnEnd(const TableFileCounts& given) override {
    counts = given;
    ++ends;
    return absl::OkStatus();
  }

  TableContents contents;
  TableFileCounts counts;
  int ends = 0;
  absl::Status status;
};

// Reads in pieces of `piece` bytes.
inline TableReading ReadTable(absl::string_view bytes,
                              size_t piece = SIZE_MAX) {
  TableReading reading;
  TableFileReader reader(reading);
  while (!bytes.empty()) {
    // Continues after an error, which every further call must return.
    const absl::string_view next = bytes.substr(0, piece);
    (void)reader.Push(next);
    bytes.remove_prefix(next.size());
  }
  reading.status = reader.Finish();
  return reading;
}

// Writes the file and returns its bytes. `*last` is the writer's last status;
// without it, writing must succeed.
inline std::string WriteTable(const TableContents& contents,
                              absl::Status* last = nullptr) {
  std::string bytes;
  TableFileWriter writer([&](absl::string_view next) {
    bytes.append(next.data(), next.size());
    return absl::OkStatus();
  });
  (void)writer.Begin(contents.header);
  for (const NextHop& next_hop : contents.next_hops) (void)writer.Add(next_hop);
  for (const NextHopGroup& group : contents.groups) (void)writer.Add(group);
  for (const Route& route : contents.routes) (void)writer.Add(route);
  const absl::Status status = writer.Finish();
  ABSL_RAW_CHECK(last != nullptr || status.ok(), "cannot write the table");
  if (last != nullptr) *last = status;
  return bytes;
}

}  // namespace planb

#endif  // PLANB_LPM_IO_TESTING_READ_H_
