// SPDX-License-Identifier: Apache-2.0

// The results of reading a file: a sink receives its routes, and a report
// counts and describes its problems.

#ifndef PLANB_LPM_IO_ROUTE_SINK_H_
#define PLANB_LPM_IO_ROUTE_SINK_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lpm/address.h"
#include "lpm/prefix.h"

namespace planb {

// A record that could not be read.
struct RouteFileProblem {
  uint64_t offset = 0;  // of the record in the uncompressed file
  uint64_t line = 0;    // for text, counted from 1; else 0
  std::string message;
};

// A report describes the first problems and counts all.
inline constexpr size_t kMaxRouteFileProblems = 16;

// A report on the reading of any file of records.
struct RecordReport {
  uint64_t malformed = 0;  // skipped records or lines
  uint64_t ignored = 0;    // well-formed records without routes
  // The ignored ones by what they are, such as "BGP4MP".
  std::map<std::string, uint64_t> ignored_by;
  // The first kMaxRouteFileProblems.
  std::vector<RouteFileProblem> problems;
  // The file ends inside a record or inside a compressed stream, or the
  // compressed stream is corrupt. The sink has all records before that place.
  bool truncated = false;
};

// Where a record starts.
struct RecordPlace {
  uint64_t offset = 0;  // in the uncompressed file
  uint64_t line = 0;    // for text, counted from 1; else 0
};

// What of a file could not be used, as in "1 records malformed, 3 records
// ignored (2 BGP4MP, 1 OSPFv2), the file breaks off"; empty if there is
// nothing.
std::string ProblemCounts(const RecordReport& report);

// Such as "routes.txt:17" and "rib.mrt: at byte 4711".
std::string PlaceIn(absl::string_view name, RecordPlace place);

// Counts problems, describes the first ones, and turns them into errors if
// `strict`. A status other than OK ends the reading. Thread-compatible.
class ProblemOutput {
 public:
  // `name` is the file's name in error messages.
  ProblemOutput(absl::string_view name, bool strict)
      : name_(name), strict_(strict) {}
  ProblemOutput(const ProblemOutput&) = delete;
  ProblemOutput& operator=(const ProblemOutput&) = delete;

  // A well-formed record without routes. `what` names its type.
  void OnIgnored(absl::string_view what);

  // The same of a damaged record without which the others can be read.
  void OnIgnored(absl::string_view what, RecordPlace place,
                 absl::string_view message);

  // A record, or a part of one, is malformed and skipped.
  // Errors: DATA_LOSS with `strict`.
  absl::Status OnMalformed(RecordPlace place, absl::string_view message);

  // The file ends before it should. Errors: DATA_LOSS with `strict`.
  absl::Status OnTruncated(RecordPlace place, absl::string_view message);

  // The stream ends at `place` with the status `stream`. `cut` names the
  // incomplete part; it is empty if the file may end there.
  // Errors: `stream` itself unless OK or DATA_LOSS; DATA_LOSS with `strict`.
  absl::Status OnEnd(RecordPlace place, const absl::Status& stream,
                     absl::string_view cut);

  const std::string& name() const { return name_; }

  const RecordReport& records() const { return records_; }

 protected:
  // Describes a problem that is none of the counts of RecordReport.
  void Describe(RecordPlace place, absl::string_view message);

  // The same, and it is an error with `strict`.
  absl::Status OnProblem(RecordPlace place, absl::string_view message);

 private:
  const std::string name_;
  const bool strict_;
  RecordReport records_;
};

// Receives the contents of a file. A next hop or group that the file describes
// comes once, before the first route that names it. One that the file only
// names does not come, since the table may have a description of it. An error
// of the sink ends the reading, which returns it.
class RouteSink {
 public:
  virtual ~RouteSink() = default;
  virtual absl::Status OnNextHop(const NextHop& next_hop) = 0;
  virtual absl::Status OnRoute(const Route& route) = 0;
  // Only table files have groups. Ignored by default, since lookups return the
  // group's id even without the group. RouteFileReport::groups counts them.
  virtual absl::Status OnGroup(const NextHopGroup& /*group*/) {
    return absl::OkStatus();
  }
};

// A report on the reading of a route file: the numbers of items delivered to
// the sink. The sink may have ignored the groups.
struct RouteFileReport : RecordReport {
  uint64_t routes = 0;
  // Paths that could not be read, and prefixes that are without a route
  // because all their paths are such.
  uint64_t paths_skipped = 0;
  uint64_t routes_lost = 0;
  // Paths whose attributes are more than a next hop may have.
  uint64_t paths_cut = 0;
  // Routes of a prefix that had a route to another next hop before. The last
  // one counts.
  uint64_t repeated = 0;
  uint64_t next_hops = 0;
  uint64_t groups = 0;

