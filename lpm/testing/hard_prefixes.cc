// SPDX-License-Identifier: Apache-2.0

#include "lpm/testing/hard_prefixes.h"

#include <algorithm>
#include <iterator>
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

namespace {

void SortOut(std::vector<Prefix>& prefixes) {
  std::sort(prefixes.begin(), prefixes.end());
  prefixes.erase(std::unique(prefixes.begin(), prefixes.end()), prefixes.end());
}

void Append(std::vector<Prefix>& to, const std::vector<Prefix>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

Address RandomAddress(Family family, Random& random) {
  const int bits = AddressBits(family);
  absl::uint128 address = random.Next128();
  // Most real prefixes are in 2000::/3; some ends of the space are special.
  if (family == Family::kIpv6 && random.Chance(3, 4)) {
    address = (address >> 3) | (absl::uint128(1) << 125);
  } else if (random.Chance(1, 4)) {
    address = random.Chance(1, 2) ? absl::uint128(0) : absl::Uint128Max();
  }
  return Prefix::Truncate(
             Address::FromBits(family, address >> (128 - bits) << (128 - bits)),
             bits)
      .address();
}

// Where slots, tables, partitions and stages may begin or end.
int RandomEdge(Family family, Random& random) {
  constexpr int kIpv6[] = {0,  3,  8,  12, 16, 20, 24, 28, 32,  36, 40,
                           44, 48, 52, 56, 60, 64, 80, 96, 112, 120};
  constexpr int kIpv4[] = {0, 4, 8, 12, 15, 16, 18, 20, 22, 24, 26, 28};
  return family == Family::kIpv6 ? kIpv6[random.Below(std::size(kIpv6))]
                                 : kIpv4[random.Below(std::size(kIpv4))];
}

}  // namespace

std::vector<Prefix> PrefixesBelow(const Prefix& top, size_t count,
                                  uint64_t seed) {
  RandomRoutesOptions options;
  options.family = top.family();
  options.count = count;
  options.min_length = top.length();
  options.seed = seed;
  const absl::uint128 host = top.last() - top.first();
  std::vector<Prefix> prefixes;
  for (const Route& route : RandomRoutes(options)) {
    prefixes.push_back(Prefix::Truncate(
        Address::FromBits(top.family(),
                          top.first() | (route.prefix.first() & host)),
        route.prefix.length()));
  }
  SortOut(prefixes);
  return prefixes;
}

std::vector<Prefix> Chain(const Address& address, int first, int last) {
  std::vector<Prefix> prefixes;
  for (int length = first; length <= last; ++length) {
    prefixes.push_back(Prefix::Truncate(address, length));
  }
  return prefixes;
}

std::vector<Prefix> Siblings(const Address& address, int first, int last) {
  std::vector<Prefix> prefixes;
  for (int length = std::max(1, first); length <= last; ++length) {
    const absl::uint128 bit = absl::uint128(1) << (128 - length);
    prefixes.push_back(Prefix::Truncate(
        Address::FromBits(address.family(), address.bits() ^ bit), length));
  }
  return prefixes;
}

std::vector<Prefix> Row(const Prefix& first, size_t count) {
  std::vector<Prefix> prefixes;
  Prefix prefix = first;
  while (prefixes.size() < count) {
    prefixes.push_back(prefix);
    if (prefix.length() == 0) break;
    const absl::uint128 next =
        prefix.first() + (absl::uint128(1) << (128 - prefix.length()));
    if (next == 0) break;  // past the last one
    prefix = Prefix::Truncate(Address::FromBits(first.family(), next),
                              first.length());
  }
  return prefixes;
}

std::vector<Prefix> HardPrefixes(Family family, size_t count, uint64_t seed) {
  Random random(seed);
  const int bits = AddressBits(family);
  std::vector<Prefix> prefixes;
  Address home = RandomAddress(family, random);
  for (const int length : {0, 3, 8}) {
    if (random.Chance(2, 3)) prefixes.push_back(Prefix::Truncate(home, length));
  }
  while (prefixes.size() < count) {
    if (random.Chance(1, 5)) home = RandomAddress(family, random);
    const size_t some = 1 + random.Below(1 + count / 2);
    const int edge = RandomEdge(family, random);
    const Prefix top = Prefix::Truncate(home, edge);
    const int below =
        edge + static_cast<int>(random.Below(
                   static_cast<uint64_t>(std::min(20, bits - edge) + 1)));
    switch (random.Below(6)) {
      case 0:
      case 1:
        Append(prefixes, PrefixesBelow(top, some, random.Next()));
        break;
      case 2:
        Append(prefixes, Chain(home, edge, below));
        break;
      case 3:
        Append(prefixes, Siblings(home, edge, below));
        break;
      case 4:
        Append(prefixes, Row(Prefix::Truncate(home, std::max(1, below)), some));
        break;
      case 5:  // hosts of one subnet
        for (size_t i = 0; i < some; ++i) {
          const absl::uint128 host = top.last() - top.first();
          const absl::uint128 mask = random.Chance(1, 2) ? 0xffff : host;
          prefixes.push_back(Prefix::Truncate(
              Address::FromBits(
                  family, home.bits() ^ (random.Next128() & mask & host &
                                         (absl::Uint128Max() << (128 - bits)))),
              bits));
        }
        break;
    }
  }
  SortOut(prefixes);
  return prefixes;
}

}  // namespace planb
