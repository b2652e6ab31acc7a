// Small worlds for exhaustive tests: only a few bits of the address vary,
// wherever they lie; the others are those of a fixed base.
//
// A world's prefixes are those that end before, between and after the varying
// bits: 2^(k+1)-1 for k bits. Where the bits lie says which parts of a search
// structure have to tell the prefixes apart.

#ifndef PLANB_LPM_TESTING_SMALL_WORLD_H_
#define PLANB_LPM_TESTING_SMALL_WORLD_H_

#include <ostream>
#include <string>
#include <vector>

#include "absl/numeric/int128.h"
#include "lpm/address.h"
#include "lpm/prefix.h"

namespace planb {

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

// The addresses whose answers tell every table of the world from every other:
// each prefix's ends and their neighbours outside, each address of the world,
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

}  // namespace planb

#endif  // PLANB_LPM_TESTING_SMALL_WORLD_H_
