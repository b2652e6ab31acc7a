// SPDX-License-Identifier: Apache-2.0

#include "lpm/table/table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "lpm/testing/fib_check.h"
#include "lpm/testing/random_tables.h"

namespace planb {
namespace {

std::vector<Route> BothFamilies(uint64_t seed) {
  std::vector<Route> routes;
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    const auto some = RandomRoutes(
        {.family = family, .count = 300, .min_length = 12, .seed = seed});
    routes.insert(routes.end(), some.begin(), some.end());
  }
  return routes;
}

void ExpectSame(const TableRoutes& a, const TableRoutes& b) {
  EXPECT_EQ(a.size(), b.size());
  EXPECT_EQ(a.digest(), b.digest());
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    EXPECT_EQ(a.lengths(family), b.lengths(family));
    EXPECT_TRUE(std::equal(a.of(family).begin(), a.of(family).end(),
                           b.of(family).begin(), b.of(family).end()));
  }
}

TEST(TableRoutes, DigestAndLengthsDoNotDependOnTheWayToTheRoutes) {
  const std::vector<Route> before = BothFamilies(1), after = BothFamilies(2);
  TableRoutes routes(before);
  const TableRoutes shared = routes.Share();
  for (const Route& route : before) routes.Exchange(route.prefix, kNoRoute);
  ExpectSame(routes, TableRoutes());
  for (const Route& route : after) {
    routes.Exchange(route.prefix, 1'000'000);
    routes.Exchange(route.prefix, route.next_hop);
    routes.Exchange(route.prefix, route.next_hop);
  }
  ExpectSame(routes, TableRoutes(after));
  ExpectSame(shared, TableRoutes(before));
}

class TableFibsTest : public testing::Test {
 protected:
  void Expect(const std::vector<Route>& all) {
    for (const Family family : {Family::kIpv4, Family::kIpv6}) {
      std::vector<Route> routes;
      for (const Route& route : all) {
        if (route.prefix.family() == family) routes.push_back(route);
      }
      EXPECT_EQ(DifferencesAtBoundaries(*compiler_.fibs().of(family), routes),
                "");
    }
  }
  bool Update(const TableRoutes& routes, const std::vector<Route>& changed) {
    return compiler_.Update(routes, {changed}).value();
  }

  TableFibsCompiler compiler_;
};

TEST_F(TableFibsTest, AFewChangesAreMadeOneByOneInTheFamilyThatHasThem) {
  std::vector<Route> all = BothFamilies(1);
  TableRoutes routes(all);
  EXPECT_TRUE(Update(routes, {}));
  Expect(all);
  const TableFibs before = compiler_.fibs();
  all.back().next_hop = 77;
  routes.Exchange(all.back().prefix, 77);
  EXPECT_FALSE(Update(routes, {all.back()}));
  Expect(all);
  EXPECT_EQ(compiler_.fibs().v4, before.v4);
  EXPECT_NE(compiler_.fibs().v6, before.v6);
}

TEST_F(TableFibsTest, AnotherTableIsCompiledWhole) {
  EXPECT_TRUE(Update(TableRoutes(BothFamilies(1)), {}));
  const std::vector<Route> next = BothFamilies(2);
  compiler_.Restart();
  EXPECT_TRUE(Update(TableRoutes(next), {}));
  Expect(next);
}

// The list is longer than a compiler reads it.
TEST_F(TableFibsTest, ManyChangesAreFollowed) {
  const std::vector<Route> before = BothFamilies(1), after = BothFamilies(2);
  EXPECT_TRUE(Update(TableRoutes(before), {}));
  std::vector<Route> changed = before;
  changed.insert(changed.end(), after.begin(), after.end());
  EXPECT_TRUE(Update(TableRoutes(after), changed));
  Expect(after);
}

}  // namespace
}  // namespace planb
