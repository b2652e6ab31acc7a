// The reference agrees with the oracle, which looks at every route.

#include "client/load/reference_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

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

}  // namespace
}  // namespace planb::client
