#include "lpm/interval.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace planb {
namespace {

Prefix P(absl::string_view text) { return *Prefix::Parse(text); }

absl::uint128 A(absl::string_view text) { return Address::Parse(text)->bits(); }

TEST(ElementaryIntervals, OfNoRoutesIsTheWholeSpaceWithoutARoute) {
  EXPECT_EQ(ElementaryIntervals({}), (std::vector<Interval>{{0, kNoRoute}}));
}

TEST(ElementaryIntervals, DefaultRouteCoversEverything) {
  EXPECT_EQ(ElementaryIntervals({{P("::/0"), 7}}),
            (std::vector<Interval>{{0, 7}}));
  EXPECT_EQ(ElementaryIntervals({{P("0.0.0.0/0"), 7}}),
            (std::vector<Interval>{{0, 7}}));
}

TEST(ElementaryIntervals, ReturnToTheEnclosingPrefix) {
  EXPECT_EQ(
      ElementaryIntervals({{P("2001:db8::/32"), 1}, {P("2001:db8:1::/48"), 2}}),
      (std::vector<Interval>{{0, kNoRoute},
                             {A("2001:db8::"), 1},
                             {A("2001:db8:1::"), 2},
                             {A("2001:db8:2::"), 1},
                             {A("2001:db9::"), kNoRoute}}));
}

// The paper's Algorithm 2, taken literally, answers 1 in 2001:db9::/32.
TEST(ElementaryIntervals, EndsComeBeforeStartsAtOneAddress) {
  EXPECT_EQ(ElementaryIntervals(
                {{P("2001:db8:ffff::/48"), 1}, {P("2001:db9::/32"), 2}}),
            (std::vector<Interval>{{0, kNoRoute},
                                   {A("2001:db8:ffff::"), 1},
                                   {A("2001:db9::"), 2},
                                   {A("2001:dba::"), kNoRoute}}));
}

TEST(ElementaryIntervals, NothingStartsBehindTheLastAddress) {
  EXPECT_EQ(ElementaryIntervals({{P("ff00::/8"), 1}, {P("ffff::/16"), 2}}),
            (std::vector<Interval>{
                {0, kNoRoute}, {A("ff00::"), 1}, {A("ffff::"), 2}}));
  EXPECT_EQ(ElementaryIntervals({{P("255.255.255.255/32"), 3}}),
            (std::vector<Interval>{{0, kNoRoute}, {A("255.255.255.255"), 3}}));
}

TEST(ElementaryIntervals, NeighboursWithOneNextHopAreMerged) {
  EXPECT_EQ(ElementaryIntervals({{P("10.0.0.0/8"), 1},
                                 {P("10.0.0.0/9"), 1},
                                 {P("10.128.0.0/9"), 1},
                                 {P("11.0.0.0/8"), 1}}),
            (std::vector<Interval>{
                {0, kNoRoute}, {A("10.0.0.0"), 1}, {A("12.0.0.0"), kNoRoute}}));
}

TEST(ElementaryIntervals, StackHoldsAllLengthsAtOnce) {
  std::vector<Route> routes;
  for (int length = 0; length <= 128; ++length) {
    routes.push_back({Prefix::Truncate(*Address::Parse("::"), length),
                      static_cast<NextHopId>(length + 1)});
  }
  const std::vector<Interval> intervals = ElementaryIntervals(routes);
  ASSERT_EQ(intervals.size(), 129U);
  EXPECT_EQ(intervals.front(), (Interval{0, 129}));
  EXPECT_EQ(intervals.back(), (Interval{absl::uint128(1) << 127, 1}));
  EXPECT_TRUE(std::is_sorted(
      intervals.begin(), intervals.end(),
      [](const Interval& a, const Interval& b) { return a.start < b.start; }));
}

TEST(ElementaryIntervalsDeathTest, RefusesUnsortedRoutes) {
  EXPECT_DEATH(
      ElementaryIntervals({{P("11.0.0.0/8"), 1}, {P("10.0.0.0/8"), 1}}),
      "ascend");
  EXPECT_DEATH(
      ElementaryIntervals({{P("10.0.0.0/8"), 1}, {P("10.0.0.0/8"), 1}}),
      "ascend");
  EXPECT_DEATH(ElementaryIntervals({{P("10.0.0.0/8"), 0}}), "reserved");
}

}  // namespace
}  // namespace planb
