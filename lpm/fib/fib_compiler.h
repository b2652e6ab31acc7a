// SPDX-License-Identifier: Apache-2.0

// From one generation of a table to the next: edits what changed and shares the
// rest.
//
//   FibCompiler compiler(Family::kIpv6);
//   std::unique_ptr<const Fib> fib = *compiler.Compile(routes);
//   routes.Announce(prefix, next_hop);
//   fib = *compiler.Update(routes, {prefix});  // the old one stays valid

#ifndef PLANB_LPM_FIB_FIB_COMPILER_H_
#define PLANB_LPM_FIB_FIB_COMPILER_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lpm/fib/fib.h"
#include "lpm/prefix.h"
#include "lpm/routes/route_set.h"

namespace planb {

struct FibLimits;
struct FibPacking;

// Thread-compatible: one writer. The FIBs it returns are independent objects,
// each immutable, each usable by any number of threads and destroyed by any, in
// any order, also after the compiler.
//
// How that works. Each FIB has a root of its own, and shares lines and
// descriptors with the generations before and after it. Update writes only to
// places that no living FIB can reach: copies of the partitions that change and
// of the tables above them. Then it makes a new root, so readers of the old
// root see no change. The compiler lists the places that the new generation
// leaves unused under its number, and uses them again only after every older
// FIB is destroyed: for anything, or for the next version of the same table,
// which differs in few lines. Roots of FIBs that are gone are used again as
// well. A FIB must not be destroyed while a thread reads it; its destructor
// takes a mutex that the next Update takes, too. So a reader's last read
// happens before the first new write.
class FibCompiler {
 public:
  // `options` are those of all its FIBs.
  explicit FibCompiler(Family family, const FibOptions& options = {});
  ~FibCompiler();
  FibCompiler(const FibCompiler&) = delete;
  FibCompiler& operator=(const FibCompiler&) = delete;

  // Compiles everything. O(routes). Errors: RESOURCE_EXHAUSTED if a FIB cannot
  // hold the routes; fib_bound.h tells that in advance. Existing FIBs stay as
  // they are. REQUIRES: routes.family() is this family.
  absl::StatusOr<std::unique_ptr<const Fib>> Compile(const RouteSet& routes);

  // The FIB of `routes`, given that they differ from those of the last call of
  // Compile or Update at most at the prefixes `changed` (any order; repeats,
  // and prefixes that did not change after all, are allowed). A lookup batch
  // reads one FIB, so it sees all of the changes or none.
  //
  // Edits, for each change, a partition of some hundred intervals, and as much
  // below each descriptor on the way to it, reading the routes that the prefix
  // covers. A prefix that covers slots of a table is edited in copies of what
  // shows its value: O(bytes of the FIB below it), and O(routes below it)
  // unless it is announced where nothing covers it. Where many intervals are
  // only in part what it decides, or several such changes are in each other, it
  // recompiles what it covers. More changes than MostChanges() recompile
  // everything. So does a call after one that failed, by an error or by an
  // allocation that threw an exception.
  //
  // When the changes so far have left much of the memory badly packed, calls
  // compile everything in steps, in memory of its own, beside the table in use:
  // each some 1,000 routes, or 2,000, and 32 for each change. The last of them
  // puts it in the place of that table. Small tables are compiled at once, and
  // so are others if the changes of few calls leave too much unused before.
  //
  // Errors: those of Compile. REQUIRES: Compile was called.
  absl::StatusOr<std::unique_ptr<const Fib>> Update(
      const RouteSet& routes, absl::Span<const Prefix> changed);

  // With more changes than this, repeats included, Update compiles everything
  // and does not read the list: it need not be complete then.
  static constexpr size_t MostChanges(size_t routes) {
    // Of 250,000 routes, a change that lies apart from the others takes as long
    // as compiling 130 routes of IPv6, or 60 of IPv4; changes of neighbours
    // take a tenth of that. So no list costs much more than compiling
    // everything.
    constexpr size_t kRoutesPerChange = 120;
    return 64 + routes / kRoutesPerChange;
  }

  // How often Update took which way.
  struct Counters {
    uint64_t incremental = 0;
    uint64_t full = 0;       // as there was too much to change, or a failure
    uint64_t compacted = 0;  // full, as memory was badly packed
    uint64_t packed = 0;     // ended a compilation in steps
  };
  const Counters& counters() const;

  // Bytes that are in use for a compilation in steps, beside the FIBs. O(1).
  size_t packing_bytes() const;

 private:
  friend class FibLimitsPeer;  // of tests
  FibCompiler(Family family, const FibOptions& options, const FibLimits& limits,
              const FibPacking& packing);

  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace planb

#endif  // PLANB_LPM_FIB_FIB_COMPILER_H_
