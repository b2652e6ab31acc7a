// SPDX-License-Identifier: Apache-2.0

#include <malloc.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/engine/machine.h"
#include "benchmarks/engine/statistics.h"
#include "benchmarks/engine/updates.h"
#include "lpm/fib/fib.h"
#include "lpm/fib/fib_compiler.h"
#include "lpm/routes/route_set.h"

namespace planb {
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
             const RouteSet& routes, const CompileOptions& options,
             UpdateReport& report) {
  std::unique_ptr<const Fib> fib;
  std::vector<double> milliseconds;
  MakeCold();
  for (int i = 0; i <= options.repeats; ++i) {
    fib = nullptr;
    const uint64_t begin = Ticks();
    fib = compile();
    const auto ticks = static_cast<double>(Ticks() - begin);
    milliseconds.push_back(ticks / TicksPerNanosecond() / 1e6);
    report.Raw("compile", table.name, how, static_cast<size_t>(i),
               i == 0 ? "cold_ms" : "warm_ms", milliseconds.back());
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

void MeasureCompile(const Table& table, const CompileOptions& options,
                    UpdateReport& report) {
  const RouteSet routes(table.family, table.routes);
  {
    FibCompiler compiler(table.family);
    Measure(
        table, "Compile", [&] { return compiler.Compile(routes).value(); },
        routes, options, report);
  }
  Measure(
      table, "Build",
      [&] { return Fib::Build(table.family, table.routes).value(); }, routes,
      options, report);
}

}  // namespace planb
