// SPDX-License-Identifier: Apache-2.0

#include "lpm/testing/oracle.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/numeric/int128.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "lpm/testing/hard_prefixes.h"
#include "lpm/testing/probes.h"

namespace planb {
namespace {

Route R(absl::string_view prefix, NextHopId next_hop) {
  return Route{Prefix::Parse(prefix).value(), next_hop};
}

// "PREFIX NEXTHOP" of the matched route, or "none".
std::string Ask(const Oracle& oracle, absl::string_view address) {
  const auto route = oracle.Lookup(Address::Parse(address).value());
  return route ? absl::StrCat(route->prefix.ToString(), " ", route->next_hop)
               : "none";
}

TEST(Oracle, WithoutRoutesFindsNone) {
  const Oracle oracle({});
  EXPECT_EQ(Ask(oracle, "::"), "none");
  EXPECT_EQ(Ask(oracle, "0.0.0.0"), "none");
}

TEST(Oracle, LongestWinsInAnyOrder) {
  const std::vector<Route> up = {R("2001:db8::/32", 1), R("2001:db8::/48", 2),
                                 R("2001:db8::1/128", 3)};
  for (const auto& routes : {up, std::vector<Route>(up.rbegin(), up.rend()),
                             std::vector<Route>{up[1], up[2], up[0]}}) {
    const Oracle oracle(routes);
    EXPECT_EQ(Ask(oracle, "2001:db8::1"), "2001:db8::1/128 3");
    EXPECT_EQ(Ask(oracle, "2001:db8::"), "2001:db8::/48 2");
    EXPECT_EQ(Ask(oracle, "2001:db8::2"), "2001:db8::/48 2");
    EXPECT_EQ(Ask(oracle, "2001:db8:0:ffff:ffff:ffff:ffff:ffff"),
              "2001:db8::/48 2");
    EXPECT_EQ(Ask(oracle, "2001:db8:1::"), "2001:db8::/32 1");
    EXPECT_EQ(Ask(oracle, "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"),
              "2001:db8::/32 1");
    EXPECT_EQ(Ask(oracle, "2001:db9::"), "none");
    EXPECT_EQ(Ask(oracle, "2001:db7:ffff:ffff:ffff:ffff:ffff:ffff"), "none");
  }
}

TEST(Oracle, DefaultRouteMatchesTheRest) {
  const Oracle oracle({R("::/0", 9), R("ffff::/16", 1)});
  EXPECT_EQ(Ask(oracle, "::"), "::/0 9");
  EXPECT_EQ(Ask(oracle, "fffe:ffff::"), "::/0 9");
  EXPECT_EQ(Ask(oracle, "ffff::"), "ffff::/16 1");
  EXPECT_EQ(Ask(oracle, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
            "ffff::/16 1");
}

TEST(Oracle, NeighboursDoNotLeakIntoEachOther) {
  const Oracle oracle({R("2001:db8:ffff::/48", 1), R("2001:db9::/32", 2)});
  EXPECT_EQ(Ask(oracle, "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"),
            "2001:db8:ffff::/48 1");
  EXPECT_EQ(Ask(oracle, "2001:db9::"), "2001:db9::/32 2");
  EXPECT_EQ(Ask(oracle, "2001:db9::1"), "2001:db9::/32 2");
  EXPECT_EQ(Ask(oracle, "2001:db8:fffe:ffff::"), "none");
}

TEST(Oracle, HostRoutesAtBothEndsOfTheAddressSpace) {
  const Oracle oracle({R("::/128", 1),
                       R("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128", 2),
                       R("0.0.0.0/32", 3), R("255.255.255.255/32", 4)});
  EXPECT_EQ(Ask(oracle, "::"), "::/128 1");
  EXPECT_EQ(Ask(oracle, "::1"), "none");
  EXPECT_EQ(Ask(oracle, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
            "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128 2");
  EXPECT_EQ(Ask(oracle, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe"), "none");
  EXPECT_EQ(Ask(oracle, "0.0.0.0"), "0.0.0.0/32 3");
  EXPECT_EQ(Ask(oracle, "0.0.0.1"), "none");
  EXPECT_EQ(Ask(oracle, "255.255.255.255"), "255.255.255.255/32 4");
  EXPECT_EQ(Ask(oracle, "255.255.255.254"), "none");
}

TEST(Oracle, FamiliesAreApart) {
  // Left-aligned, a00:: and 10.0.0.0 have the same bits.
  const Oracle oracle({R("10.0.0.0/8", 1), R("a00::/8", 2), R("0.0.0.0/0", 3)});
  EXPECT_EQ(Ask(oracle, "10.1.2.3"), "10.0.0.0/8 1");
  EXPECT_EQ(Ask(oracle, "a01::"), "a00::/8 2");
  EXPECT_EQ(Ask(oracle, "11.0.0.0"), "0.0.0.0/0 3");
  EXPECT_EQ(Ask(oracle, "b00::"), "none");
  EXPECT_EQ(Ask(oracle, "::ffff:10.1.2.3"), "none");
}

TEST(Oracle, NextHopsAreNotInterpreted) {
  const Oracle oracle({R("10.0.0.0/8", 0xffffffff), R("11.0.0.0/8", 1U << 31)});
  EXPECT_EQ(Ask(oracle, "10.0.0.0"), "10.0.0.0/8 4294967295");
  EXPECT_EQ(Ask(oracle, "11.0.0.0"), "11.0.0.0/8 2147483648");
}

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

// Of 2001:db8:: and the two /64s after it, with different lower halves.
std::vector<NextHopId> Three(const std::vector<Route>& routes) {
  std::vector<Address> addresses;
  for (uint64_t i = 0; i < 3; ++i) {
    addresses.push_back(
        Address::V6(absl::MakeUint128(0x2001'0db8'0000'0000 + i, i * 12345)));
  }
  return RightUpperAnswers(routes, addresses);
}

using Answers = std::vector<NextHopId>;

TEST(RightUpperAnswers, RoutesUpTo64Decide) {
  EXPECT_EQ(Three({}), (Answers{0, 0, 0}));
  EXPECT_EQ(Three({R("::/0", 7)}), (Answers{7, 7, 7}));
  EXPECT_EQ(Three({R("2001:db8::/63", 1), R("2001:db8:0:1::/64", 2)}),
            (Answers{1, 2, 0}));
}

TEST(RightUpperAnswers, LongerRoutesLeaveItOpen) {
  EXPECT_EQ(Three({R("2001:db8:0:1::/65", 1)}), (Answers{0, kUndecided, 0}));
  EXPECT_EQ(Three({R("2001:db8:0:1:ffff:ffff:ffff:ffff/128", 1)}),
            (Answers{0, kUndecided, 0}));
  EXPECT_EQ(Three({R("2001:db8:0:1::/128", 1), R("2001:db8:0:2::/64", 2)}),
            (Answers{0, kUndecided, 2}));
  EXPECT_EQ(Three({R("2001:db8:0:1::17/128", 1)}), (Answers{0, kUndecided, 0}));
}

TEST(RightUpperAnswers, UnlessTheyMakeNoDifference) {
  EXPECT_EQ(Three({R("2001:db8::/48", 1), R("2001:db8:0:1::17/128", 1)}),
            (Answers{1, 1, 1}));
  EXPECT_EQ(Three({R("2001:db8:0:1::/65", 1), R("2001:db8:0:1:8000::/65", 1)}),
            (Answers{0, 1, 0}));
  EXPECT_EQ(Three({R("2001:db8:0:1::/64", 5), R("2001:db8:0:1::/65", 1),
                   R("2001:db8:0:1:8000::/65", 1)}),
            (Answers{0, 1, 0}));
  EXPECT_EQ(Three({R("2001:db8:0:1::/64", 1), R("2001:db8:0:1::/65", 2),
                   R("2001:db8:0:1::/66", 1), R("2001:db8:0:1:4000::/66", 1)}),
            (Answers{0, 1, 0}));
}

}  // namespace
}  // namespace planb
