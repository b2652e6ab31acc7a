// SPDX-License-Identifier: Apache-2.0

#include "benchmarks/rivals/paper.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
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

// The definition of the search: the last interval that does not start later.
NextHopId Expected(const Intervals& intervals, absl::uint128 bits) {
  const auto after = std::upper_bound(
      intervals.begin(), intervals.end(), bits,
      [](absl::uint128 key, const Interval& i) { return key < i.start; });
  return std::prev(after)->next_hop;
}

// `count` intervals at random starts that agree in all but `bits` bits, some
// in the lower half if `bits` exceeds 64.
Intervals RandomIntervals(Family family, size_t count,
                          std::mt19937_64& random) {
  Intervals intervals = {{0, 1}};
  while (intervals.size() < count) {
    absl::uint128 start = absl::MakeUint128(random(), 0);
    if (family == Family::kIpv4) start = start >> 96 << 96;
    if (family == Family::kIpv6 && random() % 8 == 0) start |= random();
    intervals.push_back({start, 0});
    if (family == Family::kIpv6 && random() % 16 == 0) {
      intervals.push_back({start + 1 + random() % 3, 0});
    }
  }
  intervals.push_back({absl::Uint128Max() << (128 - AddressBits(family)), 0});
  std::sort(
      intervals.begin(), intervals.end(),
      [](const Interval& a, const Interval& b) { return a.start < b.start; });
  intervals.erase(std::unique(intervals.begin(), intervals.end(),
                              [](const Interval& a, const Interval& b) {
                                return a.start == b.start;
                              }),
                  intervals.end());
  NextHopId next_hop = 0;
  for (Interval& interval : intervals) {
    interval.next_hop = next_hop;
    next_hop = next_hop == 0x7ffffff3 ? 0 : 0x7ffffff0 + (next_hop + 1) % 4;
  }
  return intervals;
}

// Every start, its neighbours, and as many random addresses.
std::vector<Address> Probes(Family family, const Intervals& intervals,
                            std::mt19937_64& random) {
  const absl::uint128 one = absl::uint128(1) << (128 - AddressBits(family));
  const absl::uint128 mask = absl::Uint128Max() << (128 - AddressBits(family));
  std::vector<Address> probes;
  for (const Interval& interval : intervals) {
    for (absl::uint128 bits :
         {interval.start - one, interval.start, interval.start + one,
          absl::MakeUint128(random(), random())}) {
      probes.push_back(Address::FromBits(family, bits & mask));
    }
  }
  return probes;
}

class KernelTest : public testing::TestWithParam<const Kernel*> {
 protected:
  // Looks all probes up, in batches of each size, and compares.
  void Check(Family family, const Intervals& intervals, int min_levels,
             absl::Span<const Address> probes,
             absl::Span<const size_t> batches) {
    const Tree tree = Tree::Build(intervals, min_levels);
    std::string packed;
    std::vector<NextHopId> expected;
    for (const Address& probe : probes) {
      packed += probe.ToPacked();
      expected.push_back(Expected(intervals, probe.bits()));
    }
    const size_t width = static_cast<size_t>(AddressBytes(family));
    for (const size_t batch : batches) {
      std::vector<NextHopId> found(probes.size(), 0xdeadbeef);
      for (size_t i = 0; i < probes.size(); i += batch) {
        GetParam()->lookup(tree.view(), family, packed.data() + i * width,
                           std::min(batch, probes.size() - i), &found[i]);
      }
      ASSERT_EQ(found, expected)
          << intervals.size() << " intervals, at least " << min_levels
          << " levels, batches of " << batch;
    }
  }
};

