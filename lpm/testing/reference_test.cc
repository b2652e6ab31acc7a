// The reference against the oracle, and against answers worked out by hand.

#include "lpm/testing/reference.h"

#include <gtest/gtest.h>

#include <vector>

#include "lpm/testing/oracle.h"
#include "lpm/testing/probes.h"
#include "lpm/testing/random_routes.h"

namespace planb {
namespace {

TEST(Reference, ByHand) {
  const std::vector<Route> routes = {{*Prefix::Parse("0.0.0.0/0"), 3},
                                     {*Prefix::Parse("10.0.0.0/8"), 1},
                                     {*Prefix::Parse("10.1.0.0/16"), 2},
                                     {*Prefix::Parse("a00::/8"), 4},
                                     {*Prefix::Parse("a00::1/128"), 5}};
  const Reference ipv4(Family::kIpv4, routes);
  EXPECT_EQ(ipv4.Lookup(*Address::Parse("10.1.255.255")), 2U);
  EXPECT_EQ(ipv4.Lookup(*Address::Parse("10.2.0.0")), 1U);
  EXPECT_EQ(ipv4.Lookup(*Address::Parse("255.255.255.255")), 3U);
  const Reference ipv6(Family::kIpv6, routes);
  EXPECT_EQ(ipv6.Lookup(*Address::Parse("a00::1")), 5U);
  EXPECT_EQ(ipv6.Lookup(*Address::Parse("a00::2")), 4U);
  EXPECT_EQ(ipv6.Lookup(*Address::Parse("::")), kNoRoute);
}

TEST(Reference, AgreesWithTheOracle) {
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      RandomRoutesOptions options;
      options.family = family;
      options.count = 150;
      options.seed = seed;
      const std::vector<Route> routes = RandomRoutes(options);
      const Oracle oracle(routes);
      const Reference reference(family, routes);
      for (const Address& address : BoundaryProbes(routes)) {
        const auto route = oracle.Lookup(address);
        ASSERT_EQ(reference.Lookup(address), route ? route->next_hop : kNoRoute)
            << address.ToString();
      }
    }
  }
}

}  // namespace
}  // namespace planb
