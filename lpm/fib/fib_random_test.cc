// SPDX-License-Identifier: Apache-2.0

// Large random tables of prefixes that crowd, touch and nest deeply. They are
// asked where answers change and at random; the reference knows what is right.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "lpm/fib/fib.h"
#include "lpm/synthetic/random.h"
#include "lpm/synthetic/reference_table.h"
#include "lpm/testing/fib_check.h"
#include "lpm/testing/oracle.h"
#include "lpm/testing/random_tables.h"

namespace planb {
namespace {

// Asks at every boundary, inside every route and anywhere, in random order.
// Routes must be sorted.
void ExpectRight(Family family, const std::vector<Route>& routes,
                 uint64_t seed) {
  std::vector<Address> probes = BoundaryProbes(routes);
  for (const auto& more :
       {InsideProbes(routes, 3, seed), UniformProbes(family, 1000, seed)}) {
    probes.insert(probes.end(), more.begin(), more.end());
  }
  Random(seed).Shuffle(probes);
  const auto fib =
      Fib::Build(family, routes, {.prefix_lengths = seed % 2 == 0}).value();
  ExpectAnswers(*fib, probes, ReferenceTable(routes).NextHops(probes));
  EXPECT_EQ(UpperDifferences(*fib, routes, probes), "");
  EXPECT_EQ(LengthDifferences(*fib, routes, probes), "");
}

// How many routes lie on the longest chain of nested ones.
size_t DeepestNesting(const std::vector<Route>& routes) {
  size_t deepest = 0;
  std::vector<Prefix> covers;
  for (const Route& route : routes) {
    while (!covers.empty() && !covers.back().Covers(route.prefix)) {
      covers.pop_back();
    }
    covers.push_back(route.prefix);
    deepest = std::max(deepest, covers.size());
  }
  return deepest;
}

TEST(FibRandom, AllLengths) {
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    for (const size_t count : {10, 30, 100, 300, 1000, 5000, 20'000}) {
      const uint64_t seeds = (kSanitized ? 24'000 : 100'000) / (count + 4000);
      for (uint64_t seed = 1; seed <= seeds; ++seed) {
        for (const uint32_t next_hops : {2U, 0xffff'fffeU}) {
          const std::vector<Route> routes =
              RandomRoutes({.family = family,
                            .count = count,
                            .next_hops = next_hops,
                            .seed = seed});
          ExpectRight(family, routes, seed);
          if (HasFailure()) FAIL() << count << " routes, seed " << seed;
          if (count == 20'000) {
            EXPECT_GT(routes.size(), 19'000U);
            EXPECT_GT(DeepestNesting(routes), 16U);
          }
        }
      }
    }
  }
}

struct Lengths {
  int min;
  int max;
};

// Routes above bit 64 only, below it only, and close to it on both sides.
TEST(FibRandom, Ipv6LengthsAroundSixtyFour) {
  for (const Lengths& lengths :
       {Lengths{0, 64}, Lengths{65, 128}, Lengths{60, 68}, Lengths{64, 64},
        Lengths{64, 65}, Lengths{63, 66}, Lengths{48, 128}, Lengths{120, 128},
        Lengths{128, 128}}) {
    for (const size_t count : {100, 3000}) {
      for (uint64_t seed = 1; seed <= 5; ++seed) {
        ExpectRight(Family::kIpv6,
                    RandomRoutes({.count = count,
                                  .min_length = lengths.min,
                                  .max_length = lengths.max,
                                  .seed = seed}),
                    seed);
        if (HasFailure()) {
          FAIL() << lengths.min << ".." << lengths.max << ", " << count
                 << " routes, seed " << seed;
        }
      }
    }
  }
}

// Every size of tree: nodes just full, just more than full, nearly empty.
TEST(FibRandom, EverySizeFromZero) {
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    const int length = family == Family::kIpv4 ? 24 : 64;
    std::vector<Route> routes;
    for (uint32_t i = 0; i <= (kSanitized ? 300u : 1000u); ++i) {
      ExpectRight(family, routes, i);
      if (HasFailure()) FAIL() << i << " routes";
      // Different next hops, so that none merge; gaps now and then.
      const absl::uint128 address =
          absl::MakeUint128(uint64_t{i + i / 5} << 40, 0);
      routes.push_back(
          {Prefix::Truncate(Address::FromBits(family, address), length),
           i + 1});
    }
  }
}

// Long random histories of updates against the reference and against a full
// build of the same routes.
//
// PLANB_HISTORY_SEEDS histories are tried, from seed PLANB_HISTORY_FIRST_SEED
// on: for a long run
//   bazel test //lpm/fib:fib_random_test --test_timeout=86400
//       --test_env=PLANB_HISTORY_SEEDS=20000
//       --test_env=PLANB_HISTORY_FIRST_SEED=1000

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* const text = std::getenv(name);
  uint64_t value = otherwise;
  if (text != nullptr && !absl::SimpleAtoi(text, &value)) {
    ADD_FAILURE() << name << " is \"" << text << "\", not a number";
  }
  return value;
}

// One history and what is right after each of its batches. Every third table
// keeps prefix lengths, and every second one is packed all the time.
class HistoryCheck {
 public:
  explicit HistoryCheck(const HistoryOptions& options)
      : options_(options),
        history_(options),
        random_(options.seed + 1),
        table_(options.family, {}, {.prefix_lengths = options.seed % 3 == 2},
               options.seed % 2 == 0
                   ? AlwaysPacking(1 + options.seed / 2 * 3 % 40)
                   : FibPacking()),
        old_(/*most=*/32, options.seed) {}