TEST_P(KernelTest, EveryHeightAnswersExactly) {
  std::mt19937_64 random(1);
  for (Family family : {Family::kIpv4, Family::kIpv6}) {
    for (size_t size : {2U, 9U, 10U, 73U, 700U, 7000U}) {
      const Intervals intervals = RandomIntervals(family, size, random);
      const std::vector<Address> probes = Probes(family, intervals, random);
      for (int levels = 1; levels <= kMaxLevels; ++levels) {
        Check(family, intervals, levels, probes, {probes.size()});
      }
    }
  }
}

TEST_P(KernelTest, EveryBatchSizeAnswersExactly) {
  std::mt19937_64 random(2);
  std::vector<size_t> batches(65);
  std::iota(batches.begin(), batches.end(), 1);
  for (Family family : {Family::kIpv4, Family::kIpv6}) {
    const Intervals intervals = RandomIntervals(family, 300, random);
    const std::vector<Address> probes = Probes(family, intervals, random);
    for (int levels = 1; levels <= kMaxLevels; ++levels) {
      Check(family, intervals, levels, probes, batches);
    }
  }
}

// The number of keys at which a tree gets its next level, and one to each side.
TEST_P(KernelTest, FullLevelsAnswerExactly) {
  std::mt19937_64 random(3);
  size_t full = kNodeKeys;
  for (int levels = 1; levels <= 5; ++levels, full *= kNodeChildren) {
    for (size_t keys : {full - 1, full, full + 1}) {
      Intervals intervals = {{0, 1}};
      for (size_t i = 1; i <= keys; ++i) {
        intervals.push_back({absl::MakeUint128(UINT64_MAX - keys + i, 0),
                             static_cast<NextHopId>(i % 2 == 0 ? 1 : i + 1)});
      }
      EXPECT_EQ(Tree::Build(intervals).view().first.levels,
                static_cast<uint32_t>(levels + (keys > full ? 1 : 0)));
      Check(Family::kIpv6, intervals, 1,
            Probes(Family::kIpv6, intervals, random), {64});
    }
  }
}

// Neighbouring /64s that both need the second stage.
TEST_P(KernelTest, SecondStagesSideBySide) {
  std::mt19937_64 random(4);
  Intervals intervals = {{0, 1}};
  for (uint64_t upper :
       {uint64_t{0}, uint64_t{1}, uint64_t{3}, UINT64_MAX - 1, UINT64_MAX}) {
    for (uint64_t lower : {uint64_t{1}, uint64_t{1} << 63, UINT64_MAX}) {
      intervals.push_back({absl::MakeUint128(upper, lower),
                           static_cast<NextHopId>(intervals.size() + 1)});
    }
  }
  EXPECT_EQ(intervals.size(), 16U);
  for (int levels = 1; levels <= kMaxLevels; ++levels) {
    Check(Family::kIpv6, intervals, levels,
          Probes(Family::kIpv6, intervals, random), {16});
  }
}

INSTANTIATE_TEST_SUITE_P(All, KernelTest,
                         testing::ValuesIn(AvailableKernels().begin(),
                                           AvailableKernels().end()),
                         [](const auto& kernel) {
                           return std::string(kernel.param->name);
                         });

TEST(FindKernel, ByName) {
  EXPECT_EQ(FindKernel("auto"), AvailableKernels().front());
  EXPECT_STREQ(FindKernel("scalar")->name, "scalar");
  EXPECT_EQ(FindKernel("sse9"), nullptr);
}

// The second /64 begins where the first one's end says, and once.
TEST(SplitStages, NamesEachHalfOnce) {
  const Stages stages =
      SplitStages(Sweep({{*Prefix::Parse("2001:db8::1/128"), 1},
                         {*Prefix::Parse("2001:db8:0:1::1/128"), 2}},
                        Boundaries::kDistinct));
  std::vector<uint64_t> starts;
  for (const Entry& entry : stages.first) starts.push_back(entry.start);
  EXPECT_EQ(starts,
            (std::vector<uint64_t>{0, 0x20010db800000000, 0x20010db800000001,
                                   0x20010db800000002}));
}

}  // namespace
}  // namespace planb::paper
