// SPDX-License-Identifier: Apache-2.0

// Long random histories of updates against the reference and against a full
// build of the same routes.
//
// PLANB_HISTORY_SEEDS histories are tried, from seed PLANB_HISTORY_FIRST_SEED
// on: for a long run
//   bazel test //lpm/fib:fib_compiler_random_test --test_timeout=86400
//       --test_env=PLANB_HISTORY_SEEDS=20000
//       --test_env=PLANB_HISTORY_FIRST_SEED=1000

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "lpm/fib/fib.h"
#include "lpm/synthetic/random.h"
#include "lpm/testing/fib_check.h"
#include "lpm/testing/histories.h"
#include "lpm/testing/oracle.h"
#include "lpm/testing/probes.h"

namespace planb {
namespace {

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* const text = std::getenv(name);
  uint64_t value = otherwise;
  if (text != nullptr && !absl::SimpleAtoi(text, &value)) {
    ADD_FAILURE() << name << " is \"" << text << "\", not a number";
  }
  return value;
}

// One history and what is right after each of its batches.
class HistoryCheck {
 public:
  explicit HistoryCheck(const HistoryOptions& options)
      : options_(options),
        history_(options),
        random_(options.seed + 1),
        table_(options.family),
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
    const std::vector<Route> routes = table_.ModelRoutes();
    const auto probes = std::make_shared<const PackedProbes>(
        options_.family, std::move(addresses));
    std::vector<NextHopId> expected =
        RightAnswers(options_.family, routes, probes->addresses());
    ASSERT_EQ(probes->Differences(*table_.fib(), expected), "");
    ASSERT_EQ(UpperDifferences(*table_.fib(), routes, probes->addresses()), "");
    for (size_t i = 0; i < std::min<size_t>(expected.size(), 8); ++i) {
      ASSERT_EQ(table_.fib()->Lookup(probes->addresses()[i]), expected[i]);
    }
    if (everywhere) {
      const auto built = Fib::Build(options_.family, routes).value();
      ASSERT_EQ(probes->Differences(*built, expected), "") << "built at once";
      ASSERT_EQ(UpperDifferences(*built, routes, probes->addresses()), "")
          << "built at once";
    }
    ASSERT_EQ(old_.Keep(table_.fib(), probes, std::move(expected)), "")
        << "an old version";
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

// A few dozen routes: many batches.
TEST_P(RandomHistory, SmallTable) {
  for (const size_t prefixes : {8, 30, 80}) {
    HistoryOptions options = Options(prefixes);
    options.next_hops = static_cast<uint32_t>(1 + options.seed % 5);
    HistoryCheck(options).Run(2000, 50);
    if (HasFatalFailure()) FAIL() << prefixes << " prefixes";
  }
}

// Hundreds: fewer, and each next hop its own or nearly.
TEST_P(RandomHistory, LargerTable) {
  HistoryOptions options = Options(200 + 20 * (GetParam() % 32));
  options.changes = 30;
  options.next_hops = GetParam() % 2 == 0 ? 100'000 : 300;
  options.first_next_hop = GetParam() % 3 == 0 ? 0u - 50'000 : 1;
  HistoryCheck(options).Run(150, 50);
}

// Thousands, in batches of hundreds.
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
                       FromEnvironment("PLANB_HISTORY_SEEDS", 96)));

}  // namespace
}  // namespace planb
