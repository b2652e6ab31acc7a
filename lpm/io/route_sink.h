// SPDX-License-Identifier: Apache-2.0

// The results of reading a file: its routes go to a sink, and its problems go
// into a report.

#ifndef PLANB_LPM_IO_ROUTE_SINK_H_
#define PLANB_LPM_IO_ROUTE_SINK_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "lpm/prefix.h"

namespace planb {

// A record that could not be read.
struct RouteFileProblem {
  uint64_t offset = 0;  // of the record: bytes into the uncompressed file
  uint64_t line = 0;    // for text, counted from 1; else 0
  std::string message;
};

// How many problems a report describes; the rest is only counted.
inline constexpr size_t kMaxRouteFileProblems = 16;

// About the reading of any file of records.
struct RecordReport {
  uint64_t malformed = 0;  // records, or single paths of a record, skipped
  uint64_t ignored = 0;    // well-formed records that hold nothing of use
  // The first few problems.
  std::vector<RouteFileProblem> problems;
  // The file ended in the middle of a record or of its compression, or its
  // compression is corrupt. The sink has all records before that place.
  bool truncated = false;
};

// Where a record starts.
struct RecordPlace {
  uint64_t offset = 0;  // bytes into the uncompressed file
  uint64_t line = 0;    // for text, counted from 1; else 0
};

// Counts the records that a reader could not read, keeps the first few, and
// makes them errors if `strict`. Every call that returns a status ends the
// reading unless it is OK. Thread-compatible.
class ProblemOutput {
 public:
  // `name` stands for the file in error messages.
  ProblemOutput(absl::string_view name, bool strict)
      : name_(name), strict_(strict) {}
  ProblemOutput(const ProblemOutput&) = delete;
  ProblemOutput& operator=(const ProblemOutput&) = delete;

  // A record that holds nothing of use, and should not.
  void OnIgnored() { ++records_.ignored; }

  // A record, or a part of one, that is skipped.
  // Errors: DATA_LOSS with `strict`.
  absl::Status OnMalformed(RecordPlace place, absl::string_view message);

  // The file ends before it should. Errors: DATA_LOSS with `strict`.
  absl::Status OnTruncated(RecordPlace place, absl::string_view message);

  // The stream gave no more bytes at `place`, and `stream` is its status. `cut`
  // names the incomplete part; empty at a good place to end.
  // Errors: `stream` itself unless OK or DATA_LOSS; DATA_LOSS with `strict`.
  absl::Status OnEnd(RecordPlace place, const absl::Status& stream,
                     absl::string_view cut);

  // The name of the file in error messages.
  const std::string& name() const { return name_; }

  const RecordReport& records() const { return records_; }

 private:
  absl::Status OnProblem(RecordPlace place, absl::string_view message);

  const std::string name_;
  const bool strict_;
  RecordReport records_;
};

// Receives the contents of a file. A next hop or group that the file describes
// comes before the first route that names it, once a file. One that the file
// only names does not come, since the table may know more of it. An error ends
// the reading and is returned by it.
class RouteSink {
 public:
  virtual ~RouteSink() = default;
  virtual absl::Status OnNextHop(const NextHop& next_hop) = 0;
  virtual absl::Status OnRoute(const Route& route) = 0;
  // Only table files have groups. Ignored by default: lookups answer with the
  // group's id all the same. RouteFileReport::groups counts them.
  virtual absl::Status OnGroup(const NextHopGroup& /*group*/) {
    return absl::OkStatus();
  }
};

// About the reading of a route file.
struct RouteFileReport : RecordReport {
  uint64_t routes = 0;     // handed to the sink
  uint64_t next_hops = 0;  // handed to the sink
  uint64_t groups = 0;     // handed to the sink, which may have ignored them
};

// A sink that collects. A later item replaces an earlier one of the same prefix
// or id. Thread-compatible.
class RouteCollector : public RouteSink {
 public:
  absl::Status OnNextHop(const NextHop& next_hop) override;
  absl::Status OnRoute(const Route& route) override;
  absl::Status OnGroup(const NextHopGroup& group) override;

  // Sorted by prefix, each prefix once. Call once, last. O(routes log routes).
  std::vector<Route> TakeRoutes();
  // Sorted by id, each id once. Call once, last.
  std::vector<NextHop> TakeNextHops();
  std::vector<NextHopGroup> TakeGroups();

 private:
  std::vector<Route> routes_;
  std::vector<NextHop> next_hops_;
  std::vector<NextHopGroup> groups_;
};

// Hands the routes that a reader read to a sink, and counts them. Every call
// that returns a status ends the reading unless it is OK. Thread-compatible.
class RouteOutput : public ProblemOutput {
 public:
  // `sink` must outlive this.
  RouteOutput(absl::string_view name, bool strict, RouteSink& sink)
      : ProblemOutput(name, strict), sink_(sink) {}

  // Hand on to the sink. Errors: the sink's.
  absl::Status OnNextHop(const NextHop& next_hop);
  absl::Status OnRoute(const Route& route);
  absl::Status OnGroup(const NextHopGroup& group);

  RouteFileReport report() const;

 private:
  RouteSink& sink_;
  RouteFileReport counts_;  // of items handed on; problems are the base's
};

}  // namespace planb

#endif  // PLANB_LPM_IO_ROUTE_SINK_H_
