// SPDX-License-Identifier: Apache-2.0

// Why the bounds hold.
//
// *Cuts.* The main walk tells /48s apart; a /48 that longer routes divide is
// one value of it. Call the routes of 13..48 bits and these /48s cuts. Only
// they have boundaries inside a slot of the root, two at most. The same words
// go for what lies below a descriptor: what it tells apart are slots of 64 bits
// or of 32 bits more than its own, its cuts the routes up to there and the
// slots that longer ones divide.
//
// *Partitions.* A slot of which r > 0 cuts are a part, strictly, has 2r + 1 <=
// 3r intervals or fewer, its first included. Partitions hold M = 17w intervals
// in leaves of w >= 8 and are filled one after the other, up to S = 8/9 M where
// slots share them, so of T intervals in a run without a Flush there come 2T/S
// + 1 or fewer, and T/w + 4T/S + 2 lines (the header and the last, broken leaf:
// 2 each). T <= 3 * cuts: 0.48 lines a cut and 2 lines a run. There is a run
// for each /16 that is cut, 2^16 at most. Narrow ones take less: of 24
// intervals or more, (2 + 25/11) / 12 a cut even if each slot had its own; in
// tables of 16 bits or less the slots share them, and there are S >= 323
// intervals: 3 * (1/11 + 4/323) + 2/161.
//
// *Tables.* TableBits takes the number of bits that costs least, and one it
// could have taken, b0, makes a table of max(1, count / 512) lines or fewer. By
// the cost model a line costs 20, and an interval 12 if its slot is crowded
// (and goes on to another table), 6 if it is in a partition, 0 if it has a slot
// alone. More slots never make it cost more. So the table has at most 1/20 line
// for each unit by which all intervals got cheaper than with b0; an interval
// gets so from 12 only once, on leaving the crowd, and then is in no further
// table: 0.6 lines altogether if it ends up alone and 0.3 if in a partition. A
// cut has two: 1.2 lines if alone, 0.6 + 0.48 if not. Add what tables add:
// below the first there are 7 levels (of 32 bits, 4 each, and none of 4 is
// crowded) of tables with M >= 136 intervals or more, so 7/136 tables an
// interval, each with one line and one more interval (0.6 lines): 7/136 * 1.6 +
// 1/512 = 0.085 an interval. In all 1.4 lines a cut; and for each slot of the
// root that is cut a table's first line and an interval at its begin: 1.7.
//
// *Long routes.* Let a /48 have r routes longer than itself. Its descriptors
// form a tree with the routes as leaves; below a descriptor hang its cuts. One
// that has an interval to divide has two cuts at least, as it skips what a
// single one has in common. So the sum of (cuts - 1) over all is r - 1 or less.
// A descriptor of c >= 2 cuts takes a partition of 1 + (2c + 1)/8 lines, or, if
// c is 68 or more, tables and partitions of 1.9 c + 3 (1.4 c, and two runs more
// for each table, as these share no partition): either way no more than
// 2 (c - 1). So the /48 takes 2 (r - 1) lines below descriptors and, as a cut
// of the main walk, 1.4: 2 lines for each long route (and a run and a root
// slot, as above).
//
// Those r - 1 also are the descriptors of two cuts and more at most; those of
// one are r at most. Where a route is not longer than /64, no descriptor but
// the /48's first has it inside. So there is one descriptor for each route up
// to /64, and two for each that is longer.
//
// *Updates.* The pool of lines has a limit, 3C + 3072 where the last full
// compilation took C: an update that would exceed it compiles everything. So
// has that of descriptors, 3C + 2048; but as all of them are of one size, what
// is free is used first, and no update begins with more than 2C + 1024 in use.
// Next hops likewise. The gaps of a cover are 16 bytes for each route or change
// of a slot of the root, in a vector that doubles: less than the lists of
// intervals, with which they are never.
//
// *Packing in steps.* C is what the steps compile; the tables of slots that no
// step can compile count for 1/32 line a cut at most. A step ends a run where a
// compilation of all would not: 4 lines more for each 1,000 cuts. And a route
// that goes and comes elsewhere between two steps counts twice: there are 32
// more cuts in a step for each change. That is 1/32 * (1 + 1.4) + 0.004 lines a
// cut, and the 1.285 from above are within 1.4. The pool is limited by what the
// table in use has, and 1024 lines more, which is less than an update of that
// one may use: so both are no more than the memory that UpdatePeakBound and
// MeasuredFibBytes have for an update that grows its pools in a copy. Before a
// compilation of all, what the steps made so far is dropped.

