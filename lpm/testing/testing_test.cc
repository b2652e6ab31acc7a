// SPDX-License-Identifier: Apache-2.0

// Tests of what the engine's tests use: the oracle, the count of cache lines
// that a lookup reads, and the count of instructions.

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
#include "lpm/synthetic/reference_table.h"
#include "lpm/testing/fib_check.h"
#include "lpm/testing/golden_tables.h"
#include "lpm/testing/instruction_count.h"
#include "lpm/testing/oracle.h"
#include "lpm/testing/random_tables.h"

namespace planb {
namespace {

// "PREFIX NEXTHOP" of the matched route, or "none".
std::string Ask(const Oracle& oracle, absl::string_view address) {
  const auto route = oracle.Lookup(Address::Parse(address).value());
  return route ? absl::StrCat(route->prefix.ToString(), " ", route->next_hop)
               : "none";
}

constexpr absl::string_view kOnes = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";

TEST(Oracle, ByHand) {
  struct Question {
    absl::string_view address, answer;
  };
  const struct {
    std::vector<Route> routes;
    std::vector<Question> questions;
  } kCases[] = {
      {{}, {{"::", "none"}, {"0.0.0.0", "none"}}},
      // The longest wins.
      {{R("2001:db8::/32", 1), R("2001:db8::/48", 2), R("2001:db8::1/128", 3)},
       {{"2001:db8::1", "2001:db8::1/128 3"},
        {"2001:db8::", "2001:db8::/48 2"},
        {"2001:db8::2", "2001:db8::/48 2"},
        {"2001:db8:0:ffff:ffff:ffff:ffff:ffff", "2001:db8::/48 2"},
        {"2001:db8:1::", "2001:db8::/32 1"},
        {"2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db8::/32 1"},
        {"2001:db9::", "none"},
        {"2001:db7:ffff:ffff:ffff:ffff:ffff:ffff", "none"}}},
      // The default route matches the rest.
      {{R("::/0", 9), R("ffff::/16", 1)},
       {{"::", "::/0 9"},
        {"fffe:ffff::", "::/0 9"},
        {"ffff::", "ffff::/16 1"},
        {kOnes, "ffff::/16 1"}}},
      // Neighbours do not leak into each other.
      {{R("2001:db8:ffff::/48", 1), R("2001:db9::/32", 2)},
       {{"2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db8:ffff::/48 1"},
        {"2001:db9::", "2001:db9::/32 2"},
        {"2001:db9::1", "2001:db9::/32 2"},
        {"2001:db8:fffe:ffff::", "none"}}},
      // Hosts at both ends of the address space.
      {{R("::/128", 1), R(absl::StrCat(kOnes, "/128"), 2), R("0.0.0.0/32", 3),
        R("255.255.255.255/32", 4)},
       {{"::", "::/128 1"},
        {"::1", "none"},
        {kOnes, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128 2"},
        {"ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe", "none"},
        {"0.0.0.0", "0.0.0.0/32 3"},
        {"0.0.0.1", "none"},
        {"255.255.255.255", "255.255.255.255/32 4"},
        {"255.255.255.254", "none"}}},
      // Families are apart. Left-aligned, a00:: and 10.0.0.0 have the same
      // bits.
      {{R("10.0.0.0/8", 1), R("a00::/8", 2), R("0.0.0.0/0", 3)},
       {{"10.1.2.3", "10.0.0.0/8 1"},
        {"a01::", "a00::/8 2"},
        {"11.0.0.0", "0.0.0.0/0 3"},
        {"b00::", "none"},
        {"::ffff:10.1.2.3", "none"}}},
      // Next hops are not interpreted.
      {{R("10.0.0.0/8", 0xffffffff), R("11.0.0.0/8", 1U << 31)},
       {{"10.0.0.0", "10.0.0.0/8 4294967295"},
        {"11.0.0.0", "11.0.0.0/8 2147483648"}}},
  };
  for (const auto& [routes, questions] : kCases) {
    // In any order of the routes.
    for (const Oracle& oracle :
         {Oracle(routes), Oracle({routes.rbegin(), routes.rend()})}) {
      for (const auto& [address, answer] : questions) {
        EXPECT_EQ(Ask(oracle, address), answer) << address;
      }
    }
  }
}

TEST(ReferenceTable, AgreesWithTheOracle) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<Route> routes;
    for (const Family family : {Family::kIpv4, Family::kIpv6}) {
      for (const Route& route :
           RandomRoutes({.family = family, .count = 150, .seed = seed})) {
        routes.push_back(route);
      }
    }
    const ReferenceTable table(routes);
    const Oracle oracle(routes);
    const std::vector<Address> probes = BoundaryProbes(routes);
    for (const Address& probe : probes) {
      ASSERT_EQ(table.Lookup(probe), oracle.Lookup(probe)) << probe.ToString();
    }
    ASSERT_EQ(table.NextHops(probes), AnswersByOracle(routes, probes));
  }
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

// The cache lines that lookups read stay within the promised bound.

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

// Tables of a structure known by hand.
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
  // with an id too large for a value.
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

// Without this test, every one above could be skipped for no reason.
TEST(InstructionCount, CountsOrSaysWhyNot) {
  const auto count = CountInstructions([] {});
  if (!count.ok()) {
    EXPECT_EQ(count.status().code(), absl::StatusCode::kUnimplemented);
    EXPECT_NE(count.status().message(), "");
  }
}

}  // namespace
}  // namespace planb
