// SPDX-License-Identifier: Apache-2.0

// Tables of the Internet's size: every boundary of every route, and a million
// addresses drawn from the routes, in every kernel. The real tables are used
// where PLANB_DATA_DIR has them; the made-up one is always there.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "lpm/fib/fib.h"
#include "lpm/synthetic/random.h"
#include "lpm/synthetic/synthetic.h"
#include "lpm/testing/fib_check.h"
#include "lpm/testing/oracle.h"
#include "lpm/testing/random_tables.h"
#include "lpm/testing/real_tables.h"

namespace planb {
namespace {

constexpr size_t kSampled = 1'000'000;

// Routes must be sorted and of one family.
void ExpectRight(Family family, const std::vector<Route>& routes) {
  const auto fib = Fib::Build(family, routes).value();
  const Reference reference(family, routes);
  for (const auto& probes :
       {BoundaryProbes(routes), SyntheticTrace(routes, family, kSampled, 1),
        UniformProbes(family, kSampled / 10, 1)}) {
    ExpectAnswers(*fib, probes, reference.Lookup(probes));
    EXPECT_EQ(UpperDifferences(*fib, routes, probes), "");
  }
  EXPECT_GT(fib->Stats().intervals, routes.size() / 10);
  EXPECT_LT(fib->Stats().intervals, 2 * routes.size() + 2);
  // The paper's tree has 40 bytes a prefix; twice that is a broken layout.
  EXPECT_LT(fib->bytes(), 80 * routes.size());
}

class RealTable : public testing::TestWithParam<Family> {};

INSTANTIATE_TEST_SUITE_P(Families, RealTable,
                         testing::Values(Family::kIpv4, Family::kIpv6),
                         [](const auto& param) {
                           return std::string(FamilyName(param.param));
                         });

TEST_P(RealTable, EveryBoundaryAndAMillionSampled) {
  const std::string path = RealTablePath(GetParam());
  if (path.empty()) {
    GTEST_SKIP() << "no " << FamilyName(GetParam())
                 << " table of 2026-07-30 in PLANB_DATA_DIR";
  }
  const auto routes = ReadPlainTable(path);
  ASSERT_TRUE(routes.ok()) << routes.status();
  ASSERT_EQ(routes->size(),
            GetParam() == Family::kIpv4 ? 1'107'938U : 258'956U);
  ExpectRight(GetParam(), *routes);
}

// With a default route above, misses become hits: other intervals merge.
TEST_P(RealTable, UnderADefaultRoute) {
  const std::string path = RealTablePath(GetParam());
  if (path.empty()) {
    GTEST_SKIP() << "no " << FamilyName(GetParam())
                 << " table of 2026-07-30 in PLANB_DATA_DIR";
  }
  auto routes = ReadPlainTable(path);
  ASSERT_TRUE(routes.ok()) << routes.status();
  const Address zero = Address::FromBits(GetParam(), 0);
  routes->insert(routes->begin(), {Prefix::Truncate(zero, 0), 17});
  const auto fib = Fib::Build(GetParam(), *routes).value();
  const auto probes = BoundaryProbes(*routes);
  ExpectAnswers(*fib, probes, Reference(GetParam(), *routes).Lookup(probes));
}

TEST(MadeUpTable, Ipv6) {
  SyntheticOptions options;
  options.ipv6_routes = 200'000;
  ExpectRight(Family::kIpv6, SyntheticTable(options));
}

TEST(MadeUpTable, Ipv4) {
  SyntheticOptions options;
  options.ipv6_routes = 0;
  options.ipv4_routes = 200'000;
  ExpectRight(Family::kIpv4, SyntheticTable(options));
}

// Next hops of their own: nothing merges, the tree is as large as can be.
TEST(MadeUpTable, Ipv6WithoutMerging) {
  SyntheticOptions options;
  options.ipv6_routes = 200'000;
  std::vector<Route> routes = SyntheticTable(options);
  for (size_t i = 0; i < routes.size(); ++i) {
    routes[i].next_hop = static_cast<NextHopId>(i + 1);
  }
  ExpectRight(Family::kIpv6, routes);
}

// The real IPv6 table under twenty thousand changes.

constexpr size_t kChanges = 20'000;

// What happens to a real table: next hops move, prefixes come as parts and
// neighbours of others, prefixes go. One in a hundred is short, one in fifty is
// longer than /64.
Change AnyChange(const std::vector<Route>& routes, Random& random) {
  const Prefix& near = routes[random.Below(routes.size())].prefix;
  const auto next_hop = static_cast<NextHopId>(1 + random.Below(300));
  switch (random.Below(10)) {
    case 0:
    case 1:
    case 2:
    case 3:
      return {near, next_hop};
    case 4:
    case 5:
    case 6:
      return {near, kNoRoute};
    default: {
      int length = near.length() + static_cast<int>(random.Below(9));
      if (random.Chance(1, 30)) length = static_cast<int>(random.Below(21));
      if (random.Chance(1, 15)) {
        length = 65 + static_cast<int>(random.Below(64));
      }
      const absl::uint128 host = near.last() - near.first();
      const Address address =
          Address::V6(near.first() | (random.Next128() & (host | (host << 2))));
      return {Prefix::Truncate(address, std::min(length, 128)),
              random.Chance(1, 4) ? kNoRoute : next_hop};
    }
  }
}

TEST(FibCompilerRealTable, TwentyThousandChanges) {
  const std::string path = RealTablePath(Family::kIpv6);
  if (path.empty()) {
    GTEST_SKIP() << "no IPv6 table of 2026-07-30 in PLANB_DATA_DIR";
  }
  const auto routes = ReadPlainTable(path);
  ASSERT_TRUE(routes.ok()) << routes.status();
  LiveTable table(Family::kIpv6, *routes);
  Random random(1);
  size_t done = 0;
  size_t batches = 0;
  while (done < kChanges) {
    // Mostly small batches; some of a thousand and more.
    const size_t size =
        random.Chance(1, 40) ? 1 + random.Below(2000) : 1 + random.Below(60);
    std::vector<Change> changes;
    for (size_t i = 0; i < size; ++i) {
      changes.push_back(AnyChange(*routes, random));
    }
    table.Apply(changes);
    done += size;
    // Around what changed, as the routes themselves explain it.
    std::vector<Address> probes = BoundaryProbes(changes);
    std::vector<NextHopId> expected;
    for (const Address& probe : probes) {
      const auto route = table.routes().Match(probe);
      expected.push_back(route ? route->next_hop : kNoRoute);
    }
    ASSERT_EQ(PackedProbes(Family::kIpv6, std::move(probes))
                  .Differences(*table.fib(), expected),
              "")
        << "batch " << batches;
    ++batches;
  }
  const std::vector<Route> now = table.ModelRoutes();
  ASSERT_NE(now, *routes);
  EXPECT_EQ(DifferencesAtBoundaries(*table.fib(), now), "");
  EXPECT_EQ(
      DifferencesAtBoundaries(*Fib::Build(Family::kIpv6, now).value(), now),
      "");
}

}  // namespace
}  // namespace planb
