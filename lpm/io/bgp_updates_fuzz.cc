// What must hold of any octets whatever that are read as an update file, and
// of the trace made of them. libFuzzer runs it (fuzz.sh), and a plain test
// does.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/base/internal/raw_logging.h"
#include "absl/status/status.h"
#include "lpm/io/testing/read.h"
#include "lpm/io/update_trace.h"

namespace planb {
namespace {

using testing::ReadUpdates;
using testing::UpdateReading;

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

// Strict is lenient up to the first problem.
void CheckStrict(const UpdateReading& strict, const UpdateReading& lenient) {
  if (lenient.report.problems.empty()) return CheckSame(strict, lenient);
  ABSL_RAW_CHECK(absl::IsDataLoss(strict.status), "strict was lenient");
  const std::vector<std::string> some = strict.Lines();
  const std::vector<std::string> all = lenient.Lines();
  ABSL_RAW_CHECK(some.size() <= all.size() &&
                     std::equal(some.begin(), some.end(), all.begin()),
                 "strict read other events");
}

// Every change is one, of a next hop that is known.
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

}  // namespace
}  // namespace planb

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string octets(reinterpret_cast<const char*>(data), size);
  const planb::UpdateReading lenient = planb::ReadUpdates(octets);
  if (lenient.status.ok()) {
    planb::CheckReport(lenient);
    planb::CheckStrict(planb::ReadUpdates(octets, /*strict=*/true), lenient);
  } else {
    ABSL_RAW_CHECK(absl::IsInvalidArgument(lenient.status), "another error");
    ABSL_RAW_CHECK(lenient.events.empty(), "events of an unknown format");
  }
  planb::CheckSame(planb::ReadUpdates(octets, /*strict=*/false, /*piece=*/3),
                   lenient);
  planb::CheckTrace(lenient.events);
  return 0;
}
