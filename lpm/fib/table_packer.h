// SPDX-License-Identifier: Apache-2.0

// Compiles a table anew in steps, while updates go on changing the one in use.

#ifndef PLANB_LPM_FIB_TABLE_PACKER_H_
#define PLANB_LPM_FIB_TABLE_PACKER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/types/span.h"
#include "lpm/fib/fib_memory.h"
#include "lpm/fib/table_compiler.h"
#include "lpm/fib/table_garbage.h"
#include "lpm/fib/table_updater.h"
#include "lpm/kernels/layout.h"
#include "lpm/prefix.h"
#include "lpm/routes/route_set.h"

namespace planb {

// When and how a table is packed. Tests have other values.
struct FibPacking {
  // An update packs so many routes, or twice as many. A table of no more is
  // packed at once.
  size_t routes = 1000;
  // All tables are packed always.
  bool always = false;
};

// A second table, in memory of its own, which takes the place of one that has
// become large for what it holds. Each step looks at some of the routes: first
// to choose the width of values, then to compile the addresses from where the
// last step ended. Changes of what is compiled so far are made in it as in the
// table in use; others wait until their addresses are compiled. No reader knows
// it, so they are made in place, and leave nothing unused.
//
// What a step compiles is as TableCompiler has it, but for slots that take more
// than a step. These get a table of as many bits as the table in use has there.
//
// Thread-compatible.
class TablePacker {
 public:
  // `limits` are those of the table in use. It takes as much address space as
  // updates of that one. `portion` routes are compiled together.
  TablePacker(TableCompiler& in_use, const FibLimits& limits, size_t portion);

  // The next step, of `most` routes or little more, unless there are more
  // longer ones in a /48. `routes` differ from those of the last call at most
  // at `changed`. True if that was the last one, or if the table failed().
  // REQUIRES: `changed` ascends; not called after it returned true; `in_use` is
  // the table of the constructor.
  bool Step(TableCompiler& in_use, const RouteSet& routes,
            absl::Span<const Prefix> changed, size_t most);

  bool failed() const { return table_ != nullptr && table_->failed(); }

  // Bytes that it holds for lines and descriptors, huge pages as a whole.
  size_t bytes() const;

  // What became of it once Step returned true. `compiled_lines` and
  // `compiled_descriptors` are what the steps compiled, or less: within the
  // bounds of fib_bound.h on a compilation of all at once.
  struct Packed {
    std::unique_ptr<TableCompiler> table;
    std::unique_ptr<TableUpdater> updater;
    std::shared_ptr<FibArena> arena;
    size_t compiled_lines = 0, compiled_descriptors = 0;
  };
  Packed Take() &&;

 private:
  bool Survey(const RouteSet& routes, size_t most);
  void Begin(TableCompiler& in_use);
  size_t CompileSome(TableCompiler& in_use, const RouteSet& routes);
  // So many slots, with so many routes, and cuts as fib_bound.cc has them. No
  // slots: the first is to be divided.
  struct Portion {
    uint32_t slots = 0;
    size_t routes = 0, cuts = 0;
  };
  template <typename Compile>
  void Count(Compile compile);
  int OpenBits(const MainSlot& slot) const;
  Portion NextPortion(TableCompiler& in_use, const RouteSet& routes,
                      const MainSlot& first, uint64_t last) const;
  void BeginTable(TableCompiler& in_use, const MainSlot& slot,
                  Position position);
  void CompileSlots(const RouteSet& routes, const MainTable& table,
                    uint32_t begin, uint32_t end);
  void Drop(uint32_t entry, const MainSlot& slot);

  const FibLimits limits_;
  const size_t portion_;
  // What it may use before all is compiled: what the table in use has, which
  // may be packed as well as can be.
  const size_t most_lines_, most_descriptors_;
  // What routes there are, and the last one that was looked at.
  RouteSummary summary_;
  std::optional<Prefix> surveyed_;
  // All else: nullptr before it begins.
  std::shared_ptr<FibArena> arena_;
  std::unique_ptr<TableCompiler> table_;
  std::unique_ptr<TableUpdater> updater_;
  SpareTables no_spares_;
  Garbage garbage_;
  uint64_t next_ = 0;  // bits 0..47 of the first address not compiled
  size_t compiled_lines_ = 0, compiled_descriptors_ = 0;
  size_t begun_lines_ = 0;  // of tables of divided slots, not yet counted above
  size_t cuts_ = 0;         // in this step
};

}  // namespace planb

#endif  // PLANB_LPM_FIB_TABLE_PACKER_H_
