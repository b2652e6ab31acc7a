// SPDX-License-Identifier: Apache-2.0

// Fib::Lookup by kernel, table, trace and batch size, and Fib::Build by table.
//
//   bazel run --config=opt //benchmarks/engine:fib_benchmark --
//     --tables=real,1000000 --benchmark_filter='Lookup/avx512/real/match'
//
// Tables and traces have the names of inputs.h; a name of a benchmark is
// Lookup/KERNEL/TABLE/TRACE/BATCH, with /threads:2 where two threads look up in
// one FIB, each in its half of the trace. Next hops are written out.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "benchmarks/engine/inputs.h"
#include "lpm/fib/fib.h"

ABSL_FLAG(std::vector<std::string>, tables,
          std::vector<std::string>({"20000", "100000", "250000", "500000",
                                    "1000000", "real", "ipv4:1000000"}),
          "names as in benchmarks/engine/inputs.h; 4000000 takes its time");

namespace planb {
namespace {

// 16 MB of IPv6 addresses: more than caches hold, for all traces but repeat.
constexpr size_t kTrace = 1 << 20;
constexpr TraceKind kTraces[] = {TraceKind::kMatch, TraceKind::kUniform,
                                 TraceKind::kZipf, TraceKind::kLong,
                                 TraceKind::kRepeat};
constexpr size_t kBatches[] = {1, 16, 128, 4096, 65'536};
static_assert(kTrace % 65'536 == 0, "whole batches");

struct Loaded {
  absl::Status status;
  Table table;
  std::unique_ptr<const Fib> fib;
  std::map<TraceKind, absl::StatusOr<Trace>> traces;
};

// Made when first asked for, then kept: benchmarks may be interleaved. The lock
// is for two threads that start together.
Loaded& LoadedTable(const std::string& name) {
  static auto* const tables = new std::map<std::string, Loaded>;
  const auto [it, fresh] = tables->try_emplace(name);
  Loaded& loaded = it->second;
  if (fresh) {
    auto table = MakeTable(name);
    loaded.status = table.status();
    if (table.ok()) {
      loaded.table = *std::move(table);
      auto fib = Fib::Build(loaded.table.family, loaded.table.routes);
      loaded.status = fib.status();
      if (fib.ok()) loaded.fib = *std::move(fib);
    }
  }
  return loaded;
}

// The same, with its trace.
Loaded& LoadedTable(const std::string& name, TraceKind kind) {
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  Loaded& loaded = LoadedTable(name);
  if (loaded.fib != nullptr && loaded.traces.count(kind) == 0) {
    loaded.traces.emplace(kind, MakeTrace(kind, loaded.table.family,
                                          loaded.table.routes, kTrace));
  }
  return loaded;
}

void BM_Lookup(benchmark::State& state, const Kernel* kernel,
               const std::string& name, TraceKind kind, size_t batch) {
  Loaded& loaded = LoadedTable(name, kind);
  const absl::Status status =
      loaded.fib == nullptr ? loaded.status : loaded.traces.at(kind).status();
  if (!status.ok()) return state.SkipWithError(status.ToString().c_str());
  const Trace& trace = *loaded.traces.at(kind);
  const size_t share = kTrace / static_cast<size_t>(state.threads());
  const size_t begin = share * static_cast<size_t>(state.thread_index());
  std::vector<NextHopId> next_hops(batch);
  size_t at = 0;
  for (auto _ : state) {
    loaded.fib->Lookup(trace.at(begin + at), batch, next_hops.data(), *kernel);
    benchmark::DoNotOptimize(next_hops.data());
    benchmark::ClobberMemory();
    at = (at + batch) % share;
  }
  state.SetItemsProcessed(static_cast<int64_t>(batch) *
                          static_cast<int64_t>(state.iterations()));
  state.counters["bytes/route"] =
      benchmark::Counter(static_cast<double>(loaded.fib->bytes()) /
                             static_cast<double>(loaded.table.routes.size()),
                         benchmark::Counter::kAvgThreads);
}

void BM_Build(benchmark::State& state, const std::string& name) {
  const Loaded& loaded = LoadedTable(name);
  if (loaded.fib == nullptr) {
    return state.SkipWithError(loaded.status.ToString().c_str());
  }
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        Fib::Build(loaded.table.family, loaded.table.routes).value());
  }
  state.SetItemsProcessed(static_cast<int64_t>(loaded.table.routes.size()) *
                          static_cast<int64_t>(state.iterations()));
}

void RegisterLookups(const Kernel& kernel, const std::string& table) {
  for (const TraceKind kind : kTraces) {
    // IPv4 has nothing longer than /64.
    if (kind == TraceKind::kLong && absl::StartsWith(table, "ipv4")) continue;
    for (const size_t batch : kBatches) {
      auto* const lookup = benchmark::RegisterBenchmark(
          absl::StrCat("Lookup/", std::string(KernelName(kernel)), "/", table,
                       "/", std::string(TraceKindName(kind)), "/", batch)
              .c_str(),
          BM_Lookup, &kernel, table, kind, batch);
      // The rate of both together, in elapsed time.
      lookup->UseRealTime()->Threads(1);
      if (batch == 4096) lookup->Threads(2);
    }
  }
}

void RegisterAll() {
  for (const std::string& table : absl::GetFlag(FLAGS_tables)) {
    for (const Kernel* kernel : AvailableKernels()) {
      RegisterLookups(*kernel, table);
    }
    benchmark::RegisterBenchmark(absl::StrCat("Build/", table).c_str(),
                                 BM_Build, table)
        ->Unit(benchmark::kMillisecond);
  }
}

}  // namespace
}  // namespace planb

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);  // takes its own flags out
  absl::ParseCommandLine(argc, argv);
  planb::RegisterAll();
  return benchmark::RunSpecifiedBenchmarks() > 0 ? 0 : 1;
}
