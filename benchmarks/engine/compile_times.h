// How long it takes to compile a whole table.

#ifndef PLANB_BENCHMARKS_ENGINE_COMPILE_TIMES_H_
#define PLANB_BENCHMARKS_ENGINE_COMPILE_TIMES_H_

#include "absl/types/span.h"
#include "benchmarks/engine/tables.h"
#include "benchmarks/engine/update_report.h"

namespace planb {

struct CompileOptions {
  int repeats = 9;  // warm ones
};

// Times FibCompiler::Compile from a RouteSet and Fib::Build from a sorted list.
// Each once cold: with the heap given back to the system, so that memory must
// be faulted in, and other data in the caches. Then `repeats` times warm, each
// after the FIB before was destroyed. Prints both, the rate and the size; then
// checks the last FIB of each.
void CompileTimesHead(UpdateReport& report);
void MeasureCompile(const Table& table, const CompileOptions& options,
                    UpdateReport& report);

}  // namespace planb

#endif  // PLANB_BENCHMARKS_ENGINE_COMPILE_TIMES_H_
