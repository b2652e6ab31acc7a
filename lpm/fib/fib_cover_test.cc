// SPDX-License-Identifier: Apache-2.0

// Changes of prefixes that cover much of a table: the answers of what they
// decide change, all others stay, and neither memory nor time is that of
// compiling what they cover.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <ostream>
#include <vector>

#include "lpm/fib/fib_compiler.h"
#include "lpm/synthetic/random.h"
#include "lpm/synthetic/synthetic.h"
#include "lpm/testing/fib_check.h"
#include "lpm/testing/oracle.h"
#include "lpm/testing/random_tables.h"

namespace planb {
namespace {

constexpr int kSteps = kSanitized ? 40 : 120;  // of a history
// Each is looked at whole, twice.
constexpr int kNestedSteps = kSanitized ? 15 : kSteps;
constexpr size_t kMadeUp = kSanitized ? 15'000 : 50'000;

struct Kind {
  Family family;
  bool lengths;
  NextHopId scale;     // next hops are multiples of it
  uint32_t next_hops;  // few: covers often have those of what they cover
  int min_length;      // of the routes that stay
};

void PrintTo(const Kind& kind, std::ostream* out) {
  *out << FamilyName(kind.family) << (kind.lengths ? " lengths" : "") << " "
       << kind.next_hops << " next hops of " << kind.scale << " from /"
       << kind.min_length;
}

class FibCover : public testing::TestWithParam<Kind> {
 protected:
  NextHopId AnyNextHop(Random& random) const {
    return GetParam().scale *
           static_cast<NextHopId>(1 + random.Below(GetParam().next_hops));
  }

