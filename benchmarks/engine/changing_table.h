// SPDX-License-Identifier: Apache-2.0

// A table whose changes are timed and checked, and which another thread looks
// up at the same time.

#ifndef PLANB_BENCHMARKS_ENGINE_CHANGING_TABLE_H_
#define PLANB_BENCHMARKS_ENGINE_CHANGING_TABLE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "benchmarks/engine/inputs.h"
#include "benchmarks/rivals/huge_array.h"
#include "lpm/fib/fib.h"
#include "lpm/fib/fib_compiler.h"
#include "lpm/prefix.h"
#include "lpm/routes/route_set.h"

namespace planb {

// Which way FibCompiler::Update took: incrementally, the same and on into
// larger memory, or compiling everything, as there was too much to change or as
// memory was badly packed.
enum class UpdateWay { kIncremental, kMoved, kFull, kCompacted };
inline constexpr int kUpdateWays = 4;
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

  // Everything anew.
  std::unique_ptr<const Fib> Compile();

  // Applies `changes` (see inputs.h) one after the other and compiles once.
  // REQUIRES: Compile was called.
  std::unique_ptr<const Fib> Change(absl::Span<const Route> changes,
                                    ChangeTimes& times);

  const RouteSet& routes() const { return routes_; }

 private:
  RouteSet routes_;
  FibCompiler compiler_;
  size_t bytes_ = 0;  // of the last FIB
  std::vector<Prefix> changed_;
};

// Whether a FIB answers as its routes say, everywhere an answer can change.
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

// Hands objects from one writer to one reader; neither waits: how the
// measurement of lookups beside updates publishes a FIB. (The server's way, for
// any number of readers, is server/table/published.h.)
// One thread calls Publish, one other Enter and Leave in turns. Wait-free: no
// operation repeats.
//
// Why nothing is freed that the reader uses. Operations are sequentially
// consistent, so they have one order:
//   reader:  R1 e := epoch   R2 reading := e     R3 read current
//   writer:  W1 current := new   W2 epoch := e'  W3 read reading
// The writer frees the old object, retired under e', if W3 sees 0 or at least
// e'. Say R3 saw the old one; then R3 precedes W1, so R2 precedes W3, and W3
// sees e, or what the reader stored after it. This e was read before W2, so it
// is less than e': the object stays. If W3 sees something later, the reader
// has left since, and what it read happens before W3.
template <typename T>
class EpochSlot {
 public:
  // REQUIRES: first != nullptr.
  explicit EpochSlot(std::unique_ptr<const T> first)
      : current_(first.release()) {}
  // REQUIRES: the reader has left.
  ~EpochSlot() { delete current_.load(); }
  EpochSlot(const EpochSlot&) = delete;
  EpochSlot& operator=(const EpochSlot&) = delete;

  // The reader's: the current object, valid until Leave.
  const T& Enter() {
    reading_.store(epoch_.load());
    return *current_.load();
  }
  void Leave() { reading_.store(0); }

  // The writer's: `next` is current from now on; frees what the reader cannot
  // hold any more. REQUIRES: next != nullptr.
  void Publish(std::unique_ptr<const T> next) {
    std::unique_ptr<const T> old(current_.exchange(next.release()));
    const uint64_t epoch = epoch_.load(std::memory_order_relaxed) + 1;
    epoch_.store(epoch);
    retired_.push_back({epoch, std::move(old)});
    const uint64_t reading = reading_.load();
    std::erase_if(retired_, [reading](const Retired& retired) {
      return reading == 0 || reading >= retired.epoch;
    });
  }

  // The writer's: what is current, which stays so until it publishes.
  const T& current() const { return *current_.load(); }

 private:
  struct Retired {
    uint64_t epoch;
    std::unique_ptr<const T> object;
  };

  // The reader's line and the writer's.
  alignas(64) std::atomic<uint64_t> reading_{0};
  alignas(64) std::atomic<const T*> current_;
  std::atomic<uint64_t> epoch_{1};
  std::vector<Retired> retired_;
};

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

#endif  // PLANB_BENCHMARKS_ENGINE_CHANGING_TABLE_H_
