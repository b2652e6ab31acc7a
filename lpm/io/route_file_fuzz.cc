// What must hold for any octets whatever, as a fuzz target: libFuzzer runs it
// (fuzz.sh), and so does route_file_fuzz_main.cc as a plain test.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/base/internal/raw_logging.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "lpm/io/route_formats.h"
#include "lpm/io/table_file.h"
#include "lpm/io/testing/read.h"

namespace planb {
namespace {

using testing::ReadAny;
using testing::Reading;
using testing::ReadWith;

// True of every reading, finished or not.
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

// True of formats that describe next hops, for whom ids are made up.
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
  ABSL_RAW_CHECK(a.report.ignored == b.report.ignored, "other ignored");
  ABSL_RAW_CHECK(a.report.truncated == b.report.truncated, "other end");
}

// A lenient reading that came to its end accounts for all it did.
void CheckReport(const Reading& lenient) {
  const RouteFileReport& report = lenient.report;
  ABSL_RAW_CHECK(report.routes == lenient.routes.size(), "routes miscounted");
  ABSL_RAW_CHECK(report.next_hops == lenient.next_hops.size(),
                 "next hops miscounted");
  ABSL_RAW_CHECK(report.groups == lenient.groups.size(), "groups miscounted");
  const uint64_t problems = report.malformed + (report.truncated ? 1 : 0);
  ABSL_RAW_CHECK(report.problems.size() ==
                     std::min<uint64_t>(problems, kMaxRouteFileProblems),
                 "problems not described");
  for (size_t i = 1; i < report.problems.size(); ++i) {
    ABSL_RAW_CHECK(report.problems[i - 1].offset <= report.problems[i].offset,
                   "problems out of order");
  }
}

// Strict is lenient up to the first problem.
void CheckStrict(const Reading& strict, const Reading& lenient) {
  CheckReading(strict);
  if (!lenient.status.ok() || lenient.report.problems.empty()) {
    return CheckSame(strict, lenient);
  }
  ABSL_RAW_CHECK(absl::IsDataLoss(strict.status), "strict was lenient");
  ABSL_RAW_CHECK(strict.routes.size() <= lenient.routes.size() &&
                     std::equal(strict.routes.begin(), strict.routes.end(),
                                lenient.routes.begin()),
                 "strict read other routes");
}

// With one format's reader, whatever the octets look like.
template <typename Reader>
void CheckReader(const Reader& reader, const std::string& octets) {
  const Reading lenient = ReadWith(reader, octets);
  ABSL_RAW_CHECK(lenient.status.ok(), "a lenient reading failed");
  CheckReading(lenient);
  CheckReport(lenient);
  for (const RouteFileProblem& problem : lenient.report.problems) {
    ABSL_RAW_CHECK(problem.offset <= octets.size(), "a problem past the end");
  }
  CheckSame(ReadWith(reader, octets, /*strict=*/false, /*piece=*/3), lenient);
  CheckStrict(ReadWith(reader, octets, /*strict=*/true), lenient);
}

// As a file: decompression and detection first.
void CheckFile(const std::string& octets) {
  const Reading lenient = ReadAny(octets);
  CheckReading(lenient);
  if (lenient.status.ok()) {
    CheckReport(lenient);
  } else if (octets.substr(0, kTableFileMagic.size()) == kTableFileMagic) {
    ABSL_RAW_CHECK(absl::IsDataLoss(lenient.status) ||
                       absl::IsUnimplemented(lenient.status),
                   "another error");
  } else {
    ABSL_RAW_CHECK(absl::IsInvalidArgument(lenient.status), "another error");
    ABSL_RAW_CHECK(lenient.routes.empty(), "routes of an unknown format");
  }
  CheckSame(ReadAny(octets, {}, /*piece=*/1), lenient);
  CheckStrict(ReadAny(octets, {.strict = true}), lenient);
}

}  // namespace
}  // namespace planb

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string octets(reinterpret_cast<const char*>(data), size);
  planb::CheckFile(octets);
  planb::CheckReader(planb::ReadTextRoutes, octets);
  const auto read_mrt = [](planb::ByteReader& in, planb::RouteOutput& out) {
    return planb::ReadMrtRoutes(in, /*first_next_hop_id=*/1, out);
  };
  planb::CheckReader(read_mrt, octets);
  planb::CheckDescribed(planb::testing::ReadWith(read_mrt, octets));
  return 0;
}
