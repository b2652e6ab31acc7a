// Random tables that are hard: prefixes that share long beginnings, so that
// they nest deeply, touch each other, and crowd in few places.

#ifndef PLANB_LPM_TESTING_RANDOM_ROUTES_H_
#define PLANB_LPM_TESTING_RANDOM_ROUTES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lpm/address.h"
#include "lpm/prefix.h"

namespace planb {

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

}  // namespace planb

#endif  // PLANB_LPM_TESTING_RANDOM_ROUTES_H_
