// Where the measurements of updates write to: text for people, every single
// value for programs, and whether all answers were right.

#ifndef PLANB_BENCHMARKS_ENGINE_UPDATE_REPORT_H_
#define PLANB_BENCHMARKS_ENGINE_UPDATE_REPORT_H_

#include <cstddef>
#include <cstdio>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "benchmarks/engine/boundary_check.h"
#include "benchmarks/engine/percentiles.h"

namespace planb {

// Thread-compatible.
class UpdateReport {
 public:
  // Writes the head of the raw values, if `csv` is not nullptr.
  UpdateReport(FILE* out, FILE* csv);

  // A line of text, as printf's; what is written is flushed.
  void Print(const char* format, ...) __attribute__((format(printf, 2, 3)));

  // A line of raw values. `what` is the case and `number` counts in it.
  void Raw(absl::string_view part, absl::string_view table,
           absl::string_view what, size_t number, absl::string_view quantity,
           double value);

  // A row of times given in nanoseconds, printed in microseconds, and its head.
  void PercentilesHead();
  void PercentilesRow(absl::string_view what, absl::string_view step,
                      const Percentiles& nanoseconds);

  // Checks `fib` (see boundary_check.h), prints the result and remembers it.
  void Check(const Fib& fib, const RouteSet& routes,
             absl::Span<const Route> changes = {});
  bool all_right() const { return wrong_ == 0; }

 private:
  FILE* const out_;
  FILE* const csv_;
  size_t wrong_ = 0;
};

}  // namespace planb

#endif  // PLANB_BENCHMARKS_ENGINE_UPDATE_REPORT_H_
