// One comparison: tables x traces x batch sizes x engines, as a report.

#ifndef PLANB_BENCHMARKS_ENGINE_COMPARISON_H_
#define PLANB_BENCHMARKS_ENGINE_COMPARISON_H_

#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "benchmarks/engine/engine.h"
#include "benchmarks/engine/traces.h"

namespace planb {

struct ComparisonOptions {
  std::vector<std::string> tables;  // see tables.h
  std::vector<Engine> engines;      // ratios are to the first
  std::vector<TraceKind> traces;
  std::vector<size_t> batches;
  int repeats = 9;
  double segment_milliseconds = 10;
  size_t addresses = 1 << 20;  // in a trace
  std::string next_hops = "as-given";
};

// Runs it. Writes an aligned table to `out`; to `csv`, if not nullptr, a line
// for every timed segment. A row of `out` has the median rate in million
// lookups a second, the least and most of the repeats, how many times the rate
// of this engine the first one measured has (median of the ratios within one
// repeat), cycles a lookup, octets a route, and the median time of a warm
// build. An engine that cannot hold the table, or only without more than a
// thousandth of its routes, "refuses", with the reason; a trace that cannot be
// made of a table is left out, with the reason. Errors: DATA_LOSS, after
// everything else was measured, if an engine answered wrongly (its rows say
// WRONG and how); INVALID_ARGUMENT and the like for tables, before anything of
// them is measured.
absl::Status Compare(const ComparisonOptions& options, FILE* out, FILE* csv);

}  // namespace planb

#endif  // PLANB_BENCHMARKS_ENGINE_COMPARISON_H_
