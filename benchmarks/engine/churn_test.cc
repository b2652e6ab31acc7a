#include "benchmarks/engine/churn.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "lpm/synthetic/synthetic.h"

namespace planb {
namespace {

constexpr ChurnKind kKinds[] = {ChurnKind::kMixed, ChurnKind::kCovering,
                                ChurnKind::kLong};

std::vector<Route> SomeRoutes(Family family) {
  const bool v4 = family == Family::kIpv4;
  return SyntheticTable(
      {.ipv6_routes = v4 ? 0U : 5000U, .ipv4_routes = v4 ? 5000U : 0U});
}

std::vector<Route> Changes(ChurnKind kind, const std::vector<Route>& table,
                           size_t count) {
  return MakeChurn(kind, table, count).value();
}

struct Counts {
  size_t next_hop = 0, withdrawn = 0, announced = 0, again = 0;
};

// Applies all; each must change something. Counts what it did.
Counts Apply(const std::vector<Route>& changes, RouteSet& routes) {
  Counts counts;
  std::set<Prefix> gone;
  for (const Route& change : changes) {
    const bool present = routes.Find(change.prefix) != kNoRoute;
    EXPECT_TRUE(ApplyChange(change, routes)) << change.prefix.ToString();
    if (change.next_hop == kNoRoute) {
      ++counts.withdrawn;
      gone.insert(change.prefix);
    } else if (present) {
      ++counts.next_hop;
    } else {
      ++counts.announced;
      counts.again += gone.count(change.prefix);
    }
  }
  return counts;
}

TEST(Churn, MixesAsSaid) {
  for (const Family family : {Family::kIpv6, Family::kIpv4}) {
    const std::vector<Route> table = SomeRoutes(family);
    for (const ChurnKind kind : kKinds) {
      const auto changes = MakeChurn(kind, table, 20'000);
      ASSERT_TRUE(changes.ok()) << changes.status();
      ASSERT_EQ(changes->size(), 20'000U);
      RouteSet routes(family, table);
      const Counts counts = Apply(*changes, routes);
      SCOPED_TRACE(std::string(ChurnKindName(kind)));
      EXPECT_NEAR(static_cast<double>(counts.next_hop), 10'000, 500);
      EXPECT_NEAR(static_cast<double>(counts.withdrawn), 5000, 500);
      EXPECT_NEAR(static_cast<double>(counts.announced), 5000, 500);
      const double again = static_cast<double>(counts.again) /
                           static_cast<double>(counts.announced);
      if (kind == ChurnKind::kCovering) {
        EXPECT_EQ(again, 1);
      } else {
        EXPECT_NEAR(again, 0.5, 0.1);
      }
    }
  }
}

TEST(Churn, OfTheKindAskedFor) {
  const std::vector<Route> table = SomeRoutes(Family::kIpv6);
  const RouteSet routes(Family::kIpv6, table);
  for (const Route& change : Changes(ChurnKind::kMixed, table, 2000)) {
    if (routes.Find(change.prefix) != kNoRoute) continue;
    EXPECT_EQ(change.prefix.length(), 48);
    EXPECT_TRUE(routes.Cover(change.prefix).has_value());
  }
  for (const Route& change : Changes(ChurnKind::kCovering, table, 2000)) {
    EXPECT_GE(change.prefix.length(), 20);
    EXPECT_LE(change.prefix.length(), 32);
    auto it = routes.LowerBound(change.prefix);
    ASSERT_NE(it, routes.end());
    EXPECT_EQ(it->prefix, change.prefix);
    ASSERT_NE(++it, routes.end());
    EXPECT_TRUE(change.prefix.Covers(it->prefix)) << change.prefix.ToString();
  }
  size_t below_64 = 0;
  for (const Route& change : Changes(ChurnKind::kLong, table, 2000)) {
    EXPECT_GT(change.prefix.length(), 48);
    below_64 += change.prefix.length() > 64;
  }
  EXPECT_GT(below_64, 100U);
}

TEST(Churn, NeedsSomethingToChange) {
  const std::vector<Route> one = {{Prefix::Parse("2001:db8::/32").value(), 5}};
  EXPECT_EQ(MakeChurn(ChurnKind::kCovering, one, 1).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(MakeChurn(ChurnKind::kMixed, {}, 1).ok());
  // A single route with a single next hop can come, go and change all the same.
  RouteSet routes(Family::kIpv6, one);
  const auto changes = MakeChurn(ChurnKind::kMixed, one, 1000);
  ASSERT_TRUE(changes.ok());
  EXPECT_GT(Apply(*changes, routes).next_hop, 300U);
}

TEST(Churn, SameSeedSameChanges) {
  const std::vector<Route> table = SomeRoutes(Family::kIpv6);
  EXPECT_EQ(*MakeChurn(ChurnKind::kMixed, table, 100, 1),
            *MakeChurn(ChurnKind::kMixed, table, 100, 1));
  EXPECT_NE(*MakeChurn(ChurnKind::kMixed, table, 100, 1),
            *MakeChurn(ChurnKind::kMixed, table, 100, 2));
}

TEST(ThereAndBack, EndsWhereItBegan) {
  const std::vector<Route> table = SomeRoutes(Family::kIpv6);
  RouteSet routes(Family::kIpv6, table);
  const auto changes =
      ThereAndBack(routes.Share(), *MakeChurn(ChurnKind::kMixed, table, 3000));
  ASSERT_EQ(changes.size(), 6000U);
  for (int round = 0; round < 2; ++round) {
    Apply(changes, routes);
    ASSERT_EQ(routes.size(), table.size());
    size_t i = 0;
    for (const auto& [prefix, hop] : routes) {
      EXPECT_EQ((Route{prefix, hop}), table[i++]);
    }
  }
}

}  // namespace
}  // namespace planb
