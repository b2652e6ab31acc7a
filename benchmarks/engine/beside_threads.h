// The two threads of the measurement of lookups beside updates: one that looks
// up, and one that keeps up a load.

#ifndef PLANB_BENCHMARKS_ENGINE_BESIDE_THREADS_H_
#define PLANB_BENCHMARKS_ENGINE_BESIDE_THREADS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "benchmarks/engine/changing_table.h"
#include "benchmarks/engine/epoch_slot.h"
#include "benchmarks/engine/traces.h"
#include "benchmarks/rivals/huge_array.h"
#include "lpm/fib.h"
#include "lpm/prefix.h"

namespace planb {

// A thread that looks `trace` up over and over, in whole batches, from
// construction to destruction, each batch in the FIB of `slot` then.
class Reader {
 public:
  // REQUIRES: 0 < batch <= trace.size(); all outlive this.
  Reader(EpochSlot<Fib>& slot, const Trace& trace, size_t batch,
         const Kernel& kernel);
  ~Reader();

  absl::Status Pin(int cpu);
  double cpu_seconds();
  // Lookups so far. Any thread.
  uint64_t done() const { return done_.load(std::memory_order_relaxed); }

 private:
  void Run();

  EpochSlot<Fib>& slot_;
  const Trace& trace_;
  const size_t batch_;
  const Kernel& kernel_;
  HugeArray<uint32_t> next_hops_;
  alignas(64) std::atomic<uint64_t> done_{0};
  alignas(64) std::atomic<bool> stop_{false};
  std::thread thread_;  // last: uses the others
};

// What the writer does.
struct Load {
  // kEmpty publishes new FIBs in which nothing changed.
  enum Kind { kSleep, kSpin, kWorn, kEmpty, kChange, kCompile };
  const char* name;
  Kind kind;
  size_t batch = 1;          // changes compiled and published together
  double changes_per_s = 0;  // or empty updates; 0: as many as possible

  bool sleeps() const { return kind == kSleep || kind == kWorn; }
};

// The writer's work, done by whichever one thread calls it.
class Writer {
 public:
  // Repeats `cycle`, which must leave the table as it was. All outlive this.
  Writer(ChangingTable& table, EpochSlot<Fib>& slot,
         const std::vector<Route>& cycle)
      : table_(table), slot_(slot), cycle_(cycle) {}

  // Publishes all compiled anew.
  void Compile();
  // Publishes the next `count` changes together, or a FIB without changes for
  // 0. REQUIRES: no more than all.
  void Change(size_t count);

  // Keeps `load` up until `end` (in ticks) at least. Returns the changes made,
  // or the compilations or empty updates. Spins where there is nothing to do
  // yet.
  size_t Run(const Load& load, uint64_t end);

  // What the updates or compilations since the last call took, ns.
  std::vector<double> TakeUpdates();

 private:
  void Publish(size_t count);

  ChangingTable& table_;
  EpochSlot<Fib>& slot_;
  const std::vector<Route>& cycle_;
  size_t at_ = 0;
  std::vector<double> updates_;
};

}  // namespace planb

#endif  // PLANB_BENCHMARKS_ENGINE_BESIDE_THREADS_H_
