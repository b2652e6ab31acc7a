// SPDX-License-Identifier: Apache-2.0

// A fuzz target: any bytes, read as a route file of any format, as an update
// file and as a table file. libFuzzer runs it (third_party/fuzz.sh);
// reader_fuzzer_test.cc replays the corpus. A failed check aborts.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/base/internal/raw_logging.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lpm/io/bgp_updates.h"
#include "lpm/io/byte_source.h"
#include "lpm/io/route_file.h"
#include "lpm/io/table_file.h"
#include "lpm/io/testing/bytes.h"
#include "lpm/io/testing/read.h"

namespace planb {
namespace {

// Route files.

// Holds for every reading, finished or not.
void CheckReading(const Reading& reading) {
  absl::flat_hash_set<NextHopId> announced;
  for (const NextHop& next_hop : reading.next_hops) {
    ABSL_RAW_CHECK(next_hop.id != kNoRoute, "the reserved next hop");
    ABSL_RAW_CHECK(announced.insert(next_hop.id).second,
                   "a next hop announced twice");
  }
  for (const NextHopGroup& group : reading.groups) {
    ABSL_RAW_CHECK(announced.insert(group.id).second,
                   "a group announced twice");
  }
  for (const Route& route : reading.routes) {
    ABSL_RAW_CHECK(route.next_hop != kNoRoute, "a route to the reserved one");
    const absl::StatusOr<Prefix> again = Prefix::Parse(route.prefix.ToString());
    ABSL_RAW_CHECK(again.ok() && *again == route.prefix, "an invalid prefix");
  }
}

// Holds for formats that describe next hops and have no ids.
void CheckDescribed(const Reading& reading) {
  absl::flat_hash_set<NextHopId> described;
  for (const NextHop& next_hop : reading.next_hops) {
    described.insert(next_hop.id);
  }
  for (const Route& route : reading.routes) {
    ABSL_RAW_CHECK(described.contains(route.next_hop),
                   "a route without its next hop");
  }
}

void CheckSame(const Reading& a, const Reading& b) {
  ABSL_RAW_CHECK(a.status == b.status, "another status");
  ABSL_RAW_CHECK(a.routes == b.routes, "other routes");
  ABSL_RAW_CHECK(a.next_hops == b.next_hops, "other next hops");
  ABSL_RAW_CHECK(a.groups == b.groups, "other groups");
  ABSL_RAW_CHECK(a.report.malformed == b.report.malformed, "other problems");
  ABSL_RAW_CHECK(a.report.paths_skipped == b.report.paths_skipped,
                 "other skipped paths");
  ABSL_RAW_CHECK(a.report.repeated == b.report.repeated, "other repeated");
  ABSL_RAW_CHECK(a.report.ignored_by == b.report.ignored_by, "other ignored");
  ABSL_RAW_CHECK(a.report.truncated == b.report.truncated, "other end");
}

// The report of a finished lenient reading counts everything.
void CheckReport(const Reading& lenient) {
  const RouteFileReport& report = lenient.report;
  ABSL_RAW_CHECK(report.routes == lenient.routes.size(), "routes miscounted");
  ABSL_RAW_CHECK(report.next_hops == lenient.next_hops.size(),
                 "next hops miscounted");
  ABSL_RAW_CHECK(report.groups == lenient.groups.size(), "groups miscounted");
  const auto peers = report.ignored_by.find("damaged PEER_INDEX_TABLE");
  const uint64_t problems =
      report.malformed + report.paths_skipped + report.routes_lost +
      report.repeated + (peers == report.ignored_by.end() ? 0 : peers->second) +
      (report.truncated ? 1 : 0);
  ABSL_RAW_CHECK(report.problems.size() ==
                     std::min<uint64_t>(problems, kMaxRouteFileProblems),
                 "problems not described");
  // Lost routes are known at the end of the file.
  for (size_t i = 1; i + report.routes_lost < report.problems.size(); ++i) {
    ABSL_RAW_CHECK(report.problems[i - 1].offset <= report.problems[i].offset,
                   "problems out of order");
  }
}

// A strict reading equals the lenient one up to the first problem that is more
// than a skipped path.
void CheckStrict(const Reading& strict, const Reading& lenient) {
  CheckReading(strict);
  if (!lenient.status.ok() || lenient.report.whole()) {
    return CheckSame(strict, lenient);
  }
  ABSL_RAW_CHECK(absl::IsDataLoss(strict.status), "strict was lenient");
  ABSL_RAW_CHECK(strict.routes.size() <= lenient.routes.size() &&
                     std::equal(strict.routes.begin(), strict.routes.end(),
                                lenient.routes.begin()),
                 "strict read other routes");
}

// Reads bytes of any format with the reader of one format. CSV without the
// columns asked for is refused.
template <typename Reader>
void CheckReader(const Reader& reader, const std::string& bytes,
                 bool may_refuse = false) {
  const Reading lenient = ReadWith(reader, bytes);
  if (may_refuse && absl::IsInvalidArgument(lenient.status)) {
    ABSL_RAW_CHECK(lenient.routes.empty(), "routes before the header");
    return;
  }
  ABSL_RAW_CHECK(lenient.status.ok(), "a lenient reading failed");
  CheckReading(lenient);
  CheckReport(lenient);
  for (const RouteFileProblem& problem : lenient.report.problems) {
    ABSL_RAW_CHECK(problem.offset <= bytes.size(), "a problem past the end");
  }
  CheckSame(ReadWith(reader, bytes, /*strict=*/false, /*piece=*/3), lenient);
  CheckStrict(ReadWith(reader, bytes, /*strict=*/true), lenient);
}

// Reads a file, with decompression and detection.
void CheckFile(const std::string& bytes) {
  const Reading lenient = ReadAny(bytes);
  CheckReading(lenient);
  // A decompressor needs too much, or makes too much of what it has read by
  // then, which depends on the pieces.
  if (absl::IsResourceExhausted(lenient.status)) return;
  if (lenient.status.ok()) {
    CheckReport(lenient);
  } else if (bytes.substr(0, kTableFileMagic.size()) == kTableFileMagic) {
    ABSL_RAW_CHECK(absl::IsDataLoss(lenient.status) ||
                       absl::IsUnimplemented(lenient.status) ||
                       absl::IsFailedPrecondition(lenient.status),
                   "another error");
  } else {
    ABSL_RAW_CHECK(absl::IsInvalidArgument(lenient.status) ||
                       absl::IsFailedPrecondition(lenient.status),
                   "another error");
    ABSL_RAW_CHECK(lenient.routes.empty(), "routes of a refused file");
    // A strict reading ends where this one found the first reason.
    const Reading strict = ReadAny(bytes, {.strict = true});
    ABSL_RAW_CHECK(!strict.status.ok() && strict.routes.empty(),
                   "strict was lenient");
    return CheckSame(ReadAny(bytes, {}, /*piece=*/1), lenient);
  }
  CheckSame(ReadAny(bytes, {}, /*piece=*/1), lenient);
  CheckStrict(ReadAny(bytes, {.strict = true}), lenient);
}

template <typename T>
void CheckSorted(const std::vector<T>& values) {
  ABSL_RAW_CHECK(
      std::is_sorted(values.begin(), values.end(), std::less_equal<>()),
      "not sorted, or a value twice");
}

// Says all of a path, and checks that it has the form of BgpAttributes.
EncodedPath EncodeAll(const BgpAttributes& path) {
  std::string text;
  bool sequence = false;
  for (const BgpAttributes::Segment& segment : path.as_path) {
    ABSL_RAW_CHECK(!segment.numbers.empty(), "an empty segment");
    ABSL_RAW_CHECK(segment.set || !sequence, "two sequences");
    sequence = !segment.set;
    if (segment.set) CheckSorted(segment.numbers);
    absl::StrAppend(&text, segment.set ? "{" : " ",
                    absl::StrJoin(segment.numbers, " "));
  }
  CheckSorted(path.communities);
  CheckSorted(path.extended_communities);
  CheckSorted(path.large_communities);
  absl::StrAppend(&text, "|", absl::StrJoin(path.communities, " "), "|",
                  absl::StrJoin(path.extended_communities, " "), "|",
                  path.large_communities.size(), "|",
                  path.local_pref.value_or(0), "|", path.med.value_or(0));
  return {Attributes(text), false};
}

void CheckRouteFile(const std::string& bytes) {
  CheckFile(bytes);
  for (const auto& columns :
       {std::vector<std::string>(), std::vector<std::string>{"n", "as"}}) {
    const auto read_text = [&](ByteReader& in, RouteOutput& out) {
      return ReadTextRoutes(in, {.next_hop = 7, .csv_columns = columns}, out);
    };
    CheckReader(read_text, bytes, /*may_refuse=*/true);
  }
  for (const PathEncoder encoder : {PathEncoder(), PathEncoder(EncodeAll)}) {
    const auto read_mrt = [&](ByteReader& in, RouteOutput& out) {
      return ReadMrtRoutes(in, {.path_encoder = encoder}, out);
    };
    CheckReader(read_mrt, bytes);
    CheckDescribed(ReadWith(read_mrt, bytes));
  }
}

// Update files and their traces.

void CheckSame(const UpdateReading& a, const UpdateReading& b) {
  ABSL_RAW_CHECK(a.status == b.status, "another status");
  ABSL_RAW_CHECK(a.Lines() == b.Lines(), "other events");
  ABSL_RAW_CHECK(a.report.malformed == b.report.malformed, "other problems");
  ABSL_RAW_CHECK(a.report.ignored == b.report.ignored, "other ignored");
  ABSL_RAW_CHECK(a.report.truncated == b.report.truncated, "other end");
}

void CheckReport(const UpdateReading& lenient) {
  uint64_t announced = 0;
  uint64_t withdrawn = 0;
  for (const UpdateEvent& event : lenient.events) {
    ABSL_RAW_CHECK(!event.update.empty(), "an empty event");
    announced += event.update.announces.size();
    withdrawn += event.update.withdraws.size();
  }
  const BgpUpdatesReport& report = lenient.report;
  ABSL_RAW_CHECK(report.updates == lenient.events.size(), "miscounted");
  ABSL_RAW_CHECK(report.announced == announced, "announces miscounted");
  ABSL_RAW_CHECK(report.withdrawn == withdrawn, "withdraws miscounted");
  const uint64_t problems = report.malformed + (report.truncated ? 1 : 0);
  ABSL_RAW_CHECK(report.problems.size() ==
                     std::min<uint64_t>(problems, kMaxRouteFileProblems),
                 "problems not described");
}

// A strict reading equals the lenient one up to the first problem.
void CheckStrict(const UpdateReading& strict, const UpdateReading& lenient) {
  if (lenient.report.problems.empty()) return CheckSame(strict, lenient);
  ABSL_RAW_CHECK(absl::IsDataLoss(strict.status), "strict was lenient");
  const std::vector<std::string> some = strict.Lines();
  const std::vector<std::string> all = lenient.Lines();
  ABSL_RAW_CHECK(some.size() <= all.size() &&
                     std::equal(some.begin(), some.end(), all.begin()),
                 "strict read other events");
}

// Checks that every change changes something and names a known next hop.
struct CheckedTable : TraceSink {
  absl::Status OnNextHop(const NextHop& next_hop) override {
    ABSL_RAW_CHECK(next_hop.id == ++next_hops, "next hops out of order");
    return absl::OkStatus();
  }
  absl::Status OnChanges(const std::vector<TraceChange>& changes) override {
    for (const TraceChange& change : changes) {
      const auto& [prefix, next_hop] = change.route;
      ABSL_RAW_CHECK(next_hop <= next_hops, "an unknown next hop");
      ABSL_RAW_CHECK(table[prefix] != next_hop, "a change that is none");
      if (next_hop == kNoRoute) {
        table.erase(prefix);
      } else {
        table[prefix] = next_hop;
      }
    }
    return absl::OkStatus();
  }
  NextHopId next_hops = 0;
  std::map<Prefix, NextHopId> table;
};

void CheckTrace(const std::vector<UpdateEvent>& events) {
  CheckedTable sink;
  UpdateTrace trace(1, sink);
  for (const UpdateEvent& event : events) {
    ABSL_RAW_CHECK(trace.OnUpdate(event).ok(), "the trace failed");
    ABSL_RAW_CHECK(trace.prefixes() == sink.table.size(), "another table");
  }
}

void CheckUpdateFile(const std::string& bytes) {
  const UpdateReading lenient = ReadUpdates(bytes);
  if (absl::IsResourceExhausted(lenient.status)) return;
  if (lenient.status.ok()) {
    CheckReport(lenient);
    CheckStrict(ReadUpdates(bytes, /*strict=*/true), lenient);
  } else {
    ABSL_RAW_CHECK(absl::IsInvalidArgument(lenient.status), "another error");
    ABSL_RAW_CHECK(lenient.events.empty(), "events of an unknown format");
  }
  CheckSame(ReadUpdates(bytes, /*strict=*/false, /*piece=*/3), lenient);
  CheckTrace(lenient.events);
}

// Table files.

void CheckInOrder(const TableReading& reading) {
  for (const Route& route : reading.contents.routes) {
    ABSL_RAW_CHECK(IsNextHop(route.next_hop), "a reserved next hop");
  }
  ABSL_RAW_CHECK(
      std::is_sorted(
          reading.contents.routes.begin(), reading.contents.routes.end(),
          [](const Route& a, const Route& b) { return a.prefix < b.prefix; }),
      "routes out of order");
}

void CheckTableFile(const std::string& bytes) {
  const TableReading reading = ReadTable(bytes);
  const TableReading pieces = ReadTable(bytes, 3);
  ABSL_RAW_CHECK(reading.status == pieces.status, "another status");
  ABSL_RAW_CHECK(reading.contents == pieces.contents, "other contents");
  ABSL_RAW_CHECK(reading.ends == (reading.status.ok() ? 1 : 0), "a wrong end");
  CheckInOrder(reading);
  if (!reading.status.ok()) {
    ABSL_RAW_CHECK(absl::IsDataLoss(reading.status) ||
                       absl::IsInvalidArgument(reading.status) ||
                       absl::IsUnimplemented(reading.status),
                   "another error");
    return;
  }
  // Written again, the file has the same contents, in as many bytes or fewer,
  // since the writer fills its blocks.
  absl::Status status;
  const std::string written = WriteTable(reading.contents, &status);
  ABSL_RAW_CHECK(status.ok(), "read but not to be written");
  ABSL_RAW_CHECK(written.size() <= bytes.size(), "written wastefully");
  ABSL_RAW_CHECK(ReadTable(written).contents == reading.contents,
                 "written otherwise");
  // A file without its last byte is refused.
  ABSL_RAW_CHECK(!ReadTable(bytes.substr(0, bytes.size() - 1)).status.ok(),
                 "a cut file taken for whole");
}

}  // namespace
}  // namespace planb

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  planb::CheckRouteFile(bytes);
  planb::CheckUpdateFile(bytes);
  planb::CheckTableFile(bytes);
  // With correct checksums, so that the reader checks the contents.
  planb::CheckTableFile(planb::RepairTableFile(bytes));
  return 0;
}
