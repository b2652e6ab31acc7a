// SPDX-License-Identifier: Apache-2.0

// Random prefixes and routes that are hard: they share long beginnings, so that
// they nest deeply, touch each other, and crowd in few places.

#ifndef PLANB_LPM_TESTING_HARD_PREFIXES_H_
#define PLANB_LPM_TESTING_HARD_PREFIXES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lpm/address.h"
#include "lpm/prefix.h"

namespace planb {

// How RandomRoutes draws.
struct RandomRoutesOptions {
  Family family = Family::kIpv6;
  size_t count = 100;
  // Lengths are drawn from here, evenly. -1 is as long as the family allows.
  int min_length = 0;
  int max_length = -1;
  // Next hops are drawn from 1..next_hops.
  uint32_t next_hops = 16;
  uint64_t seed = 1;
};

// At most `count` routes (fewer where the lengths allow no more), distinct,
// sorted by prefix. Each is a random walk's next step: it takes another one's
// bits up to some point, then goes its own way, or follows right after it.
std::vector<Route> RandomRoutes(const RandomRoutesOptions& options);

// At most `count` prefixes inside `top` (itself possible), of all lengths that
// fit, nested and touching as RandomRoutes makes them. Ascending, distinct.
std::vector<Prefix> PrefixesBelow(const Prefix& top, size_t count,
                                  uint64_t seed);

// The prefixes of `address` from /first to /last, each inside the one before.
std::vector<Prefix> Chain(const Address& address, int first, int last);

// Beside the chain: of each length the prefix that differs in its last bit.
std::vector<Prefix> Siblings(const Address& address, int first, int last);

// `count` neighbours of one length, starting with `first`; fewer at the end of
// the address space.
std::vector<Prefix> Row(const Prefix& first, size_t count);

// About `count` prefixes: a mixture, drawn at random, of the above in one place
// (one slot, one /48, one /64, hosts of one subnet, ...), of others all over
// the address space, and of /0, /3 and /8 above all of them. Ascending,
// distinct.
std::vector<Prefix> HardPrefixes(Family family, size_t count, uint64_t seed);

}  // namespace planb

#endif  // PLANB_LPM_TESTING_HARD_PREFIXES_H_
