// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <memory>
#include <utility>

#include "benchmarks/engine/changing_table.h"
#include "benchmarks/engine/inputs.h"
#include "benchmarks/engine/machine.h"
#include "benchmarks/engine/updates.h"
#include "lpm/fib/fib.h"

namespace planb {
namespace {

constexpr Load kLoads[] = {
    {"idle", Load::kSleep},
    {"spinning", Load::kSpin},
    {"idle (worn)", Load::kWorn},
    {"100k/s empty", Load::kEmpty, 1, 1e5},
    {"10k/s by 1", Load::kChange, 1, 1e4},
    {"10k/s by 100", Load::kChange, 100, 1e4},
    {"100k/s by 1", Load::kChange, 1, 1e5},
    {"100k/s by 100", Load::kChange, 100, 1e5},
    {"most by 1", Load::kChange, 1},
    {"most by 100", Load::kChange, 100},
    {"compiling", Load::kCompile},
};
constexpr size_t kIdle = 0, kSpinning = 1;

// A thread that ran this part of the time had its core to itself.
constexpr double kOwnCore = 0.97;

struct Rates {
  double lookups = 0;  // a second
  double changes = 0;
  double update = 0;  // ns: median of FibCompiler::Update or Compile
  double share = 0;   // of the time that the less lucky thread ran
};

Rates MeasureLoad(const Load& load, const BesideOptions& options,
                  Writer& writer, Reader& reader) {
  writer.Compile();
  for (size_t i = 0; load.kind == Load::kWorn && i < options.changes; ++i) {
    writer.Change(1);
  }
  const auto segment = static_cast<uint64_t>(options.segment_milliseconds *
                                             1e6 * TicksPerNanosecond());
  writer.Run(load, Ticks() + segment / 10);
  writer.TakeUpdates();
  const double reader_ran = reader.cpu_seconds();
  const double writer_ran = CpuSeconds(pthread_self());
  const uint64_t lookups = reader.done();
  const uint64_t begin = Ticks();
  const size_t changes = writer.Run(load, begin + segment);
  const uint64_t end = Ticks();
  const double seconds =
      static_cast<double>(end - begin) / TicksPerNanosecond() / 1e9;
  const double done = static_cast<double>(reader.done() - lookups);
  const double reader_share = (reader.cpu_seconds() - reader_ran) / seconds;
  const double writer_share =
      load.sleeps() ? 1 : (CpuSeconds(pthread_self()) - writer_ran) / seconds;
  return {.lookups = done / seconds,
          .changes = static_cast<double>(changes) / seconds,
          .update = PercentilesOf(writer.TakeUpdates()).median,
          .share = std::min(reader_share, writer_share)};
}

Rates MeasureUndisturbed(const Load& load, const BesideOptions& options,
                         Writer& writer, Reader& reader) {
  Rates best;
  for (int i = 0; i <= options.retries && best.share < kOwnCore; ++i) {
    const Rates rates = MeasureLoad(load, options, writer, reader);
    if (rates.share > best.share) best = rates;
  }
  return best;
}

void Print(const std::vector<std::vector<Rates>>& rates, UpdateReport& report) {
  report.Print("%-14s %12s %8s %8s %8s %10s %10s %10s %6s", "load", "changes/s",
               "M/s", "least", "most", "/idle", "/spinning", "update us",
               "ran");
  for (size_t i = 0; i < std::size(kLoads); ++i) {
    std::vector<double> lookups, changes, updates, to_idle, to_spinning;
    double share = 1;
    for (size_t j = 0; j < rates[i].size(); ++j) {
      lookups.push_back(rates[i][j].lookups / 1e6);
      changes.push_back(rates[i][j].changes);
      to_idle.push_back(rates[i][j].lookups / rates[kIdle][j].lookups);
      to_spinning.push_back(rates[i][j].lookups / rates[kSpinning][j].lookups);
      updates.push_back(rates[i][j].update);
      share = std::min(share, rates[i][j].share);
    }
    const auto [least, most] =
        std::minmax_element(lookups.begin(), lookups.end());
    report.Print("%-14s %12.0f %8.1f %8.1f %8.1f %10.3f %10.3f %10.2f %6.2f",
                 kLoads[i].name, Median(changes), Median(lookups), *least,
                 *most, Median(to_idle), Median(to_spinning),
                 Median(updates) / 1e3, share);
  }
}

}  // namespace

absl::Status MeasureLookupsBeside(const Table& table,
                                  const BesideOptions& options,
                                  UpdateReport& report) {
  const auto trace = MakeTrace(TraceKind::kMatch, table.family, table.routes,
                               std::max(options.batch, options.addresses));
  if (!trace.ok()) return trace.status();
  ChangingTable changing(table);
  const auto changes =
      MakeChurn(ChurnKind::kMixed, table.routes, options.changes);
  if (!changes.ok()) return changes.status();
  const std::vector<Route> cycle =
      ThereAndBack(changing.routes().Share(), *changes);
  Published<Fib> slot(changing.Compile());
  Writer writer(changing, slot, cycle);
  absl::Status pinned = PinThread(pthread_self(), options.writer_cpu);
  if (!pinned.ok()) return pinned;
  const Kernel& kernel = *AvailableKernels().front();
  std::vector<std::vector<Rates>> rates(
      std::size(kLoads),
      std::vector<Rates>(static_cast<size_t>(options.repeats)));
  {
    Reader reader(slot, *trace, options.batch, kernel);
    pinned = reader.Pin(options.reader_cpu);
    if (!pinned.ok()) return pinned;
    for (size_t repeat = 0; repeat < rates[0].size(); ++repeat) {
      for (size_t turn = 0; turn < std::size(kLoads); ++turn) {
        const size_t i = (turn + repeat) % std::size(kLoads);
        rates[i][repeat] =
            MeasureUndisturbed(kLoads[i], options, writer, reader);
      }
    }
  }
  report.Print(
      "\n%s: %zu routes; lookups beside changes, batches of %zu, kernel %s, "
      "trace match",
      table.name.c_str(), table.routes.size(), options.batch,
      std::string(KernelName(kernel)).c_str());
  Print(rates, report);
  report.Check(*slot.Read(), changing.routes(), *changes);
  return absl::OkStatus();
}

}  // namespace planb
