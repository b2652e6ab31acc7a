// SPDX-License-Identifier: Apache-2.0

// Small worlds, exhaustively: every set of routes, every address where an
// answer can change, every kernel, whole addresses and upper halves.
//
// Worlds with bits on both sides of bit 12, 48, 64, 80 or 112 make the root,
// the tables and the descriptors of the search take part.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "lpm/fib/fib.h"
#include "lpm/synthetic/random.h"
#include "lpm/testing/fib_check.h"
#include "lpm/testing/oracle.h"
#include "lpm/testing/random_tables.h"

namespace planb {
namespace {

// Tries tables of one world against the oracle.
class WorldChecker {
 public:
  explicit WorldChecker(const SmallWorld& world)
      : family_(world.family),
        prefixes_(PrefixesOf(world)),
        probes_(ProbesOf(world)) {}

  const std::vector<Prefix>& prefixes() const { return prefixes_; }

  // The table has prefixes()[i] -> next_hops[i], except where that is 0.
  void Check(absl::Span<const NextHopId> next_hops) {
    std::vector<Route> routes;
    for (size_t i = 0; i < prefixes_.size(); ++i) {
      if (next_hops[i] != kNoRoute) {
        routes.push_back({prefixes_[i], next_hops[i]});
      }
    }
    std::sort(routes.begin(), routes.end());
    const auto fib = Fib::Build(family_, routes).value();
    const Oracle oracle(routes);
    expected_.clear();
    for (const Address& probe : probes_) {
      const auto route = oracle.Lookup(probe);
      expected_.push_back(route ? route->next_hop : kNoRoute);
    }
    ExpectAnswers(*fib, probes_, expected_);
    EXPECT_EQ(UpperDifferences(*fib, routes, probes_), "");
    if (testing::Test::HasFailure()) {
      FAIL() << "with next hops " << absl::StrJoin(next_hops, ",");
    }
  }

