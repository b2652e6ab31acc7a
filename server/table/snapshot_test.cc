// SPDX-License-Identifier: Apache-2.0

#include "server/table/snapshot.h"

#include <gtest/gtest.h>

#include "lpm/synthetic/synthetic.h"
#include "lpm/testing/oracle.h"
#include "server/testing/make_snapshot.h"

namespace planb::server {
namespace {

TEST(Snapshot, OfAnEmptyTableFindsNoRoute) {
  const auto snapshot = MakeSnapshot(7, {});
  EXPECT_EQ(snapshot->generation(), 7U);
  EXPECT_FALSE(snapshot->Match(Address::V6(1)).has_value());
  EXPECT_EQ(snapshot->fib(Family::kIpv4).Lookup(Address::V4(1)), kNoRoute);
}

TEST(Snapshot, MatchAndFibAgreeWithTheOracle) {
  const std::vector<Route> routes =
      SyntheticTable({.ipv6_routes = 3000, .ipv4_routes = 2000, .seed = 5});
  const Oracle oracle(routes);
  const auto snapshot = MakeSnapshot(1, routes);
  EXPECT_EQ(snapshot->routes().of(Family::kIpv4).size(), 2000U);
  EXPECT_EQ(snapshot->routes().of(Family::kIpv6).size(), 3000U);
  for (Family family : {Family::kIpv4, Family::kIpv6}) {
    for (const Address& address : SyntheticTrace(routes, family, 3000, 6)) {
      const auto expected = oracle.Lookup(address);
      ASSERT_EQ(snapshot->Match(address), expected) << address.ToString();
      ASSERT_EQ(snapshot->fib(family).Lookup(address),
                expected.has_value() ? expected->next_hop : kNoRoute);
    }
  }
}

TEST(Snapshot, FindsNextHops) {
  NextHop nine;
  nine.id = 9;
  nine.label = "nine";
  const auto snapshot = MakeSnapshot(1, {}, {nine});
  EXPECT_EQ(snapshot->FindNextHop(9)->label, "nine");
  EXPECT_EQ(snapshot->FindNextHop(8), nullptr);
}

}  // namespace
}  // namespace planb::server
