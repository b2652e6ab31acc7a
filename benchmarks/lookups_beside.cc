#include "benchmarks/lookups_beside.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "benchmarks/baselines/huge_array.h"
#include "benchmarks/changing_table.h"
#include "benchmarks/churn.h"
#include "benchmarks/cores.h"
#include "benchmarks/cycles.h"
#include "benchmarks/epoch_slot.h"
#include "benchmarks/measure.h"
#include "benchmarks/traces.h"
#include "lpm/fib.h"

namespace planb {
namespace {

// Looks up from construction to destruction.
class Reader {
 public:
  Reader(EpochSlot<Fib>& slot, const Trace& trace, const BesideOptions& options)
      : slot_(slot),
        trace_(trace),
        options_(options),
        next_hops_(options.batch),
        thread_([this] { Run(); }) {}
  ~Reader() {
    stop_.store(true);
    thread_.join();
  }

  absl::Status Pin() {
    return PinThread(thread_.native_handle(), options_.reader_cpu);
  }
  // Lookups so far. Any thread.
  uint64_t done() const { return done_.load(std::memory_order_relaxed); }

 private:
  void Run() {
    size_t at = 0;
    uint64_t done = 0;
    while (!stop_.load(std::memory_order_relaxed)) {
      if (at + options_.batch > trace_.size()) at = 0;
      const Fib& fib = slot_.Enter();
      fib.Lookup(trace_.at(at), options_.batch, next_hops_.data(),
                 *options_.kernel);
      slot_.Leave();
      at += options_.batch;
      done += options_.batch;
      done_.store(done, std::memory_order_relaxed);
    }
  }

  EpochSlot<Fib>& slot_;
  const Trace& trace_;
  const BesideOptions& options_;
  HugeArray<uint32_t> next_hops_;
  alignas(64) std::atomic<uint64_t> done_{0};
  alignas(64) std::atomic<bool> stop_{false};
  std::thread thread_;  // last: uses the others
};

struct Load {
  enum Kind { kSleep, kSpin, kWorn, kChange, kCompile };
  const char* name;
  Kind kind;
  size_t batch = 1;          // changes
  double changes_per_s = 0;  // 0: as many as possible
};
constexpr Load kLoads[] = {
    {"idle", Load::kSleep},
    {"spinning", Load::kSpin},
    {"idle (worn)", Load::kWorn},
    {"10k/s by 1", Load::kChange, 1, 1e4},
    {"10k/s by 100", Load::kChange, 100, 1e4},
    {"100k/s by 1", Load::kChange, 1, 1e5},
    {"100k/s by 100", Load::kChange, 100, 1e5},
    {"most by 1", Load::kChange, 1},
    {"most by 100", Load::kChange, 100},
    {"compiling", Load::kCompile},
};
constexpr size_t kIdle = 0, kSpinning = 1;

struct Rates {
  double lookups = 0;  // a second
  double changes = 0;
};

// The writer's work. Runs on the thread that owns it.
class Writer {
 public:
  Writer(ChangingTable& table, EpochSlot<Fib>& slot,
         const std::vector<Route>& cycle)
      : table_(table), slot_(slot), cycle_(cycle) {}

  void Compile() { slot_.Publish(table_.Compile()); }

  void Change(size_t count) {
    if (at_ + count > cycle_.size()) {
      // The odd rest of the cycle, as a batch of its own.
      if (at_ < cycle_.size()) Publish(cycle_.size() - at_);
      at_ = 0;
    }
    Publish(count);
  }

  // Keeps `load` up until `end` (in ticks) at least. Returns the changes made,
  // or the compilations.
  size_t Run(const Load& load, uint64_t end) {
    const uint64_t begin = Ticks();
    if (load.kind == Load::kSleep || load.kind == Load::kWorn) {
      std::this_thread::sleep_for(std::chrono::nanoseconds(static_cast<int64_t>(
          static_cast<double>(end - begin) / TicksPerNanosecond())));
      return 0;
    }
    const double ticks_per_change =
        load.changes_per_s == 0
            ? 0
            : TicksPerNanosecond() * 1e9 / load.changes_per_s;
    size_t done = 0;
    uint64_t now;
    while ((now = Ticks()) < end) {
      if (load.kind == Load::kCompile) {
        Compile();
        ++done;
      } else if (load.kind == Load::kChange &&
                 static_cast<double>(now - begin) >=
                     static_cast<double>(done) * ticks_per_change) {
        Change(load.batch);
        done += load.batch;
      }
    }
    return done;
  }

