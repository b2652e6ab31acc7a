// SPDX-License-Identifier: Apache-2.0

// Random tables of nested prefixes, for tests of the control path.

#ifndef PLANB_SERVER_TESTING_NESTED_ROUTES_H_
#define PLANB_SERVER_TESTING_NESTED_ROUTES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "absl/numeric/int128.h"
#include "lpm/prefix.h"

namespace planb::server {

// `count` routes of one family, sorted, to next hops 1..`next_hops`. Each
// shares its first bits with an earlier one, up to some point.
inline std::vector<Route> NestedRoutes(Family family, size_t count,
                                       uint32_t next_hops, uint64_t seed) {
  std::mt19937_64 random(seed);
  const int bits = AddressBits(family);
  std::map<Prefix, NextHopId> routes;
  std::vector<Prefix> prefixes = {
      Prefix::Truncate(Address::FromBits(family, 0), 0)};
  while (routes.size() < count) {
    const Prefix& parent = prefixes[random() % prefixes.size()];
    const auto shared =
        static_cast<int>(random() % static_cast<uint64_t>(bits));
    absl::uint128 noise = absl::MakeUint128(random(), random()) >> shared;
    // Left-aligned: IPv4 has the upper 32 bits.
    noise = noise >> (128 - bits) << (128 - bits);
    const absl::uint128 kept =
        Prefix::Truncate(parent.address(), shared).first();
    const Prefix prefix = Prefix::Truncate(
        Address::FromBits(family, kept | noise),
        static_cast<int>(random() % (static_cast<uint64_t>(bits) + 1)));
    if (routes.emplace(prefix, 1 + random() % next_hops).second) {
      prefixes.push_back(prefix);
    }
  }
  std::vector<Route> sorted;
  for (const auto& [prefix, next_hop] : routes) {
    sorted.push_back({prefix, next_hop});
  }
  return sorted;
}

}  // namespace planb::server

#endif  // PLANB_SERVER_TESTING_NESTED_ROUTES_H_
