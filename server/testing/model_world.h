// SPDX-License-Identifier: Apache-2.0

// A world small enough that everything happens in it: a few dozen nested
// prefixes, the addresses that tell them apart, and random batches of changes.

#ifndef PLANB_SERVER_TESTING_MODEL_WORLD_H_
#define PLANB_SERVER_TESTING_MODEL_WORLD_H_

#include <random>
#include <vector>

#include "lpm/address.h"
#include "lpm/prefix.h"
#include "server/table/update.h"

namespace planb::server {

using Random = std::mt19937_64;

// Uniform in 0..n-1. REQUIRES: n > 0.
inline uint64_t Below(Random& random, uint64_t n) { return random() % n; }
inline bool Chance(Random& random, uint64_t percent) {
  return Below(random, 100) < percent;
}

// Ascending, each once.
const std::vector<Prefix>& WorldPrefixes();

// For every prefix of the world an address of which it is the longest, and all
// addresses where one begins or ends; IPv6 first.
const std::vector<Address>& WorldProbes();

// Changes of a few routes, sometimes with next hops and groups.
UpdateBatch RandomChanges(Random& random);
// All routes anew.
UpdateBatch RandomReplacement(Random& random);
// Next hops and groups, upserted and deleted.
UpdateBatch RandomObjects(Random& random);

}  // namespace planb::server

#endif  // PLANB_SERVER_TESTING_MODEL_WORLD_H_
