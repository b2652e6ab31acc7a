// SPDX-License-Identifier: Apache-2.0

// Small worlds, exhaustively, in motion: from every table to every other, by
// one change and by one batch, and every history of a few changes. After each
// update every kernel must answer as the oracle does, and versions of long ago
// must answer as they did.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "lpm/synthetic/random.h"
#include "lpm/testing/hard_prefixes.h"
#include "lpm/testing/small_world.h"

namespace planb {
namespace {

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

const std::vector<std::string>& V6Bases() {
  static const auto* const bases = new std::vector<std::string>{
      "::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
      "2001:db8:5555:aaaa:8000:0:7fff:ffff",
      "3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"};
  return *bases;
}
const std::vector<std::string>& V4Bases() {
  static const auto* const bases = new std::vector<std::string>{
      "0.0.0.0", "255.255.255.255", "192.0.127.128"};
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
                    {V6Bases()[1], V6Bases()[2]}),
        SmallWorlds(Family::kIpv4, EveryPosition(Family::kIpv4), V4Bases()))),
    Name);

INSTANTIATE_TEST_SUITE_P(
    EveryEdge, TwoBits,
    testing::ValuesIn(Both(
        SmallWorlds(Family::kIpv6, PositionsAround(Family::kIpv6, V6Edges(), 2),
                    V6Bases()),
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
                                       {V6Bases()[2]}),
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
                                       V6Bases()),
                           SmallWorlds(Family::kIpv4,
                                       {{0, 15, 31}, {7, 19, 24}}, V4Bases()))),
    Name);

}  // namespace
}  // namespace planb
