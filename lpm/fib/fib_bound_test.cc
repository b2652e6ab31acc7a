// SPDX-License-Identifier: Apache-2.0

// Full compilations of the worst tables stay within the bounds; and of tables
// like the Internet's, not too far below.

#include "lpm/fib/fib_bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lpm/fib/fib.h"
#include "lpm/fib/fib_compiler.h"
#include "lpm/routes/route_set.h"
#include "lpm/synthetic/random.h"
#include "lpm/synthetic/synthetic.h"
#include "lpm/testing/bound_tables.h"
#include "lpm/testing/fib_check.h"
#include "lpm/testing/random_tables.h"
#include "lpm/testing/real_tables.h"

namespace planb {
namespace {

constexpr size_t kMostRoutes = kSanitized ? 15'000 : 300'000;

// Returns the share of FibBytesBound that the table takes.
double ExpectWithin(Family family, const std::vector<Route>& routes,
                    uint64_t next_hops, const FibOptions& options = {}) {
  const RoutesByLength lengths = CountLengths(routes);
  EXPECT_TRUE(CheckCompilable(family, lengths, next_hops, options).ok());
  const FibSize most = CompiledSize(family, lengths, next_hops, options);
  const auto built = Fib::Build(family, routes, options).value();
  const FibStats stats = built->Stats();
  const size_t line_bytes = stats.table_bytes + stats.partition_bytes;
  EXPECT_LE(line_bytes, most.lines * 64);
  EXPECT_LE(stats.descriptors, most.descriptors);
  EXPECT_LE(stats.next_hop_bytes, most.next_hops * sizeof(NextHopId));
  EXPECT_LE(stats.prefix_length_bytes,
            options.prefix_lengths ? most.next_hops : 0);
  // The first line is there even if none is needed.
  const size_t packed =
      sizeof(Fib) + stats.root_bytes + std::max<size_t>(most.lines, 1) * 64 +
      most.descriptors * 32 +
      most.next_hops * (sizeof(NextHopId) + (options.prefix_lengths ? 1 : 0));
  EXPECT_LE(built->bytes(), packed);

  const auto compiled =
      FibCompiler(family, options).Compile(RouteSet(family, routes)).value();
  const size_t bound = FibBytesBound(family, lengths, next_hops, options);
  EXPECT_LE(compiled->bytes(), bound);
  EXPECT_LE(compiled->bytes(),
            UpdateBytesBound(family, lengths, next_hops, options));
  return static_cast<double>(compiled->bytes()) / static_cast<double>(bound);
}

class FibBound : public testing::TestWithParam<BoundTable> {};

INSTANTIATE_TEST_SUITE_P(Tables, FibBound, testing::ValuesIn(BoundTables()),
                         testing::PrintToStringParamName());

TEST_P(FibBound, HoldsForAFullCompilation) {
  for (const size_t count : {size_t{0}, size_t{1}, size_t{2}, size_t{10},
                             size_t{1000}, size_t{50'000}, kMostRoutes}) {
    if (count > kMostRoutes) continue;
    const std::vector<Prefix> prefixes = GetParam().make(count);
    for (const size_t next_hops : {1, 2, 300, 70'000, 0}) {
      if (count == kMostRoutes && next_hops != 2 && next_hops != 0) continue;
      SCOPED_TRACE(testing::Message()
                   << count << " routes, " << next_hops << " next hops");
      for (const bool lengths : {false, true}) {
        if (lengths && count > 50'000) continue;
        ExpectWithin(GetParam().family, BoundRoutes(prefixes, next_hops),
                     next_hops == 0 ? kDistinctNextHops : next_hops,
                     {.prefix_lengths = lengths});
      }
    }
  }
}

// A bound is useful if it is at most `most` times what the table takes. The
// numbers are a little above those of the day when they were written.
void ExpectUseful(Family family, const std::vector<Route>& routes,
                  double most) {
  const double share = ExpectWithin(family, routes, kDistinctNextHops);
  EXPECT_LE(1 / share, most) << routes.size() << " routes";
  std::cout << routes.size() << " routes: bound / bytes = " << 1 / share
            << std::endl;
}

TEST(FibBoundUseful, OnTablesLikeTheInternets) {
  for (const size_t routes : {1000, 10'000, 100'000, 259'000, 1'000'000}) {
    if (kSanitized && routes > 100'000) continue;
    const double most = routes == 1000 ? 10 : 40;
    ExpectUseful(Family::kIpv6, SyntheticTable({.ipv6_routes = routes}), most);
    if (routes == 1'000'000) continue;
    ExpectUseful(Family::kIpv4,
                 SyntheticTable({.ipv6_routes = 0, .ipv4_routes = routes}),
                 most);
  }
}

class FibBoundRealTable : public testing::TestWithParam<Family> {};

INSTANTIATE_TEST_SUITE_P(Families, FibBoundRealTable,
                         testing::Values(Family::kIpv6, Family::kIpv4));

TEST_P(FibBoundRealTable, HoldsAndIsUseful) {
  const std::string path = RealTablePath(GetParam());
  if (path.empty()) GTEST_SKIP() << "no table in PLANB_DATA_DIR";
  const auto routes = ReadPlainTable(path);
  ASSERT_TRUE(routes.ok()) << routes.status();
  ExpectUseful(GetParam(), *routes, 40);
}

// Why it is no use to add up bounds on what is added.
TEST(FibBound, OneChangeMayTakeAsMuchAsTheWholeTable) {
  std::vector<Prefix> prefixes;
  for (uint64_t i = 0; i < 20'000; ++i) {
    prefixes.push_back(V6(i * 0x9e37'79b9 << 20, 0, 48));
  }
  std::vector<Route> routes = BoundRoutes(prefixes, 1);
  routes.insert(routes.begin(), {P("::/0"), 1});
  ASSERT_TRUE(std::is_sorted(routes.begin(), routes.end()));
  const auto merged = Fib::Build(Family::kIpv6, routes).value();
  routes.front().next_hop = 2;
  const auto cut = Fib::Build(Family::kIpv6, routes).value();
  EXPECT_GT(cut->bytes(), 2 * merged->bytes());
  EXPECT_LE(cut->bytes(), FibBytesBound(Family::kIpv6, CountLengths(routes)));
}

TEST(CheckCompilable, NamesWhatThereMayBeTooManyOf) {
  RoutesByLength lengths = {};
  EXPECT_TRUE(CheckCompilable(Family::kIpv4, lengths).ok());
  lengths[48] = 16'000'000;
  EXPECT_TRUE(CheckCompilable(Family::kIpv6, lengths).ok());
  lengths[48] = 23'000'000;
  EXPECT_TRUE(CheckCompilable(Family::kIpv6, lengths, 1000).ok());
  EXPECT_EQ(CheckCompilable(Family::kIpv6, lengths).message(),
            "the table may need 23000000 distinct next hops; a FIB has "
            "16777215 at most");
  EXPECT_EQ(
      CheckCompilable(Family::kIpv6, lengths, 200'000, {.prefix_lengths = true})
          .message(),
      "the table may need 23000000 distinct pairs of next hop and prefix "
      "length; a FIB has 16777215 at most");
  lengths[48] = 24'000'000;
  const absl::Status lines = CheckCompilable(Family::kIpv6, lengths, 1000);
  EXPECT_EQ(lines.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(lines.message(),
            "the table may need 33738036 lines of 64 bytes; a FIB has "
            "33554431 at most");
  lengths = {};
  lengths[128] = 8'388'608;
  EXPECT_TRUE(CheckCompilable(Family::kIpv6, lengths).ok());
  ++lengths[128];
  EXPECT_EQ(CheckCompilable(Family::kIpv6, lengths).message(),
            "the table may need 16777218 descriptors of long prefixes; a FIB "
            "has 16777216 at most");
}

// No history of changes makes a FIB exceed its bounds.

// A table, and the most routes of each length since its last full compilation,
// or since the last one in steps began.
class BoundedTable {
 public:
  // Keeps the `old_versions` last FIBs alive.
  explicit BoundedTable(Family family, size_t old_versions = 0,
                        const FibOptions& options = {})
      : options_(options),
        routes_(family),
        compiler_(family, options),
        old_versions_(old_versions) {
    Keep(compiler_.Compile(routes_).value());
  }

  // kNoRoute withdraws. Nothing is compiled yet.
  void Change(const Prefix& prefix, NextHopId next_hop) {
    uint64_t& count = lengths_[static_cast<size_t>(prefix.length())];
    const bool there = routes_.Find(prefix) != kNoRoute;
    if (next_hop == kNoRoute) {
      if (routes_.Withdraw(prefix)) --count;
    } else {
      routes_.Announce(prefix, next_hop);
      if (!there) ++count;
    }
    changed_.push_back(prefix);
  }

  // Compiles the next version.
  void Update() {
    const FibCompiler::Counters before = compiler_.counters();
    if (compiler_.packing_bytes() == 0) packing_ = {};
    Keep(compiler_.Update(routes_, changed_).value());
    changed_.clear();
    const FibCompiler::Counters& after = compiler_.counters();
    if (after.packed > before.packed) most_ = packing_;
    if (after.full + after.compacted > before.full + before.compacted) {
      most_ = lengths_;
    }
    for (size_t i = 0; i < most_.size(); ++i) {
      most_[i] = std::max(most_[i], lengths_[i]);
      packing_[i] = std::max(packing_[i], lengths_[i]);
    }
    const size_t bound =
        UpdateBytesBound(routes_.family(), most_, kDistinctNextHops, options_);
    ASSERT_LE(fibs_.back()->bytes(), bound) << routes_.size() << " routes";
    ASSERT_LE(compiler_.packing_bytes(), bound) << routes_.size() << " routes";
  }

  const RouteSet& routes() const { return routes_; }
  const Fib& fib() const { return *fibs_.back(); }
  const FibCompiler::Counters& counters() const { return compiler_.counters(); }

 private:
  void Keep(std::unique_ptr<const Fib> fib) {
    fibs_.push_back(std::move(fib));
    if (fibs_.size() > old_versions_ + 1) fibs_.pop_front();
  }

  const FibOptions options_;
  RouteSet routes_;
  FibCompiler compiler_;
  const size_t old_versions_;
  std::deque<std::unique_ptr<const Fib>> fibs_;
  std::vector<Prefix> changed_;
  // Now; in the table in use; in the one that is compiled in steps.
  RoutesByLength lengths_ = {}, most_ = {}, packing_ = {};
};

class FibBoundUpdates : public testing::TestWithParam<BoundTable> {};

INSTANTIATE_TEST_SUITE_P(Tables, FibBoundUpdates,
                         testing::ValuesIn(BoundTables()),
                         testing::PrintToStringParamName());

// Batches of all sizes, that let the table grow, then shrink, and so on.
TEST_P(FibBoundUpdates, ComeAndGo) {
  for (const size_t old_versions : {0, 20}) {
    const std::vector<Route> routes =
        BoundRoutes(GetParam().make(10'000), old_versions == 0 ? 0 : 300);
    Random random(7);
    BoundedTable table(GetParam().family, old_versions,
                       {.prefix_lengths = old_versions > 0});
    for (int i = 0; i < 300; ++i) {
      const bool grow = i / 60 % 2 == 0;
      size_t batch = size_t{1} << random.Below(8);
      if (i % 60 == 0) batch = 1000;
      for (size_t k = 0; k < batch; ++k) {
        const Route& route = routes[random.Below(routes.size())];
        const bool announce = random.Chance(grow ? 9 : 2, 10);
        table.Change(route.prefix, announce ? route.next_hop : kNoRoute);
      }
      ASSERT_NO_FATAL_FAILURE(table.Update()) << "batch " << i;
    }
    EXPECT_GT(table.counters().incremental, 0U);
  }
}

// Blocks of each size in turn, none of them of use to the next.
TEST(FibBoundUpdates, PartitionsGrowLineByLine) {
  BoundedTable table(Family::kIpv6);
  constexpr uint64_t kPlaces = 64;
  for (uint64_t size = 1; size < 60; ++size) {
    for (uint64_t place = 0; place < kPlaces; ++place) {
      table.Change(V6(place << 52 | size << 18, 0, 48),
                   kUndecided - 1 - static_cast<NextHopId>(place * 64 + size));
      ASSERT_NO_FATAL_FAILURE(table.Update()) << size << " at " << place;
    }
  }
  EXPECT_LE(table.fib().bytes(), 256 * 1024U);
}

// Next hops that are used once and never again.
TEST(FibBoundUpdates, EveryChangeToANewNextHop) {
  BoundedTable table(Family::kIpv6);
  constexpr NextHopId kRounds = 20'000;
  const Prefix prefix = P("2001:db8::/32");
  // Enough for values to be wide: narrow ones overflow soon.
  for (const Route& route : BoundRoutes(BoundTables()[0].make(300), 0)) {
    table.Change(route.prefix, route.next_hop);
  }
  for (NextHopId i = 0; i < kRounds; ++i) {
    table.Change(prefix, kUndecided - 1 - i);
    ASSERT_NO_FATAL_FAILURE(table.Update()) << i;
  }
  EXPECT_GT(table.counters().compacted, 5U);
}

// Hosts come to a table that had none. Their lines are few beside those of the
// others, and do not tell.
TEST(FibBoundUpdates, DescriptorsCount) {
  BoundedTable table(Family::kIpv6);
  for (uint64_t i = 0; i < 8000; ++i) {
    table.Change(V6((0x8000 | i) << 48 | i << 20, 0, 48),
                 static_cast<NextHopId>(1 + i % 300));
  }
  table.Update();
  ASSERT_EQ(table.counters().full, 1U);
  for (uint64_t i = 0; i < 1500; ++i) {
    table.Change(V6(i / 10 << 52 | i << 20, i, 128), 1);
    if (i % 100 == 99) {
      ASSERT_NO_FATAL_FAILURE(table.Update()) << i;
    }
  }
  EXPECT_EQ(table.counters().full, 1U);
  EXPECT_EQ(table.counters().compacted, 1U);
}

}  // namespace
}  // namespace planb
