// A closed-loop benchmark over BatchLookup streams: each keeps a number of
// batches in flight and sends the next as soon as one is answered.

#ifndef PLANB_CLIENT_BENCH_H_
#define PLANB_CLIENT_BENCH_H_

#include <grpcpp/channel.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/latency_histogram.h"
#include "client/trace.h"
#include "lpm/prefix.h"

namespace planb::client {

struct BenchOptions {
  // Empty means "default".
  std::string table = {};
  // Batches in flight on each stream; at least 1.
  size_t depth = 4;
  // How long to send; what is in flight then is still awaited.
  absl::Duration duration = absl::Seconds(10);
  // If not null: true ends the sending before its time. Outlives the run.
  const std::atomic<bool>* stop = nullptr;
  // As in BatchStreamOptions.
  absl::Duration stall_timeout = absl::InfiniteDuration();
  // If not empty: what Trace::Expect says every answer has to be.
  std::vector<NextHopId> expected = {};
};

// What all streams did together.
struct BenchResult {
  // From the first batch to the last answer.
  absl::Duration elapsed;
  uint64_t batches = 0;
  uint64_t lookups = 0;
  uint64_t misses = 0;      // answered with "no route"
  uint64_t mismatches = 0;  // other than expected
  // From Send to Receive, of each batch.
  LatencyHistogram latency;
};

// Runs one stream, in a thread of its own, on each of `channels`. Streams begin
// at different places of the trace.
// Errors: the first of any stream or batch, which ends its stream; the others
// run to their end.
absl::StatusOr<BenchResult> RunBench(
    const std::vector<std::shared_ptr<grpc::Channel>>& channels,
    const Trace& trace, const BenchOptions& options);

}  // namespace planb::client

#endif  // PLANB_CLIENT_BENCH_H_
