// SPDX-License-Identifier: Apache-2.0

// A table that changes while another thread looks addresses up in it. The
// changes are timed and checked.

#ifndef PLANB_BENCHMARKS_ENGINE_CHANGING_TABLE_H_
#define PLANB_BENCHMARKS_ENGINE_CHANGING_TABLE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/published.h"
#include "benchmarks/engine/inputs.h"
#include "benchmarks/rivals/huge_array.h"
#include "lpm/fib/fib.h"
#include "lpm/fib/fib_compiler.h"
#include "lpm/prefix.h"
#include "lpm/routes/route_set.h"

namespace planb {

// How FibCompiler::Update made a FIB: it changed a part, or compiled everything
// because there was too much to change, or because memory was badly packed.
enum class UpdateWay { kIncremental, kFull, kCompacted };
inline constexpr int kUpdateWays = 3;
absl::string_view UpdateWayName(UpdateWay way);

struct ChangeTimes {
  double routes = 0;  // ns: of RouteSet::Announce and Withdraw
  double update = 0;  // ns: of FibCompiler::Update
  UpdateWay way = UpdateWay::kIncremental;
};

// Thread-compatible.
class ChangingTable {
 public:
  explicit ChangingTable(const Table& table);

  // Compiles everything anew.
  std::unique_ptr<const Fib> Compile();

  // Applies `changes` (see inputs.h) one after the other and compiles once.
  // REQUIRES: Compile was called.
  std::unique_ptr<const Fib> Change(absl::Span<const Route> changes,
                                    ChangeTimes& times);

  const RouteSet& routes() const { return routes_; }

 private:
  RouteSet routes_;
  FibCompiler compiler_;
  std::vector<Prefix> changed_;
};

// The result of CheckBoundaries: whether a FIB answers as its routes say
// everywhere an answer can change.
struct BoundaryCheck {
  size_t addresses = 0;  // asked for, by every kernel that runs here
  size_t wrong = 0;
  std::string first_wrong;  // what differs where, or ""
};

// Asks `fib` for the first and the last address of each of `routes` and of the
// prefixes of `changes` (which may be gone by now), and for the ones just
// outside; compares with lpm/testing's reference, which shares nothing with the
// engine.
BoundaryCheck CheckBoundaries(const Fib& fib, const RouteSet& routes,
                              absl::Span<const Route> changes = {});

// A thread that looks `trace` up over and over, in whole batches, from
// construction to destruction, each batch in the FIB of `slot` then, as a
// lookup thread of the server does.
class Reader {
 public:
  // REQUIRES: 0 < batch <= trace.size(); all outlive this.
  Reader(Published<Fib>& slot, const Trace& trace, size_t batch,
         const Kernel& kernel);
  ~Reader();

  absl::Status Pin(int cpu);
  double cpu_seconds();
  // The number of lookups so far. Any thread may call it.
  uint64_t done() const { return done_.load(std::memory_order_relaxed); }

 private:
  void Run();

  Published<Fib>& slot_;
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

// The writer's work. The one thread that calls it does the work.
class Writer {
 public:
  // Repeats `cycle`, which must leave the table as it was. All outlive this.
  Writer(ChangingTable& table, Published<Fib>& slot,
         const std::vector<Route>& cycle)
      : table_(table), slot_(slot), cycle_(cycle) {}

  // Compiles everything anew and publishes it.
  void Compile();
  // Publishes the next `count` changes together, or a FIB without changes for
  // 0. REQUIRES: no more than all.
  void Change(size_t count);

  // Keeps `load` up until `end` (in ticks) at least. Returns the changes made,
  // or the compilations or empty updates. Spins where there is nothing to do
  // yet.
  size_t Run(const Load& load, uint64_t end);

  // The times that the updates or compilations since the last call took, ns.
  std::vector<double> TakeUpdates();

 private:
  void Publish(size_t count);

  ChangingTable& table_;
  Published<Fib>& slot_;
  const std::vector<Route>& cycle_;
  size_t at_ = 0;
  std::vector<double> updates_;
};

}  // namespace planb

#endif  // PLANB_BENCHMARKS_ENGINE_CHANGING_TABLE_H_
