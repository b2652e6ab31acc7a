// Fib::Lookup by kernel and table size, and Fib::Build by table size.
//
//   bazel run --config=opt //benchmarks:fib_benchmark
//
// Tables: made up, 20k to 1M IPv6 routes (next hops shared by neighbours, see
// lpm/synthetic.h), and the real one if PLANB_DATA_DIR has it. Trace "match":
// a route drawn uniformly, then a random address in it, one in sixteen anywhere
// in 2000::/3. Next hops are written out. One thread.

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lpm/fib.h"
#include "lpm/io/route_file.h"
#include "lpm/synthetic.h"

namespace planb {
namespace {

// Addresses in the trace: 16 MB of them, so that what is measured is not the
// trace's place in the cache.
constexpr size_t kTrace = 1 << 20;
constexpr size_t kBatch = 4096;

// 0 stands for the real table.
constexpr int64_t kSizes[] = {0, 20'000, 100'000, 250'000, 1'000'000};

std::string RealTable() {
  const char* const dir = std::getenv("PLANB_DATA_DIR");
  return std::string(dir == nullptr ? "../shared/data" : dir) +
         "/rv6_20260730.txt";
}

std::vector<Route> MakeRoutes(int64_t size) {
  if (size > 0) {
    return SyntheticTable({.ipv6_routes = static_cast<size_t>(size)});
  }
  RouteCollector collector;
  if (!ReadRouteFile(RealTable(), {}, collector).ok()) return {};
  return collector.TakeRoutes();
}

struct Table {
  std::vector<Route> routes;
  std::unique_ptr<const Fib> fib;
  std::string trace;  // packed
};

// Made once, when first asked for. Empty if there is no real table.
const Table& TableOf(int64_t size) {
  static auto* const tables = new std::map<int64_t, Table>;
  const auto [it, fresh] = tables->try_emplace(size);
  Table& table = it->second;
  if (fresh) {
    table.routes = MakeRoutes(size);
    if (table.routes.empty()) return table;
    table.fib = Fib::Build(Family::kIpv6, table.routes);
    for (const Address& address :
         SyntheticTrace(table.routes, Family::kIpv6, kTrace, 1)) {
      table.trace += address.ToPacked();
    }
  }
  return table;
}

void BM_Lookup(benchmark::State& state, const Kernel* kernel, int64_t size) {
  const Table& table = TableOf(size);
  if (table.fib == nullptr) {
    return state.SkipWithError("no real table in PLANB_DATA_DIR");
  }
  std::vector<NextHopId> next_hops(kBatch);
  size_t at = 0;
  for (auto _ : state) {
    table.fib->Lookup(table.trace.data() + at * 16, kBatch, next_hops.data(),
                      *kernel);
    benchmark::DoNotOptimize(next_hops.data());
    benchmark::ClobberMemory();
    at = (at + kBatch) % kTrace;
  }
  state.SetItemsProcessed(static_cast<int64_t>(kBatch) *
                          static_cast<int64_t>(state.iterations()));
  state.counters["bytes/route"] = static_cast<double>(table.fib->bytes()) /
                                  static_cast<double>(table.routes.size());
}

void BM_Build(benchmark::State& state, int64_t size) {
  const Table& table = TableOf(size);
  if (table.fib == nullptr) {
    return state.SkipWithError("no real table in PLANB_DATA_DIR");
  }
  for (auto _ : state) {
    benchmark::DoNotOptimize(Fib::Build(Family::kIpv6, table.routes));
  }
  state.SetItemsProcessed(static_cast<int64_t>(table.routes.size()) *
                          static_cast<int64_t>(state.iterations()));
}

void RegisterAll() {
  for (int64_t size : kSizes) {
    const std::string name = size == 0 ? "real" : std::to_string(size);
    for (const Kernel* kernel : AvailableKernels()) {
      benchmark::RegisterBenchmark(
          ("Lookup/" + std::string(KernelName(*kernel)) + "/" + name).c_str(),
          BM_Lookup, kernel, size);
    }
    benchmark::RegisterBenchmark(("Build/" + name).c_str(), BM_Build, size)
        ->Unit(benchmark::kMillisecond);
  }
}

}  // namespace
}  // namespace planb

int main(int argc, char** argv) {
  planb::RegisterAll();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