#include "lpm/fib/fib_bound.h"

#include <algorithm>
#include <vector>

#include "absl/base/internal/raw_logging.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "lpm/fib/fib.h"
#include "lpm/fib/fib_compiler.h"
#include "lpm/fib/table_compiler.h"
#include "lpm/kernels/layout.h"

namespace planb {
namespace {

static_assert(kMaxFibLines == FibLimits().lines);
static_assert(kMaxFibDescriptors == FibLimits().descriptors);
static_assert(kMaxFibNextHops == FibLimits().next_hops);

// In tenths of a line.
constexpr uint64_t kPerRootSlot = 17;
constexpr uint64_t kPerRun = 20;
constexpr uint64_t kPerCut = 14;
constexpr uint64_t kPerLongRoute = 20;

constexpr int kRunBits = 16;  // the main walk flushes its partitions
constexpr uint64_t kMostRuns = uint64_t{1} << kRunBits;

// What decides how much a table takes: routes by class of length.
struct Classes {
  Classes(Family family, const RoutesByLength& lengths) {
    for (int length = 0; length <= 128; ++length) {
      const uint64_t routes = lengths[static_cast<size_t>(length)];
      ABSL_RAW_CHECK(routes == 0 || length <= AddressBits(family),
                     "routes longer than addresses");
      all += routes;
      if (length > kUpperBits) {
        below_64 += routes;
      }
      if (length > kMainBits) {
        below_48 += routes;
      } else if (length > kRootBits) {
        main += routes;
      }
      if (length > kRootBits) root_slots += routes;
      if (length > kRunBits) runs += routes;
    }
    root_slots = std::min<uint64_t>(root_slots, kRootEntries);
    runs = std::min(runs, kMostRuns);
  }

  // In tenths, but for what the cuts take in partitions.
  uint64_t Aside() const {
    return kPerRootSlot * root_slots + kPerRun * runs +
           kPerLongRoute * below_48;
  }
  uint64_t Lines() const { return (Aside() + kPerCut * main + 9) / 10; }
  uint64_t Descriptors() const { return below_48 + below_64; }

  uint64_t all = 0;
  uint64_t main = 0;      // 13..48
  uint64_t below_48 = 0;  // 49..128
  uint64_t below_64 = 0;  // 65..128
  uint64_t root_slots = 0, runs = 0;
};

// Half of a huge page more, where lines are on huge pages; two roots are kept.
constexpr uint64_t kHugeHalf = uint64_t{1} << 20;
constexpr uint64_t kRoots = 1 + FibArena::kSpareRoots;

uint64_t LineBytes(uint64_t lines) {
  const uint64_t bytes = std::max<uint64_t>(lines, 1) * sizeof(Line);
  return bytes + (bytes >= kHugeHalf ? kHugeHalf : 0);
}

uint64_t ValueBytes(const FibOptions& options) {
  return sizeof(NextHopId) + (options.prefix_lengths ? 1 : 0);
}

uint64_t Bytes(const FibSize& size, const FibOptions& options) {
  return sizeof(Fib) + kRoots * sizeof(FibRoot) + LineBytes(size.lines) +
         size.descriptors * sizeof(Descriptor) +
         size.next_hops * ValueBytes(options);
}

// A pool of blocks while it moves to its place for good: where it grew, by half
// each time, and where it goes to; and for both a block's 6 bytes an element,
// in a vector that may have doubled, beside the one before.
uint64_t PoolPeak(uint64_t used, uint64_t expected, uint64_t bytes) {
  const uint64_t grown = std::max(expected, used + used / 2 + kMaxBlockLines);
  return (grown + used) * bytes + 6 * (4 * grown + used);
}

// Lists of intervals, of so many routes. They are vectors that double: 3 times
// what is in them, while they do.
uint64_t Lists(uint64_t main, uint64_t below_48, uint64_t below_64) {
  // Those of a root slot: 12 bytes, and 8 as a run.
  constexpr uint64_t kPerMainInterval = 3 * (12 + 8);
  // Those of a /48: 20 bytes. Then of each descriptor on the way: 8, and 8 as
  // a run; and 20 again for what a slot of 64 bits or more cuts, twice.
  constexpr uint64_t kPerLongInterval = 3 * (20 + 8 + 8);
  constexpr uint64_t kPerDeepInterval = 3 * 2 * (20 + 8);
  return 2 * ((main + below_48) * kPerMainInterval +
              below_48 * kPerLongInterval + below_64 * kPerDeepInterval);
}

// The hash map is at least 7/16 full, 9 bytes a place (17 if the key is a
// pair), and beside it is the one before of half the size; the arrays double.
// (The pairs are counted before all else, in a set that takes no more.)
uint64_t PerNextHop(const FibOptions& options) {
  return (options.prefix_lengths ? 59 : 31) + 3 * ValueBytes(options);
}

// Everything at once.
uint64_t Peak(uint64_t routes, uint64_t lists, const FibSize& size,
              const FibOptions& options) {
  constexpr uint64_t kAside = 112 * 1024;  // four roots, free lists
  return kAside +
         PoolPeak(size.lines, routes / 6 + 2 * kMaxBlockLines, sizeof(Line)) +
         LineBytes(size.lines) - size.lines * sizeof(Line) +
         PoolPeak(size.descriptors, 16, sizeof(Descriptor)) + lists +
         size.next_hops * PerNextHop(options);
}

// All in one slot of the root.
uint64_t Peak(const Classes& classes, const FibSize& size,
              const FibOptions& options) {
  return Peak(classes.all,
              Lists(classes.main, classes.below_48, classes.below_64), size,
              options);
}

// The most that Lists says of one slot of the root, as the lists are those of
// one slot at a time: of all its routes, and of those longer than /48.
struct HeaviestSlot {
  explicit HeaviestSlot(const RouteSet& routes) {
    uint64_t main = 0, below_48 = 0, below_64 = 0, slot = 0;
    for (const Route& route : routes) {
      const int length = route.prefix.length();
      if (length <= kRootBits) continue;
      const uint64_t its =
          MainBits(route.prefix.first()) >> (kMainBits - kRootBits);
      if (its != slot) main = below_48 = below_64 = 0;
      slot = its;
      ++(length > kMainBits ? below_48 : main);
      if (length > kUpperBits) ++below_64;
      lists = std::max(lists, Lists(main, below_48, below_64));
      long_lists = std::max(long_lists, Lists(0, below_48, below_64));
    }
  }

