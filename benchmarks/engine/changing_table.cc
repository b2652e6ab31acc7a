// SPDX-License-Identifier: Apache-2.0

#include "benchmarks/engine/changing_table.h"

#include <endian.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "benchmarks/engine/inputs.h"
#include "benchmarks/engine/machine.h"
#include "lpm/fib/fib.h"
#include "lpm/testing/oracle.h"

namespace planb {
namespace {

UpdateWay Between(const FibCompiler::Counters& before,
                  const FibCompiler::Counters& after) {
  if (after.compacted > before.compacted) return UpdateWay::kCompacted;
  if (after.full > before.full) return UpdateWay::kFull;
  return UpdateWay::kIncremental;
}

}  // namespace

absl::string_view UpdateWayName(UpdateWay way) {
  switch (way) {
    case UpdateWay::kIncremental:
      return "incremental";
    case UpdateWay::kFull:
      return "full";
    case UpdateWay::kCompacted:
      return "compacted";
  }
  return "?";
}

ChangingTable::ChangingTable(const Table& table)
    : routes_(table.family, table.routes), compiler_(table.family) {}

std::unique_ptr<const Fib> ChangingTable::Compile() {
  return compiler_.Compile(routes_).value();
}

std::unique_ptr<const Fib> ChangingTable::Change(
    absl::Span<const Route> changes, ChangeTimes& times) {
  const FibCompiler::Counters counters = compiler_.counters();
  const uint64_t begin = Ticks();
  changed_.clear();
  for (const Route& change : changes) {
    ApplyChange(change, routes_);
    changed_.push_back(change.prefix);
  }
  const uint64_t applied = Ticks();
  std::unique_ptr<const Fib> fib = compiler_.Update(routes_, changed_).value();
  const uint64_t end = Ticks();
  times.routes = static_cast<double>(applied - begin) / TicksPerNanosecond();
  times.update = static_cast<double>(end - applied) / TicksPerNanosecond();
  times.way = Between(counters, compiler_.counters());
  return fib;
}

BoundaryCheck CheckBoundaries(const Fib& fib, const RouteSet& routes,
                              absl::Span<const Route> changes) {
  std::vector<Route> list;
  for (const auto& [prefix, hop] : routes) list.push_back({prefix, hop});
  const Reference reference(routes.family(), list);
  // Each prefix once.
  list.insert(list.end(), changes.begin(), changes.end());
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end(),
                         [](const Route& a, const Route& b) {
                           return a.prefix == b.prefix;
                         }),
             list.end());
  const std::vector<Address> probes = BoundaryProbes(list);
  std::string packed;
  for (const Address& probe : probes) packed += probe.ToPacked();
  const std::vector<NextHopId> expected = reference.Lookup(probes);

  BoundaryCheck check = {.addresses = probes.size()};
  std::vector<uint32_t> found(probes.size());
  for (const Kernel* kernel : AvailableKernels()) {
    fib.Lookup(packed.data(), probes.size(), found.data(), *kernel);
    for (size_t i = 0; i < probes.size(); ++i) {
      if (le32toh(found[i]) == expected[i]) continue;
      if (check.wrong++ > 0) continue;
      check.first_wrong = absl::StrCat(
          probes[i].ToString(), " -> ", le32toh(found[i]), " instead of ",
          expected[i], " by kernel ", KernelName(*kernel));
    }
  }
  return check;
}

Reader::Reader(Published<Fib>& slot, const Trace& trace, size_t batch,
               const Kernel& kernel)
    : slot_(slot),
      trace_(trace),
      batch_(batch),
      kernel_(kernel),
      next_hops_(batch),
      thread_([this] { Run(); }) {}

Reader::~Reader() {
  stop_.store(true);
  thread_.join();
}

absl::Status Reader::Pin(int cpu) {
  return PinThread(thread_.native_handle(), cpu);
}

double Reader::cpu_seconds() { return CpuSeconds(thread_.native_handle()); }

void Reader::Run() {
  size_t at = 0;
  uint64_t done = 0;
  while (!stop_.load(std::memory_order_relaxed)) {
    if (at + batch_ > trace_.size()) at = 0;
    slot_.Read()->Lookup(trace_.at(at), batch_, next_hops_.data(), kernel_);
    at += batch_;
    done += batch_;
    done_.store(done, std::memory_order_relaxed);
  }
}

void Writer::Compile() {
  const uint64_t begin = Ticks();
  std::unique_ptr<const Fib> fib = table_.Compile();
  updates_.push_back(static_cast<double>(Ticks() - begin) /
                     TicksPerNanosecond());
  slot_.Publish(std::move(fib));
}

void Writer::Change(size_t count) {
  if (at_ + count > cycle_.size()) {
    // The odd rest of the cycle, as a batch of its own.
    if (at_ < cycle_.size()) Publish(cycle_.size() - at_);
    at_ = 0;
  }
  Publish(count);
}

size_t Writer::Run(const Load& load, uint64_t end) {
  const uint64_t begin = Ticks();
  if (load.sleeps()) {
    std::this_thread::sleep_for(std::chrono::nanoseconds(static_cast<int64_t>(
        static_cast<double>(end - begin) / TicksPerNanosecond())));
    return 0;
  }
  const double ticks_per_change =
      load.changes_per_s == 0 ? 0
                              : TicksPerNanosecond() * 1e9 / load.changes_per_s;
  size_t done = 0;
  uint64_t now;
  while ((now = Ticks()) < end) {
    if (load.kind == Load::kCompile) {
      Compile();
      ++done;
    } else if ((load.kind == Load::kChange || load.kind == Load::kEmpty) &&
               static_cast<double>(now - begin) >=
                   static_cast<double>(done) * ticks_per_change) {
      Change(load.kind == Load::kEmpty ? 0 : load.batch);
      done += load.batch;
    }
  }
  return done;
}

std::vector<double> Writer::TakeUpdates() {
  std::vector<double> updates = std::move(updates_);
  updates_.clear();
  // Enough for any segment: growing it would be timed.
  updates_.reserve(1 << 18);
  return updates;
}

void Writer::Publish(size_t count) {
  ChangeTimes times;
  slot_.Publish(
      table_.Change(absl::MakeConstSpan(cycle_).subspan(at_, count), times));
  updates_.push_back(times.update);
  at_ += count;
}

}  // namespace planb
