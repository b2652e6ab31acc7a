// SPDX-License-Identifier: Apache-2.0

// Every rival, by every kernel, answers exactly or refuses.

#include "benchmarks/rivals/rivals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "benchmarks/rivals/baseline_check.h"
#include "benchmarks/rivals/huge_array.h"
#include "lpm/synthetic/random.h"
#include "lpm/synthetic/synthetic.h"
#include "lpm/testing/real_tables.h"

namespace planb {
namespace {

constexpr BaselineLimits kFewNextHops = {.family = Family::kIpv4,
                                         .max_length = 32};

// A build with what its last parameter is to be.
template <typename Chosen>
BaselineBuilder With(absl::StatusOr<std::unique_ptr<const Baseline>> (*build)(
                         Family, absl::Span<const Route>, Chosen),
                     const std::decay_t<Chosen>& chosen) {
  return [build, chosen](Family family, absl::Span<const Route> routes) {
    return build(family, routes, chosen);
  };
}

class RivalTest : public testing::TestWithParam<RivalKernel> {
 protected:
  static BaselineBuilder Dir24() { return With(BuildDir24, GetParam()); }
  static BaselineBuilder Reference() {
    return With(BuildReference, GetParam());
  }
};
INSTANTIATE_TEST_SUITE_P(All, RivalTest,
                         testing::Values(RivalKernel::kBest,
                                         RivalKernel::kScalar));

TEST_P(RivalTest, Dir24IsExact) { ExpectExact(Dir24(), kFewNextHops); }

TEST_P(RivalTest, Dir24OnTheRealTable) {
  ExpectExactOnRealTable(Dir24(), kFewNextHops);
}

// 32,767 next hops fit entries of 16 bits, one more does not.
TEST_P(RivalTest, Dir24WithManyNextHops) {
  std::vector<Route> routes;
  for (uint32_t i = 0; i < 32'768; ++i) {
    routes.push_back(
        {Prefix::Truncate(Address::V4(i << 12), 20 + static_cast<int>(i) % 13),
         UINT32_MAX - i});
  }
  ExpectLikeReference(Dir24(), Family::kIpv4, routes);
  const auto many = Dir24()(Family::kIpv4, routes);
  EXPECT_GT((*many)->bytes(), size_t{64} << 20);
  routes.pop_back();
  ExpectLikeReference(Dir24(), Family::kIpv4, routes);
  const auto fewer = Dir24()(Family::kIpv4, routes);
  EXPECT_LT((*fewer)->bytes(), size_t{49} << 20);
}

TEST(Dir24, RefusesIpv6) {
  EXPECT_EQ(BuildDir24(Family::kIpv6, {}).status().code(),
            absl::StatusCode::kUnimplemented);
}

TEST_P(RivalTest, ReferenceIsExact) {
  ExpectExact(Reference(), {.max_length = 64, .next_hops = UINT32_MAX});
}

TEST_P(RivalTest, ReferenceOnTheRealTable) {
  ExpectExactOnRealTable(Reference(), {.max_length = 64});
}

TEST(Reference, AllocatesEveryLevelInFull) {
  // Eleven boundaries: two levels, one node and nine.
  std::vector<Route> routes;
  for (uint32_t i = 1; i <= 6; ++i) {
    routes.push_back(
        {Prefix::Truncate(Address::V6(absl::MakeUint128(i, 0) << 32), 48), i});
  }
  const auto baseline = BuildReference(Family::kIpv6, routes);
  ASSERT_TRUE(baseline.ok());
  EXPECT_GE((*baseline)->bytes(), 64U * 10 + 4 * 13);
  EXPECT_LT((*baseline)->bytes(), 64U * 10 + 4 * 13 + 512);
}

TEST(Reference, RefusesWhatItCannotAnswer) {
  EXPECT_EQ(BuildReference(Family::kIpv4, {}).status().code(),
            absl::StatusCode::kUnimplemented);
  const Route host = {*Prefix::Parse("2001:db8::1/128"), 1};
  const absl::Status refused = BuildReference(Family::kIpv6, {host}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnimplemented);
  EXPECT_NE(refused.message().find("2001:db8::1/128"), absl::string_view::npos);
}

class TurnsTest : public testing::TestWithParam<Turns> {
 protected:
  using Build = absl::StatusOr<std::unique_ptr<const Baseline>> (*)(
      Family family, absl::Span<const Route> routes, Turns turns);
  static BaselineBuilder Turned(Build build) { return With(build, GetParam()); }
  static void ExpectExactInBothFamilies(Build build) {
    ExpectExact(Turned(build), {.next_hops = UINT32_MAX});
    ExpectExact(Turned(build), {.family = Family::kIpv4});
  }
};
INSTANTIATE_TEST_SUITE_P(All, TurnsTest,
                         testing::Values(Turns::kTogether, Turns::kSingle));

TEST_P(TurnsTest, PatriciaIsExact) { ExpectExactInBothFamilies(BuildPatricia); }

TEST_P(TurnsTest, PatriciaOnTheRealTable) {
  ExpectExactOnRealTable(Turned(BuildPatricia), {});
}

// A node for the whole space, for each route, and for each fork of two.
TEST(Patricia, HasNoNodeThatNeitherEndsNorForks) {
  const std::vector<Route> routes = {{*Prefix::Parse("2001:db8::/48"), 1},
                                     {*Prefix::Parse("2001:db8::/64"), 2},
                                     {*Prefix::Parse("2001:db8:1::/64"), 3},
                                     {*Prefix::Parse("2001:db8:1::1/128"), 4}};
  const auto baseline = BuildPatricia(Family::kIpv6, routes);
  ASSERT_TRUE(baseline.ok());
  EXPECT_EQ(((*baseline)->bytes() - 32 * 6) / 32, 1U);  // and the object
}

TEST_P(TurnsTest, PoptrieIsExact) { ExpectExactInBothFamilies(BuildPoptrie); }

TEST_P(TurnsTest, PoptrieOnTheRealTable) {
  ExpectExactOnRealTable(Turned(BuildPoptrie), {});
}

// 65,535 next hops and no route fit leaves of 16 bits, one more does not.
TEST(Poptrie, TakesManyNextHops) {
  std::vector<Route> routes;
  for (uint32_t i = 0; i < 65'536; ++i) {
    routes.push_back({Prefix::Truncate(Address::V4(i << 12), 20), i + 1});
  }
  const BaselineBuilder build = With(BuildPoptrie, Turns::kTogether);
  ExpectLikeReference(build, Family::kIpv4, routes);
  const auto many = BuildPoptrie(Family::kIpv4, routes);
  routes.pop_back();
  ExpectLikeReference(build, Family::kIpv4, routes);
  const auto fewer = BuildPoptrie(Family::kIpv4, routes);
  EXPECT_GT((*many)->bytes() - (*fewer)->bytes(), 2U * 65'000);
}

// A /48 is below five nodes of 24 bytes (18 + 5 * 6 = 48). Beside a node there
// is one run of leaves, no route; in the last, the route's and no route.
TEST(Poptrie, IsAsLargeAsPublished) {
  const std::vector<Route> routes = {{*Prefix::Parse("2001:db8::/48"), 1},
                                     {*Prefix::Parse("3fff::/48"), 2}};
  const auto one = BuildPoptrie(Family::kIpv6, {routes.front()});
  const auto two = BuildPoptrie(Family::kIpv6, routes);
  EXPECT_EQ((*two)->bytes() - (*one)->bytes(), 5U * 24 + 6 * 2 + 4);
  EXPECT_GT((*one)->bytes(), 4U << 18);
}

TEST_P(TurnsTest, HbsIsExact) { ExpectExactInBothFamilies(BuildHbs); }

TEST_P(TurnsTest, HbsOnTheRealTable) {
  ExpectExactOnRealTable(Turned(BuildHbs), {});
}

// Routes of one length need no markers: 16 bytes for each of 2^16 first bits,
// and a cache line for every one and a half routes.
TEST(Hbs, IsHalfFull) {
  std::vector<Route> routes;
  for (uint32_t i = 0; i < 60'000; ++i) {
    routes.push_back({Prefix::Truncate(Address::V4(i << 12), 20), 1 + i % 7});
  }
  const auto baseline = BuildHbs(Family::kIpv4, routes);
  EXPECT_GE((*baseline)->bytes(), 65'536U * 16 + 40'000 * 64);
  EXPECT_LT((*baseline)->bytes(), 65'536U * 16 + 40'000 * 64 + 64 * 300);
}

TEST_P(TurnsTest, CpTrieIsExact) {
  for (const bool compress : {false, true}) {
    const auto build = With(BuildCpTrie, {compress, GetParam()});
    ExpectExact(build, {.next_hops = UINT32_MAX});
    ExpectExact(build, {.family = Family::kIpv4});
    ExpectExactOnRealTable(build, {});
  }
}

// A /44 is in a node of each of the levels 24, 32, 40 and 48, of 64 bytes in
// either bitmap, and is 16 leaves there. An empty table has one leaf.
TEST(CpTrie, IsAsLargeAsPublished) {
  const Route route = {*Prefix::Parse("2001:db8::/44"), 1};
  const auto empty = BuildCpTrie(Family::kIpv6, {});
  const auto one = BuildCpTrie(Family::kIpv6, {route});
  EXPECT_EQ((*one)->bytes() - (*empty)->bytes(), 4U * 128 + 15 * 2 + 4);
  EXPECT_GT((*empty)->bytes(), 2 * 16U * 1024);
}

TEST(Sail, IsExact) {
  ExpectExact(BuildSail, {.family = Family::kIpv4});
  ExpectExactOnRealTable(BuildSail, {.family = Family::kIpv4});
}

// 32,767 next hops and no route fit entries of 16 bits, one more does not.
TEST(Sail, IsAsLargeAsPublished) {
  std::vector<Route> routes;
  for (uint32_t i = 0; i < 32'768; ++i) {
    routes.push_back({Prefix::Truncate(Address::V4(i << 8), 24), i + 1});
  }
  ExpectLikeReference(BuildSail, Family::kIpv4, routes);
  const auto many = BuildSail(Family::kIpv4, routes);
  routes.pop_back();
  ExpectLikeReference(BuildSail, Family::kIpv4, routes);
  const auto fewer = BuildSail(Family::kIpv4, routes);
  // 2^16 entries, 128 chunks of 256, an unused one, and a next hop.
  EXPECT_EQ((*many)->bytes() - (*fewer)->bytes(),
            65'536U * 2 + 128 * 256 * 2 + 2 + 4);
}

TEST(Sail, RefusesIpv6) {
  EXPECT_EQ(BuildSail(Family::kIpv6, {}).status().code(),
            absl::StatusCode::kUnimplemented);
}

TEST_P(TurnsTest, RangeTreeIsExact) {
  for (const bool implicit : {true, false}) {
    const auto build = With(BuildRangeTree, {implicit, GetParam()});
    ExpectExact(build, {.next_hops = 0x7fffffff});
    ExpectExact(build, {.family = Family::kIpv4});
  }
}

TEST_P(TurnsTest, RangeTreeOnTheRealTable) {
  for (const bool implicit : {true, false}) {
    ExpectExactOnRealTable(
        With(BuildRangeTree, {.implicit = implicit, .turns = GetParam()}), {});
  }
}

// The steps of the paper's algorithm by hand: the largest bin is full, the next
// takes the smallest ones until it is as large, and what is left is smaller.
TEST(RangeTree, AggregatesTheSmallestIntoTheLargest) {
  std::vector<Route> routes;
  const int prefixes[] = {1, 6, 2, 4, 3, 2};
  for (uint32_t bin = 0; bin < 6; ++bin) {
    for (int i = 0; i < prefixes[bin]; ++i) {
      routes.push_back(
          {Prefix::Truncate(Address::V4(bin << 24), 8 + i), bin + 1});
    }
  }
  const RangePartitions made = PartitionRoutes(routes, 8);
  EXPECT_EQ(made.initial, 6U);
  // 6; 4 with 1 and 2; and 3 with 2.
  EXPECT_EQ(made.sizes, (std::vector<size_t>{6, 7, 5}));
  EXPECT_EQ(std::vector(made.of_bins.begin(), made.of_bins.begin() + 7),
            (std::vector<uint32_t>{2, 1, 2, 2, 3, 3, 0}));
}

TEST(RangeTree, ExpandsPrefixesShorterThanThePartition) {
  const RangePartitions made = PartitionRoutes(
      {{*Prefix::Parse("2000::/3"), 1}, {*Prefix::Parse("2001::/32"), 2}}, 10);
  EXPECT_EQ(made.initial, 128U);
  EXPECT_EQ(made.sizes.front(), 2U);
}

// Two numbers of 64 bits and a value a range, or one: Eq. 1b and 1c. A number
// for each of 2^16 first bits, a root, and no route in the bins without
// prefixes are ahead.
TEST(RangeTree, IsAsLargeAsPublished) {
  std::vector<Route> routes;
  for (uint32_t i = 0; i < 1000; ++i) {
    routes.push_back(
        {Prefix::Truncate(
             Address::V6(absl::MakeUint128(0x2001'0000 + 2 * i, 0) << 32), 32),
         1});
  }
  const auto bytes = [&](bool implicit) {
    return (*BuildRangeTree(Family::kIpv6, routes, {.implicit = implicit}))
        ->bytes();
  };
  const size_t ranges = 8 + 2008;  // rounded
  EXPECT_GE(bytes(false), 4 * 65'536 + ranges * 24);
  EXPECT_LT(bytes(false), 4 * 65'536 + ranges * 24 + 2048);
  EXPECT_EQ(bytes(false) - bytes(true), ranges * 12);
}

// Table II for today's table and for one made up, of as many routes as the
// paper's. There 9,079 routes of 2012 had 7, 25 and 294 initial partitions, and
// 4, 4 and 6 aggregated; the made-up ones 24, 336, 4,854 and 5, 12, 94.
TEST(RangeTree, PartitionsLikeTableTwo) {
  struct Row {
    int bits;
    size_t initial;
    size_t aggregated;
  };
  const auto expect = [](absl::Span<const Route> routes,
                         const std::vector<Row>& rows) {
    for (const Row& row : rows) {
      SCOPED_TRACE(row.bits);
      const RangePartitions made = PartitionRoutes(routes, row.bits);
      EXPECT_EQ(made.initial, row.initial);
      EXPECT_EQ(made.sizes.size(), row.aggregated);
    }
  };
  expect(SyntheticTable({.ipv6_routes = 350'000}),
         {{10, 6, 3}, {15, 50, 10}, {20, 1411, 37}});
  const std::string path = RealTablePath(Family::kIpv6);
  if (path.empty()) GTEST_SKIP() << "no real table in PLANB_DATA_DIR";
  const auto real = ReadPlainTable(path);
  ASSERT_TRUE(real.ok()) << real.status();
  expect(*real, {{10, 8, 3}, {15, 37, 8}, {20, 688, 15}});
}

TEST_P(RivalTest, BloomIsExact) {
  const auto build = With(BuildBloom, {.kernel = GetParam()});
  ExpectExact(build, {.next_hops = 0x7fffffff});
  ExpectExact(build, {.family = Family::kIpv4});
}

TEST_P(RivalTest, BloomOnTheRealTable) {
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    for (const int levels : {3, 7}) {
      ExpectExactOnRealTable(
          With(BuildBloom, {.levels = levels, .kernel = GetParam()}),
          {.family = family, .max_length = AddressBits(family)});
    }
  }
}

TEST(Bloom, RefusesTooManyPrefixes) {
  // 2^31 and more prefixes if there is one length.
  EXPECT_EQ(BuildBloom(Family::kIpv6,
                       {{*Prefix::Parse("2000::/21"), 1},
                        {*Prefix::Parse("2000::/64"), 2}},
                       {.levels = 1})
                .status()
                .code(),
            absl::StatusCode::kResourceExhausted);
}

// Of all choices of lengths, tried one by one.
TEST(Bloom, ExpansionMakesTheFewestPrefixes) {
  Random random(1);
  for (int repeat = 0; repeat < 30; ++repeat) {
    std::vector<Route> routes;
    for (uint32_t i = 0; i < 60; ++i) {
      const auto length = static_cast<int>(21 + random.Below(12));
      routes.push_back({Prefix::Truncate(Address::V4(i << 24), length), 1});
    }
    int longest = 0;
    for (const Route& r : routes) {
      longest = std::max(longest, r.prefix.length());
    }
    const auto cost = [&](uint32_t lengths) {  // a bit for each from 21 on
      uint64_t sum = 0;
      for (const Route& r : routes) {
        const int from = r.prefix.length() - 21;
        sum += uint64_t{1} << __builtin_ctz(lengths >> from);
      }
      return sum;
    };
    for (const int levels : {1, 2, 4, 12}) {
      uint64_t least = UINT64_MAX;
      const uint32_t last = uint32_t{1} << (longest - 21);
      for (uint32_t others = 0; others < last; ++others) {
        if (__builtin_popcount(others) >= levels) continue;
        least = std::min(least, cost(others | last));
      }
      uint32_t chosen = 0;
      for (const int length : ExpansionLengths(routes, 20, levels)) {
        chosen |= uint32_t{1} << (length - 21);
      }
      EXPECT_LE(__builtin_popcount(chosen), levels);
      EXPECT_EQ(cost(chosen), least);
    }
  }
}

// A filter of 6.2 bits a prefix (equation 3 for 5%), a table twice as large as
// its prefixes, and a direct table of 2^20.
TEST(Bloom, IsAsLargeAsPublished) {
  std::vector<Route> routes;
  for (uint32_t i = 0; i < 100'000; ++i) {
    routes.push_back({Prefix::Truncate(Address::V4(i << 8), 24), 1});
  }
  const auto bloom = BuildBloom(Family::kIpv4, routes);
  ASSERT_TRUE(bloom.ok());
  const size_t bytes = (4U << 20) + 200'000 * 8 + 623'523 / 8;
  EXPECT_GE((*bloom)->bytes(), bytes - 100);
  EXPECT_LT((*bloom)->bytes(), bytes + 1000);
}

// Also where one slot has all models.
TEST_P(RivalTest, LearnedIsExact) {
  for (const auto& [error, bits] :
       {std::pair(8, 0), std::pair(32, 1), std::pair(1, 12)}) {
    const auto build =
        With(BuildLearned, {static_cast<double>(error), bits, GetParam()});
    ExpectExact(build, {.next_hops = 0x7fffffff});
    ExpectExact(build, {.family = Family::kIpv4});
  }
}

TEST_P(RivalTest, LearnedOnTheRealTable) {
  for (const double error : {1.0, 8.0, 32.0}) {
    const auto build =
        With(BuildLearned, {.error = error, .kernel = GetParam()});
    ExpectExactOnRealTable(build, {});
    ExpectExactOnRealTable(build, kFewNextHops);
  }
}

// A key and a value for each interval. Keys on one line need no more models,
// however many they are.
TEST(Learned, IsAsLargeAsPublished) {
  const auto bytes = [](uint32_t count) {
    std::vector<Route> routes;
    for (uint32_t i = 0; i < count; ++i) {
      routes.push_back({Prefix::Truncate(Address::V4(i << 12), 20), 1 + i % 2});
    }
    return (*BuildLearned(Family::kIpv4, routes))->bytes();
  };
  EXPECT_EQ(bytes(200'000) - bytes(100'000), 8U * 100'000);
}

TEST_P(TurnsTest, MihtIsExact) {
  ExpectExact(Turned(BuildMiht), {.next_hops = 0x7fffffff});
  ExpectExact(Turned(BuildMiht), {.family = Family::kIpv4});
}

TEST_P(TurnsTest, MihtOnTheRealTable) {
  ExpectExactOnRealTable(Turned(BuildMiht), {});
  ExpectExactOnRealTable(Turned(BuildMiht), kFewNextHops);
}

// A node for each route, and none that is empty but a sibling: a key of 32
// bits, 40 and 48 bits under it, are a root and below it two side by side.
TEST(Miht, HasNoEmptyNodes) {
  const std::vector<Route> routes = {{*Prefix::Parse("2001:db8::/32"), 1},
                                     {*Prefix::Parse("2001:db8::/40"), 2},
                                     {*Prefix::Parse("2001:db8:8000::/48"), 3}};
  const auto one = BuildMiht(Family::kIpv6, {routes.front()});
  const auto three = BuildMiht(Family::kIpv6, routes);
  EXPECT_EQ((*three)->bytes() - (*one)->bytes(), 2U * 16);
}

TEST_P(TurnsTest, AdaptiveTrieIsExact) {
  for (const double entries : {1, 8, 1000}) {
    const auto build = With(BuildAdaptiveTrie, {entries, GetParam()});
    ExpectExact(build, {.next_hops = 0x7fffffff});
    ExpectExact(build, {.family = Family::kIpv4});
  }
}

TEST_P(TurnsTest, AdaptiveTrieOnTheRealTable) {
  ExpectExactOnRealTable(With(BuildAdaptiveTrie, {.turns = GetParam()}), {});
  ExpectExactOnRealTable(With(BuildAdaptiveTrie, {.turns = GetParam()}),
                         kFewNextHops);
}

// Sixteen /4s are a node of one entry each, if that is the budget, and so are
// 256 /8s.
TEST(AdaptiveTrie, TakesTheStrideThatFits) {
  for (const int length : {4, 8}) {
    std::vector<Route> routes;
    for (uint32_t i = 0; i < uint32_t{1} << length; ++i) {
      routes.push_back(
          {Prefix::Truncate(Address::V4(i << (32 - length)), length),
           1 + i % 2});
    }
    const auto one = BuildAdaptiveTrie(Family::kIpv4, {{Prefix(), 1}}, {1});
    const auto all = BuildAdaptiveTrie(Family::kIpv4, routes, {1});
    EXPECT_EQ((*all)->bytes() - (*one)->bytes(), 4 * routes.size() - 4 + 4);
  }
}

TEST(HugeArray, IsZeroedAndAligned) {
  for (size_t size : {size_t{1}, size_t{1000}, size_t{3} << 20}) {
    HugeArray<uint64_t> array(size);
    EXPECT_EQ(array.size(), size);
    EXPECT_EQ(array.bytes(), 8 * size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(array.data()) % (2 << 20), 0U);
    EXPECT_TRUE(std::all_of(array.begin(), array.end(),
                            [](uint64_t value) { return value == 0; }));
    array[size - 1] = 1;  // the last byte is there
    EXPECT_EQ(*(array.end() - 1), 1U);
  }
}

TEST(HugeArray, MovesAndEmpties) {
  HugeArray<uint32_t> from(5);
  from[4] = 7;
  const uint32_t* const data = from.data();
  HugeArray<uint32_t> to;
  EXPECT_EQ(to.data(), nullptr);
  to = std::move(from);
  EXPECT_EQ(to.data(), data);
  const HugeArray<uint32_t> last(std::move(to));
  EXPECT_EQ(last[4], 7U);
  EXPECT_EQ(HugeArray<char>(0).size(), 0U);
}

}  // namespace
}  // namespace planb

namespace planb::paper {
namespace {

class PaperTest : public testing::TestWithParam<Boundaries> {
 protected:
  // Looked up by the tree and by sorted starts.
  std::vector<BaselineBuilder> Builders() const {
    return {With(BuildPaper, {.boundaries = GetParam()}),
            With(BuildUpperBound, GetParam())};
  }
};

TEST_P(PaperTest, Exact) {
  for (const BaselineBuilder& build : Builders()) {
    ExpectExact(build, {.next_hops = 0x7fffffff});
    ExpectExact(build, {.family = Family::kIpv4});
  }
}

TEST_P(PaperTest, RealTables) {
  for (const BaselineBuilder& build : Builders()) {
    ExpectExactOnRealTable(build, {});
  }
}

INSTANTIATE_TEST_SUITE_P(All, PaperTest,
                         testing::Values(Boundaries::kAll,
                                         Boundaries::kDistinct,
                                         Boundaries::kMerged));

// The published layout: complete inner levels, leaves as needed, values apart.
TEST(Paper, IsAsLargeAsPublished) {
  // 73 boundaries that keep a key need ten leaves of eight: three levels.
  std::vector<Route> routes;
  for (uint32_t i = 0; i < 37; ++i) {
    routes.push_back(
        {Prefix::Truncate(Address::V4((i + 1) << 24 | 1 << 16), 16), 1});
  }
  const auto baseline = BuildPaper(Family::kIpv4, routes);
  ASSERT_TRUE(baseline.ok());
  const size_t nodes = 64 * (1 + 9 + 10);
  const size_t values = 4 * 75;
  EXPECT_GE((*baseline)->bytes(), nodes + values);
  EXPECT_LT((*baseline)->bytes(), nodes + values + 512);
}

// A start and a next hop for each boundary, and one of each for the first.
TEST(UpperBound, IsTwelveBytesABoundary) {
  std::vector<Route> routes;
  for (uint32_t i = 1; i <= 1000; ++i) {
    routes.push_back({Prefix::Truncate(Address::V4(i << 16), 16), i});
  }
  const auto baseline = BuildUpperBound(Family::kIpv4, routes);
  ASSERT_TRUE(baseline.ok());
  EXPECT_GE((*baseline)->bytes(), 12U * 2001);
  EXPECT_LT((*baseline)->bytes(), 12U * 2001 + 256);
}

TEST(Paper, RefusesWhatItCannotAnswer) {
  const Route route = {Prefix(), 0x80000000};
  EXPECT_EQ(BuildUpperBound(Family::kIpv4, {route}).status().code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(BuildPaper(Family::kIpv4, {route}).status().code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(BuildPaper(Family::kIpv4, {}, {.kernel = "sse9"}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace planb::paper