 private:
  void Publish(size_t count) {
    ChangeTimes times;
    slot_.Publish(
        table_.Change(absl::MakeConstSpan(cycle_).subspan(at_, count), times));
    at_ += count;
  }

  ChangingTable& table_;
  EpochSlot<Fib>& slot_;
  const std::vector<Route>& cycle_;
  size_t at_ = 0;
};

Rates MeasureLoad(const Load& load, const BesideOptions& options,
                  Writer& writer, const Reader& reader) {
  writer.Compile();
  for (size_t i = 0; load.kind == Load::kWorn && i < options.changes; ++i) {
    writer.Change(1);
  }
  const auto segment = static_cast<uint64_t>(options.segment_milliseconds *
                                             1e6 * TicksPerNanosecond());
  writer.Run(load, Ticks() + segment / 10);
  const uint64_t lookups = reader.done();
  const uint64_t begin = Ticks();
  const size_t changes = writer.Run(load, begin + segment);
  const uint64_t end = Ticks();
  const double seconds =
      static_cast<double>(end - begin) / TicksPerNanosecond() / 1e9;
  return {.lookups = static_cast<double>(reader.done() - lookups) / seconds,
          .changes = static_cast<double>(changes) / seconds};
}

void Print(const Table& table, const std::vector<std::vector<Rates>>& rates,
           UpdateReport& report) {
  report.Print("%-14s %12s %8s %8s %8s %10s %10s", "load", "changes/s", "M/s",
               "least", "most", "/idle", "/spinning");
  for (size_t i = 0; i < std::size(kLoads); ++i) {
    std::vector<double> lookups, changes, to_idle, to_spinning;
    for (size_t j = 0; j < rates[i].size(); ++j) {
      lookups.push_back(rates[i][j].lookups / 1e6);
      changes.push_back(rates[i][j].changes);
      to_idle.push_back(rates[i][j].lookups / rates[kIdle][j].lookups);
      to_spinning.push_back(rates[i][j].lookups / rates[kSpinning][j].lookups);
      report.Raw("beside", table.name, kLoads[i].name, j, "lookups_per_s",
                 rates[i][j].lookups);
      report.Raw("beside", table.name, kLoads[i].name, j, "changes_per_s",
                 rates[i][j].changes);
    }
    const Percentiles range = PercentilesOf(lookups);
    double least = range.max;
    for (const double rate : lookups) least = std::min(least, rate);
    report.Print("%-14s %12.0f %8.1f %8.1f %8.1f %10.3f %10.3f", kLoads[i].name,
                 Median(changes), Median(lookups), least, range.max,
                 Median(to_idle), Median(to_spinning));
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
  const std::vector<Route> cycle = ThereAndBack(changing.routes(), *changes);
  EpochSlot<Fib> slot(changing.Compile());
  Writer writer(changing, slot, cycle);
  absl::Status pinned = PinThread(pthread_self(), options.writer_cpu);
  if (!pinned.ok()) return pinned;
  std::vector<std::vector<Rates>> rates(
      std::size(kLoads),
      std::vector<Rates>(static_cast<size_t>(options.repeats)));
  {
    Reader reader(slot, *trace, options);
    pinned = reader.Pin();
    if (!pinned.ok()) return pinned;
    for (size_t repeat = 0; repeat < rates[0].size(); ++repeat) {
      for (size_t turn = 0; turn < std::size(kLoads); ++turn) {
        const size_t i = (turn + repeat) % std::size(kLoads);
        rates[i][repeat] = MeasureLoad(kLoads[i], options, writer, reader);
      }
    }
  }
  report.Print(
      "\n%s: %zu routes; lookups beside changes, batches of %zu, kernel %s, "
      "trace match",
      table.name.c_str(), table.routes.size(), options.batch,
      std::string(KernelName(*options.kernel)).c_str());
  report.Print("  reader: %s", DescribeCore(options.reader_cpu).c_str());
  report.Print("  writer: %s", DescribeCore(options.writer_cpu).c_str());
  Print(table, rates, report);
  report.Check(slot.current(), changing.routes(), *changes);
  return absl::OkStatus();
}

}  // namespace planb
