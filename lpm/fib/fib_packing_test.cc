// SPDX-License-Identifier: Apache-2.0

// A table that outgrows its memory is compiled anew in steps: no change pays
// for all of it, and what comes out is as good as a table compiled at once. The
// histories of fib_random_test and the crowds of fib_exhaustive_test try that
// its answers are right at each step.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <utility>
#include <vector>

#include "lpm/address.h"
#include "lpm/fib/fib.h"
#include "lpm/fib/fib_compiler.h"
#include "lpm/prefix.h"
#include "lpm/routes/route_set.h"
#include "lpm/synthetic/random.h"
#include "lpm/synthetic/synthetic.h"
#include "lpm/testing/fib_check.h"
#include "lpm/testing/golden_tables.h"
#include "lpm/testing/random_tables.h"

namespace planb {
namespace {

std::vector<Route> RoutesOf(const RouteSet& routes) {
  return {routes.begin(), routes.end()};
}

// Bytes of tables, partitions and descriptors.
size_t SearchedBytes(const Fib& fib) {
  const FibStats stats = fib.Stats();
  return stats.table_bytes + stats.partition_bytes + stats.descriptor_bytes;
}

class FibPacking : public testing::TestWithParam<Family> {
 protected:
  static std::vector<Route> Table(size_t routes) {
    const bool ipv6 = GetParam() == Family::kIpv6;
    return SyntheticTable(
        {.ipv6_routes = ipv6 ? routes : 0, .ipv4_routes = ipv6 ? 0 : routes});
  }
};

INSTANTIATE_TEST_SUITE_P(Families, FibPacking,
                         testing::Values(Family::kIpv4, Family::kIpv6),
                         testing::PrintToStringParamName());

// What a step writes is counted in bytes of what it compiles.
TEST_P(FibPacking, NoChangePaysForATableThatGrowsOrShrinks) {
  const size_t count = kSanitized ? 20'000 : 60'000;
  std::vector<Route> all = Table(count);
  Random random(1);
  random.Shuffle(all);
  const size_t few = count / 6;
  RouteSet routes(GetParam());
  for (size_t i = 0; i < few; ++i) {
    routes.Announce(all[i].prefix, all[i].next_hop);
  }
  FibCompiler compiler(GetParam());
  std::unique_ptr<const Fib> fib = compiler.Compile(routes).value();
  size_t most = 0, packed = 0;
  const auto change = [&](const Route& route, NextHopId next_hop) {
    routes.Exchange(route.prefix, next_hop);
    const size_t before = compiler.packing_bytes();
    fib = compiler.Update(routes, {route.prefix}).value();
    const size_t after = compiler.packing_bytes();
    if (after > before) most = std::max(most, after - before);
    if (compiler.counters().packed == packed) return;
    packed = compiler.counters().packed;
    ASSERT_EQ(DifferencesAtBoundaries(*fib, RoutesOf(routes)), "");
  };
  for (size_t i = few; i < count; ++i) {
    if (all[i].prefix.length() < 8) continue;
    ASSERT_NO_FATAL_FAILURE(change(all[i], all[i].next_hop));
  }
  const size_t grown = packed;
  EXPECT_GE(grown, 1U);
  const size_t bytes = SearchedBytes(*fib);
  for (size_t i = count; i-- > few;) {
    if (all[i].prefix.length() < 8) continue;
    ASSERT_NO_FATAL_FAILURE(change(all[i], kNoRoute));
  }
  EXPECT_GE(packed - grown, 2U);
  // Two portions and a large table.
  EXPECT_LE(most, 40 * 1024U);
  EXPECT_GT(bytes, 2 * most) << "nothing is shown of a small table";
  EXPECT_EQ(compiler.counters().compacted, 0U);
  EXPECT_EQ(compiler.counters().full, 0U);
  std::cout << bytes << " bytes; a step writes up to " << most << std::endl;
}

// Lookups read as many lines, and there are as many, within 2%.
TEST(FibPacked, IsAsGoodAsCompiledAtOnce) {
  for (const GoldenTable& table : GoldenTables()) {
    const RouteSet routes(table.family, table.routes);
    const auto compiler =
        FibLimitsPeer::Compiler(table.family, AlwaysPacking(1000));
    const std::unique_ptr<const Fib> built = compiler->Compile(routes).value();
    std::unique_ptr<const Fib> fib;
    size_t steps = 0;
    for (; compiler->counters().packed == 0; ++steps) {
      ASSERT_LT(steps, routes.size());
      fib = compiler->Update(routes, {}).value();
    }
    EXPECT_GE(steps, routes.size() / 2'200);
    EXPECT_EQ(compiler->counters().full, 0U);
    ASSERT_EQ(DifferencesAtBoundaries(*fib, table.routes), "");
    const std::vector<Address> trace = GoldenTrace(table, 20'000);
    const double lines = CountLines(*fib, trace).mean;
    const double built_lines = CountLines(*built, trace).mean;
    EXPECT_LE(lines, 1.02 * built_lines) << table.name;
    const auto bytes = static_cast<double>(SearchedBytes(*fib));
    const auto built_bytes = static_cast<double>(SearchedBytes(*built));
    EXPECT_LE(bytes, 1.02 * built_bytes) << table.name;
    std::cout << table.name << ": " << steps << " steps, lines "
              << lines / built_lines << ", bytes " << bytes / built_bytes
              << std::endl;
  }
}

// Where the table in use has no table to go by: all of it lies in one slot.
TEST(FibPacked, DividesSlotsThatNoStepCanCompile) {
  RouteSet routes(Family::kIpv6);
  Random random(3);
  for (uint64_t i = 0; i < 4000; ++i) {
    // In one /32, in one /44 of another, and hosts in one /48.
    routes.Announce(
        V6(0x2001'0db8'0000'0000 | random.Below(1 << 16) << 16, 0, 48),
        static_cast<NextHopId>(1 + i % 7));
    routes.Announce(V6(0x2002'0db8'0000'0000 | i % 16 << 16 | i / 16, 0, 64),
                    static_cast<NextHopId>(1 + i % 5));
    routes.Announce(V6(0x2003'0db8'0001'0000, random.Next(), 128), 3);
  }
  for (const size_t step : {30, 1000}) {
    const auto compiler =
        FibLimitsPeer::Compiler(Family::kIpv6, AlwaysPacking(step));
    std::unique_ptr<const Fib> fib = compiler->Compile(routes).value();
    while (compiler->counters().packed == 0) {
      fib = compiler->Update(routes, {}).value();
      ASSERT_EQ(compiler->counters().full, 0U) << step;
    }
    ASSERT_EQ(DifferencesAtBoundaries(*fib, RoutesOf(routes)), "") << step;
    EXPECT_LE(fib->Stats().table_steps, 8);
  }
}

// An IPv4 address has no bits past /32 to divide by.
TEST(FibPacked, DividesNoSlotFurtherThanAddressesGo) {
  const auto v4 = [](uint32_t address, int length) {
    return Prefix::Truncate(Address::V4(address), length);
  };
  RouteSet routes(Family::kIpv4);
  // Slots of /18, and all prefixes of a /26 in one of them.
  for (uint32_t i = 0; i < 64; ++i) {
    routes.Announce(v4(0xc000'0000 + (i << 14), 18), 1 + i);
  }
  for (int length = 26; length <= 32; ++length) {
    for (uint32_t i = 0; i < 64; ++i) {
      routes.Announce(v4(0xc000'0200 + i, length),
                      static_cast<NextHopId>(length) + i);
    }
  }
  const auto compiler =
      FibLimitsPeer::Compiler(Family::kIpv4, AlwaysPacking(7));
  std::unique_ptr<const Fib> fib = compiler->Compile(routes).value();
  const FibStats built = fib->Stats();
  ASSERT_EQ(built.tables, 1U);
  while (compiler->counters().packed == 0) {
    fib = compiler->Update(routes, {}).value();
  }
  ASSERT_EQ(DifferencesAtBoundaries(*fib, RoutesOf(routes)), "");
  // The /18 is divided into slots of /26, and the crowded one into addresses.
  EXPECT_EQ(fib->Stats().tables, 3U);
  EXPECT_EQ(fib->Stats().table_bytes,
            built.table_bytes + (256 + 64) * sizeof(uint32_t));
}

// Values are ids where there are too many ids for two bytes.
TEST(FibPacked, HasTheValuesOfATableCompiledAtOnce) {
  RouteSet routes(Family::kIpv6);
  constexpr NextHopId kIds = 40'000;
  for (NextHopId i = 1; i <= kIds; ++i) {
    routes.Announce(
        V6(uint64_t{0x2a00'0000'0000'0000} | uint64_t{i} << 20, 0, 48), i);
  }
  const auto compiler =
      FibLimitsPeer::Compiler(Family::kIpv6, AlwaysPacking(1000));
  std::unique_ptr<const Fib> fib = compiler->Compile(routes).value();
  const FibStats built = fib->Stats();
  ASSERT_EQ(built.next_hop_bytes, 0U);
  while (compiler->counters().packed == 0) {
    fib = compiler->Update(routes, {}).value();
  }
  EXPECT_EQ(fib->Stats().next_hop_bytes, 0U);
  EXPECT_EQ(fib->Stats().value_bytes, built.value_bytes);
  ASSERT_EQ(DifferencesAtBoundaries(*fib, RoutesOf(routes)), "");
}

// Values of two bytes name too few descriptors.
TEST(FibPacked, HasAsManyDescriptorsAsATableCompiledAtOnce) {
  RouteSet routes(Family::kIpv6);
  for (uint64_t i = 0; i < 40'000; ++i) {
    routes.Announce(V6(0x2a00'0000'0000'0000 | i << 16, 1, 128),
                    static_cast<NextHopId>(1 + i % 3));
  }
  const auto compiler =
      FibLimitsPeer::Compiler(Family::kIpv6, AlwaysPacking(1000));
  std::unique_ptr<const Fib> fib = compiler->Compile(routes).value();
  const FibStats built = fib->Stats();
  while (compiler->counters().packed == 0) {
    fib = compiler->Update(routes, {}).value();
    ASSERT_EQ(compiler->counters().full, 0U);
  }
  EXPECT_EQ(fib->Stats().value_bytes, built.value_bytes);
  ASSERT_EQ(DifferencesAtBoundaries(*fib, RoutesOf(routes)), "");
}

// What covers most of a table leaves as much unused as the table took, but only
// until the next change.
TEST(FibPacked, WhatNoReaderHoldsIsNoReasonToPack) {
  RouteSet routes(Family::kIpv6);
  Random random(7);
  while (routes.size() < 12'000) {
    routes.Announce(V6(0x2a00'0000'0000'0000, random.Next(), 128),
                    static_cast<NextHopId>(1 + random.Below(60)));
  }
  FibCompiler compiler(Family::kIpv6);
  std::unique_ptr<const Fib> fib = compiler.Compile(routes).value();
  const Prefix cover = P("2a00::/49");
  for (NextHopId i = 1; i <= 10; ++i) {
    routes.Announce(cover, 60 + i);
    fib = compiler.Update(routes, {cover}).value();
    EXPECT_EQ(compiler.packing_bytes(), 0U) << i;
  }
  EXPECT_EQ(compiler.counters().incremental, 10U);
  ASSERT_EQ(DifferencesAtBoundaries(*fib, RoutesOf(routes)), "");
}

// What covers most of the table changes with each step, and with others: it is
// edited as far as the table is packed, and counts as what was packed.
TEST(FibPacked, FollowsADefaultRouteThatFlaps) {
  RouteSet routes(Family::kIpv6);
  Random random(6);
  for (int i = 0; i < 20'000; ++i) {
    routes.Announce(
        V6(0x2a00'0000'0000'0000 | random.Below(1 << 30) << 20, 0, 44),
        static_cast<NextHopId>(1 + random.Below(200)));
  }
  const auto compiler =
      FibLimitsPeer::Compiler(Family::kIpv6, AlwaysPacking(2000));
  std::unique_ptr<const Fib> fib = compiler->Compile(routes).value();
  while (compiler->counters().packed < 2) {
    const std::vector<Prefix> changed = {
        P("::/0"), P("2a00::/8"),
        V6(0x2a00'0000'0000'0000 | random.Below(1 << 30) << 20, 0, 44)};
    for (const Prefix& prefix : changed) {
      routes.Exchange(prefix, random.Chance(1, 3) ? kNoRoute
                                                  : static_cast<NextHopId>(
                                                        201 + random.Below(3)));
    }
    const size_t before = compiler->packing_bytes();
    fib = compiler->Update(routes, changed).value();
    // Two portions and a large table, as above, and a partition in a copy.
    const size_t after = compiler->packing_bytes();
    if (before > 0 && after > before) {
      EXPECT_LE(after - before, size_t{2} << 20);
    }
    ASSERT_EQ(compiler->counters().full, 0U);
    ASSERT_EQ(compiler->counters().compacted, 0U);
    ASSERT_EQ(DifferencesAtBoundaries(*fib, RoutesOf(routes)), "");
  }
}

// A cover decides, of what is packed, only what is around hosts: the first
// address that it has alone is not compiled yet.
TEST(FibPacked, FollowsACoverOfHosts) {
  RouteSet routes(Family::kIpv6);
  for (uint64_t i = 0; i + 1 < 4096; ++i) {
    routes.Announce(V6(0x2a00'0000'0000'0000 | i << 16, i, 128),
                    static_cast<NextHopId>(1 + i % 3));
  }
  const Prefix cover = P("2a00::/36");
  const auto compiler =
      FibLimitsPeer::Compiler(Family::kIpv6, AlwaysPacking(200));
  std::unique_ptr<const Fib> fib = compiler->Compile(routes).value();
  for (NextHopId i = 0; compiler->counters().packed < 3; ++i) {
    routes.Exchange(cover, i % 2 == 0 ? 7 : kNoRoute);
    fib = compiler->Update(routes, {cover}).value();
    ASSERT_EQ(compiler->counters().full, 0U);
    // Every 7th shows the table with the cover and without, in turn.
    if (kSanitized && i % 7 != 0) continue;
    ASSERT_EQ(DifferencesAtBoundaries(*fib, RoutesOf(routes)), "") << i;
  }
}

// The pages that it has the kernel clear count before it writes to them.
TEST(FibPacked, HugePagesCount) {
  RouteSet routes(Family::kIpv6);
  for (uint64_t i = 0; i < 8000; ++i) {
    routes.Announce(V6((0x2000 | i) << 48 | i << 16, i, 128), 1);
  }
  const auto compiler =
      FibLimitsPeer::Compiler(Family::kIpv6, AlwaysPacking(1000));
  std::unique_ptr<const Fib> fib = compiler->Compile(routes).value();
  size_t packing = 0, most = 0;
  while (compiler->counters().packed == 0) {
    packing = compiler->packing_bytes();
    most = std::max(most, packing);
    fib = compiler->Update(routes, {}).value();
  }
  EXPECT_EQ(compiler->packing_bytes(), 0U);
  EXPECT_GE(packing, size_t{2} << 20);
  EXPECT_LE(most, fib->bytes());
}

struct Kind {
  Family family;
  bool lengths = false;
  bool wide = false;  // ids of next hops
};

// The routes change at both sides of the seam, and cover it.
TEST(FibPacked, FollowsChangesOfEveryLength) {
  for (const Kind& kind :
       {Kind{Family::kIpv6}, Kind{Family::kIpv4},
        Kind{Family::kIpv6, true, true}, Kind{Family::kIpv4, true},
        Kind{Family::kIpv6, false, true}}) {
    const bool ipv6 = kind.family == Family::kIpv6;
    std::vector<Route> all = RandomRoutes({.family = kind.family,
                                           .count = 3000,
                                           .min_length = ipv6 ? 16 : 13,
                                           .seed = 2});
    const auto id = [&kind](uint64_t i) {
      return static_cast<NextHopId>(kind.wide ? 70'000 + 1000 * i : 1 + i);
    };
    for (Route& route : all) route.next_hop = id(route.next_hop);
    for (const size_t step : {200, 400}) {
      LiveTable table(kind.family, all, {.prefix_lengths = kind.lengths},
                      AlwaysPacking(step));
      Random random(4);
      for (int i = 0; i < 1000; ++i) {
        const Route& route = all[random.Below(all.size())];
        const int length = 11 + static_cast<int>(random.Below(ipv6 ? 118 : 22));
        const Change change = {
            Prefix::Truncate(route.prefix.address(), length),
            random.Chance(1, 2) ? kNoRoute : id(random.Below(400))};
        table.Apply({&change, 1});
        if (i % 20 == 0) {
          ASSERT_EQ(table.DifferencesAround({&change, 1}), "") << i;
        }
        if (i % 250 == 0) {
          ASSERT_EQ(DifferencesAtBoundaries(*table.fib(), table.ModelRoutes()),
                    "")
              << i;
        }
      }
      EXPECT_GT(table.compiler().counters().packed, 1U);
    }
  }
}

}  // namespace
}  // namespace planb
