// SPDX-License-Identifier: Apache-2.0

// What the engine's tests stand on: the oracle, the lines that a lookup reads,
// and the count of instructions.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/numeric/int128.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "lpm/fib/fib.h"
#include "lpm/testing/fib_check.h"
#include "lpm/testing/golden_tables.h"
#include "lpm/testing/instruction_count.h"
#include "lpm/testing/oracle.h"
#include "lpm/testing/random_tables.h"

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

// The cache lines that lookups read. Reported, and held to what is promised.

TEST(WalkLines, FindWhatLookupsFind) {
  for (const GoldenTable& table : GoldenTables()) {
    const auto fib = Fib::Build(table.family, table.routes).value();
    std::vector<Address> addresses = BoundaryProbes(table.routes);
    addresses.resize(40'000, FirstAddress(table.routes[0].prefix));
    std::vector<NextHopId> found;
    for (const Address& address : addresses) {
      found.push_back(WalkLines(*fib, address).next_hop);
    }
    SCOPED_TRACE(std::string(table.name));
    ExpectAnswers(*fib, addresses, found);
  }
}

TEST(WalkLines, NoMoreThanPromised) {
  for (const GoldenTable& table : GoldenTables()) {
    const auto fib = Fib::Build(table.family, table.routes).value();
    const size_t most = MostLines(fib->Stats());
    const LinesRead lines = CountLines(*fib, GoldenTrace(table, 20'000));
    const std::string text =
        absl::StrFormat("mean %.3f, p99 %d, max %d, at most %d", lines.mean,
                        lines.p99, lines.max, most);
    std::cout << table.name << ": cache lines a lookup: " << text << "\n";
    RecordProperty(std::string(table.name), text);
    EXPECT_LE(lines.max, most) << table.name;
    EXPECT_GE(lines.max, 3U) << table.name << ": no walk got to a leaf";
  }
}

// By hand, where the structure leaves no choice.
TEST(WalkLines, KnownWays) {
  const Address network = Address::V6(absl::uint128(0x2001) << 112);
  const Address host = Address::V6(network.bits() | 0x12345678);

  const auto nothing = Fib::Build(Family::kIpv6, {}).value();
  EXPECT_EQ(WalkLines(*nothing, host).lines, 1U) << "the root";
  EXPECT_EQ(WalkLines(*nothing, host).next_hop, kNoRoute);

  // Root, first table, separators, leaf; or the root alone where it is far.
  const auto one =
      Fib::Build(Family::kIpv6, {{Prefix::Truncate(network, 48), 7}}).value();
  EXPECT_EQ(WalkLines(*one, host).lines, 4U);
  EXPECT_EQ(WalkLines(*one, host).next_hop, 7U);
  EXPECT_EQ(WalkLines(*one, Address::V6(1)).lines, 1U);

  // And a descriptor, which skips what no prefix decides on, and a next hop
  // whose id is too large for a value.
  const auto longest =
      Fib::Build(Family::kIpv6, {{Prefix::Truncate(host, 128), ~1U}}).value();
  EXPECT_EQ(WalkLines(*longest, host).lines, 6U);
  EXPECT_EQ(WalkLines(*longest, host).next_hop, ~1U);
  EXPECT_EQ(WalkLines(*longest, NextAddress(host)).next_hop, kNoRoute);
}

// Counts of instructions that can be counted by hand.

class InstructionCountTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto nothing = CountInstructions([] {});
    if (!nothing.ok()) GTEST_SKIP() << nothing.status().message();
  }
};

#if defined(__x86_64__)

// The same function with and without what is to be counted: the difference
// leaves out what the compiler puts around it.
TEST_F(InstructionCountTest, StraightCode) {
  const uint64_t none = *CountInstructions([] { __asm__ volatile(""); });
  EXPECT_LE(none, 8U) << "a frame at most";
  EXPECT_EQ(*CountInstructions([] { __asm__ volatile("nop"); }), none + 1);
  EXPECT_EQ(*CountInstructions(
                [] { __asm__ volatile(".rept 1000\n\tnop\n\t.endr"); }),
            none + 1000);
}

TEST_F(InstructionCountTest, Loop) {
  for (const uint64_t turns : {1, 2, 3, 1000}) {
    const auto region = [turns] {
      uint64_t left = turns;
      __asm__ volatile("1: dec %0\n\tnop\n\tjnz 1b" : "+r"(left) : : "cc");
    };
    const auto twice = [turns] {
      uint64_t left = 2 * turns;
      __asm__ volatile("1: dec %0\n\tnop\n\tjnz 1b" : "+r"(left) : : "cc");
    };
    // The one has an addition more than the other.
    EXPECT_NEAR(static_cast<double>(*CountInstructions(twice)),
                static_cast<double>(*CountInstructions(region) + 3 * turns), 1)
        << turns;
  }
}

TEST_F(InstructionCountTest, RepeatedInstructionIsOne) {
  std::vector<char> from(3000, 'x'), to(3000), filled(3000);
  const auto move = [&](size_t bytes) {
    void* destination = to.data();
    const void* source = from.data();
    __asm__ volatile("rep movsb"
                     : "+D"(destination), "+S"(source), "+c"(bytes)
                     :
                     : "memory");
    return static_cast<char*>(destination) == to.data() + to.size();
  };
  const auto fill = [&](size_t words) {
    void* destination = filled.data();
    __asm__ volatile("rep stosq"
                     : "+D"(destination), "+c"(words)
                     : "a"(uint64_t{0x7878787878787878})
                     : "memory");
  };
  bool all = false;
  const uint64_t one = *CountInstructions([&] { all = move(1); });
  EXPECT_FALSE(all);
  EXPECT_EQ(*CountInstructions([&] { all = move(3000); }), one);
  EXPECT_TRUE(all) << "registers are as if it had been done in steps";
  EXPECT_EQ(to, from);
  EXPECT_EQ(*CountInstructions([&] { fill(1); }),
            *CountInstructions([&] { fill(375); }));
  EXPECT_EQ(filled, from);
}

TEST_F(InstructionCountTest, SameEveryTime) {
  std::string text;
  const auto region = [&text] {
    text.assign(100, 'a');
    for (char& c : text) c = static_cast<char>(c + (text.size() & 7));
  };
  region();
  const uint64_t first = *CountInstructions(region);
  EXPECT_GE(first, 100U);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(*CountInstructions(region), first);
}

#endif  // defined(__x86_64__)

// Else every test above may be skipped for no reason.
TEST(InstructionCount, CountsOrSaysWhyNot) {
  const auto count = CountInstructions([] {});
  if (!count.ok()) {
    EXPECT_EQ(count.status().code(), absl::StatusCode::kUnimplemented);
    EXPECT_NE(count.status().message(), "");
  }
}

}  // namespace
}  // namespace planb
