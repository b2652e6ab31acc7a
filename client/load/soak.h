// SPDX-License-Identifier: Apache-2.0

// Lookups at a steady pace for as long as it takes, through restarts and
// upgrades of the server, as the callers of BatchLookup see them: every answer
// is checked, every failure counted, and the longest wait is what a restart
// cost.

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
  // Each with a thread, a BatchLookup and so a connection of its own; at least
  // 1. Each has one batch in flight, so a slow server is asked less.
  size_t streams = 1;
  // From one batch of a stream to its next. Zero: none waits but for its
  // answer. What a stall kept from being sent is not made up for.
  absl::Duration period = absl::ZeroDuration();
  absl::Duration duration = absl::Seconds(10);
  // A batch unanswered for so long has failed, with DEADLINE_EXCEEDED.
  absl::Duration timeout = absl::Seconds(10);
  // What the trace's addresses have to lead to, as Trace::Expect says it.
  std::vector<NextHopId> expected;
  // Null, or ends the run once true.
  const std::atomic<bool>* stop = nullptr;
};

struct SoakCounts {
  uint64_t batches = 0;  // answered
  uint64_t lookups = 0;  // in these
  // Of these, the answers other than expected.
  uint64_t mismatches = 0;
  // Batches that the caller got no answer to, by the name of the status.
  std::map<std::string, uint64_t> failures;
  // What the library kept from the caller: connections lost and attempts that
  // found no server, and streams that followed a lost one.
  uint64_t disconnects = 0;
  uint64_t reconnects = 0;
  // From sending a batch to having its answer, or its failure.
  LatencyHistogram latency;
  absl::Duration elapsed = absl::ZeroDuration();

  bool sound() const { return mismatches == 0 && failures.empty(); }
  void Merge(const SoakCounts& other);
};

// Sends the batches of `trace` over and over. REQUIRES: `expected` is of it.
// Returns after the duration, or at most options.timeout later.
SoakCounts RunSoak(const OpenChannel& open, const Trace& trace,
                   const SoakOptions& options);

}  // namespace planb::client

#endif  // PLANB_CLIENT_LOAD_SOAK_H_
