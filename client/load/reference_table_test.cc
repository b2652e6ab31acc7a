// SPDX-License-Identifier: Apache-2.0

// The reference agrees with the oracle, which looks at every route.

#include "client/load/reference_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "client/load/probes.h"
#include "lpm/synthetic/synthetic.h"
#include "lpm/testing/oracle.h"

namespace planb::client {
namespace {

// Routes of few distinct bits, so that they nest deeply and every length
// occurs; both families.
std::vector<Route> NestedRoutes(std::mt19937_64& random, size_t count) {
  std::vector<Route> routes;
  for (size_t i = 0; i < count; ++i) {
    const bool v6 = random() % 2 == 0;
    const absl::uint128 bits = absl::MakeUint128(
        random() & random() & random(), random() & random() & random());
    const Family family = v6 ? Family::kIpv6 : Family::kIpv4;
    const Address address =
        v6 ? Address::V6(bits)
           : Address::V4(static_cast<uint32_t>(absl::Uint128High64(bits)));
    const auto length = static_cast<int>(
        random() % static_cast<uint64_t>(AddressBits(family) + 1));
    const Prefix prefix = Prefix::Truncate(address, length);
    const bool known =
        std::any_of(routes.begin(), routes.end(),
                    [&](const Route& route) { return route.prefix == prefix; });
    if (!known) {
      routes.push_back({prefix, static_cast<NextHopId>(1 + random() % 9)});
    }
  }
  return routes;
}

// The neighbours of both ends of a prefix, and the ends.
std::vector<Address> Edges(const Prefix& prefix) {
  const Family family = prefix.family();
  const absl::uint128 step = absl::uint128(1) << (128 - AddressBits(family));
  std::vector<Address> edges;
  for (const absl::uint128 bits : {prefix.first() - step, prefix.first(),
                                   prefix.last(), prefix.last() + step}) {
    edges.push_back(Address::FromBits(family, bits));  // may wrap: still valid
  }
  return edges;
}

TEST(ReferenceTable, AgreesWithTheOracle) {
  std::mt19937_64 random(20260730);
  int misses = 0;
  for (const size_t count : {1, 5, 40, 400}) {
    const std::vector<Route> routes = NestedRoutes(random, count);
    const ReferenceTable table(routes);
    const Oracle oracle(routes);
    for (const Route& route : routes) {
      for (const Address& address : Edges(route.prefix)) {
        const auto expected = oracle.Lookup(address);
        ASSERT_EQ(table.Lookup(address), expected) << address.ToString();
        ASSERT_EQ(table.NextHop(address),
                  expected.has_value() ? expected->next_hop : kNoRoute);
        if (!expected.has_value()) ++misses;
      }
    }
  }
  EXPECT_GT(misses, 0);  // or the test has not seen one
}

TEST(ReferenceTable, DefaultRoutesAndEmptiness) {
  const ReferenceTable empty({});
  EXPECT_EQ(empty.Lookup(*Address::Parse("::1")), std::nullopt);
  const ReferenceTable table({{*Prefix::Parse("::/0"), 3}});
  EXPECT_EQ(table.NextHop(*Address::Parse("::")), 3U);
  EXPECT_EQ(table.NextHop(Address::V6(absl::Uint128Max())), 3U);
  EXPECT_EQ(table.NextHop(*Address::Parse("1.2.3.4")), kNoRoute);
}

TEST(ReferenceTable, OfRepeatedPrefixesTheLastCounts) {
  const Prefix prefix = *Prefix::Parse("10.0.0.0/8");
  const ReferenceTable table({{prefix, 1}, {prefix, 2}});
  EXPECT_EQ(table.NextHop(*Address::Parse("10.0.0.1")), 2U);
}

TEST(ReferenceTable, HalvesAreDecidedWhereAllAddressesAgree) {
  const ReferenceTable table({{*Prefix::Parse("2001:db8::/32"), 1},
                              // Divides its half.
                              {*Prefix::Parse("2001:db8:0:1:8000::/65"), 2},
                              // Say what the /32 says.
                              {*Prefix::Parse("2001:db8:0:2::/127"), 1},
                              {*Prefix::Parse("2001:db8:0:2:8000::/65"), 1},
                              // Cover their half together.
                              {*Prefix::Parse("2001:db8:0:3::/65"), 3},
                              {*Prefix::Parse("2001:db8:0:3:8000::/65"), 3},
                              // The last address of a half differs.
                              {*Prefix::Parse("2001:db8:0:4:ffff:ffff:ffff:"
                                              "ffff/128"),
                               4},
                              {*Prefix::Parse("2001:db8:0:5::/64"), 5},
                              {*Prefix::Parse("ffff:ffff:ffff:ffff:ffff:ffff:"
                                              "ffff:ffff/128"),
                               6},
                              {*Prefix::Parse("0.0.0.0/0"), 7}});
  const auto half = [&](const char* text) {
    return table.NextHopOfHalf(*Address::Parse(text));
  };
  EXPECT_EQ(half("2001:db8::"), 1U);
  EXPECT_EQ(half("2001:db8:0:1::"), kUndecided);
  EXPECT_EQ(half("2001:db8:0:1:8000::"), kUndecided);
  EXPECT_EQ(half("2001:db8:0:2::"), 1U);
  EXPECT_EQ(half("2001:db8:0:3::1"), 3U);
  EXPECT_EQ(half("2001:db8:0:4::"), kUndecided);
  EXPECT_EQ(half("2001:db8:0:5::"), 5U);
  EXPECT_EQ(half("2001:db9::"), kNoRoute);
  EXPECT_EQ(half("ffff:ffff:ffff:ffff::"), kUndecided);
}

// Boundaries are probed on both sides, and nothing beyond a family's ends.

using ::testing::UnorderedElementsAre;

std::set<std::string> Boundaries(const char* prefix) {
  std::set<std::string> addresses;
  EXPECT_TRUE(VisitBoundaries({{*Prefix::Parse(prefix), 1}},
                              [&](const Address& address) {
                                addresses.insert(address.ToString());
                                return absl::OkStatus();
                              })
                  .ok());
  return addresses;
}

TEST(VisitBoundaries, BothSidesOfBothEnds) {
  EXPECT_THAT(Boundaries("192.0.2.0/24"),
              UnorderedElementsAre("192.0.1.255", "192.0.2.0", "192.0.2.1",
                                   "192.0.2.255", "192.0.3.0", "192.0.3.1"));
  EXPECT_THAT(Boundaries("2001:db8::1/128"),
              UnorderedElementsAre("2001:db8::", "2001:db8::1", "2001:db8::2",
                                   "2001:db8::3"));
}

TEST(VisitBoundaries, StaysWithinTheFamily) {
  EXPECT_THAT(Boundaries("0.0.0.0/0"),
              UnorderedElementsAre("0.0.0.0", "0.0.0.1", "255.255.255.255"));
  EXPECT_THAT(Boundaries("255.255.255.255/32"),
              UnorderedElementsAre("255.255.255.254", "255.255.255.255"));
  EXPECT_THAT(Boundaries("255.255.255.254/32"),
              UnorderedElementsAre("255.255.255.253", "255.255.255.254",
                                   "255.255.255.255"));
  EXPECT_THAT(Boundaries("::/128"), UnorderedElementsAre("::", "::1", "::2"));
  EXPECT_THAT(Boundaries("8000::/1"),
              UnorderedElementsAre("7fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
                                   "8000::", "8000::1",
                                   "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"));
}

TEST(VisitSamples, CountAndFamiliesAndSeed) {
  const auto routes = SyntheticTable({.ipv6_routes = 100, .ipv4_routes = 100});
  const auto sample = [&](size_t count, uint64_t seed) {
    std::vector<Address> addresses;
    EXPECT_TRUE(VisitSamples(routes, count, seed, [&](const Address& address) {
                  addresses.push_back(address);
                  return absl::OkStatus();
                }).ok());
    return addresses;
  };
  const std::vector<Address> some = sample(200'000, 3);
  EXPECT_EQ(some.size(), 200'000U);
  size_t v4 = 0;
  for (const Address& address : some) {
    if (address.family() == Family::kIpv4) ++v4;
  }
  EXPECT_GT(v4, some.size() / 4);
  EXPECT_LT(v4, some.size() * 3 / 4);
  EXPECT_EQ(sample(1000, 3), sample(1000, 3));
  EXPECT_NE(sample(1000, 3), sample(1000, 4));
}

TEST(VisitSamples, TheReceiverMayEndIt) {
  EXPECT_TRUE(absl::IsAborted(VisitSamples(
      {}, 10, 1, [](const Address&) { return absl::AbortedError("no"); })));
}

}  // namespace

}  // namespace planb::client
