// SPDX-License-Identifier: Apache-2.0

#include "lpm/testing/adversarial_tables.h"

#include <algorithm>
#include <utility>

#include "lpm/synthetic/random.h"
#include "lpm/testing/hard_prefixes.h"

namespace planb {
namespace {

Prefix V6(uint64_t high, uint64_t low, int length) {
  return Prefix::Truncate(Address::V6(absl::MakeUint128(high, low)), length);
}
Prefix V4(uint32_t address, int length) {
  return Prefix::Truncate(Address::V4(address), length);
}

// How next hops are given out, in the order of the prefixes.
NextHopId One(size_t) { return 7; }
NextHopId Two(size_t i) { return static_cast<NextHopId>(1 + i % 2); }
NextHopId Many(size_t i) {
  return static_cast<NextHopId>(1 + (i * 0x9e3779b97f4a7c15 >> 40) % 300);
}
NextHopId Distinct(size_t i) {
  return static_cast<NextHopId>(kUndecided - 1 - i);
}

std::vector<Route> Routes(std::vector<Prefix> prefixes,
                          NextHopId (*next_hop)(size_t)) {
  std::sort(prefixes.begin(), prefixes.end());
  prefixes.erase(std::unique(prefixes.begin(), prefixes.end()), prefixes.end());
  std::vector<Route> routes;
  routes.reserve(prefixes.size());
  for (const Prefix& prefix : prefixes) {
    routes.push_back({prefix, next_hop(routes.size())});
  }
  return routes;
}

// `count` times what `prefix` makes of random numbers.
template <typename F>
std::vector<Prefix> Times(size_t count, F prefix) {
  Random random(count);
  std::vector<Prefix> prefixes;
  prefixes.reserve(count);
  for (size_t i = 0; i < count; ++i) prefixes.push_back(prefix(i, random));
  return prefixes;
}

// Chains, or what lies beside them, at `count` random addresses.
std::vector<Prefix> Chains(Family family, size_t count, bool beside) {
  Random random(count);
  const int bits = AddressBits(family);
  std::vector<Prefix> prefixes;
  for (size_t i = 0; i < count; ++i) {
    const Address address = Address::FromBits(
        family, random.Next128() >> (128 - bits) << (128 - bits));
    for (const Prefix& prefix :
         beside ? Siblings(address, 1, bits) : Chain(address, 0, bits)) {
      prefixes.push_back(prefix);
    }
  }
  return prefixes;
}

constexpr uint64_t kNet = 0x2001'0db8'0000'0000;
constexpr uint64_t kOnes = ~uint64_t{0};

std::vector<AdversarialTable> Tables() {
  using Make = std::vector<Route> (*)();
  const auto v6 = [](std::string name, Make make) {
    return AdversarialTable{std::move(name), Family::kIpv6, make};
  };
  const auto v4 = [](std::string name, Make make) {
    return AdversarialTable{std::move(name), Family::kIpv4, make};
  };
  return {
      // All in one place.
      v6("OneSlash24",
         [] {
           return Routes(PrefixesBelow(V6(kNet, 0, 24), 20'000, 1), Many);
         }),
      v6("OneSlash24UpToSlash48",
         [] {
           return Routes(Times(40'000,
                               [](size_t, Random& random) {
                                 return V6(
                                     kNet + (random.Next() >> 24), 0,
                                     static_cast<int>(40 + random.Below(9)));
                               }),
                         Many);
         }),
      v6("OneSlash48",
         [] {
           return Routes(PrefixesBelow(V6(kNet, 0, 48), 20'000, 2), Many);
         }),
      v6("OneSlash48FullOfSlash64s",
         [] { return Routes(Row(V6(kNet, 0, 64), 65'536), Two); }),
      v6("OneSlash64",
         [] {
           return Routes(PrefixesBelow(V6(kNet, 0, 64), 20'000, 3), Many);
         }),
      v6("HostsInOneSlash64",
         [] {
           return Routes(Times(100'000,
                               [](size_t, Random& random) {
                                 return V6(kNet, random.Next(), 128);
                               }),
                         Many);
         }),
      v6("HostsInARow",
         [] { return Routes(Row(V6(kNet, 0, 128), 100'000), Two); }),
      v6("HostsInOneSlash48",
         [] {
           return Routes(Times(100'000,
                               [](size_t, Random& random) {
                                 return V6(kNet + (random.Next() >> 48),
                                           random.Next(), 128);
                               }),
                         Many);
         }),
      // Nested as deep as can be.
      v6("Chains",
         [] { return Routes(Chains(Family::kIpv6, 200, false), Many); }),
      v6("OneChain",
         [] { return Routes(Chains(Family::kIpv6, 1, false), Two); }),
      v6("BesideChains",
         [] { return Routes(Chains(Family::kIpv6, 200, true), Many); }),
      // Merging all or nothing.
      v6("AlternatingNextHops",
         [] { return Routes(Row(V6(kNet, 0, 48), 100'000), Two); }),
      v6("OneNextHop",
         [] { return Routes(Row(V6(kNet, 0, 48), 100'000), One); }),
      v6("OneNextHopWithGaps",
         [] {
           return Routes(Times(100'000,
                               [](size_t i, Random&) {
                                 return V6(kNet + (i << 17), 0, 48);
                               }),
                         One);
         }),
      v6("DistinctNextHops",
         [] {
           return Routes(Times(100'000,
                               [](size_t, Random& random) {
                                 return V6((random.Next() >> 3) + (1ULL << 61),
                                           0, 48);
                               }),
                         Distinct);
         }),
      v6("DistinctNextHopsOfHosts",
         [] {
           return Routes(Times(100'000,
                               [](size_t, Random& random) {
                                 return V6(kNet + (random.Next() >> 32),
                                           random.Next(), 128);
                               }),
                         Distinct);
         }),
      // One lonely route in each place.
      v6("OneInEachSlash16",
         [] {
           return Routes(Times(65'536,
                               [](size_t i, Random& random) {
                                 return V6((i << 48) + (random.Next() >> 16), 0,
                                           48);
                               }),
                         Many);
         }),
      v6("OneHostInEachSlash16",
         [] {
           return Routes(Times(65'536,
                               [](size_t i, Random& random) {
                                 return V6((i << 48) + (random.Next() >> 16),
                                           random.Next(), 128);
                               }),
                         Many);
         }),
      v6("OneInEachSlash24",
         [] {
           return Routes(Times(100'000,
                               [](size_t i, Random& random) {
                                 return V6(((i * 20 + (1 << 21)) << 40) +
                                               (random.Next() >> 24),
                                           0, 48);
                               }),
                         Many);
         }),
      v6("HostsAnywhere",
         [] {
           return Routes(Times(100'000,
                               [](size_t, Random& random) {
                                 return V6(random.Next(), random.Next(), 128);
                               }),
                         Many);
         }),
      // A few too many in each of many places: hosts of a few /48s, in pairs.
      v6("TwentyHostsInEachOfManySlash48s",
         [] {
           return Routes(Times(100'000,
                               [](size_t i, Random& random) {
                                 return V6(kNet + ((i / 20) << 16),
                                           random.Next(), 128);
                               }),
                         Many);
         }),
      // The ends.
      v6("TheLastSlash16",
         [] {
           return Routes(PrefixesBelow(V6(kOnes, kOnes, 16), 20'000, 4), Many);
         }),
      v6("TheLastHosts",
         [] {
           return Routes(Row(V6(kOnes, kOnes - 20'000, 128), 30'000), Two);
         }),
      v6("Slash127And128Pairs",
         [] {
           std::vector<Prefix> prefixes;
           for (uint64_t i = 0; i < 30'000; ++i) {
             prefixes.push_back(V6(kNet + (i / 8 << 13), i << 3, 127));
             prefixes.push_back(V6(kNet + (i / 8 << 13), i << 3 | i % 2, 128));
           }
           return Routes(prefixes, Many);
         }),
      v4("Ipv4HostsInOneSlash16",
         [] { return Routes(Row(V4(0x0a00'0000, 32), 65'536), Two); }),
      v4("Ipv4OneInEachSlash16",
         [] {
           return Routes(
               Times(65'536,
                     [](size_t i, Random& random) {
                       return V4(static_cast<uint32_t>((i << 16) +
                                                       (random.Next() >> 48)),
                                 32);
                     }),
               Many);
         }),
      v4("Ipv4Slash24s",
         [] { return Routes(Row(V4(0, 24), 200'000), Distinct); }),
      v4("Ipv4HostsAnywhere",
         [] {
           return Routes(Times(200'000,
                               [](size_t, Random& random) {
                                 return V4(static_cast<uint32_t>(random.Next()),
                                           32);
                               }),
                         Many);
         }),
      v4("Ipv4Chains",
         [] { return Routes(Chains(Family::kIpv4, 500, false), Many); }),
      v4("Ipv4TheLast",
         [] {
           return Routes(PrefixesBelow(V4(0xffff'0000, 16), 20'000, 5), Many);
         }),
  };
}

}  // namespace

void PrintTo(const AdversarialTable& table, std::ostream* out) {
  *out << table.name;
}

const std::vector<AdversarialTable>& AdversarialTables() {
  static const auto* const tables = new std::vector<AdversarialTable>(Tables());
  return *tables;
}

}  // namespace planb
