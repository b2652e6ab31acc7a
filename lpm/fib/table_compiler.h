// SPDX-License-Identifier: Apache-2.0

// From routes to the root, lines and descriptors of a FIB: the whole address
// space, or one slot of it.

#ifndef PLANB_LPM_FIB_TABLE_COMPILER_H_
#define PLANB_LPM_FIB_TABLE_COMPILER_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "lpm/fib/block_pool.h"
#include "lpm/fib/descriptor_compiler.h"
#include "lpm/fib/interval_list.h"
#include "lpm/fib/slot_compiler.h"
#include "lpm/fib/value_map.h"
#include "lpm/kernels/layout.h"
#include "lpm/prefix.h"
#include "lpm/routes/route_set.h"

namespace planb {

struct alignas(64) FibRoot {
  std::array<uint32_t, kRootEntries> entries;
};

// A slot of the root or of a table below it, in the main walk: the addresses
// whose bits 0..47 are `low` in all but the last `width` bits.
struct MainSlot {
  uint64_t low;
  int width;

  uint64_t last() const { return low | ((uint64_t{1} << width) - 1); }
  int length() const { return kMainBits - width; }
};

// Thread-compatible. Once failed(), what was compiled is of no use: start again
// with a wider ValueMap, unless CheckLimits() says that none will do.
class TableCompiler {
 public:
  TableCompiler(Family family, const ValueMap& values, size_t expected_routes,
                const FibLimits& limits);
  // Its parts refer to each other.
  TableCompiler(const TableCompiler&) = delete;
  TableCompiler& operator=(const TableCompiler&) = delete;

  // Compiles all routes. O(routes).
  // REQUIRES: strictly ascending; nothing compiled so far.
  void CompileAll(absl::Span<const Route> routes);
  void CompileAll(const RouteSet& routes);

  // Compiles one slot anew and writes its entry to `position`.
  // O(routes in the slot + log routes).
  void CompileSlot(const RouteSet& routes, const MainSlot& slot,
                   Position position);

  void WriteEntry(Position position, uint32_t entry) {
    slots_.WriteEntry(position, entry);
  }

  // True if there are more next hops or descriptors than values for them, or
  // more of anything than the limits allow.
  bool failed() const {
    return values_.overflow() || descriptor_compiler_.overflow() ||
           lines_.overflow();
  }

  // RESOURCE_EXHAUSTED, saying of what there is too much, if values of any
  // width fail.
  absl::Status CheckLimits() const;

  FibRoot& root() { return root_; }
  LinePool& lines() { return lines_; }
  DescriptorPool& descriptors() { return descriptors_; }
  const ValueMap& values() const { return values_; }
  const LeafShape& shape() const { return shape_; }
  Family family() const { return family_; }

 private:
  template <typename It>
  void CompileRange(It begin, It end);
  template <typename It, typename MainSweep>
  void SweepMain(It it, It end, uint64_t last_main, MainSweep& sweep);
  template <typename It>
  uint32_t LongRoutes(It& it, It end, uint64_t slot, uint32_t cover);

  // Where what begins in another root slot ends the one before.
  void AddRootInterval(uint64_t start, uint32_t value);

  const Family family_;
  ValueMap values_;
  const LeafShape shape_;
  LinePool lines_;
  DescriptorPool descriptors_;
  FibRoot root_ = {};
  SlotCompiler slots_;
  DescriptorCompiler descriptor_compiler_;

  // Of the slot being swept, and of the /48 in it.
  IntervalList<uint64_t> intervals_;
  IntervalList<absl::uint128> long_intervals_;
  uint32_t root_slot_ = 0;
};

// What a ValueMap must know. O(routes).
RouteSummary Summarize(absl::Span<const Route> routes);
RouteSummary Summarize(const RouteSet& routes);

}  // namespace planb

#endif  // PLANB_LPM_FIB_TABLE_COMPILER_H_
