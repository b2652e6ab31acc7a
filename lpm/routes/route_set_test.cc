// SPDX-License-Identifier: Apache-2.0

// The set of routes against the oracle, which looks at every route, and against
// a plain map.

#include "lpm/routes/route_set.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "lpm/routes/table_digest.h"
#include "lpm/synthetic/random.h"
#include "lpm/testing/fib_check.h"
#include "lpm/testing/oracle.h"
#include "lpm/testing/random_tables.h"

namespace planb {
namespace {

using Model = std::map<Prefix, NextHopId>;

std::vector<Route> RoutesOf(const Model& model) {
  std::vector<Route> routes;
  for (const auto& [prefix, next_hop] : model) {
    routes.push_back({prefix, next_hop});
  }
  return routes;
}

// What covers `prefix` is what the oracle finds for its first address where
// only the shorter routes exist.
std::optional<Route> CoverByOracle(const std::vector<Route>& routes,
                                   const Prefix& prefix) {
  std::vector<Route> shorter;
  for (const Route& route : routes) {
    if (route.prefix.length() < prefix.length()) shorter.push_back(route);
  }
  return Oracle(std::move(shorter)).Lookup(prefix.address());
}

std::string Text(const std::optional<Route>& route) {
  if (!route) return "no route";
  return route->prefix.ToString() + " -> " + std::to_string(route->next_hop);
}

// Expects of `set` what holds for a set of the routes in `model`.
void ExpectSame(const RouteSet& set, const Model& model,
                const std::vector<Prefix>& prefixes,
                const std::vector<Address>& addresses) {
  const std::vector<Route> routes = RoutesOf(model);
  ASSERT_EQ(set.size(), routes.size());
  ASSERT_EQ(set.empty(), routes.empty());
  ASSERT_TRUE(std::equal(set.begin(), set.end(), model.begin(), model.end(),
                         [](const auto& a, const auto& b) {
                           return a.prefix == b.first && a.next_hop == b.second;
                         }));
  const Oracle oracle(routes);
  for (const Address& address : addresses) {
    const auto expected = oracle.Lookup(address);
    ASSERT_TRUE(set.Match(address) == expected)
        << address.ToString() << ": " << Text(set.Match(address)) << ", not "
        << Text(expected);
  }
  for (const Prefix& prefix : prefixes) {
    const auto it = model.find(prefix);
    ASSERT_EQ(set.Find(prefix), it == model.end() ? kNoRoute : it->second);
    const auto bound = set.LowerBound(prefix);
    const auto model_bound = model.lower_bound(prefix);
    ASSERT_EQ(bound == set.end(), model_bound == model.end());
    if (bound != set.end()) {
      ASSERT_EQ(bound->prefix, model_bound->first);
    }
    const auto expected = CoverByOracle(routes, prefix);
    ASSERT_TRUE(set.Cover(prefix) == expected)
        << prefix.ToString() << ": " << Text(set.Cover(prefix)) << ", not "
        << Text(expected);
  }
}

// The search steps over many routes that begin before the address and do not
// hold it.
TEST(RouteSet, CoversBehindManyOthers) {
  RouteSet set(Family::kIpv6);
  set.Announce(P("2001::/16"), 1);
  for (uint32_t i = 0; i < 10'000; ++i) {
    const auto bits = absl::MakeUint128(0x2001'0000'0000'0000, i);
    set.Announce(Prefix::Truncate(Address::V6(bits), 128), 2 + i);
  }
  EXPECT_EQ(Text(set.Match(A("2001:1::"))), "2001::/16 -> 1");
  EXPECT_EQ(Text(set.Match(A("2001::2710"))), "2001::/16 -> 1");
  EXPECT_EQ(Text(set.Match(A("2001::270f"))), "2001::270f/128 -> 10001");
  EXPECT_EQ(Text(set.Cover(P("2001::270f/128"))), "2001::/16 -> 1");
}

// An address of the other family is in no route; neither is a prefix.
TEST(RouteSet, TheOtherFamily) {
  const RouteSet four(Family::kIpv4, {{P("0.0.0.0/0"), 1}});
  EXPECT_EQ(Text(four.Match(A("2001:db8::1"))), "no route");
  EXPECT_EQ(Text(four.Cover(P("2001:db8::/32"))), "no route");
  EXPECT_EQ(four.Find(P("::/0")), kNoRoute);
  const RouteSet six(Family::kIpv6, {{P("::/0"), 1}});
  EXPECT_EQ(Text(six.Match(A("10.0.0.1"))), "no route");
  EXPECT_EQ(Text(six.Cover(P("10.0.0.0/8"))), "no route");
  EXPECT_EQ(six.Find(P("0.0.0.0/0")), kNoRoute);
}

class RouteSetWorld : public testing::TestWithParam<SmallWorld> {};

// Every set of the world's prefixes, each reached from the one before by one
// change (a Gray code), and built at once.
TEST_P(RouteSetWorld, EverySet) {
  const std::vector<Prefix> prefixes = PrefixesOf(GetParam());
  const std::vector<Address> probes = ProbesOf(GetParam());
  RouteSet set(GetParam().family);
  Model model;
  ExpectSame(set, model, prefixes, probes);
  for (size_t n = 1; n < size_t{1} << prefixes.size(); ++n) {
    const auto i = static_cast<size_t>(__builtin_ctzll(n));
    const auto next_hop = static_cast<NextHopId>(i + 1);
    if (model.erase(prefixes[i]) > 0) {
      ASSERT_TRUE(set.Withdraw(prefixes[i]));
      ASSERT_FALSE(set.Withdraw(prefixes[i]));
    } else {
      model[prefixes[i]] = next_hop;
      ASSERT_TRUE(set.Announce(prefixes[i], next_hop + 1));
      ASSERT_TRUE(set.Announce(prefixes[i], next_hop));
      ASSERT_FALSE(set.Announce(prefixes[i], next_hop));
    }
    ExpectSame(set, model, prefixes, probes);
    if (HasFatalFailure()) return;
    if (n % 64 == 0) {
      const RouteSet built(GetParam().family, RoutesOf(model));
      ExpectSame(built, model, prefixes, probes);
      if (HasFatalFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Ipv6, RouteSetWorld,
    testing::ValuesIn(SmallWorlds(
        Family::kIpv6, Positions("0,1 62,63 63,64 126,127 0,127 15,40,99"),
        {"::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
         "2001:db8:5555:aaaa:8000:0:7fff:ffff"})));

INSTANTIATE_TEST_SUITE_P(
    Ipv4, RouteSetWorld,
    testing::ValuesIn(SmallWorlds(Family::kIpv4,
                                  Positions("0,1 15,16 30,31 0,31 0,15,31"),
                                  {"0.0.0.0", "255.255.255.255"})));

TEST(RouteSet, RandomHistories) {
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    for (uint64_t seed = 1; seed <= 12; ++seed) {
      const std::vector<Route> pool =
          RandomRoutes({.family = family, .count = 20 * seed, .seed = seed});
      std::vector<Prefix> prefixes;
      for (const Route& route : pool) prefixes.push_back(route.prefix);
      const std::vector<Address> probes = BoundaryProbes(pool);
      Random random(seed);
      RouteSet set(family);
      Model model;
      for (int step = 0; step < 2000; ++step) {
        const Prefix& prefix = prefixes[random.Below(prefixes.size())];
        if (random.Chance(1, 2)) {
          ASSERT_EQ(set.Withdraw(prefix), model.erase(prefix) > 0);
        } else {
          const auto next_hop = static_cast<NextHopId>(1 + random.Below(3));
          const bool changes =
              !model.contains(prefix) || model[prefix] != next_hop;
          model[prefix] = next_hop;
          ASSERT_EQ(set.Announce(prefix, next_hop), changes);
        }
        if (step % 100 == 0) {
          ExpectSame(set, model, prefixes, probes);
          if (HasFatalFailure()) FAIL() << "seed " << seed << " step " << step;
        }
      }
    }
  }
}

// A change returns what it replaced.
TEST(RouteSet, Exchanges) {
  RouteSet set(Family::kIpv4);
  EXPECT_EQ(set.Exchange(P("10.0.0.0/8"), kNoRoute), kNoRoute);
  EXPECT_EQ(set.Exchange(P("10.0.0.0/8"), 1), kNoRoute);
  EXPECT_EQ(set.Exchange(P("10.0.0.0/8"), 1), 1U);
  EXPECT_EQ(set.Exchange(P("10.0.0.0/8"), 2), 1U);
  EXPECT_EQ(set.Find(P("10.0.0.0/8")), 2U);
  EXPECT_EQ(set.Exchange(P("10.0.0.0/8"), kNoRoute), 2U);
  EXPECT_TRUE(set.empty());
}

// Each version stays what it was when it was shared.
TEST(RouteSet, SharedVersions) {
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    const std::vector<Route> pool =
        RandomRoutes({.family = family, .count = 1000});
    Random random(1);
    RouteSet set(family);
    Model model;
    std::vector<std::pair<RouteSet, Model>> versions;
    for (int round = 0; round < 60; ++round) {
      versions.emplace_back(set.Share(), model);
      if (versions.size() > 10) {
        versions.erase(versions.begin() +
                       static_cast<ptrdiff_t>(random.Below(10)));
      }
      for (int step = 0; step < 60; ++step) {
        const Prefix& prefix = pool[random.Below(pool.size())].prefix;
        const auto next_hop = static_cast<NextHopId>(random.Below(4));
        const auto it = model.find(prefix);
        ASSERT_EQ(set.Exchange(prefix, next_hop),
                  it == model.end() ? kNoRoute : it->second);
        if (next_hop == kNoRoute) {
          model.erase(prefix);
        } else {
          model[prefix] = next_hop;
        }
      }
      for (const auto& [version, routes] : versions) {
        ExpectSame(version, routes, {}, {});
        if (HasFatalFailure()) FAIL() << "round " << round;
      }
    }
    // A version becomes the table again.
    set = versions[0].first.Share();
    ExpectSame(set, versions[0].second, {pool[0].prefix}, {});
  }
}

// The bytes a route that route_set.h states.
TEST(RouteSet, TakesLittleMemory) {
  std::vector<Route> pool = RandomRoutes({.count = 100'000});
  const auto bytes_per_route = [](const RouteSet& set) {
    return static_cast<double>(set.bytes()) / static_cast<double>(set.size());
  };
  RouteSet set(Family::kIpv6, pool);
  EXPECT_LT(bytes_per_route(set), 25);
  const size_t bytes = set.Share().bytes();
  EXPECT_EQ(bytes, set.bytes()) << "what is shared counts in full";
  Random random(1);
  for (int i = 0; i < 500'000; ++i) {
    const Prefix& prefix = pool[random.Below(pool.size())].prefix;
    if (!set.Withdraw(prefix)) set.Announce(prefix, 1);
  }
  EXPECT_LT(bytes_per_route(set), 29);
  std::shuffle(pool.begin(), pool.end(), std::mt19937_64(1));
  EXPECT_LT(bytes_per_route(RouteSet(Family::kIpv6, pool)), 28);
}

// Stores, table files and followers of other versions have this digest.
TEST(TableDigest, WithoutAttributesNothingChanges) {
  NextHop hop = {.id = 7,
                 .gateway = Address::V4(1),
                 .interface = "eth0",
                 .weight = 9,
                 .label = "up"};
  TableDigest digest;
  digest.Add(hop);
  EXPECT_EQ(absl::BytesToHexString(digest.ToString()),
            "94461cfa5bf4d6bda2ed69c0e4f0bcda");
  hop.attributes = Attributes("a");
  digest.Remove(hop);
  EXPECT_NE(digest, TableDigest());
  digest.Add(hop);
  hop.attributes = Attributes();
  digest.Remove(hop);
  EXPECT_EQ(digest, TableDigest());
}

TEST(RouteSetDeathTest, RefusesWhatItMayNotHold) {
  RouteSet set(Family::kIpv6);
  EXPECT_DEATH(set.Announce(P("10.0.0.0/8"), 1), "family");
  EXPECT_DEATH(set.Announce(P("2001:db8::/32"), kNoRoute), "reserved");
  EXPECT_DEATH(set.Announce(P("2001:db8::/32"), kUndecided), "reserved");
  const std::vector<Route> twice = {{P("::/0"), 1}, {P("::/0"), 2}};
  EXPECT_DEATH(RouteSet(Family::kIpv6, twice), "twice");
  const std::vector<Route> apart = {{P("::/0"), 1}, {P("::/1"), 2}, twice[1]};
  EXPECT_DEATH(RouteSet(Family::kIpv6, apart), "twice");
  EXPECT_DEATH(set.Exchange(P("::/0"), kUndecided), "reserved");
  EXPECT_DEATH(set.Exchange(P("10.0.0.0/8"), kNoRoute), "family");
}

}  // namespace
}  // namespace planb
