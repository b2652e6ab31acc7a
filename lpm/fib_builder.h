// From a TableCompiler's result to a Fib.

#ifndef PLANB_LPM_FIB_BUILDER_H_
#define PLANB_LPM_FIB_BUILDER_H_

#include <cstdint>
#include <memory>

#include "absl/base/internal/raw_logging.h"
#include "lpm/fib.h"
#include "lpm/fib_arena.h"
#include "lpm/table_compiler.h"

namespace planb {

// Compiles with the narrowest values that hold what there is.
// `Routes` is absl::Span<const Route> or RouteSet.
template <typename Routes>
std::unique_ptr<TableCompiler> CompileTable(Family family,
                                            const Routes& routes) {
  const RouteSummary summary = Summarize(routes);
  for (int min_bytes = 1; min_bytes <= 4; min_bytes *= 2) {
    const ValueMap values(summary, min_bytes);
    if (values.value_bytes() < min_bytes) continue;
    auto table =
        std::make_unique<TableCompiler>(family, values, summary.routes);
    table->CompileAll(routes);
    if (!table->failed()) return table;
  }
  ABSL_RAW_LOG(FATAL, "more next hops or long prefixes than a FIB can hold");
  return nullptr;
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

#endif  // PLANB_LPM_FIB_BUILDER_H_
