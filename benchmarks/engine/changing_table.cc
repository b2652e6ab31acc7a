#include "benchmarks/engine/changing_table.h"

#include "benchmarks/engine/churn.h"
#include "benchmarks/engine/cycles.h"

namespace planb {
namespace {

// `grown` says that the memory is not of the size it was.
UpdateWay Between(const FibCompiler::Counters& before,
                  const FibCompiler::Counters& after, bool grown) {
  if (after.compacted > before.compacted) return UpdateWay::kCompacted;
  if (after.full > before.full) return UpdateWay::kFull;
  if (grown || after.moved > before.moved) return UpdateWay::kMoved;
  return UpdateWay::kIncremental;
}

}  // namespace

absl::string_view UpdateWayName(UpdateWay way) {
  switch (way) {
    case UpdateWay::kIncremental:
      return "incremental";
    case UpdateWay::kMoved:
      return "moved";
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
  std::unique_ptr<const Fib> fib = compiler_.Compile(routes_);
  bytes_ = fib->bytes();
  return fib;
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
  std::unique_ptr<const Fib> fib = compiler_.Update(routes_, changed_);
  const uint64_t end = Ticks();
  times.routes = static_cast<double>(applied - begin) / TicksPerNanosecond();
  times.update = static_cast<double>(end - applied) / TicksPerNanosecond();
  times.way = Between(counters, compiler_.counters(), fib->bytes() != bytes_);
  bytes_ = fib->bytes();
  return fib;
}

}  // namespace planb
