// SPDX-License-Identifier: Apache-2.0

#include "lpm/testing/bound_tables.h"

#include <algorithm>

#include "lpm/synthetic/random.h"
#include "lpm/testing/random_tables.h"

namespace planb {
namespace {

// prefix(i, random) for each i below `count`.
template <typename F>
std::vector<Prefix> Times(size_t count, F prefix) {
  Random random(count);
  std::vector<Prefix> prefixes;
  prefixes.reserve(count);
  for (size_t i = 0; i < count; ++i) prefixes.push_back(prefix(i, random));
  return prefixes;
}

// Spreads numbers over all values of the first 16 bits before any repeats.
uint64_t Scattered(uint64_t i) { return i * 0x9e37 << 48; }

// Crowds: routes of one length, or a few, in a prefix that is not much shorter.
// Their sizes are around those at which a table becomes worth its lines.
std::vector<Prefix> Crowds(Family family, size_t count) {
  Random random(count);
  const int bits = AddressBits(family);
  std::vector<Prefix> prefixes;
  while (prefixes.size() < count) {
    const int outer =
        static_cast<int>(random.Below(random.Chance(3, 4) ? 44 : 128));
    const int inner = outer + 4 + static_cast<int>(random.Below(9));
    if (inner + 3 > bits) continue;
    const absl::uint128 base =
        random.Next128() & ~(absl::Uint128Max() >> outer);
    const size_t crowd = 1 + random.Below(random.Chance(1, 8) ? 600 : 250);
    const bool mixed = random.Chance(1, 3);
    for (size_t i = 0; i < crowd && prefixes.size() < count; ++i) {
      const int length =
          inner + (mixed ? static_cast<int>(random.Below(4)) : 0);
      const absl::uint128 address = base | random.Next128() >> outer;
      prefixes.push_back(Prefix::Truncate(
          Address::FromBits(family, address & absl::Uint128Max()
                                                  << (128 - length)),
          length));
    }
  }
  return prefixes;
}

// In each slot of the root as many routes as just make a table worth its lines,
// around a place where only a table of 2^9 slots divides them.
std::vector<Prefix> DearTables(size_t count) {
  constexpr size_t kCrowd = 69;
  return Times(count, [](size_t i, Random&) {
    const uint64_t middle = i / kCrowd << 52 | uint64_t{3} << 43;
    return V6(middle + (i % kCrowd << 17) - (kCrowd << 16), 0, 48);
  });
}

// In each /48, routes that make descriptors nest: a tree that branches at
// bits of all three depths.
std::vector<Prefix> Trees(size_t count, int length) {
  return Times(count, [length](size_t i, Random& random) {
    constexpr uint64_t kBranch = uint64_t{1} << 63;
    const uint64_t high = Scattered(i / 8) + (i / 8 << 20);
    return V6(
        (high & ~uint64_t{0xffff}) | (i & 1) << 15,
        (i & 2 ? kBranch >> 2 : 0) | (i & 4) << 20 | (random.Next() & 0xf),
        length);
  });
}

std::vector<Prefix> Chains(Family family, size_t count) {
  Random random(count);
  const int bits = AddressBits(family);
  std::vector<Prefix> prefixes;
  while (prefixes.size() < count) {
    const Address address = Address::FromBits(
        family, random.Next128() >> (128 - bits) << (128 - bits));
    for (int length = 0; length <= bits; ++length) {
      prefixes.push_back(Prefix::Truncate(address, length));
    }
  }
  return prefixes;
}

std::vector<Prefix> AnyLength(Family family, size_t count, int least,
                              int most) {
  Random random(count);
  std::vector<Prefix> prefixes;
  for (size_t i = 0; i < count; ++i) {
    const int length =
        least +
        static_cast<int>(random.Below(static_cast<uint64_t>(most - least + 1)));
    const int unused = 128 - AddressBits(family);
    prefixes.push_back(Prefix::Truncate(
        Address::FromBits(family, random.Next128() >> unused << unused),
        length));
  }
  return prefixes;
}

std::vector<Prefix> Row(Family family, size_t count, uint64_t base, int length,
                        int stride) {
  return Times(count, [=](size_t i, Random&) {
    absl::uint128 bits = absl::MakeUint128(base, 0);
    bits += absl::uint128(i) << (128 - length + stride);
    if (family == Family::kIpv4) bits = bits >> 96 << 96;
    return Prefix::Truncate(Address::FromBits(family, bits), length);
  });
}

constexpr Family k6 = Family::kIpv6, k4 = Family::kIpv4;
constexpr uint64_t kNet = 0x2001'0db8'0000'0000;

std::vector<BoundTable> Tables() {
  return {
      {"HostsAnywhere", k6,
       [](size_t n) { return AnyLength(k6, n, 128, 128); }},
      {"Slash64sAnywhere", k6,
       [](size_t n) { return AnyLength(k6, n, 64, 64); }},
      {"Slash48sAnywhere", k6,
       [](size_t n) { return AnyLength(k6, n, 48, 48); }},
      {"Slash48InEachSlash16", k6,
       [](size_t n) {
         return Times(n, [](size_t i, Random& random) {
           return V6(Scattered(i) | random.Next() >> 16, 0, 48);
         });
       }},
      {"HostInEachSlash16", k6,
       [](size_t n) {
         return Times(n, [](size_t i, Random& random) {
           return V6(Scattered(i) | random.Next() >> 16, random.Next(), 128);
         });
       }},
      {"TwoHostsInEachSlash64", k6,
       [](size_t n) {
         return Times(n, [](size_t i, Random& random) {
           return V6(Scattered(i / 2) | (i / 2) << 16, random.Next(), 128);
         });
       }},
      {"NestedDescriptors", k6, [](size_t n) { return Trees(n, 128); }},
      {"NestedDescriptorsTo97", k6, [](size_t n) { return Trees(n, 97); }},
      {"EveryDepthInEachSlash48", k6,
       [](size_t n) {
         return Times(n, [](size_t i, Random&) {
           constexpr int kLengths[] = {49, 66, 98, 128};
           return V6(Scattered(i / 4) | i / 4 << 16, 0, kLengths[i % 4]);
         });
       }},
      {"Crowds", k6, [](size_t n) { return Crowds(k6, n); }},
      {"DearTables", k6, DearTables},
      {"AnyLength", k6, [](size_t n) { return AnyLength(k6, n, 0, 128); }},
      {"Short", k6, [](size_t n) { return AnyLength(k6, n, 0, 24); }},
      {"Middle", k6, [](size_t n) { return AnyLength(k6, n, 24, 40); }},
      {"Chains", k6, [](size_t n) { return Chains(k6, n); }},
      {"AlignedToTheFirstTable", k6,
       [](size_t n) { return Row(k6, n, 0, 24, 0); }},
      {"EverySecondSlash23", k6, [](size_t n) { return Row(k6, n, 0, 23, 1); }},
      {"Slash36s", k6, [](size_t n) { return Row(k6, n, kNet, 36, 3); }},
      {"Slash48sInARow", k6, [](size_t n) { return Row(k6, n, kNet, 48, 0); }},
      {"HostsInOneSlash64", k6,
       [](size_t n) { return Row(k6, n, kNet, 128, 1); }},
      {"HostsAllOverOneSlash64", k6,
       [](size_t n) {
         return Times(n, [](size_t, Random& random) {
           return V6(kNet, random.Next(), 128);
         });
       }},
      {"Slash64sInOneSlash48", k6,
       [](size_t n) {
         return Row(k6, std::min<size_t>(n, 65536), kNet, 64, 0);
       }},
      {"Ipv4HostsAnywhere", k4,
       [](size_t n) { return AnyLength(k4, n, 32, 32); }},
      {"Ipv4AnyLength", k4, [](size_t n) { return AnyLength(k4, n, 0, 32); }},
      {"Ipv4Slash24s", k4, [](size_t n) { return Row(k4, n, 0, 24, 0); }},
      {"Ipv4Crowds", k4, [](size_t n) { return Crowds(k4, n); }},
      {"Ipv4Chains", k4, [](size_t n) { return Chains(k4, n); }},
  };
}

}  // namespace

void PrintTo(const BoundTable& table, std::ostream* out) { *out << table.name; }

const std::vector<BoundTable>& BoundTables() {
  static const auto* const tables = new std::vector<BoundTable>(Tables());
  return *tables;
}

std::vector<Route> BoundRoutes(std::vector<Prefix> prefixes, size_t next_hops) {
  std::sort(prefixes.begin(), prefixes.end());
  prefixes.erase(std::unique(prefixes.begin(), prefixes.end()), prefixes.end());
  std::vector<Route> routes;
  routes.reserve(prefixes.size());
  for (const Prefix& prefix : prefixes) {
    const size_t i = routes.size();
    // Many next hops have large ids, since small ones need no map.
    const auto id = static_cast<NextHopId>(next_hops == 0 ? kUndecided - 1 - i
                                           : next_hops < 256
                                               ? 1 + i % next_hops
                                               : 40'000 + i * 7919 % next_hops);
    routes.push_back({prefix, id});
  }
  return routes;
}

RoutesByLength CountLengths(const std::vector<Route>& routes) {
  RoutesByLength lengths = {};
  for (const Route& route : routes) {
    ++lengths[static_cast<size_t>(route.prefix.length())];
  }
  return lengths;
}

}  // namespace planb