  uint64_t lists = 0, long_lists = 0;
};

uint64_t NextHops(const Classes& classes, uint64_t next_hops,
                  const FibOptions& options) {
  uint64_t values = std::min(classes.all, next_hops);
  // Each with every length.
  if (options.prefix_lengths) values = std::min(classes.all, values * 129);
  return values + 1;  // kNoRoute
}

FibSize Compiled(const Classes& classes, uint64_t next_hops,
                 const FibOptions& options) {
  return {classes.Lines(), classes.Descriptors(),
          NextHops(classes, next_hops, options)};
}

FibSize Updated(const Classes& classes, uint64_t next_hops,
                const FibOptions& options) {
  const FibSize full = Compiled(classes, next_hops, options);
  return {MostUpdatedLines(full.lines), 3 * full.descriptors + kUpdateAside,
          3 * full.next_hops + kUpdateAside};
}

absl::Status TooMany(uint64_t count, const char* of, uint64_t most) {
  return absl::ResourceExhaustedError(absl::StrCat(
      "the table may need ", count, " ", of, "; a FIB has ", most, " at most"));
}

}  // namespace

FibSize CompiledSize(Family family, const RoutesByLength& lengths,
                     uint64_t next_hops, const FibOptions& options) {
  return Compiled(Classes(family, lengths), next_hops, options);
}

FibSize UpdatedSize(Family family, const RoutesByLength& lengths,
                    uint64_t next_hops, const FibOptions& options) {
  return Updated(Classes(family, lengths), next_hops, options);
}

// FibCompiler compiles everything where an update might exceed the limits.
absl::Status CheckCompilable(Family family, const RoutesByLength& lengths,
                             uint64_t next_hops, const FibOptions& options) {
  const FibSize size = CompiledSize(family, lengths, next_hops, options);
  if (size.lines > kMaxFibLines) {
    return TooMany(size.lines, "lines of 64 bytes", kMaxFibLines);
  }
  if (size.descriptors > kMaxFibDescriptors) {
    return TooMany(size.descriptors, "descriptors of long prefixes",
                   kMaxFibDescriptors);
  }
  if (size.next_hops - 1 > kMaxFibNextHops) {
    return TooMany(size.next_hops - 1,
                   options.prefix_lengths
                       ? "distinct pairs of next hop and prefix length"
                       : "distinct next hops",
                   kMaxFibNextHops);
  }
  return absl::OkStatus();
}

size_t FibBytesBound(Family family, const RoutesByLength& lengths,
                     uint64_t next_hops, const FibOptions& options) {
  return Bytes(CompiledSize(family, lengths, next_hops, options), options);
}

size_t UpdateBytesBound(Family family, const RoutesByLength& lengths,
                        uint64_t next_hops, const FibOptions& options) {
  return Bytes(UpdatedSize(family, lengths, next_hops, options), options);
}

size_t CompilePeakBound(Family family, const RoutesByLength& lengths,
                        uint64_t next_hops, const FibOptions& options) {
  const Classes classes(family, lengths);
  return Peak(classes, Compiled(classes, next_hops, options), options);
}

absl::StatusOr<size_t> MeasuredFibBytes(const RouteSet& routes, size_t most,
                                        const FibOptions& options) {
  const HeaviestSlot heaviest(routes);
  // The answer is at least this, so that there is room to measure all that is
  // admitted: pools within the limits below take a quarter.
  const uint64_t least = heaviest.lists / 3 * 4;
  if (least > most) {
    return absl::ResourceExhaustedError("the FIB takes too much to measure it");
  }
  // Lines and descriptors count 11 times and more below.
  const FibLimits limits = {
      .lines = std::min<size_t>(kMaxFibLines, most / (11 * sizeof(Line))),
      .descriptors = std::min<size_t>(kMaxFibDescriptors,
                                      most / (11 * sizeof(Descriptor)))};
  FibSize full;
  uint64_t lists = heaviest.long_lists;
  {
    const auto table = CompileTable(routes.family(), routes, options, limits);
    if (!table.ok()) return table.status();
    full = {(*table)->lines().used(), (*table)->descriptors().used(),
            (*table)->values().next_hop_count() + 1};
    lists += (*table)->list_bytes() * 3 / 2;  // while the last one grew
  }
  const FibSize updated = {MostUpdatedLines(full.lines),
                           MostUpdatedDescriptors(full.descriptors),
                           2 * full.next_hops + kUpdateAside +
                               FibCompiler::MostChanges(routes.size())};
  const uint64_t pools =
      updated.lines * sizeof(Line) + updated.descriptors * sizeof(Descriptor);
  // The published one; then the pools of an update, grown beside it, with their
  // blocks and two lists of what is unused; then the memory that they move to,
  // or a compilation that becomes necessary.
  const uint64_t together =
      sizeof(Fib) + kRoots * sizeof(FibRoot) + pools +
      updated.next_hops * (ValueBytes(options) + PerNextHop(options)) + pools +
      (5 * 6 + 2 * 3 * sizeof(uint32_t)) *
          (updated.lines + updated.descriptors) +
      std::max(pools, Peak(routes.size(), lists, full, options));
  const uint64_t bytes = std::max(together, least);
  if (bytes > most) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the FIB takes up to ", bytes, " bytes"));
  }
  return bytes;
}

