// SPDX-License-Identifier: Apache-2.0

// What every lookup needs at hand, and waiting for a generation.

#ifndef PLANB_SERVER_LOOKUP_LOOKUP_CONTEXT_H_
#define PLANB_SERVER_LOOKUP_LOOKUP_CONTEXT_H_

#include <functional>

#include "absl/status/status.h"
#include "lpm/fib/fib.h"
#include "server/lookup/batch.h"
#include "server/lookup/log_slow_batch.h"
#include "server/lookup/lookup_metrics.h"
#include "server/table/tables.h"

namespace planb::server {

// The parts outlive all that use them.
struct LookupContext {
  Tables& tables;
  const Kernel& kernel;
  LookupLimits limits;
  LookupMetrics& metrics;
  SlowBatchLog& slow_batches;
};

// True if `table` shows `generation` or later. Without a lock; nearly every
// lookup asks for none (0) and has its answer here.
inline bool IsVisible(const Table& table, uint64_t generation) {
  return generation == 0 || table.Read()->generation() >= generation;
}

// Calls `done` when `table` shows `generation` or later: at once if it does
// already, else within `wait` (bounded by the limits), perhaps from another
// thread. It gets OK, FAILED_PRECONDITION (GENERATION_NOT_VISIBLE),
// RESOURCE_EXHAUSTED (TOO_MANY_WAITERS) or UNAVAILABLE (DRAINING).
void WhenVisible(const LookupContext& context, Table& table,
                 uint64_t generation, absl::Duration wait,
                 const std::function<void(absl::Status)>& done);

}  // namespace planb::server

#endif  // PLANB_SERVER_LOOKUP_LOOKUP_CONTEXT_H_
