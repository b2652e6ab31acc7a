// What planbctl bench says, while it runs and at the end.

#ifndef PLANB_CLIENT_PLANBCTL_BENCH_REPORT_H_
#define PLANB_CLIENT_PLANBCTL_BENCH_REPORT_H_

#include <string>

#include "absl/time/time.h"
#include "client/load/bench.h"
#include "planb/client/output.pb.h"

namespace planb::client {

// The parameters, out of the flags, and the results.
output::Bench BenchReport(const BenchResult& result);

// The same for people: a few lines.
std::string BenchText(const output::Bench& report);

// One line about the last second, given what was counted until then.
// Thread-compatible.
class BenchProgress {
 public:
  std::string Line(absl::Duration elapsed, const BenchCounts& so_far);

 private:
  absl::Duration last_;
  uint64_t lookups_ = 0;
};

}  // namespace planb::client

#endif  // PLANB_CLIENT_PLANBCTL_BENCH_REPORT_H_
