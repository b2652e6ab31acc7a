// SPDX-License-Identifier: Apache-2.0

// No history of changes makes a FIB exceed its bounds.

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "lpm/fib/fib.h"
#include "lpm/fib/fib_bound.h"
#include "lpm/fib/fib_compiler.h"
#include "lpm/routes/route_set.h"
#include "lpm/synthetic/random.h"
#include "lpm/testing/bound_tables.h"

namespace planb {
namespace {

// A table, and the most routes of each length since its last full compilation.
class BoundedTable {
 public:
  // Keeps the `old_versions` last FIBs alive.
  explicit BoundedTable(Family family, size_t old_versions = 0)
      : routes_(family), compiler_(family), old_versions_(old_versions) {
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
    Keep(compiler_.Update(routes_, changed_).value());
    changed_.clear();
    const FibCompiler::Counters& after = compiler_.counters();
    if (after.full + after.compacted > before.full + before.compacted) {
      most_ = lengths_;
    }
    for (size_t i = 0; i < most_.size(); ++i) {
      most_[i] = std::max(most_[i], lengths_[i]);
    }
    const size_t bound = UpdateBytesBound(routes_.family(), most_);
    ASSERT_LE(fibs_.back()->bytes(), bound) << routes_.size() << " routes";
    most_share_ =
        std::max(most_share_, static_cast<double>(fibs_.back()->bytes()) /
                                  static_cast<double>(bound));
  }

  const RouteSet& routes() const { return routes_; }
  const Fib& fib() const { return *fibs_.back(); }
  double most_share() const { return most_share_; }
  const FibCompiler::Counters& counters() const { return compiler_.counters(); }

 private:
  void Keep(std::unique_ptr<const Fib> fib) {
    fibs_.push_back(std::move(fib));
    if (fibs_.size() > old_versions_ + 1) fibs_.pop_front();
  }

  RouteSet routes_;
  FibCompiler compiler_;
  const size_t old_versions_;
  std::deque<std::unique_ptr<const Fib>> fibs_;
  std::vector<Prefix> changed_;
  RoutesByLength lengths_ = {}, most_ = {};
  double most_share_ = 0;
};

class FibBoundUpdates : public testing::TestWithParam<BoundTable> {};

INSTANTIATE_TEST_SUITE_P(Tables, FibBoundUpdates,
                         testing::ValuesIn(BoundTables()),
                         [](const auto& param) { return param.param.name; });

// Batches of all sizes, that let the table grow, then shrink, and so on.
TEST_P(FibBoundUpdates, ComeAndGo) {
  for (const size_t old_versions : {0, 20}) {
    const std::vector<Route> routes =
        BoundRoutes(GetParam().make(10'000), old_versions == 0 ? 0 : 300);
    Random random(7);
    BoundedTable table(GetParam().family, old_versions);
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
    RecordProperty("most_share_" + std::to_string(old_versions),
                   std::to_string(table.most_share()));
  }
}

// Blocks of each size in turn, none of them of use to the next.
TEST(FibBoundUpdates, PartitionsGrowLineByLine) {
  BoundedTable table(Family::kIpv6);
  constexpr uint64_t kPlaces = 64;
  for (uint64_t size = 1; size < 60; ++size) {
    for (uint64_t place = 0; place < kPlaces; ++place) {
      table.Change(
          Prefix::Truncate(
              Address::V6(absl::MakeUint128(place << 52 | size << 18, 0)), 48),
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
  const Prefix prefix = Prefix::Parse("2001:db8::/32").value();
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
    const absl::uint128 bits =
        absl::MakeUint128((0x8000 | i) << 48 | i << 20, 0);
    table.Change(Prefix::Truncate(Address::V6(bits), 48),
                 static_cast<NextHopId>(1 + i % 300));
  }
  table.Update();
  ASSERT_EQ(table.counters().full, 1U);
  for (uint64_t i = 0; i < 1500; ++i) {
    table.Change(
        Prefix::Truncate(
            Address::V6(absl::MakeUint128(i / 10 << 52 | i << 20, i)), 128),
        1);
    if (i % 100 == 99) {
      ASSERT_NO_FATAL_FAILURE(table.Update()) << i;
    }
  }
  EXPECT_EQ(table.counters().full, 1U);
  EXPECT_EQ(table.counters().compacted, 1U);
}

}  // namespace
}  // namespace planb
