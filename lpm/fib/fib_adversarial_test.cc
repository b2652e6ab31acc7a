// SPDX-License-Identifier: Apache-2.0

// The worst tables: right answers at every boundary of every route, and memory
// within bounds, built at once and by updates.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "lpm/address.h"
#include "lpm/fib/fib.h"
#include "lpm/kernels/kernel.h"
#include "lpm/prefix.h"
#include "lpm/synthetic/random.h"
#include "lpm/synthetic/reference_table.h"
#include "lpm/testing/fib_check.h"
#include "lpm/testing/golden_tables.h"
#include "lpm/testing/instruction_count.h"
#include "lpm/testing/oracle.h"
#include "lpm/testing/random_tables.h"

namespace planb {
namespace {

constexpr Family k6 = Family::kIpv6, k4 = Family::kIpv4;
constexpr uint64_t kNet = 0x2001'0db8'0000'0000;
constexpr uint64_t kOnes = ~uint64_t{0};

Prefix V4(uint32_t address, int length) {
  return Prefix::Truncate(Address::V4(address), length);
}

// Kinds of prefixes.

// Prefix number i lies at base + i / each * step in the first 64 bits, plus
// random bits, and a random place below them if it is longer than /64.
struct Scatter {
  size_t count = 100'000;
  uint64_t base = 0;
  uint64_t step = 0;
  int random_bits = 0;
  int length = 48;
  size_t each = 1;
  uint64_t lengths = 1;  // that many: `length` and shorter ones