 private:
  const Family family_;
  const std::vector<Prefix> prefixes_;
  const std::vector<Address> probes_;
  std::vector<NextHopId> expected_;
};

class FibSmallWorld : public testing::TestWithParam<SmallWorld> {};

// Every prefix is absent or has one of as many next hops as fit: with two
// varying bits 4^7 tables, so every way for neighbours to merge or not.
TEST_P(FibSmallWorld, EveryTable) {
  WorldChecker checker(GetParam());
  const size_t prefixes = checker.prefixes().size();
  const size_t choices = prefixes <= 7 ? 4 : 2;
  std::vector<NextHopId> next_hops(prefixes, kNoRoute);
  size_t tables = 0;
  size_t digit = 0;
  while (digit < prefixes) {
    checker.Check(next_hops);
    if (HasFatalFailure()) return;
    ++tables;
    // Count up. A lone choice is a next hop of the prefix's own.
    for (digit = 0; digit < prefixes; ++digit) {
      NextHopId& next_hop = next_hops[digit];
      const auto last =
          static_cast<NextHopId>(choices == 2 ? digit + 1 : choices - 1);
      if (next_hop != last) {
        next_hop = choices == 2 ? last : next_hop + 1;
        break;
      }
      next_hop = kNoRoute;
    }
  }
  size_t expected_tables = 1;
  for (size_t i = 0; i < prefixes; ++i) expected_tables *= choices;
  EXPECT_EQ(tables, expected_tables);
}

// Again every set of prefixes, with next hops drawn from two: most neighbours
// merge.
TEST_P(FibSmallWorld, EverySetWithTwoNextHops) {
  WorldChecker checker(GetParam());
  const size_t prefixes = checker.prefixes().size();
  Random random(1);
  std::vector<NextHopId> next_hops(prefixes);
  for (size_t set = 0; set < size_t{1} << prefixes; ++set) {
    for (size_t i = 0; i < prefixes; ++i) {
      const auto next_hop = static_cast<NextHopId>(1 + random.Below(2));
      next_hops[i] = (set >> i) & 1 ? next_hop : kNoRoute;
    }
    checker.Check(next_hops);
    if (HasFatalFailure()) return;
  }
}

const std::vector<std::string>& V6Bases() {
  static const auto* const bases = new std::vector<std::string>{
      "::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
      "2001:db8:5555:aaaa:8000:0:7fff:ffff"};
  return *bases;
}

const std::vector<std::string>& V4Bases() {
  static const auto* const bases = new std::vector<std::string>{
      "0.0.0.0", "255.255.255.255", "192.0.127.128"};
  return *bases;
}

// At the top, across the edges of the structure, at the bottom, scattered.
INSTANTIATE_TEST_SUITE_P(Ipv6TwoBits, FibSmallWorld,
                         testing::ValuesIn(SmallWorlds(Family::kIpv6,
                                                       {{0, 1},
                                                        {11, 12},
                                                        {47, 48},
                                                        {48, 49},
                                                        {62, 63},
                                                        {63, 64},
                                                        {64, 65},
                                                        {79, 80},
                                                        {111, 112},
                                                        {126, 127},
                                                        {47, 63},
                                                        {47, 64},
                                                        {63, 127},
                                                        {64, 127},
                                                        {47, 90},
                                                        {0, 127}},
                                                       V6Bases())));

INSTANTIATE_TEST_SUITE_P(Ipv6ThreeBits, FibSmallWorld,
                         testing::ValuesIn(SmallWorlds(Family::kIpv6,
                                                       {{0, 1, 2},
                                                        {61, 62, 63},
                                                        {62, 63, 64},
                                                        {63, 64, 65},
                                                        {64, 65, 66},
                                                        {47, 48, 64},
                                                        {47, 63, 127},
                                                        {48, 63, 64},
                                                        {50, 64, 100},
                                                        {62, 64, 66},
                                                        {125, 126, 127},
                                                        {0, 63, 127}},
                                                       V6Bases())));

INSTANTIATE_TEST_SUITE_P(
    Ipv4TwoBits, FibSmallWorld,
    testing::ValuesIn(SmallWorlds(Family::kIpv4,
                                  {{0, 1}, {15, 16}, {30, 31}, {0, 31}},
                                  V4Bases())));

INSTANTIATE_TEST_SUITE_P(
    Ipv4ThreeBits, FibSmallWorld,
    testing::ValuesIn(SmallWorlds(Family::kIpv4,
                                  {{0, 1, 2}, {23, 24, 25}, {29, 30, 31}},
                                  V4Bases())));

// The worlds are what they claim to be.
TEST(World, HasAllItsPrefixesAndNoOther) {
  std::vector<std::string> texts;
  for (const Prefix& prefix :
       PrefixesOf(SmallWorlds(Family::kIpv6, {{63, 64}}, {"2001:db8::1"})[0])) {
    texts.push_back(prefix.ToString());
  }
  EXPECT_THAT(texts, testing::UnorderedElementsAre(
                         "2001:db8::/63", "2001:db8::/64", "2001:db8:0:1::/64",
                         "2001:db8::/65", "2001:db8:0:0:8000::/65",
                         "2001:db8:0:1::/65", "2001:db8:0:1:8000::/65"));
}

// Small worlds, exhaustively, in motion: from every table to every other, by
// one change and by one batch, and every history of a few changes. After each
// update every kernel must answer as the oracle does, and versions of long ago
// must answer as they did.

using State = WorldTable::State;

// The digits as next hops: as they are, or as wide as next hops get.
NextHopId NextHop(NextHopId digit, bool wide) {
  return wide && digit != 0 ? kUndecided - digit : digit;
}
State NextHops(State digits, bool wide) {
  for (NextHopId& digit : digits) digit = NextHop(digit, wide);
  return digits;
}

// In every table where each prefix has one of `values` (none, 1, 2, ...): every
// change, made and taken back.
void EveryChangeToEveryTable(WorldTable& table, NextHopId values, bool wide) {
  State digits(table.size());
  do {
    table.Go(NextHops(digits, wide));
    for (size_t i = 0; i < table.size(); ++i) {
      for (NextHopId value = 0; value < values; ++value) {
        if (value == digits[i]) continue;
        table.Set(i, NextHop(value, wide));
        table.Set(i, NextHop(digits[i], wide));
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  } while (NextState(digits, values));
}

// Three prefixes: small enough for every table to become every other in one
// batch, at every bit of the address.
class OneBit : public testing::TestWithParam<SmallWorld> {};

TEST_P(OneBit, FromEveryTableToEveryOther) {
  WorldTable table(GetParam());
  const bool wide = GetParam().positions[0] % 2 == 1;
  State from(table.size()), to(table.size());
  do {
    do {
      table.Go(NextHops(from, wide));
      table.Go(NextHops(to, wide));
      if (HasFatalFailure()) return;
    } while (NextState(to, 3));
  } while (NextState(from, 3));
}

// Seven prefixes.
class TwoBits : public testing::TestWithParam<SmallWorld> {};

TEST_P(TwoBits, EveryChangeToEverySet) {
  WorldTable table(GetParam());
  EveryChangeToEveryTable(table, 2, GetParam().positions[0] % 2 == 1);
}

TEST_P(TwoBits, EveryHistoryOfTwoChanges) {
  WorldTable table(GetParam());
  for (size_t first = 0; first < table.size(); ++first) {
    for (size_t second = 0; second < table.size(); ++second) {
      for (NextHopId value = 0; value < 3; ++value) {
        table.Restart();
        table.Set(first, 1);
        table.Set(second, value);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Among routes that fill the slots and partitions that the world lies in.
TEST_P(TwoBits, EveryChangeToEverySetInACrowd) {
  const Prefix inside = PrefixesOf(GetParam()).back();
  for (const int above : {3, 9, 17}) {
    const int top = std::max(0, inside.length() - above);
    std::vector<Prefix> crowd =
        PrefixesBelow(Prefix::Truncate(inside.address(), top), 60,
                      static_cast<uint64_t>(inside.length()));
    const std::vector<Prefix> beside =
        Siblings(inside.address(), top + 1, inside.length());
    crowd.insert(crowd.end(), beside.begin(), beside.end());
    std::sort(crowd.begin(), crowd.end());
    crowd.erase(std::unique(crowd.begin(), crowd.end()), crowd.end());
    std::vector<Route> routes;
    for (const Prefix& prefix : crowd) {
      routes.push_back({prefix, static_cast<NextHopId>(1 + routes.size() % 3)});
    }
    WorldTable table(GetParam(), routes);
    State digits(table.size());
    do {
      table.Go(digits);
      if (HasFatalFailure()) FAIL() << "the crowd is below /" << top;
    } while (NextState(digits, 2));
  }
}

class TwoBitsDeeply : public testing::TestWithParam<SmallWorld> {};

TEST_P(TwoBitsDeeply, EveryChangeToEveryTable) {
  WorldTable table(GetParam());
  EveryChangeToEveryTable(table, 3, false);
}

TEST_P(TwoBitsDeeply, EveryHistoryOfThreeChanges) {
  WorldTable table(GetParam());
  const size_t changes = 3 * table.size();
  for (size_t history = 0; history < changes * changes * changes; ++history) {
    table.Restart();
    size_t rest = history;
    for (int n = 0; n < 3; ++n, rest /= changes) {
      table.Set(rest % changes / 3, static_cast<NextHopId>(rest % changes % 3));
    }
    if (HasFatalFailure()) return;
  }
}

// Fifteen prefixes whose bits lie far apart, one in each stage of a search.
class ThreeBits : public testing::TestWithParam<SmallWorld> {};

TEST_P(ThreeBits, AWalkOverTheTables) {
  WorldTable table(GetParam());
  Random random(1);
  for (int step = 0; step < 3000; ++step) {
    table.Set(random.Below(table.size()),
              static_cast<NextHopId>(random.Below(3)));
    if (HasFatalFailure()) FAIL() << "step " << step;
  }
}

// The bits at which a search structure may go from one part to the next.
const std::vector<int>& V6Edges() {
  static const auto* const edges = new std::vector<int>{
      0, 3, 12, 16, 24, 25, 32, 40, 48, 49, 64, 80, 112, 128};
  return *edges;
}
const std::vector<int>& V4Edges() {
  static const auto* const edges =
      new std::vector<int>{0, 8, 12, 16, 20, 24, 25, 32};
  return *edges;
}

std::vector<std::vector<int>> EveryPosition(Family family) {
  std::vector<std::vector<int>> positions;
  for (int i = 0; i < AddressBits(family); ++i) positions.push_back({i});
  return positions;
}

const std::vector<std::string>& ChangingV6Bases() {
  static const auto* const bases = new std::vector<std::string>{
      "::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
      "2001:db8:5555:aaaa:8000:0:7fff:ffff",
      "3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"};
  return *bases;
}

std::vector<SmallWorld> Both(std::vector<SmallWorld> v6,
                             const std::vector<SmallWorld>& v4) {
  v6.insert(v6.end(), v4.begin(), v4.end());
  return v6;
}

std::string Name(const testing::TestParamInfo<SmallWorld>& info) {
  return SmallWorldName(info.param);
}

INSTANTIATE_TEST_SUITE_P(
    EveryBit, OneBit,
    testing::ValuesIn(Both(
        SmallWorlds(Family::kIpv6, EveryPosition(Family::kIpv6),
                    {ChangingV6Bases()[1], ChangingV6Bases()[2]}),
        SmallWorlds(Family::kIpv4, EveryPosition(Family::kIpv4), V4Bases()))),
    Name);

INSTANTIATE_TEST_SUITE_P(
    EveryEdge, TwoBits,
    testing::ValuesIn(Both(
        SmallWorlds(Family::kIpv6, PositionsAround(Family::kIpv6, V6Edges(), 2),
                    ChangingV6Bases()),
        SmallWorlds(Family::kIpv4, PositionsAround(Family::kIpv4, V4Edges(), 2),
                    V4Bases()))),
    Name);

INSTANTIATE_TEST_SUITE_P(
    SomeEdges, TwoBitsDeeply,
    testing::ValuesIn(Both(SmallWorlds(Family::kIpv6,
                                       {{15, 16},
                                        {23, 24},
                                        {31, 48},
                                        {47, 48},
                                        {48, 49},
                                        {47, 64},
                                        {62, 63},
                                        {63, 64},
                                        {64, 65},
                                        {63, 127},
                                        {79, 80},
                                        {126, 127}},
                                       {ChangingV6Bases()[2]}),
                           SmallWorlds(Family::kIpv4,
                                       {{15, 16}, {23, 24}, {30, 31}},
                                       {V4Bases()[2]}))),
    Name);

INSTANTIATE_TEST_SUITE_P(
    FarApart, ThreeBits,
    testing::ValuesIn(Both(SmallWorlds(Family::kIpv6,
                                       {{0, 63, 127},
                                        {47, 63, 64},
                                        {48, 63, 127},
                                        {62, 64, 66},
                                        {63, 64, 65},
                                        {15, 31, 47},
                                        {20, 50, 90},
                                        {47, 80, 112},
                                        {2, 3, 60},
                                        {24, 47, 48},
                                        {64, 96, 127}},
                                       ChangingV6Bases()),
                           SmallWorlds(Family::kIpv4,
                                       {{0, 15, 31}, {7, 19, 24}}, V4Bases()))),
    Name);

}  // namespace
}  // namespace planb
