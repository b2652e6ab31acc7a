#include "benchmarks/rivals/sweep.h"

#include <gtest/gtest.h>

#include <vector>

#include "lpm/prefix.h"

namespace planb::paper {
namespace {

using Intervals = std::vector<Interval>;

Route R(const char* prefix, NextHopId next_hop) {
  return {*Prefix::Parse(prefix), next_hop};
}

absl::uint128 At(const char* address) {
  return Address::Parse(address)->bits();
}

TEST(Sweep, NoRoutes) {
  for (Boundaries boundaries :
       {Boundaries::kAll, Boundaries::kDistinct, Boundaries::kMerged}) {
    EXPECT_EQ(Sweep({}, boundaries), (Intervals{{0, 0}}));
  }
}

// The paper's Algorithm 2, as printed, would answer 1 in the second route.
TEST(Sweep, EndsComeBeforeStarts) {
  const std::vector<Route> routes = {R("2001:db8:ffff::/48", 1),
                                     R("2001:db9::/32", 2)};
  EXPECT_EQ(Sweep(routes, Boundaries::kAll),
            (Intervals{{0, 0},
                       {At("2001:db8:ffff::"), 1},
                       {At("2001:db9::"), 0},
                       {At("2001:db9::"), 2},
                       {At("2001:dba::"), 0}}));
  EXPECT_EQ(Sweep(routes, Boundaries::kDistinct),
            (Intervals{{0, 0},
                       {At("2001:db8:ffff::"), 1},
                       {At("2001:db9::"), 2},
                       {At("2001:dba::"), 0}}));
}

TEST(Sweep, MergesOnlyWhenAsked) {
  const std::vector<Route> routes = {R("10.0.0.0/8", 1), R("10.1.0.0/16", 1),
                                     R("11.0.0.0/8", 1)};
  EXPECT_EQ(Sweep(routes, Boundaries::kDistinct).size(), 6U);
  EXPECT_EQ(Sweep(routes, Boundaries::kAll).size(), 7U);
  EXPECT_EQ(Sweep(routes, Boundaries::kMerged),
            (Intervals{{0, 0}, {At("10.0.0.0"), 1}, {At("12.0.0.0"), 0}}));
}

TEST(Sweep, WhatReachesTheEndHasNoEnd) {
  const std::vector<Route> routes = {R("::/0", 1), R("ffff::/16", 2)};
  for (Boundaries boundaries :
       {Boundaries::kAll, Boundaries::kDistinct, Boundaries::kMerged}) {
    EXPECT_EQ(Sweep(routes, boundaries),
              (Intervals{{0, 1}, {At("ffff::"), 2}}));
  }
}

}  // namespace
}  // namespace planb::paper
