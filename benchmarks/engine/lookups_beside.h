// What updates cost the lookups beside them.
//
// A reader, bound to one core, looks a matching trace up in batches, each in
// the FIB that is current then, and never waits (epoch_slot.h). A writer, bound
// to another core, does one of the loads below. Updates cost lookups in three
// ways: the reader finds new FIBs cold in its cache, memory is shared, and the
// cores may be hyperthreads of one. The spinning load shows the last alone, and
// "idle (worn)" the looser packing of a table after changes.

#ifndef PLANB_BENCHMARKS_ENGINE_LOOKUPS_BESIDE_H_
#define PLANB_BENCHMARKS_ENGINE_LOOKUPS_BESIDE_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "benchmarks/engine/tables.h"
#include "benchmarks/engine/update_report.h"
#include "lpm/fib.h"

namespace planb {

struct BesideOptions {
  const Kernel* kernel = AvailableKernels().front();
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
// median time of an update beside lookups; what part of the time both threads
// ran at least (less than 0.97: something else was on their cores); and what
// the cores share. At the end checks the FIB. Errors: INVALID_ARGUMENT for
// cores there are not, FAILED_PRECONDITION for a table without routes.
absl::Status MeasureLookupsBeside(const Table& table,
                                  const BesideOptions& options,
                                  UpdateReport& report);

}  // namespace planb

#endif  // PLANB_BENCHMARKS_ENGINE_LOOKUPS_BESIDE_H_
