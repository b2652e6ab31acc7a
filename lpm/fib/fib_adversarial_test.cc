// SPDX-License-Identifier: Apache-2.0

// The worst tables: right answers at every boundary of every route, and memory
// within bounds, built at once and by updates.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "lpm/address.h"
#include "lpm/fib/fib.h"
#include "lpm/prefix.h"
#include "lpm/synthetic/random.h"
#include "lpm/testing/fib_check.h"
#include "lpm/testing/oracle.h"
#include "lpm/testing/random_tables.h"

namespace planb {
namespace {

// Tables made to be as bad for a FIB as tables can be, one of each kind.
//
// The bounds on the memory of a FIB of any of them, in bytes. A table that
// stays below them, or may exceed them, can name its own.
inline constexpr size_t kMostBytesAside = 64 * 1024;
inline constexpr size_t kMostBytesPerRoute = 200;

struct AdversarialTable {
  std::string name;
  Family family = Family::kIpv6;
  // Sorted, distinct.
  std::vector<Route> (*make)() = nullptr;
  // What a FIB of it may hold: so much, and so much for each route.
  size_t most_bytes_aside = kMostBytesAside;
  size_t most_bytes_per_route = kMostBytesPerRoute;
};

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

void PrintTo(const AdversarialTable& table, std::ostream* out) {
  *out << table.name;
}

const std::vector<AdversarialTable>& AdversarialTables() {
  static const auto* const tables = new std::vector<AdversarialTable>(Tables());
  return *tables;
}

// Changes tried one by one; in some tables each recompiles 100,000 routes.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr size_t kSingles = 20;
#else
constexpr size_t kSingles = 200;
#endif

class FibAdversarial : public testing::TestWithParam<AdversarialTable> {
 protected:
  size_t MostBytes(size_t routes) const {
    return GetParam().most_bytes_aside +
           GetParam().most_bytes_per_route * routes;
  }
  const std::vector<Route> routes_ = GetParam().make();
};

INSTANTIATE_TEST_SUITE_P(Tables, FibAdversarial,
                         testing::ValuesIn(AdversarialTables()),
                         [](const auto& param) { return param.param.name; });

TEST_P(FibAdversarial, BuiltAtOnce) {
  ASSERT_GT(routes_.size(), 100U);
  const auto fib = Fib::Build(GetParam().family, routes_).value();
  EXPECT_EQ(DifferencesAtBoundaries(*fib, routes_), "");
  // Where answers do not change, too.
  std::vector<Address> probes = InsideProbes(routes_, 1, 1);
  const std::vector<Address> uniform =
      UniformProbes(GetParam().family, 20'000, 1);
  probes.insert(probes.end(), uniform.begin(), uniform.end());
  const std::vector<NextHopId> expected =
      Reference(GetParam().family, routes_).Lookup(probes);
  EXPECT_EQ(PackedProbes(GetParam().family, probes).Differences(*fib, expected),
            "");
  EXPECT_LE(fib->bytes(), MostBytes(routes_.size()));
  RecordProperty("bytes", std::to_string(fib->bytes()));
  RecordProperty("routes", std::to_string(routes_.size()));
}

// From the empty table to the whole one in batches that grow, each of routes
// from all over it; then all of it away but a few.
TEST_P(FibAdversarial, ByUpdates) {
  std::vector<Change> changes = routes_;
  Random random(1);
  for (size_t n = changes.size(); n > 1; --n) {
    std::swap(changes[n - 1], changes[random.Below(n)]);
  }
  LiveTable table(GetParam().family);
  size_t batch = 1;
  for (size_t done = 0; done < changes.size(); done += batch, batch *= 3) {
    table.Apply(absl::MakeConstSpan(changes).subspan(done, batch));
  }
  ASSERT_EQ(table.ModelRoutes(), routes_);
  const auto whole = table.fib();
  ASSERT_EQ(DifferencesAtBoundaries(*whole, routes_), "");
  // Twice: updates may leave garbage until it is worth a new build.
  EXPECT_LE(whole->bytes(), 2 * MostBytes(routes_.size()));

  // One by one, with the whole table there.
  for (size_t i = 0; i < kSingles; ++i) {
    const Route& route = routes_[random.Below(routes_.size())];
    const std::vector<Change> change = {
        {route.prefix, i % 2 == 0 ? kNoRoute : static_cast<NextHopId>(5 + i)}};
    table.Apply(change);
    const std::vector<Address> probes = BoundaryProbes(change);
    std::vector<NextHopId> expected;
    for (const Address& probe : probes) {
      const auto match = table.routes().Match(probe);
      expected.push_back(match ? match->next_hop : kNoRoute);
    }
    ASSERT_EQ(PackedProbes(GetParam().family, probes)
                  .Differences(*table.fib(), expected),
              "")
        << ChangesText(change);
  }
  ASSERT_EQ(DifferencesAtBoundaries(*table.fib(), table.ModelRoutes()), "");

  for (Change& change : changes) change.next_hop = kNoRoute;
  const size_t left = 20;
  table.Apply(absl::MakeConstSpan(changes).subspan(left));
  ASSERT_LE(table.model().size(), left);
  EXPECT_EQ(DifferencesAtBoundaries(*table.fib(), table.ModelRoutes()), "");
  EXPECT_EQ(DifferencesAtBoundaries(*whole, routes_), "") << "as it was";
}

// Four million routes.

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr uint64_t kRoutes = 400'000;  // sanitizers take their time
#else
constexpr uint64_t kRoutes = 4'000'000;
#endif

// Ascending /40../48s all over 2000::/3, some of them inside the one before,
// one in a hundred a /128.
std::vector<Route> Routes(NextHopId (*next_hop)(uint64_t)) {
  Random random(1);
  std::vector<Route> routes;
  routes.reserve(kRoutes);
  const uint64_t step = (uint64_t{1} << 61) / kRoutes;
  for (uint64_t i = 0; i < kRoutes; ++i) {
    const uint64_t high = (uint64_t{1} << 61) + i * step + random.Below(step);
    const int length =
        i % 100 == 99 ? 128 : 48 - static_cast<int>(random.Below(9));
    const Prefix prefix = Prefix::Truncate(
        Address::V6(absl::MakeUint128(high, random.Next())), length);
    if (!routes.empty() && prefix <= routes.back().prefix) continue;
    routes.push_back({prefix, next_hop(i)});
  }
  return routes;
}

// The boundaries of one route in forty, and what is right there.
struct Sample {
  explicit Sample(const std::vector<Route>& routes) {
    std::vector<Route> some;
    for (size_t i = 0; i < routes.size(); i += 40) some.push_back(routes[i]);
    probes = BoundaryProbes(some);
    expected = Reference(Family::kIpv6, routes).Lookup(probes);
  }
  std::string Differences(const Fib& fib) const {
    return PackedProbes(Family::kIpv6, probes).Differences(fib, expected);
  }
  std::vector<Address> probes;
  std::vector<NextHopId> expected;
};

TEST(FibHuge, FewNextHops) {
  const std::vector<Route> routes =
      Routes([](uint64_t i) { return static_cast<NextHopId>(1 + i % 64); });
  ASSERT_GT(routes.size(), kRoutes / 10 * 9);
  const auto fib = Fib::Build(Family::kIpv6, routes).value();
  EXPECT_EQ(Sample(routes).Differences(*fib), "");
  EXPECT_LE(fib->bytes(), kMostBytesPerRoute * routes.size());
}

// As many next hops as routes; short prefixes come over them and go.
TEST(FibHuge, DistinctNextHopsUnderShortPrefixes) {
  const std::vector<Route> routes = Routes(
      [](uint64_t i) { return static_cast<NextHopId>(kUndecided - 1 - i); });
  LiveTable table(Family::kIpv6, routes);
  const auto without = table.fib();
  const Sample sample(routes);
  EXPECT_EQ(sample.Differences(*without), "");
  EXPECT_LE(without->bytes(), kMostBytesPerRoute * routes.size());
  for (const char* const text : {"::/0", "2000::/3", "2000::/8"}) {
    const Prefix prefix = Prefix::Parse(text).value();
    table.Apply({{prefix, 5}});
    std::vector<NextHopId> expected = sample.expected;
    for (size_t i = 0; i < expected.size(); ++i) {
      if (expected[i] == kNoRoute && prefix.Contains(sample.probes[i])) {
        expected[i] = 5;
      }
    }
    EXPECT_EQ(PackedProbes(Family::kIpv6, sample.probes)
                  .Differences(*table.fib(), expected),
              "")
        << text;
    table.Apply({{prefix, kNoRoute}});
    EXPECT_EQ(sample.Differences(*table.fib()), "") << "without " << text;
  }
  EXPECT_EQ(sample.Differences(*without), "") << "as it was";
}

}  // namespace
}  // namespace planb
