// SPDX-License-Identifier: Apache-2.0

// Tables of the Internet's size: every boundary of every route, and a million
// addresses drawn from the routes, in every kernel. The real tables are used
// where PLANB_DATA_DIR has them; the made-up one is always there.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "lpm/fib/fib.h"
#include "lpm/synthetic/synthetic.h"
#include "lpm/testing/fib_check.h"
#include "lpm/testing/oracle.h"
#include "lpm/testing/probes.h"
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

}  // namespace
}  // namespace planb
