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

constexpr int kSteps = kSanitized ? 50 : 150;  // of a history
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

// One after the other, so that many lie in each other; now and then with other
// changes, which break up what was edited.
TEST_P(FibCover, HistoriesOfEveryLength) {
  const Kind& kind = GetParam();
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    const std::vector<Route> all = Routes(seed);
    LiveTable table(kind.family, all, {.prefix_lengths = kind.lengths});
    OldVersions old(/*most=*/3, seed);
    Random random(seed);
    for (int step = 0; step < kSteps; ++step) {
      const auto below = [&](uint64_t longest) {
        return Prefix::Truncate(all[random.Below(all.size())].prefix.address(),
                                static_cast<int>(random.Below(longest + 1)));
      };
      std::vector<Change> changes = {
          {below(random.Chance(1, 4)            ? 7
                 : kind.family == Family::kIpv6 ? 47
                                                : 27),
           random.Chance(2, 5) ? kNoRoute : AnyNextHop(random)}};
      if (step % 7 == 0) {
        for (int n = 0; n < 5; ++n) {
          changes.push_back(
              {all[random.Below(all.size())].prefix,
               random.Chance(1, 2) ? kNoRoute : AnyNextHop(random)});
        }
      }
      table.Apply(changes);
      ASSERT_EQ(DifferencesAtBoundaries(*table.fib(), table.ModelRoutes()), "")
          << "seed " << seed << ", step " << step << ": "
          << ChangesText(changes);
      if (step % 5 == 0) {
        ASSERT_EQ(table.Check(BoundaryProbes(all), old), "") << step;
      }
    }
    while (!old.empty()) ASSERT_EQ(old.DropOne(), "") << "an old version";
  }
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
