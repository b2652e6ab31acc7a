// SPDX-License-Identifier: Apache-2.0

// Tables of the Internet's size: every boundary of every route, and a million
// addresses drawn from the routes, in every kernel. The real tables are used
// where PLANB_DATA_DIR has them; the made-up one is always there.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "lpm/fib/fib.h"
#include "lpm/synthetic/random.h"
#include "lpm/synthetic/reference_table.h"
#include "lpm/synthetic/synthetic.h"
#include "lpm/testing/fib_check.h"
#include "lpm/testing/oracle.h"
#include "lpm/testing/random_tables.h"
#include "lpm/testing/real_tables.h"

namespace planb {
namespace {

constexpr size_t kSampled = kSanitized ? 100'000 : 1'000'000;
constexpr int kCovers = kSanitized ? 20 : 40;
constexpr int kCoversAtOnce = 10;  // between two looks
constexpr size_t kMadeUp = kSanitized ? 40'000 : 200'000;

// Routes must be sorted and of one family.
void ExpectRight(Family family, const std::vector<Route>& routes) {
  const auto fib = Fib::Build(family, routes).value();
  const auto with_lengths =
      Fib::Build(family, routes, {.prefix_lengths = true}).value();
  const ReferenceTable reference(routes);
  for (const auto& probes :
       {BoundaryProbes(routes), SyntheticTrace(routes, family, kSampled, 1),
        UniformProbes(family, kSampled / 10, 1)}) {
    ExpectAnswers(*fib, probes, reference.NextHops(probes));
    EXPECT_EQ(UpperDifferences(*fib, routes, probes), "");
    EXPECT_EQ(UpperDifferences(*with_lengths, routes, probes), "");
    EXPECT_EQ(LengthDifferences(*with_lengths, routes, probes), "");
  }
  EXPECT_GT(fib->Stats().intervals, routes.size() / 10);
  EXPECT_LT(fib->Stats().intervals, 2 * routes.size() + 2);
  // The paper's tree has 40 bytes a prefix; twice that is a broken layout.
  EXPECT_LT(fib->bytes(), 80 * routes.size());
}

class RealTable : public testing::TestWithParam<Family> {
 protected:
  void SetUp() override {
    const std::string path = RealTablePath(GetParam());
    if (path.empty()) {
      GTEST_SKIP() << "no " << FamilyName(GetParam())
                   << " table of 2026-07-30 in PLANB_DATA_DIR";
    }
    const auto routes = ReadPlainTable(path);
    ASSERT_TRUE(routes.ok()) << routes.status();
    ASSERT_EQ(routes->size(),
              GetParam() == Family::kIpv4 ? 1'107'938U : 258'956U);
    // With a sanitizer a part, from everywhere.
    constexpr size_t kApart = kSanitized ? 5 : 1;
    for (size_t i = 0; i < routes->size(); i += kApart) {
      routes_.push_back((*routes)[i]);
    }
  }

  std::vector<Route> routes_;
};

INSTANTIATE_TEST_SUITE_P(Families, RealTable,
                         testing::Values(Family::kIpv4, Family::kIpv6),
                         testing::PrintToStringParamName());

TEST_P(RealTable, EveryBoundaryAndAMillionSampled) {
  ExpectRight(GetParam(), routes_);
}

// Under a default route misses become hits, so other intervals merge.
TEST_P(RealTable, UnderADefaultRoute) {
  const Address zero = Address::FromBits(GetParam(), 0);
  routes_.insert(routes_.begin(), {Prefix::Truncate(zero, 0), 17});
  const auto fib = Fib::Build(GetParam(), routes_).value();
  EXPECT_EQ(DifferencesAtBoundaries(*fib, routes_), "");
}

TEST(MadeUpTable, Ipv6) {
  ExpectRight(Family::kIpv6, SyntheticTable({.ipv6_routes = kMadeUp}));
}

TEST(MadeUpTable, Ipv4) {
  ExpectRight(Family::kIpv4,
              SyntheticTable({.ipv6_routes = 0, .ipv4_routes = kMadeUp}));
}

// With a next hop for each route nothing merges.
TEST(MadeUpTable, Ipv6WithoutMerging) {
  std::vector<Route> routes = SyntheticTable({.ipv6_routes = kMadeUp});
  for (size_t i = 0; i < routes.size(); ++i) {
    routes[i].next_hop = static_cast<NextHopId>(i + 1);
  }
  ExpectRight(Family::kIpv6, routes);
}

// The real IPv6 table under thousands of changes.

constexpr size_t kChanges = kSanitized ? 5'000 : 20'000;

// A change as in a real table: another next hop, a withdrawal, or a prefix that
// is a part or a neighbour of another. One in a hundred is short, one in fifty
// is longer than /64.
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

class ChangingRealTable : public RealTable {};

INSTANTIATE_TEST_SUITE_P(Families, ChangingRealTable,
                         testing::Values(Family::kIpv6),
                         testing::PrintToStringParamName());

TEST_P(ChangingRealTable, ThousandsOfChanges) {
  LiveTable table(GetParam(), routes_);
  Random random(1);
  size_t done = 0;
  size_t batches = 0;
  while (done < kChanges) {
    // Mostly small batches; some of a thousand and more.
    const size_t size =
        random.Chance(1, 40) ? 1 + random.Below(2000) : 1 + random.Below(60);
    std::vector<Change> changes;
    for (size_t i = 0; i < size; ++i) {
      changes.push_back(AnyChange(routes_, random));
    }
    table.Apply(changes);
    done += size;
    ASSERT_EQ(table.DifferencesAround(changes), "") << "batch " << batches;
    ++batches;
  }
  const std::vector<Route> now = table.ModelRoutes();
  ASSERT_NE(now, routes_);
  EXPECT_EQ(DifferencesAtBoundaries(*table.fib(), now), "");
  EXPECT_EQ(
      DifferencesAtBoundaries(*Fib::Build(Family::kIpv6, now).value(), now),
      "");
}

class CoveredRealTable : public RealTable {};

INSTANTIATE_TEST_SUITE_P(Families, CoveredRealTable,
                         testing::Values(Family::kIpv4, Family::kIpv6),
                         testing::PrintToStringParamName());

// One by one, so that they are edited and not compiled.
TEST_P(CoveredRealTable, CoversOfEveryLength) {
  // So few next hops that a cover often has that of what it covers.
  for (Route& route : routes_) route.next_hop = 1 + route.next_hop % 3;
  LiveTable table(GetParam(), routes_);
  Random random(3);
  for (int step = 1; step <= kCovers; ++step) {
    const Prefix& any = routes_[random.Below(routes_.size())].prefix;
    const auto length =
        static_cast<int>(random.Below(static_cast<uint64_t>(any.length()) + 1));
    table.Apply(
        {{Prefix::Truncate(any.address(), length),
          random.Chance(1, 3) ? kNoRoute
                              : static_cast<NextHopId>(1 + random.Below(4))}});
    if (step % kCoversAtOnce != 0) continue;
    ASSERT_EQ(DifferencesAtBoundaries(*table.fib(), table.ModelRoutes()), "")
        << "step " << step;
  }
}

}  // namespace
}  // namespace planb
