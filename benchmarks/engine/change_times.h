// How long changes take, one route or many at a time, and what they do to
// memory.
//
// Each case starts from a freshly compiled table. Each change is timed in three
// steps: "routes" is the change of the RouteSet, "update" FibCompiler::Update,
// "retire" the destruction of the FIB before; "together" is their sum. Nobody
// looks up meanwhile. Printed are percentiles, the memory before and after, how
// often Update went which way and how long that took at most, and the slowest
// changes with their ways; then the FIB is checked.

#ifndef PLANB_BENCHMARKS_ENGINE_CHANGE_TIMES_H_
#define PLANB_BENCHMARKS_ENGINE_CHANGE_TIMES_H_

#include <cstddef>
#include <vector>

#include "absl/types/span.h"
#include "benchmarks/engine/tables.h"
#include "benchmarks/engine/update_report.h"
#include "lpm/prefix.h"

namespace planb {

struct ChangeOptions {
  size_t warm_up = 1000;     // changes, not counted
  size_t changes = 100'000;  // counted, of one route each
  std::vector<size_t> batch_sizes = {10, 100, 1000, 10'000};
  size_t batches = 200;  // counted, of each size
  size_t rounds = 20;    // of changes to each short prefix
  size_t slowest = 3;    // changes listed
};

// One route at a time, for each kind of churn.h.
void MeasureOneRouteChanges(const Table& table, const ChangeOptions& options,
                            UpdateReport& report);

// Mixed changes in batches, compiled once a batch.
void MeasureBatches(const Table& table, const ChangeOptions& options,
                    UpdateReport& report);

// ::/0, 2000::/3, 2000::/8 and 2a00::/12 (or 0.0.0.0/0, 64.0.0.0/3,
// 192.0.0.0/8 and 185.0.0.0/12) over the whole table. A round announces one,
// changes its next hop, and puts it back as it was.
void MeasureShortPrefixes(const Table& table, const ChangeOptions& options,
                          UpdateReport& report);

}  // namespace planb

#endif  // PLANB_BENCHMARKS_ENGINE_CHANGE_TIMES_H_
