// SPDX-License-Identifier: Apache-2.0

// Routing tables and addresses made up, deterministically, in the likeness of
// the Internet's: for demonstrations, tests and measurements without a dump.

#ifndef PLANB_LPM_SYNTHETIC_SYNTHETIC_H_
#define PLANB_LPM_SYNTHETIC_SYNTHETIC_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "lpm/address.h"
#include "lpm/prefix.h"

namespace planb {

struct SyntheticOptions {
  // Number of distinct IPv6 and IPv4 prefixes to make.
  size_t ipv6_routes = 100'000;
  size_t ipv4_routes = 0;
  // The same seed gives the same table, on every machine.
  uint64_t seed = 1;
  // Next hops are 1..next_hops; neighbours under one allocation tend to share
  // theirs, as the prefixes of one origin network do. 0 is taken as 1.
  uint32_t next_hops = 64;
  // The year that the mix of IPv6 lengths is of, 2019 to 2025; others are taken
  // as 2025.
  int year = 2025;
};

// IPv6: the prefix-length mix of August of a year (PlanB paper, Table 1; 2025:
// /48 44.55%, /32 11.00%, /40 10.11%, /44 9.69%, /36 3.89%, the rest spread as
// in 2026), more
// specifics clustered under realistic /29../32 allocations inside 2000::/3.
// IPv4: the mix of July 2026 (/24 63.6%), clustered likewise, though it nests
// deeper than the real table.
// Sorted by prefix, IPv4 first; prefixes are distinct. O(routes log routes).
std::vector<Route> SyntheticTable(const SyntheticOptions& options);

// `count` addresses of `family`, each in a route of `routes` drawn uniformly
// (the paper's "matching" trace); where `routes` has none of the family, and
// for one in sixteen addresses, random in 2000::/3 or all of IPv4.
// REQUIRES: routes sorted as SyntheticTable sorts them.
std::vector<Address> SyntheticTrace(absl::Span<const Route> routes,
                                    Family family, size_t count, uint64_t seed);

}  // namespace planb

#endif  // PLANB_LPM_SYNTHETIC_SYNTHETIC_H_