  // Crowded in some places, thin in others.
  std::vector<Route> Routes(uint64_t seed) const {
    std::vector<Route> routes = RandomRoutes(
        {.family = GetParam().family,
         .count = 2500,
         .min_length = GetParam().min_length,
         .max_length = GetParam().family == Family::kIpv6 ? 56 : 32,
         .seed = seed});
    Random random(seed);
    for (Route& route : routes) route.next_hop = AnyNextHop(random);
    return routes;
  }
};

INSTANTIATE_TEST_SUITE_P(
    Kinds, FibCover,
    testing::Values(Kind{Family::kIpv6, false, 1, 2, 20},
                    Kind{Family::kIpv6, false, 1, 200, 28},
                    Kind{Family::kIpv6, true, 1, 3, 16},
                    Kind{Family::kIpv6, false, 100'000, 40, 24},
                    Kind{Family::kIpv4, false, 1, 2, 13},
                    Kind{Family::kIpv4, true, 1000, 40, 16}));

// A generation has one cover, or several, in each other or apart, comes or
// goes, and often has other changes: of what the table had at first, and of
// what is in the covers, hosts too. One of two tables has old versions that
// live on, the other one is packed all the time.
TEST_P(FibCover, HistoriesOfEveryLength) {
  const Kind& kind = GetParam();
  const bool ipv6 = kind.family == Family::kIpv6;
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    const bool packs = seed % 2 == 0;
    const std::vector<Route> all = Routes(seed);
    LiveTable table(kind.family, all, {.prefix_lengths = kind.lengths},
                    packs ? AlwaysPacking(1000) : FibPacking());
    OldVersions old(/*most=*/3, seed);
    Random random(seed);
    const auto any = [&]() -> const Prefix& {
      return all[random.Below(all.size())].prefix;
    };
    const auto next_hop = [&] {
      return random.Chance(2, 5) ? kNoRoute : AnyNextHop(random);
    };
    std::vector<Change> changes;
    std::vector<Prefix> covers;  // that came
    const auto add_cover = [&](const Prefix& inside, NextHopId value) {
      const uint64_t longest = random.Chance(1, 4) ? 7 : ipv6 ? 47 : 27;
      const auto length = static_cast<int>(random.Below(longest + 1));
      covers.push_back(Prefix::Truncate(inside.address(), length));
      changes.push_back({covers.back(), value});
    };
    for (int step = 0; step < kSteps; ++step) {
      changes.clear();
      if (random.Chance(1, 2)) {
        add_cover(any(), next_hop());
      } else {
        const Prefix& inside = any();
        // All of them go now and then, so that nothing covers what was there.
        const bool all_go = random.Chance(1, 4);
        for (size_t i = covers.size(); i-- > 0;) {
          if (!all_go && random.Chance(9, 10)) continue;
          changes.push_back({covers[i], kNoRoute});
          covers.erase(covers.begin() + static_cast<ptrdiff_t>(i));
        }
        const bool alike = random.Chance(1, 2);
        const NextHopId value = AnyNextHop(random);
        for (uint64_t n = random.Below(7); n > 0; --n) {
          add_cover(random.Chance(2, 3) ? inside : any(),
                    alike ? value : next_hop());
        }
        for (uint64_t n = random.Below(9); n > 0; --n) {
          const Prefix& other = random.Chance(1, 2) ? inside : any();
          const int length = other.length() + (random.Chance(1, 2) ? 0
                                               : ipv6              ? 16
                                                                   : 8);
          const Address& at =
              random.Chance(1, 2)
                  ? other.address()
                  : Address::FromBits(kind.family, other.last());
          changes.push_back(
              {Prefix::Truncate(at, std::min(length, AddressBits(kind.family))),
               next_hop()});
        }
      }
      table.Apply(changes);
      ASSERT_EQ(DifferencesAtBoundaries(*table.fib(), table.ModelRoutes()), "")
          << "seed " << seed << ", step " << step << ": "
          << ChangesText(changes);
      // They hold memory, and so would have it packed at once.
      if (!packs && step % 5 == 0) {
        ASSERT_EQ(table.Check(BoundaryProbes(all), old), "") << step;
      }
    }
    while (!old.empty()) ASSERT_EQ(old.DropOne(), "") << "an old version";
    EXPECT_EQ(table.compiler().counters().full, 0U);
    if (packs) {
      EXPECT_GT(table.compiler().counters().packed, 0U);
    }
  }
}

// Covers that begin alike come and go at once, where nothing else covers what
// is in them: the slots at their beginning share partitions with others, and
// are left to be edited one by one.
TEST_P(FibCover, NestedOnesAtOnce) {
  const Kind& kind = GetParam();
  const int longest = kind.family == Family::kIpv6 ? 40 : 26;
  const std::vector<Route> all = Routes(/*seed=*/3);
  LiveTable table(kind.family, all, {.prefix_lengths = kind.lengths});
  Random random(3);
  std::vector<Change> changes;
  for (int step = 0; step < kNestedSteps; ++step) {
    changes.clear();
    const Prefix& inside = all[random.Below(all.size())].prefix;
    const auto length = static_cast<int>(13 + random.Below(9));
    const Prefix outer = Prefix::Truncate(
        Prefix::Truncate(inside.address(), longest).address(), length);
    changes.push_back({outer, AnyNextHop(random)});
    for (int inner = length; inner < longest;) {
      inner += static_cast<int>(1 + random.Below(6));
      changes.push_back(
          {Prefix::Truncate(outer.address(), inner), AnyNextHop(random)});
    }
    for (int goes = 0; goes < 2; ++goes) {
      table.Apply(changes);
      ASSERT_EQ(DifferencesAtBoundaries(*table.fib(), table.ModelRoutes()), "")
          << "step " << step << ": " << ChangesText(changes);
      for (Change& change : changes) change.next_hop = kNoRoute;
    }
  }
  EXPECT_EQ(table.compiler().counters().full, 0U);
}

// The default route flaps, and so do a /4 and a /9: none compiles anything, and
// what is left unused does not add up.
TEST(FibCoverMemory, ThatOfTwoTables) {
  const std::vector<Route> all = SyntheticTable({.ipv6_routes = kMadeUp});
  RouteSet routes(Family::kIpv6, all);
  FibCompiler compiler(Family::kIpv6);
  std::unique_ptr<const Fib> fib = compiler.Compile(routes).value();
  const size_t compact = fib->bytes();
  uint64_t steps = 0;
  for (NextHopId i = 1; i <= 20; ++i) {
    for (const char* text : {"::/0", "2000::/4", "2000::/9"}) {
      for (const NextHopId next_hop : {i, kNoRoute}) {
        const Prefix prefix = P(text);
        routes.Exchange(prefix, next_hop);
        fib = compiler.Update(routes, {prefix}).value();
        ++steps;
        if (i < 20) continue;
        ASSERT_EQ(DifferencesAtBoundaries(
                      *fib, std::vector<Route>(routes.begin(), routes.end())),
                  "")
            << text;
      }
    }
  }
  EXPECT_EQ(compiler.counters().incremental, steps);
  EXPECT_LE(fib->bytes(), 5 * compact / 2);
}

}  // namespace
}  // namespace planb
