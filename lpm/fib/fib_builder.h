// SPDX-License-Identifier: Apache-2.0

// From a TableCompiler's result to a Fib.

#ifndef PLANB_LPM_FIB_FIB_BUILDER_H_
#define PLANB_LPM_FIB_FIB_BUILDER_H_

#include <cstdint>
#include <memory>

#include "absl/base/internal/raw_logging.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lpm/fib/fib.h"
#include "lpm/fib/fib_arena.h"
#include "lpm/fib/table_compiler.h"

namespace planb {

// Compiles with the narrowest values that hold what there is. Errors:
// RESOURCE_EXHAUSTED if the table exceeds a limit.
// `Routes` is absl::Span<const Route> or RouteSet.
template <typename Routes>
absl::StatusOr<std::unique_ptr<TableCompiler>> CompileTable(
    Family family, const Routes& routes, const FibLimits& limits) {
  const RouteSummary summary = Summarize(routes);
  for (int min_bytes = 1;;) {
    const ValueMap values(summary, min_bytes, limits.next_hops);
    auto table =
        std::make_unique<TableCompiler>(family, values, summary.routes, limits);
    table->CompileAll(routes);
    if (!table->failed()) return table;
    if (absl::Status status = table->CheckLimits(); !status.ok()) return status;
    ABSL_RAW_CHECK(values.value_bytes() < 4, "within limits, values suffice");
    min_bytes = 2 * values.value_bytes();
  }
}

class FibBuilder {
 public:
  // A FIB of what `table` says now, in `arena`, where its lines and descriptors
  // already are.
  static std::unique_ptr<const Fib> Make(TableCompiler& table,
                                         std::shared_ptr<FibArena> arena,
                                         uint64_t generation);
};

}  // namespace planb

#endif  // PLANB_LPM_FIB_FIB_BUILDER_H_
