// SPDX-License-Identifier: Apache-2.0

#include "benchmarks/engine/updates.h"

#include <malloc.h>

#include <algorithm>
#include <cstdarg>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/engine/changing_table.h"
#include "benchmarks/engine/machine.h"
#include "lpm/fib/fib.h"
#include "lpm/fib/fib_compiler.h"
#include "lpm/routes/route_set.h"

namespace planb {

void UpdateReport::Print(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vfprintf(out_, format, arguments);
  va_end(arguments);
  std::fputc('\n', out_);
  std::fflush(out_);
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

namespace {

using Compile = std::function<std::unique_ptr<const Fib>()>;

// Larger than any cache here.
constexpr size_t kSwept = size_t{128} << 20;

void MakeCold() {
  {
    const std::unique_ptr<char[]> other(new char[kSwept]);
    std::memset(other.get(), 1, kSwept);
    asm volatile("" : : "r"(other.get()) : "memory");
  }
  malloc_trim(0);
}

void Measure(const Table& table, const std::string& how, const Compile& compile,
             const RouteSet& routes, int repeats, UpdateReport& report) {
  std::unique_ptr<const Fib> fib;
  std::vector<double> milliseconds;
  MakeCold();
  for (int i = 0; i <= repeats; ++i) {
    fib = nullptr;
    const uint64_t begin = Ticks();
    fib = compile();
    const auto ticks = static_cast<double>(Ticks() - begin);
    milliseconds.push_back(ticks / TicksPerNanosecond() / 1e6);
  }
  const double cold = milliseconds.front();
  milliseconds.erase(milliseconds.begin());
  const double median = milliseconds.empty() ? 0 : Median(milliseconds);
  const auto [least, most] =
      std::minmax_element(milliseconds.begin(), milliseconds.end());
  const auto count = static_cast<double>(std::max<size_t>(1, routes.size()));
  const FibStats stats = fib->Stats();
  report.Print("%-12s %9zu %-10s %9.2f %9.2f %9.2f %9.2f %9.1f %9.2f %9.2f",
               table.name.c_str(), routes.size(), how.c_str(), cold, median,
               milliseconds.empty() ? 0 : *least,
               milliseconds.empty() ? 0 : *most, median * 1e6 / count,
               static_cast<double>(stats.bytes()) / count,
               static_cast<double>(fib->bytes()) / count);
  report.Check(*fib, routes);
}

}  // namespace

void CompileTimesHead(UpdateReport& report) {
  report.Print(
      "\nCompiling everything; ms\n%-12s %9s %-10s %9s %9s %9s %9s"
      " %9s %9s %9s",
      "table", "routes", "by", "cold", "warm", "least", "most", "ns/route",
      "B/route", "+room");
}

void MeasureCompile(const Table& table, int repeats, UpdateReport& report) {
  const RouteSet routes(table.family, table.routes);
  {
    FibCompiler compiler(table.family);
    Measure(
        table, "Compile", [&] { return compiler.Compile(routes).value(); },
        routes, repeats, report);
  }
  Measure(
      table, "Build",
      [&] { return Fib::Build(table.family, table.routes).value(); }, routes,
      repeats, report);
}

}  // namespace planb
