// Measures engines against each other: all answers first, then time, engine
// after engine within one run, round and round, so that whatever disturbs the
// machine disturbs all of them.

#ifndef PLANB_BENCHMARKS_ENGINE_MEASURE_H_
#define PLANB_BENCHMARKS_ENGINE_MEASURE_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "benchmarks/engine/traces.h"
#include "benchmarks/rivals/baseline.h"
#include "lpm/prefix.h"

namespace planb {

// Looks the whole trace up in batches of `batch`; returns a description of the
// first answer that differs from `expected`, or "".
std::string FirstWrong(const Baseline& baseline, const Trace& trace,
                       absl::Span<const NextHopId> expected, size_t batch);

// One timed segment of one engine.
struct Sample {
  double nanoseconds = 0;  // a lookup
  double cycles = 0;       // a lookup
  double gigahertz = 0;    // of the core, before and after, on average
};

struct MeasureOptions {
  size_t batch = 4096;
  int repeats = 9;
  // A segment is as many whole passes over the trace as take this long.
  double segment_milliseconds = 10;
  // How often a segment is taken anew because the core ran more than 5% slower
  // than at its best around it; the last one counts in any case.
  int retries = 3;
};

// `repeats` samples of each of `baselines`. Each repeat takes every baseline in
// turn, starting with another one each time: a pass to warm up, then a segment.
// Answers are written to one buffer of a batch, as a server would.
std::vector<std::vector<Sample>> Measure(
    absl::Span<const Baseline* const> baselines, const Trace& trace,
    const MeasureOptions& options);

// The middle one (of two, their mean). REQUIRES: not empty.
double Median(std::vector<double> values);

}  // namespace planb

#endif  // PLANB_BENCHMARKS_ENGINE_MEASURE_H_