  // False if routes of the file are missing.
  bool whole() const {
    return malformed == 0 && routes_lost == 0 && !truncated;
  }
};

// The same with ", 4 paths skipped, 2 routes lost".
std::string ProblemCounts(const RouteFileReport& report);

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

template <typename H>
H AbslHashValue(H state, const Attributes& attributes) {
  return H::combine(std::move(state), attributes.encoded());
}

// Assigns ids to next hops, for files that have none of their own. Next hops
// that mean the same get the same id. Invariant: ids are consecutive from the
// first one on, in order of appearance. Thread-compatible.
class NextHopIds {
 public:
  // REQUIRES: IsNextHop(first).
  explicit NextHopIds(NextHopId first) : next_(first) {}

  // The id of what `next_hop` means, which has no id and no label yet. The
  // label is a part of the meaning unless NamesNeighbor(next_hop). Calls
  // `label` for it then, or if the next hop is new. A new one is passed to
  // `announce`, with both.
  // O(1). Errors: RESOURCE_EXHAUSTED when the ids run out; those of `announce`.
  absl::StatusOr<NextHopId> IdOf(
      NextHop next_hop, absl::FunctionRef<std::string()> label,
      absl::FunctionRef<absl::Status(const NextHop&)> announce);

  // The same for a group of ids that this assigned. The order of the members
  // and the label are a part of the meaning.
  absl::StatusOr<NextHopId> IdOf(
      NextHopGroup group,
      absl::FunctionRef<absl::Status(const NextHopGroup&)> announce);

 private:
  // Whether there is a gateway, it, the interface, the label if it counts, the
  // attributes, and the members of a group.
  using Meaning =
      std::tuple<bool, Address, std::string, std::string, Attributes,
                 std::vector<std::pair<NextHopId, uint32_t>>>;

  absl::StatusOr<NextHopId> IdOf(
      const Meaning& meaning,
      absl::FunctionRef<absl::Status(NextHopId)> announce);

  absl::flat_hash_map<Meaning, NextHopId> ids_;
  uint64_t next_;  // wider than an id: may pass the last one
};

// Delivers items from a reader to a sink, and counts them. A status other than
// OK ends the reading. Thread-compatible.
class RouteOutput : public ProblemOutput {
 public:
  // `sink` must outlive this.
  RouteOutput(absl::string_view name, bool strict, RouteSink& sink)
      : ProblemOutput(name, strict), sink_(sink) {}

  // Errors: the sink's.
  absl::Status OnNextHop(const NextHop& next_hop);
  absl::Status OnRoute(const Route& route);
  absl::Status OnGroup(const NextHopGroup& group);

  // A path could not be read. Its prefix may have others.
  void OnPathSkipped(RecordPlace place, absl::string_view message);

  // A path has more attributes than its next hop may have.
  void OnPathCut() { ++counts_.paths_cut; }

  // No path of a prefix could be read. Errors: DATA_LOSS with `strict`.
  absl::Status OnRouteLost(RecordPlace place, const Prefix& prefix);

  // The route at `place` is to another next hop than an earlier one to
  // `prefix`.
  void OnRepeated(RecordPlace place, const Prefix& prefix);

  RouteFileReport report() const;

 private:
  RouteSink& sink_;
  RouteFileReport counts_;  // of items; the base class has the problems
};

}  // namespace planb

#endif  // PLANB_LPM_IO_ROUTE_SINK_H_
