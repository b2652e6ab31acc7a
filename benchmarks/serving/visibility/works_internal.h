// The kinds of work that MakeWork chooses from, one file each.

#ifndef PLANB_BENCHMARKS_SERVING_VISIBILITY_WORKS_INTERNAL_H_
#define PLANB_BENCHMARKS_SERVING_VISIBILITY_WORKS_INTERNAL_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "benchmarks/serving/visibility/changes.h"
#include "benchmarks/serving/visibility/works.h"

namespace planb::visibility::internal {

// Calls of UpdateRoutes, `rate` a second, or one after the other where it is 0.
// With `once`, only accepted until the last one, which is visible: a load.
struct UpdateOptions {
  double rate = 0;
  bool once = false;
  // A lookup follows every so manieth change.
  uint64_t check_every = 1;
};
std::unique_ptr<Work> UpdateWork(std::vector<Batch> batches,
                                 const UpdateOptions& options, Target& target);

// One StreamUpdates call a run. With `once`, all batches one time.
std::unique_ptr<Work> StreamWork(std::vector<Batch> batches, bool once,
                                 Target& target);

// Each of `tables` in turn; with `once`, one time.
std::unique_ptr<Work> ReplaceWork(std::vector<std::vector<Route>> tables,
                                  bool once, Target& target);

// The time in microseconds since `start`, and that between two of the server's
// times, or the client's.
inline double MicrosSince(absl::Time start) {
  return absl::ToDoubleMicroseconds(absl::Now() - start);
}
inline double MicrosBetween(uint64_t from_nanos, uint64_t to_nanos) {
  return (static_cast<double>(to_nanos) - static_cast<double>(from_nanos)) *
         1e-3;
}
inline uint64_t NowNanos() {
  return static_cast<uint64_t>(absl::GetCurrentTimeNanos());
}

void ApplyTo(const Batch& batch, RouteSet& routes);

}  // namespace planb::visibility::internal

#endif  // PLANB_BENCHMARKS_SERVING_VISIBILITY_WORKS_INTERNAL_H_
