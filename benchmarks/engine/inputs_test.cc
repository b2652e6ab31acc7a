// SPDX-License-Identifier: Apache-2.0

// Tables, traces and changes: what the measurements ask for and change.

#include "benchmarks/engine/inputs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "lpm/synthetic/synthetic.h"
#include "lpm/testing/real_tables.h"

namespace planb {
namespace {

bool SortedAndDistinct(const std::vector<Route>& routes) {
  return std::is_sorted(routes.begin(), routes.end()) &&
         std::adjacent_find(routes.begin(), routes.end(),
                            [](const Route& a, const Route& b) {
                              return a.prefix == b.prefix;
                            }) == routes.end();
}

size_t LongOnes(const std::vector<Route>& routes) {
  return static_cast<size_t>(
      std::count_if(routes.begin(), routes.end(),
                    [](const Route& r) { return r.prefix.length() > 64; }));
}

TEST(Tables, MadeUp) {
  const auto ipv6 = MakeTable("20000");
  ASSERT_TRUE(ipv6.ok()) << ipv6.status();
  EXPECT_EQ(ipv6->name, "20000");
  EXPECT_EQ(ipv6->family, Family::kIpv6);
  EXPECT_EQ(ipv6->routes.size(), 20'000U);
  const auto ipv4 = MakeTable("ipv4:3000");
  ASSERT_TRUE(ipv4.ok()) << ipv4.status();
  EXPECT_EQ(ipv4->family, Family::kIpv4);
  EXPECT_EQ(ipv4->routes.size(), 3000U);
}

TEST(Tables, LongRoutesReplaceOthers) {
  for (const auto& [name, share] :
       {std::pair("20000+long5", 0.05), std::pair("20000+long50", 0.5)}) {
    const auto table = MakeTable(name);
    ASSERT_TRUE(table.ok()) << table.status();
    EXPECT_EQ(table->routes.size(), 20'000U);
    EXPECT_TRUE(SortedAndDistinct(table->routes));
    EXPECT_NEAR(static_cast<double>(LongOnes(table->routes)) / 20'000, share,
                0.01);
    std::set<int> lengths;
    for (const Route& r : table->routes) lengths.insert(r.prefix.length());
    EXPECT_TRUE(lengths.count(65) == 1 && lengths.count(128) == 1);
  }
}

TEST(Tables, Hosts) {
  for (const auto& [name, in] : {std::pair("hosts64", "2001:db8:0:1::/64"),
                                 std::pair("hosts48", "2001:db8:1::/48")}) {
    const auto table = MakeTable(name);
    ASSERT_TRUE(table.ok()) << table.status();
    EXPECT_EQ(table->routes.size(), 100'000U);
    EXPECT_TRUE(SortedAndDistinct(table->routes));
    for (const Route& route : table->routes) {
      ASSERT_EQ(route.prefix.length(), 128);
      ASSERT_TRUE(Prefix::Parse(in)->Covers(route.prefix));
    }
  }
}

TEST(Tables, FromFile) {
  const std::string path = testing::TempDir() + "/routes.txt";
  std::ofstream(path) << "10.0.0.0/8 1\n2001:db8::/32 2\n2001:db9::/32 3\n";
  const auto mixed = MakeTable(path);
  ASSERT_TRUE(mixed.ok()) << mixed.status();
  EXPECT_EQ(mixed->family, Family::kIpv6);
  EXPECT_EQ(mixed->routes.size(), 2U);
  std::ofstream(path) << "10.0.0.0/8 1\n11.0.0.0/8 2\n";
  EXPECT_EQ(MakeTable(path)->family, Family::kIpv4);
  EXPECT_EQ(MakeTable(path)->routes.size(), 2U);
}

TEST(Tables, Real) {
  if (RealTablePath(Family::kIpv6).empty()) {
    GTEST_SKIP() << "no real table in PLANB_DATA_DIR";
  }
  const auto ipv6 = MakeTable("real");
  ASSERT_TRUE(ipv6.ok()) << ipv6.status();
  EXPECT_EQ(ipv6->routes, *ReadPlainTable(RealTablePath(Family::kIpv6)));
  const auto ipv4 = MakeTable("ipv4");
  ASSERT_TRUE(ipv4.ok()) << ipv4.status();
  EXPECT_EQ(ipv4->family, Family::kIpv4);
  EXPECT_EQ(ipv4->routes.size(), 1'107'938U);
}

TEST(Tables, Adversarial) {
  const auto deep = MakeTable("deep:1000");
  ASSERT_TRUE(deep.ok()) << deep.status();
  EXPECT_EQ(deep->routes.size(), 1000U);
  EXPECT_TRUE(SortedAndDistinct(deep->routes));
  size_t nested = 0;
  for (size_t i = 1; i < deep->routes.size(); ++i) {
    nested += deep->routes[i - 1].prefix.Covers(deep->routes[i].prefix) ? 1 : 0;
  }
  EXPECT_GT(nested, 900U);
  const auto site = MakeTable("one48:60000");
  ASSERT_TRUE(site.ok()) << site.status();
  EXPECT_EQ(site->routes.size(), 60'000U);
  EXPECT_TRUE(SortedAndDistinct(site->routes));
  for (const Route& route : site->routes) {
    ASSERT_EQ(route.prefix.length(), 64);
    ASSERT_TRUE(Prefix::Parse("2001:db8:1::/48")->Covers(route.prefix));
  }
}

TEST(Tables, NamesThatMeanNothing) {
  for (const char* name :
       {"", "fast", "20000+fast", "ipv4:20+long5", "20k", "2018:20",
        "deep:", "1:2:3", "0+long5", "no/such/file"}) {
    EXPECT_FALSE(MakeTable(name).ok()) << name;
    EXPECT_FALSE(MakeIpv6Routes(name).ok()) << name;
  }
}

TEST(NextHops, AreAssigned) {
  Table table = *MakeTable("20000");
  const std::vector<Route> given = table.routes;
  ASSERT_TRUE(AssignNextHops("as-given", table.routes).ok());
  EXPECT_EQ(table.routes, given);
  ASSERT_TRUE(AssignNextHops("random:5", table.routes).ok());
  std::set<NextHopId> ids;
  for (const Route& route : table.routes) ids.insert(route.next_hop);
  EXPECT_EQ(ids, (std::set<NextHopId>{1, 2, 3, 4, 5}));
  ASSERT_TRUE(AssignNextHops("sets:19000", table.routes).ok());
  std::multiset<NextHopId> sets;
  for (const Route& route : table.routes) sets.insert(route.next_hop);
  EXPECT_EQ(*sets.rbegin(), 19'000U);
  for (NextHopId id = 1; id <= 19'000; ++id) {
    ASSERT_EQ(sets.count(id), id <= 1000 ? 2U : 1U) << id;
  }
  ASSERT_TRUE(AssignNextHops("wide-sets:19000", table.routes).ok());
  for (const Route& route : table.routes) {
    ASSERT_TRUE(route.next_hop < kUndecided &&
                sets.count(kUndecided - route.next_hop) > 0);
  }
  for (const char* how : {"random", "wide-random:5", "sets", "sets:0",
                          "sets:1x", "random:0", "random:x", "best"}) {
    EXPECT_FALSE(AssignNextHops(how, table.routes).ok()) << how;
  }
}

const std::vector<Route> kRoutes = {{*Prefix::Parse("10.0.0.0/8"), 1},
                                    {*Prefix::Parse("2001:db8::/32"), 2}};

TEST(Traces, HoldTheTrafficPacked) {
  for (Family family : {Family::kIpv4, Family::kIpv6}) {
    const auto trace = MakeTrace(TraceKind::kMatch, family, kRoutes, 1000, 5);
    ASSERT_TRUE(trace.ok());
    EXPECT_EQ(trace->size(), 1000U);
    EXPECT_EQ(trace->family(), family);
    EXPECT_EQ(trace->width(), static_cast<size_t>(AddressBytes(family)));
    size_t i = 0;
    ASSERT_TRUE(MakeTraffic(TraceKind::kMatch, family, kRoutes, 1000, 5,
                            [&](const Address& address) {
                              ASSERT_EQ(trace->address(i), address);
                              EXPECT_EQ(std::memcmp(trace->at(i),
                                                    address.ToPacked().data(),
                                                    trace->width()),
                                        0);
                              ++i;
                            })
                    .ok());
    EXPECT_EQ(i, 1000U);
  }
}

TEST(Traces, NeedRoutesToDrawFrom) {
  EXPECT_EQ(MakeTrace(TraceKind::kMatch, Family::kIpv6, {}, 1).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

std::vector<Route> SomeRoutes(Family family) {
  const bool v4 = family == Family::kIpv4;
  return SyntheticTable(
      {.ipv6_routes = v4 ? 0U : 5000U, .ipv4_routes = v4 ? 5000U : 0U});
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
    const auto changes = MakeChurn(table, 20'000);
    ASSERT_TRUE(changes.ok()) << changes.status();
    ASSERT_EQ(changes->size(), 20'000U);
    RouteSet routes(family, table);
    const Counts counts = Apply(*changes, routes);
    EXPECT_NEAR(static_cast<double>(counts.next_hop), 10'000, 500);
    EXPECT_NEAR(static_cast<double>(counts.withdrawn), 5000, 500);
    EXPECT_NEAR(static_cast<double>(counts.announced), 5000, 500);
    EXPECT_NEAR(static_cast<double>(counts.again) /
                    static_cast<double>(counts.announced),
                0.5, 0.1);
  }
}

TEST(Churn, NewRoutesLieInsideOthers) {
  const std::vector<Route> table = SomeRoutes(Family::kIpv6);
  const RouteSet routes(Family::kIpv6, table);
  const auto changes = MakeChurn(table, 2000);
  ASSERT_TRUE(changes.ok());
  for (const Route& change : *changes) {
    if (routes.Find(change.prefix) != kNoRoute) continue;
    EXPECT_EQ(change.prefix.length(), 48);
    EXPECT_TRUE(routes.Cover(change.prefix).has_value());
  }
}

TEST(Churn, NeedsSomethingToChange) {
  const std::vector<Route> one = {{Prefix::Parse("2001:db8::/32").value(), 5}};
  EXPECT_EQ(MakeChurn({}, 1).status().code(),
            absl::StatusCode::kFailedPrecondition);
  // A single route with a single next hop can come, go and change all the same.
  RouteSet routes(Family::kIpv6, one);
  const auto changes = MakeChurn(one, 1000);
  ASSERT_TRUE(changes.ok());
  EXPECT_GT(Apply(*changes, routes).next_hop, 300U);
}

TEST(Churn, SameSeedSameChanges) {
  const std::vector<Route> table = SomeRoutes(Family::kIpv6);
  EXPECT_EQ(*MakeChurn(table, 100, 1), *MakeChurn(table, 100, 1));
  EXPECT_NE(*MakeChurn(table, 100, 1), *MakeChurn(table, 100, 2));
}

TEST(ThereAndBack, EndsWhereItBegan) {
  const std::vector<Route> table = SomeRoutes(Family::kIpv6);
  RouteSet routes(Family::kIpv6, table);
  const auto changes = ThereAndBack(routes.Share(), *MakeChurn(table, 3000));
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
