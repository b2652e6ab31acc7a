// SPDX-License-Identifier: Apache-2.0

// Small worlds for exhaustive tests: only a few bits of the address vary, and
// the others are those of a fixed base.
//
// A world's prefixes are those that end before, between and after the varying
// bits: 2^(k+1)-1 for k bits. Where the bits lie says which parts of a search
// structure have to tell the prefixes apart.

#ifndef PLANB_LPM_TESTING_SMALL_WORLD_H_
#define PLANB_LPM_TESTING_SMALL_WORLD_H_

#include <cstddef>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/numeric/int128.h"
#include "absl/types/span.h"
#include "lpm/address.h"
#include "lpm/prefix.h"
#include "lpm/testing/fib_check.h"
#include "lpm/testing/histories.h"

namespace planb {

// A set of varying bits and a base.
struct SmallWorld {
  Family family = Family::kIpv6;
  // Ascending, counted from the left.
  std::vector<int> positions;
  // The bits that do not vary, left-aligned. Those at `positions` are ignored.
  absl::uint128 base = 0;
};

// For messages and, with letters and digits only, for names of tests.
void PrintTo(const SmallWorld& world, std::ostream* out);
std::string SmallWorldName(const SmallWorld& world);

// Every prefix of the world: the shortest first, those of one length ascending.
std::vector<Prefix> PrefixesOf(const SmallWorld& world);

// The addresses whose answers distinguish any two tables of the world: each
// prefix's ends and their neighbours outside, each address of the world,
// and the ends of the address space. Ascending, distinct.
std::vector<Address> ProbesOf(const SmallWorld& world);

// Each set of positions on each base (addresses as text).
std::vector<SmallWorld> SmallWorlds(
    Family family, const std::vector<std::vector<int>>& positions,
    const std::vector<std::string>& bases);

// `bits` neighbouring positions, in every place where they touch one of
// `edges` (the position before an edge and the one after it, or further in):
// the bits where a structure may change its ways.
std::vector<std::vector<int>> PositionsAround(Family family,
                                              const std::vector<int>& edges,
                                              int bits);

// A small world in motion. After every change it checks the table against the
// oracle, for whole addresses and upper halves, while old versions stay alive.
// Failures are GoogleTest's. Thread-compatible.
class WorldTable {
 public:
  // Prefix number i of the world has next hop state[i]; kNoRoute is no route.
  using State = std::vector<NextHopId>;

  // `background` routes are always there, but for prefixes of the world.
  explicit WorldTable(const SmallWorld& world,
                      std::vector<Route> background = {});
  // Checks the old versions that are left.
  ~WorldTable();

  // Number of prefixes.
  size_t size() const { return prefixes_.size(); }

  // Goes on with a new compiler and none of the world's prefixes.
  void Restart();

  // Goes to `next` in one batch, which may be empty.
  void Go(const State& next);

  // Changes prefix number `i` alone.
  void Set(size_t i, NextHopId next_hop);

 private:
  void Check(absl::Span<const Change> changes);

  const Family family_;
  const std::vector<Prefix> prefixes_;
  std::vector<Route> background_;
  // Of each form of the family.
  std::vector<Form> forms_;
  std::vector<std::shared_ptr<const PackedProbes>> probes_;
  State state_;
  std::unique_ptr<LiveTable> table_;
  OldVersions old_;
};

// Counts up in base `values`; false where it comes back to zeros.
bool NextState(WorldTable::State& state, NextHopId values);

}  // namespace planb

#endif  // PLANB_LPM_TESTING_SMALL_WORLD_H_
