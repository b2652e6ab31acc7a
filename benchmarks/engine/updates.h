// SPDX-License-Identifier: Apache-2.0

// Measures changes to a table, and reports the results.

#ifndef PLANB_BENCHMARKS_ENGINE_UPDATES_H_
#define PLANB_BENCHMARKS_ENGINE_UPDATES_H_

#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "benchmarks/engine/inputs.h"
#include "benchmarks/engine/machine.h"
#include "lpm/fib/fib.h"
#include "lpm/prefix.h"
#include "lpm/routes/route_set.h"

namespace planb {

// The report that the measurements of updates write. Remembers whether all
// answers were right. Thread-compatible.
class UpdateReport {
 public:
  explicit UpdateReport(FILE* out) : out_(out) {}

  // Writes a line of text, as printf does, and flushes it.
  void Print(const char* format, ...) __attribute__((format(printf, 2, 3)));

  // Writes a row of times given in nanoseconds, in microseconds, and its head.
  void PercentilesHead();
  void PercentilesRow(absl::string_view what, absl::string_view step,
                      const Percentiles& nanoseconds);

  // Checks `fib` (CheckBoundaries), prints the result and remembers it.
  void Check(const Fib& fib, const RouteSet& routes,
             absl::Span<const Route> changes = {});
  bool all_right() const { return wrong_ == 0; }

 private:
  FILE* const out_;
  size_t wrong_ = 0;
};

// Times FibCompiler::Compile from a RouteSet and Fib::Build from a sorted list.
// Each once cold (memory has to be faulted in, and the caches hold other data),
// then `repeats` times warm, after the FIB before was destroyed. Prints times
// and sizes, and checks the last FIB of each.
void CompileTimesHead(UpdateReport& report);
void MeasureCompile(const Table& table, int repeats, UpdateReport& report);

// Measures how long changes take, and what they do to memory. Each case starts
// from a freshly compiled table. Each change is timed in steps: "routes" is the
// change of the RouteSet, "update" FibCompiler::Update, "retire" the
// destruction of the FIB before, "together" their sum. No thread looks up
// meanwhile. Prints percentiles, the memory before and after, how often Update
// took which way, and the slowest changes; then checks the FIB.
struct ChangeOptions {
  size_t warm_up = 1000;     // changes, not counted
  size_t changes = 100'000;  // counted, of one route each
  std::vector<size_t> batch_sizes = {10, 100, 1000, 10'000};
  size_t batches = 200;  // counted, of each size
  size_t rounds = 20;    // of changes to each short prefix
  size_t slowest = 3;    // changes listed
};

// Changes one route at a time, for each ChurnKind.
void MeasureOneRouteChanges(const Table& table, const ChangeOptions& options,
                            UpdateReport& report);

// Makes mixed changes in batches, compiled once a batch.
void MeasureBatches(const Table& table, const ChangeOptions& options,
                    UpdateReport& report);

// Announces ::/0, 2000::/3, 2000::/8 and 2a00::/12 (or 0.0.0.0/0, 64.0.0.0/3,
// 192.0.0.0/8 and 185.0.0.0/12) over the whole table. A round announces one,
// changes its next hop, and puts it back as it was.
void MeasureShortPrefixes(const Table& table, const ChangeOptions& options,
                          UpdateReport& report);

// Measures what updates cost the lookups beside them. A reader, bound to one
// core, looks a matching trace up in batches, each in the FIB that is current
// then, and never waits (base/published.h). A writer, bound to another core,
// does one of the loads below. Updates cost lookups in three ways: new FIBs are
// cold in the reader's cache, memory is shared, and the cores may be
// hyperthreads of one. The spinning load shows the last alone, and "idle
// (worn)" the looser packing of a table after changes.
struct BesideOptions {
  int reader_cpu = 1;  // -1: any
  int writer_cpu = 0;
  size_t batch = 256;                 // addresses
  size_t addresses = 1 << 20;         // in the trace
  int repeats = 7;                    // of each load, in turns
  double segment_milliseconds = 200;  // measured; a tenth before to warm up
  // How often a segment is taken anew because one of the threads did not have
  // its core to itself for 97% of the time; the best one counts.
  int retries = 5;
  size_t changes = 100'000;  // made in turns with their undoing
};

// The loads, of mixed changes: idle; spinning; idle after `changes` changes
// ("worn"); 100,000 updates a second in which nothing changed, which shows what
// publication alone costs; 10,000 and 100,000 changes a second one by one and
// by hundreds; as fast as possible; compiling everything back to back. Each
// starts from a freshly compiled table. Prints medians and, as medians of
// ratios within one repeat, how they compare to idle and to spinning; the
// median time of an update beside lookups; and what part of the time both
// threads ran at least (less than 0.97: something else was on their cores). At
// the end checks the FIB.
// Errors: INVALID_ARGUMENT for cores there are not, FAILED_PRECONDITION for a
// table without routes.
absl::Status MeasureLookupsBeside(const Table& table,
                                  const BesideOptions& options,
                                  UpdateReport& report);

}  // namespace planb

#endif  // PLANB_BENCHMARKS_ENGINE_UPDATES_H_
