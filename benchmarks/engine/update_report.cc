// SPDX-License-Identifier: Apache-2.0

#include <cstdarg>
#include <string>

#include "benchmarks/engine/changing_table.h"
#include "benchmarks/engine/updates.h"

namespace planb {

UpdateReport::UpdateReport(FILE* out, FILE* csv) : out_(out), csv_(csv) {
  if (csv_ != nullptr) {
    std::fprintf(csv_, "part,table,case,number,quantity,value\n");
  }
}

void UpdateReport::Print(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vfprintf(out_, format, arguments);
  va_end(arguments);
  std::fputc('\n', out_);
  std::fflush(out_);
}

void UpdateReport::Raw(absl::string_view part, absl::string_view table,
                       absl::string_view what, size_t number,
                       absl::string_view quantity, double value) {
  if (csv_ == nullptr) return;
  const auto size = [](absl::string_view s) {
    return static_cast<int>(s.size());
  };
  std::fprintf(csv_, "%.*s,%.*s,%.*s,%zu,%.*s,%.10g\n", size(part), part.data(),
               size(table), table.data(), size(what), what.data(), number,
               size(quantity), quantity.data(), value);
}

void UpdateReport::PercentilesHead() {
  Print("%-16s %-9s %8s %10s %10s %10s %10s %10s", "case", "us of", "count",
        "median", "p90", "p99", "p99.9", "max");
}

void UpdateReport::PercentilesRow(absl::string_view what,
                                  absl::string_view step,
                                  const Percentiles& nanoseconds) {
  const Percentiles& p = nanoseconds;
  Print("%-16s %-9s %8zu %10.2f %10.2f %10.2f %10.2f %10.2f",
        std::string(what).c_str(), std::string(step).c_str(), p.count,
        p.median / 1e3, p.p90 / 1e3, p.p99 / 1e3, p.p999 / 1e3, p.max / 1e3);
}

void UpdateReport::Check(const Fib& fib, const RouteSet& routes,
                         absl::Span<const Route> changes) {
  const BoundaryCheck check = CheckBoundaries(fib, routes, changes);
  wrong_ += check.wrong;
  if (check.wrong == 0) {
    Print("  answers: %zu boundaries, all right", check.addresses);
  } else {
    Print("  answers: WRONG %zu times at %zu boundaries: %s", check.wrong,
          check.addresses, check.first_wrong.c_str());
  }
}

}  // namespace planb
