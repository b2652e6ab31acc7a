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
#include "lpm/testing/small_world.h"

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

}  // namespace
}  // namespace planb
