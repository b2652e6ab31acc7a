// A table under change, timed: the routes, the compiler, and what each step of
// a change took.

#ifndef PLANB_BENCHMARKS_ENGINE_CHANGING_TABLE_H_
#define PLANB_BENCHMARKS_ENGINE_CHANGING_TABLE_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "benchmarks/engine/tables.h"
#include "lpm/fib.h"
#include "lpm/fib_compiler.h"
#include "lpm/prefix.h"
#include "lpm/route_set.h"

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

  // Applies `changes` (see churn.h) one after the other and compiles once.
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

}  // namespace planb

#endif  // PLANB_BENCHMARKS_ENGINE_CHANGING_TABLE_H_