  std::vector<Prefix> operator()(Family family) const {
    Random random(count);
    std::vector<Prefix> prefixes;
    for (size_t i = 0; i < count; ++i) {
      uint64_t high = base + i / each * step;
      if (random_bits > 0) high += random.Next() >> (64 - random_bits);
      const uint64_t low = length > 64 ? random.Next() : 0;
      const int unused = 128 - AddressBits(family);
      const absl::uint128 bits = absl::MakeUint128(high, low) >> unused
                                                                     << unused;
      prefixes.push_back(
          Prefix::Truncate(Address::FromBits(family, bits),
                           length - static_cast<int>(random.Below(lengths))));
    }
    return prefixes;
  }
};

// Nested and touching, all inside `top`.
struct Inside {
  Prefix top;
  std::vector<Prefix> operator()(Family) const {
    return PrefixesBelow(top, 20'000, /*seed=*/1);
  }
};

struct Neighbours {
  Prefix first;
  size_t count = 100'000;
  std::vector<Prefix> operator()(Family) const { return Row(first, count); }
};

// Chains, or what lies beside them, at `count` random addresses.
struct Chains {
  size_t count;
  bool beside = false;
  std::vector<Prefix> operator()(Family family) const {
    std::vector<Prefix> prefixes;
    for (const Address& address : UniformProbes(family, count, count)) {
      const int bits = AddressBits(family);
      for (const Prefix& prefix :
           beside ? Siblings(address, 1, bits) : Chain(address, 0, bits)) {
        prefixes.push_back(prefix);
      }
    }
    return prefixes;
  }
};

// Eight hosts in each of many /50s, with the /127 of each.
std::vector<Prefix> Slash127And128Pairs(Family) {
  std::vector<Prefix> prefixes;
  for (uint64_t i = 0; i < 30'000; ++i) {
    prefixes.push_back(V6(kNet + (i / 8 << 13), i << 3, 127));
    prefixes.push_back(V6(kNet + (i / 8 << 13), i << 3 | i % 2, 128));
  }
  return prefixes;
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

// Tables made to be as bad for a FIB as tables can be, one of each kind.
struct AdversarialTable {
  std::string name;
  Family family;
  NextHopId (*next_hop)(size_t);
  std::function<std::vector<Prefix>(Family)> make;

  std::vector<Route> Routes() const {
    std::vector<Prefix> prefixes = make(family);
    std::sort(prefixes.begin(), prefixes.end());
    prefixes.erase(std::unique(prefixes.begin(), prefixes.end()),
                   prefixes.end());
    std::vector<Route> routes;
    routes.reserve(prefixes.size());
    for (const Prefix& prefix : prefixes) {
      routes.push_back({prefix, next_hop(routes.size())});
    }
    return routes;
  }
};

void PrintTo(const AdversarialTable& table, std::ostream* out) {
  *out << table.name;
}

const std::vector<AdversarialTable>& AdversarialTables() {
  constexpr uint64_t kSlash16 = uint64_t{1} << 48;
  constexpr uint64_t kSlash3 = uint64_t{1} << 61;
  static const auto* const tables = new std::vector<AdversarialTable>{
      // All in one place.
      {"OneSlash24", k6, Many, Inside{V6(kNet, 0, 24)}},
      {"OneSlash24UpToSlash48", k6, Many,
       Scatter{.count = 40'000, .base = kNet, .random_bits = 40, .lengths = 9}},
      {"OneSlash48", k6, Many, Inside{V6(kNet, 0, 48)}},
      {"OneSlash48FullOfSlash64s", k6, Two,
       Neighbours{V6(kNet, 0, 64), 65'536}},
      {"OneSlash64", k6, Many, Inside{V6(kNet, 0, 64)}},
      {"HostsInOneSlash64", k6, Many, Scatter{.base = kNet, .length = 128}},
      {"HostsInARow", k6, Two, Neighbours{V6(kNet, 0, 128)}},
      {"HostsInOneSlash48", k6, Many,
       Scatter{.base = kNet, .random_bits = 16, .length = 128}},
      // Nested as deep as can be.
      {"Chains", k6, Many, Chains{200}},
      {"OneChain", k6, Two, Chains{1}},
      {"BesideChains", k6, Many, Chains{200, /*beside=*/true}},
      // Merging all or nothing.
      {"AlternatingNextHops", k6, Two, Neighbours{V6(kNet, 0, 48)}},
      {"OneNextHop", k6, One, Neighbours{V6(kNet, 0, 48)}},
      {"OneNextHopWithGaps", k6, One, Scatter{.base = kNet, .step = 1 << 17}},
      {"DistinctNextHops", k6, Distinct,
       Scatter{.base = kSlash3, .random_bits = 61}},
      {"DistinctNextHopsOfHosts", k6, Distinct,
       Scatter{.base = kNet, .random_bits = 32, .length = 128}},
      // One lonely route in each place.
      {"OneInEachSlash16", k6, Many,
       Scatter{.count = 65'536, .step = kSlash16, .random_bits = 48}},
      {"OneHostInEachSlash16", k6, Many,
       Scatter{.count = 65'536,
               .step = kSlash16,
               .random_bits = 48,
               .length = 128}},
      {"OneInEachSlash24", k6, Many,
       Scatter{.base = kSlash3, .step = uint64_t{20} << 40, .random_bits = 40}},
      {"HostsAnywhere", k6, Many, Scatter{.random_bits = 64, .length = 128}},
      // A few too many in each of many places: hosts of a few /48s.
      {"TwentyHostsInEachOfManySlash48s", k6, Many,
       Scatter{.base = kNet, .step = 1 << 16, .length = 128, .each = 20}},
      // The ends.
      {"TheLastSlash16", k6, Many, Inside{V6(kOnes, kOnes, 16)}},
      {"TheLastHosts", k6, Two,
       Neighbours{V6(kOnes, kOnes - 20'000, 128), 30'000}},
      {"Slash127And128Pairs", k6, Many, Slash127And128Pairs},
      {"Ipv4HostsInOneSlash16", k4, Two,
       Neighbours{V4(0x0a00'0000, 32), 65'536}},
      {"Ipv4OneInEachSlash16", k4, Many,
       Scatter{
           .count = 65'536, .step = kSlash16, .random_bits = 48, .length = 32}},
      {"Ipv4Slash24s", k4, Distinct, Neighbours{V4(0, 24), 200'000}},
      {"Ipv4HostsAnywhere", k4, Many,
       Scatter{.count = 200'000, .random_bits = 64, .length = 32}},
      {"Ipv4Chains", k4, Many, Chains{500}},
      {"Ipv4TheLast", k4, Many, Inside{V4(0xffff'0000, 16)}},
  };
  return *tables;
}

// The most bytes of a FIB: so much, and so much for each route.
constexpr size_t kMostBytesAside = 64 * 1024;
constexpr size_t kMostBytesPerRoute = 200;

size_t MostBytes(size_t routes) {
  return kMostBytesAside + kMostBytesPerRoute * routes;
}

// Changes tried one by one; in some tables each recompiles 100,000 routes.
constexpr size_t kSingles = kSanitized ? 20 : 200;

class FibAdversarial : public testing::TestWithParam<AdversarialTable> {
 protected:
  const std::vector<Route> routes_ = GetParam().Routes();
};

INSTANTIATE_TEST_SUITE_P(Tables, FibAdversarial,
                         testing::ValuesIn(AdversarialTables()),
                         testing::PrintToStringParamName());

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
      ReferenceTable(routes_).NextHops(probes);
  EXPECT_EQ(PackedProbes(GetParam().family, probes).Differences(*fib, expected),
            "");
  EXPECT_LE(fib->bytes(), MostBytes(routes_.size()));
}

// What a lookup costs at most, on any of these tables: lines of memory, and
// instructions by any kernel.
constexpr size_t kMostLines = 16;
constexpr uint64_t kMostInstructions = 1200;

// The address of the longest way, alone and as all of a batch: each then waits
// for its descriptors. (Few, since counting is slow.)
TEST_P(FibAdversarial, LookupsAreBounded) {
  const auto fib = Fib::Build(GetParam().family, routes_).value();
  const std::vector<Address> probes = BoundaryProbes(routes_);
  Address longest = probes.front();
  size_t most = 0;
  for (size_t i = 0; i < probes.size(); i += 1 + probes.size() / 100'000) {
    const size_t lines = WalkLines(*fib, probes[i]).lines;
    if (lines > most) longest = probes[i];
    most = std::max(most, lines);
  }
  EXPECT_LE(most, MostLines(fib->Stats()));
  EXPECT_LE(most, kMostLines);

  constexpr size_t kBatch = 16;
  const std::vector<char> packed = PackAs(
      WholeForm(GetParam().family), std::vector<Address>(kBatch, longest));
  std::vector<NextHopId> found(kBatch);
  for (const Kernel* kernel : AvailableKernels()) {
    for (const size_t batch : {size_t{1}, kBatch}) {
      const auto lookup = [&] {
        fib->Lookup(packed.data(), batch, found.data(), *kernel);
      };
      lookup();
      const auto count = CountInstructions(lookup);
      if (!count.ok()) return;  // under a sanitizer
      EXPECT_LE(*count / batch, kMostInstructions)
          << KernelName(*kernel) << ", batches of " << batch;
    }
  }
}

// From the empty table to the whole one in batches that grow, each of routes
// from all over it; then all of it away but a few.
TEST_P(FibAdversarial, ByUpdates) {
  std::vector<Change> changes = routes_;
  Random random(1);
  random.Shuffle(changes);
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
    ASSERT_EQ(table.DifferencesAround(change), "") << ChangesText(change);
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

constexpr uint64_t kRoutes = kSanitized ? 400'000 : 4'000'000;

// Ascending /40../48s all over 2000::/3, some of them inside the one before,
// one in a hundred a /128.
std::vector<Route> HugeTable(NextHopId (*next_hop)(size_t)) {
  Random random(1);
  std::vector<Route> routes;
  routes.reserve(kRoutes);
  const uint64_t step = (uint64_t{1} << 61) / kRoutes;
  for (uint64_t i = 0; i < kRoutes; ++i) {
    const uint64_t high = (uint64_t{1} << 61) + i * step + random.Below(step);
    const int length =
        i % 100 == 99 ? 128 : 48 - static_cast<int>(random.Below(9));
    const Prefix prefix = V6(high, random.Next(), length);
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
    expected = ReferenceTable(routes).NextHops(probes);
  }
  std::string Differences(const Fib& fib) const {
    return PackedProbes(Family::kIpv6, probes).Differences(fib, expected);
  }
  std::vector<Address> probes;
  std::vector<NextHopId> expected;
};

TEST(FibHuge, FewNextHops) {
  const std::vector<Route> routes =
      HugeTable([](size_t i) { return static_cast<NextHopId>(1 + i % 64); });
  ASSERT_GT(routes.size(), kRoutes / 10 * 9);
  const auto fib = Fib::Build(Family::kIpv6, routes).value();
  EXPECT_EQ(Sample(routes).Differences(*fib), "");
  EXPECT_LE(fib->bytes(), kMostBytesPerRoute * routes.size());
}

// As many next hops as routes; short prefixes come over them and go.
TEST(FibHuge, DistinctNextHopsUnderShortPrefixes) {
  const std::vector<Route> routes = HugeTable(Distinct);
  LiveTable table(Family::kIpv6, routes);
  const auto without = table.fib();
  const Sample sample(routes);
  EXPECT_EQ(sample.Differences(*without), "");
  EXPECT_LE(without->bytes(), kMostBytesPerRoute * routes.size());
  for (const char* const text : {"::/0", "2000::/3", "2000::/8"}) {
    const Prefix prefix = P(text);
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
