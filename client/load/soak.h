// SPDX-License-Identifier: Apache-2.0

// Looks up at a steady rate, through restarts and upgrades of the server, as a
// caller of BatchLookup. Checks every answer and counts every failure. The
// longest wait is the cost of a restart.

#ifndef PLANB_CLIENT_LOAD_SOAK_H_
#define PLANB_CLIENT_LOAD_SOAK_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/batch_lookup.h"
#include "client/load/latency_histogram.h"
#include "client/load/trace.h"
#include "lpm/prefix.h"

namespace planb::client {

struct SoakOptions {
  // Each has its own thread, BatchLookup and connection, and one batch in
  // flight, so a slow server gets fewer batches. At least 1.
  size_t streams = 1;
  // Time from one batch of a stream to the next. Zero: sends after each answer.
  // Batches that a stall delayed are not made up for.
  absl::Duration period = absl::ZeroDuration();
  absl::Duration duration = absl::Seconds(10);
  // A batch without an answer in this time fails with DEADLINE_EXCEEDED.
  absl::Duration timeout = absl::Seconds(10);
  // The expected answers, as by Trace::Expect.
  std::vector<NextHopId> expected;
  // Not owned; may be null. True ends the run.
  const std::atomic<bool>* stop = nullptr;
};

struct SoakCounts {
  uint64_t batches = 0;  // answered
  uint64_t lookups = 0;  // in these
  // Answers that differ from the expected ones.
  uint64_t mismatches = 0;
  // Failed batches, by the name of the status code.
  std::map<std::string, uint64_t> failures;
  // Lost connections and failed attempts to connect, and streams that followed
  // a lost one. The library hides these from its callers.
  uint64_t disconnects = 0;
  uint64_t reconnects = 0;
  // Time from sending a batch to its answer or failure.
  LatencyHistogram latency;
  absl::Duration elapsed = absl::ZeroDuration();

  bool sound() const { return mismatches == 0 && failures.empty(); }
  void Merge(const SoakCounts& other);
};

// Sends the batches of `trace` repeatedly. Returns after the duration, or at
// most options.timeout later. REQUIRES: options.expected is of `trace`.
SoakCounts RunSoak(const OpenChannel& open, const Trace& trace,
                   const SoakOptions& options);

}  // namespace planb::client

#endif  // PLANB_CLIENT_LOAD_SOAK_H_
