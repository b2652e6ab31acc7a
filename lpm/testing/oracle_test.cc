// The oracle against answers worked out by hand.

#include "lpm/testing/oracle.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

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

TEST(Oracle, LongestWinsWhateverTheOrder) {
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

}  // namespace
}  // namespace planb
