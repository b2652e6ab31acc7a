#include "lpm/testing/random_routes.h"

#include <algorithm>
#include <utility>

#include "absl/container/btree_map.h"
#include "lpm/synthetic/random.h"

namespace planb {
namespace {

// Ones in the first `length` of 128 bits.
absl::uint128 Mask(int length) {
  return length == 0 ? absl::uint128(0) : absl::Uint128Max() << (128 - length);
}

}  // namespace

std::vector<Route> RandomRoutes(const RandomRoutesOptions& options) {
  Random random(options.seed);
  const int bits = AddressBits(options.family);
  const int max_length = options.max_length < 0 ? bits : options.max_length;
  const auto lengths =
      static_cast<uint64_t>(max_length - options.min_length + 1);
  absl::btree_map<Prefix, NextHopId> routes;
  std::vector<Prefix> walk;
  for (size_t tries = 0; tries < 4 * options.count; ++tries) {
    if (routes.size() >= options.count) break;
    const int length =
        options.min_length + static_cast<int>(random.Below(lengths));
    absl::uint128 address = random.Next128();
    if (!walk.empty() && !random.Chance(1, 50)) {
      const Prefix& other = walk[random.Below(walk.size())];
      if (random.Chance(1, 4)) {  // right after it: may wrap around
        address = other.last() + (absl::uint128(1) << (128 - bits));
      } else {  // beside it or inside it
        const int shared = std::min(other.length(), length) -
                           static_cast<int>(random.Below(4));
        const absl::uint128 mask = Mask(std::max(0, shared));
        address = (other.first() & mask) | (address & ~mask);
        // Often the first or the last place inside.
        if (random.Chance(1, 3)) address &= Mask(other.length());
        if (random.Chance(1, 3)) address |= ~Mask(std::max(0, shared));
      }
    }
    const Prefix prefix = Prefix::Truncate(
        Address::FromBits(options.family, address & Mask(bits)), length);
    const auto next_hop =
        static_cast<NextHopId>(1 + random.Below(options.next_hops));
    if (routes.emplace(prefix, next_hop).second) walk.push_back(prefix);
  }
  std::vector<Route> sorted;
  sorted.reserve(routes.size());
  for (const auto& [prefix, next_hop] : routes) {
    sorted.push_back({prefix, next_hop});
  }
  return sorted;
}

}  // namespace planb