  // Tries `batches`; every `thorough`th version is checked everywhere.
  void Run(int batches, int thorough) {
    for (int batch = 1; batch <= batches; ++batch) {
      const std::vector<Change> changes = history_.NextBatch();
      table_.Apply(changes, history_.AlsoNamed());
      const bool everywhere = batch % thorough == 0 || batch == batches;
      Check(ProbesFor(changes, everywhere), everywhere);
      if (random_.Chance(1, 2000)) table_.Recompile();
      if (testing::Test::HasFatalFailure()) {
        FAIL() << FamilyName(options_.family) << ", seed " << options_.seed
               << ", batch " << batch << ": "
               << ChangesText(changes).substr(0, 2000);
      }
    }
    while (!old_.empty()) ASSERT_EQ(old_.DropOne(), "") << "an old version";
  }

 private:
  // Around the changes and around some of the other routes, or around all.
  std::vector<Address> ProbesFor(const std::vector<Change>& changes,
                                 bool everywhere) {
    std::vector<Route> around;
    for (size_t i = 0; i < std::min<size_t>(changes.size(), 12); ++i) {
      around.push_back(changes[random_.Below(changes.size())]);
    }
    const std::vector<Route> routes = table_.ModelRoutes();
    if (everywhere) around = routes;
    for (size_t i = 0; i < 16 && !routes.empty(); ++i) {
      around.push_back(routes[random_.Below(routes.size())]);
    }
    std::vector<Address> probes = BoundaryProbes(around);
    for (const Address& probe : InsideProbes(around, 1, random_.Next())) {
      probes.push_back(probe);
    }
    const Address zero = Address::FromBits(options_.family, 0);
    probes.insert(probes.end(), {zero, PreviousAddress(zero)});
    return probes;
  }

  void Check(std::vector<Address> addresses, bool everywhere) {
    if (everywhere) {
      const std::vector<Route> routes = table_.ModelRoutes();
      const auto built = Fib::Build(options_.family, routes).value();
      ExpectAnswers(*built, addresses, RightAnswers(routes, addresses));
      ASSERT_EQ(UpperDifferences(*built, routes, addresses), "");
    }
    ASSERT_EQ(table_.Check(std::move(addresses), old_), "");
  }

  const HistoryOptions options_;
  History history_;
  Random random_;
  LiveTable table_;
  OldVersions old_;
};

class RandomHistory : public testing::TestWithParam<uint64_t> {
 protected:
  HistoryOptions Options(size_t prefixes) const {
    HistoryOptions options;
    options.seed = GetParam();
    options.family = GetParam() % 4 == 0 ? Family::kIpv4 : Family::kIpv6;
    options.prefixes = prefixes;
    return options;
  }
};

// A few dozen routes, in many batches.
TEST_P(RandomHistory, SmallTable) {
  for (const size_t prefixes : {8, 30, 80}) {
    HistoryOptions options = Options(prefixes);
    options.next_hops = static_cast<uint32_t>(1 + options.seed % 5);
    HistoryCheck(options).Run(2000, 50);
    if (HasFatalFailure()) FAIL() << prefixes << " prefixes";
  }
}

// Hundreds of routes, with nearly as many next hops: fewer batches.
TEST_P(RandomHistory, LargerTable) {
  HistoryOptions options = Options(200 + 20 * (GetParam() % 32));
  options.changes = 30;
  options.next_hops = GetParam() % 2 == 0 ? 100'000 : 300;
  options.first_next_hop = GetParam() % 3 == 0 ? 0u - 50'000 : 1;
  HistoryCheck(options).Run(150, 50);
}

// Thousands of routes, in batches of hundreds.
TEST_P(RandomHistory, LargeTable) {
  if (GetParam() % 8 != 0) return;  // one seed in eight: these take longer
  HistoryOptions options = Options(6000);
  options.family = GetParam() % 16 == 0 ? Family::kIpv4 : Family::kIpv6;
  options.changes = 1000;
  options.next_hops = 70'000;
  HistoryCheck(options).Run(40, 10);
}

INSTANTIATE_TEST_SUITE_P(
    Seeds, RandomHistory,
    testing::Range(FromEnvironment("PLANB_HISTORY_FIRST_SEED", 1),
                   FromEnvironment("PLANB_HISTORY_FIRST_SEED", 1) +
                       FromEnvironment("PLANB_HISTORY_SEEDS", 24)));

}  // namespace
}  // namespace planb