absl::StatusOr<size_t> MeasuredFibBytesOfPrefixes(const RouteSet& routes,
                                                  size_t most,
                                                  const FibOptions& options) {
  if (routes.size() > most / (sizeof(Route) + sizeof(PackedRoute))) {
    return absl::ResourceExhaustedError(
        "the routes take too much to copy them");
  }
  std::vector<Route> worst;
  worst.reserve(routes.size());
  absl::flat_hash_set<NextHopId> next_hops;
  for (const Route& route : routes) {
    worst.push_back(route);
    next_hops.insert(route.next_hop);
  }
  // In turn: those of a prefix and of one in it are as good as never the same.
  constexpr size_t kFew = 1021;
  const size_t different = std::max(kFew, next_hops.size());
  for (size_t i = 0; i < worst.size(); ++i) {
    worst[i].next_hop = static_cast<NextHopId>(1 + i % different);
  }
  return MeasuredFibBytes(RouteSet(routes.family(), worst), most, options);
}

// An update may do its work, find values too narrow, and compile everything.
// What it leaves unused and what is new it lists, and then what is free: by 4
// bytes, twice, in vectors that double.
size_t UpdatePeakBound(Family family, const RoutesByLength& lengths,
                       uint64_t next_hops, const FibOptions& options) {
  const Classes classes(family, lengths);
  const FibSize size = Updated(classes, next_hops, options);
  return Peak(classes, Compiled(classes, next_hops, options), options) +
         Peak(classes, size, options) +
         2 * 3 * sizeof(uint32_t) * (size.lines + size.descriptors);
}

}  // namespace planb
