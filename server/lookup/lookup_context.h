// SPDX-License-Identifier: Apache-2.0

// What every lookup uses: tables, kernel, limits, counters, the log of slow
// batches, and a way to wait for a generation.

#ifndef PLANB_SERVER_LOOKUP_LOOKUP_CONTEXT_H_
#define PLANB_SERVER_LOOKUP_LOOKUP_CONTEXT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/monotonic_time.h"
#include "lpm/fib/fib.h"
#include "server/base/log.h"
#include "server/base/trace.h"
#include "server/base/weight_limit.h"
#include "server/lookup/batch.h"
#include "server/lookup/lookup_metrics.h"
#include "server/table/tables.h"

namespace planb::server {

// Which slow batches (--slow_batch) are logged: at most 5 a second.
// Thread-safe.
class SlowBatchLog {
 public:
  // A batch is slow if it takes `threshold` or longer. 0: no batch is.
  explicit SlowBatchLog(absl::Duration threshold)
      : threshold_(absl::ToChronoNanoseconds(threshold)) {}

  // Called for every batch: two comparisons.
  bool IsSlow(SteadyInstant::duration elapsed) const {
    return elapsed >= threshold_ && threshold_.count() > 0;
  }

  // How many were left out since the last one that was logged; nothing if this
  // one is, too.
  std::optional<uint64_t> Admit() { return limit_.Admit(); }

 private:
  const SteadyInstant::duration threshold_;
  LogLimit limit_{/*lines_per_second=*/5};
};

// References to parts that outlive the service, and what the Lookup calls that
// wait share.
struct LookupContext {
  Tables& tables;
  const Kernel& kernel;
  LookupLimits limits;
  LookupMetrics& metrics;
  SlowBatchLog& slow_batches;
  Tracer* tracer = nullptr;  // null: nothing is traced
  WeightLimit waiting = WeightLimit(limits.max_waiting_bytes);
};

// True if `generation` or a later one is visible in `table`. Takes no lock.
// Nearly every lookup asks for no generation (0).
inline bool IsVisible(const Table& table, uint64_t generation) {
  return generation == 0 || table.Read()->generation() >= generation;
}

// Calls `done` as soon as `generation` or a later one is visible in `table`: at
// once if it is already, else within `wait` (bounded by the limits) and perhaps
// on another thread. The status is OK, FAILED_PRECONDITION
// (GENERATION_NOT_VISIBLE), RESOURCE_EXHAUSTED (TOO_MANY_WAITERS) or
// UNAVAILABLE (DRAINING).
void WhenVisible(const LookupContext& context, Table& table,
                 uint64_t generation, absl::Duration wait,
                 const std::function<void(absl::Status)>& done);

}  // namespace planb::server

#endif  // PLANB_SERVER_LOOKUP_LOOKUP_CONTEXT_H_
