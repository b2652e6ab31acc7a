// SPDX-License-Identifier: Apache-2.0

// Compares engines on tables, traces and batch sizes. All answers are checked
// first. Then the engines are timed in turns, so that a disturbance of the
// machine affects all of them. ../README.md has the engines by name.

#ifndef PLANB_BENCHMARKS_ENGINE_COMPARISON_H_
#define PLANB_BENCHMARKS_ENGINE_COMPARISON_H_

#include <cstddef>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "benchmarks/engine/inputs.h"
#include "benchmarks/rivals/rivals.h"
#include "lpm/prefix.h"

namespace planb {

struct Engine {
  std::string name;  // as it was asked for
  BaselineBuilder build;
  // Routes longer than this are left out of what it is given, and its answers
  // are expected to be those without them.
  int max_length = 128;
  // True if the engine can be changed in place.
  std::function<std::unique_ptr<UpdatableBaseline>(
      Family family, absl::Span<const Route> routes)>
      updatable;
};

// Makes an engine of the part of its name after the first, as options.
// Errors: INVALID_ARGUMENT, naming the option.
using EngineFactory =
    absl::StatusOr<Engine> (*)(const std::vector<std::string>& options);

// Errors: INVALID_ARGUMENT for a name that means nothing here.
absl::StatusOr<Engine> MakeEngine(absl::string_view name);

// Makes an engine that has no option but "scalar".
using RivalBuilder = absl::StatusOr<std::unique_ptr<const Baseline>> (*)(
    Family family, absl::Span<const Route> routes, RivalKernel kernel);
absl::StatusOr<Engine> MakeRival(RivalBuilder build,
                                 const std::vector<std::string>& options);

// Adds a kind of engine, before main() and so before any other call. Returns
// true, to have something to assign.
bool RegisterEngine(const char* kind, EngineFactory factory);

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

// Takes `repeats` samples of each of `baselines`. Each repeat takes every one
// in turn, starting with another one each time: a pass to warm up, then a
// segment. Answers are written to one buffer of a batch, as a server would.
std::vector<std::vector<Sample>> Measure(
    absl::Span<const Baseline* const> baselines, const Trace& trace,
    const MeasureOptions& options);

struct ComparisonOptions {
  std::vector<std::string> tables;  // see inputs.h
  std::vector<Engine> engines;      // ratios are to the first
  std::vector<TraceKind> traces;
  std::vector<size_t> batches;
  int repeats = 9;
  double segment_milliseconds = 10;
  size_t addresses = 1 << 20;  // in a trace
  std::string next_hops = "as-given";
  // What is measured.
  enum class What {
    // The rate of batches on one thread.
    kRate,
    // The rate of as many threads together as there are cores, each pinned and
    // on a trace of its own; and that of one thread.
    kThreads,
    // The time of a call for one address: each address depends on the answer
    // before (nanoseconds), and each call is timed alone, less the cost of
    // timing (percentiles).
    kSingle,
    // Bytes of the structure, and time of a build.
    kMemory,
    // The time of changes of the table one at a time and a hundred together
    // (percentiles). Where an engine has no updates, a change is a build.
    kUpdates,
    // The same for prefixes that cover others, by their length.
    kCovers,
  };
  What what = What::kRate;
  // A file that gets a line for each figure, after what it has; empty: none.
  std::string csv;
};

// Runs the comparison. Writes an aligned table to `out`, a line for each figure
// of an engine: the median, the least and most of the repeats, and the first
// engine's figure divided by this one's (median of the ratios within one
// repeat). Rates come with cycles a lookup, bytes a route, and the median time
// of a warm build. An engine that cannot hold the table, or only without more
// than a thousandth of its routes, "refuses", with the reason. A trace that
// cannot be made of a table is left out, with the reason.
//
// Errors: DATA_LOSS, after everything else was measured, if an engine answered
// wrongly (its rows say WRONG and how); INVALID_ARGUMENT and the like for
// tables, before anything of them is measured.
//
// A line of the CSV has: table, routes, next_hops, trace, addresses, batch,
// threads, engine, metric, median, least, most, remark. An engine that refuses
// or is wrong has one with the metric "none".
absl::Status Compare(const ComparisonOptions& options, FILE* out);

// Writes the first table, its first trace and the right answers for programs of
// other languages: DIR/routes.txt ("PREFIX NEXTHOP" lines), DIR/trace.bin
// (packed addresses, 16 or 4 bytes each) and DIR/answers.bin (little-endian
// next hops; 0 is none). Errors: NOT_FOUND for a directory that is not there.
absl::Status Dump(const ComparisonOptions& options,
                  const std::string& directory);

// The kinds of engine in this binary, ascending.
std::vector<std::string> EngineKinds();

}  // namespace planb

#endif  // PLANB_BENCHMARKS_ENGINE_COMPARISON_H_
