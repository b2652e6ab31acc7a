// SPDX-License-Identifier: Apache-2.0

// What a lookup reads of the FIB: nothing past the end of any allocation, and
// nothing that an older version took with it. Each block that the engine
// allocates ends at a forbidden page, so that a gather or a vector load one
// byte too far is a crash; AddressSanitizer does not look at those.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lpm/fib/fib.h"
#include "lpm/fib/fib_compiler.h"
#include "lpm/routes/route_set.h"
#include "lpm/testing/fenced_new.h"
#include "lpm/testing/fib_check.h"
#include "lpm/testing/hard_prefixes.h"
#include "lpm/testing/histories.h"
#include "lpm/testing/oracle.h"
#include "lpm/testing/probes.h"

namespace planb {
namespace {

class FibFence : public testing::TestWithParam<Family> {};

INSTANTIATE_TEST_SUITE_P(Families, FibFence,
                         testing::Values(Family::kIpv4, Family::kIpv6),
                         [](const auto& param) {
                           return std::string(FamilyName(param.param));
                         });

std::vector<Route> HardRoutes(Family family, size_t count, uint64_t seed) {
  std::vector<Route> routes;
  const auto next_hops = static_cast<NextHopId>(1 + seed * 37 % 400);
  for (const Prefix& prefix : HardPrefixes(family, count, seed)) {
    routes.push_back(
        {prefix, 1 + static_cast<NextHopId>(routes.size()) % next_hops});
  }
  return routes;
}

std::vector<Route> RoutesOf(const RouteSet& set) {
  std::vector<Route> routes;
  for (const auto& [prefix, next_hop] : set) {
    routes.push_back({prefix, next_hop});
  }
  return routes;
}

// Where tables end: at the last address, at the first, and in between.
std::string Differences(const Fib& fib, const std::vector<Route>& routes) {
  std::string differences = DifferencesAtBoundaries(fib, routes);
  const std::vector<Address> uniform = UniformProbes(fib.family(), 2000, 1);
  return differences +
         PackedProbes(fib.family(), uniform)
             .Differences(fib, RightAnswers(fib.family(), routes, uniform));
}

TEST_P(FibFence, BuiltAtOnce) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const std::vector<Route> routes =
        seed == 1 ? std::vector<Route>()
                  : HardRoutes(GetParam(), 1 + seed * seed, seed);
    const size_t before = FencedNew::Bytes();
    std::unique_ptr<const Fib> fib;
    {
      const FencedNew fence;
      fib = Fib::Build(GetParam(), routes).value();
    }
    if (FencedNew::Available()) {
      // Or else this test sees little of the FIB.
      EXPECT_GE(FencedNew::Bytes() - before + 1024, fib->bytes() / 10 * 9);
    }
    ASSERT_EQ(Differences(*fib, routes), "") << "seed " << seed;
    fib.reset();
    EXPECT_EQ(FencedNew::Bytes(), before) << "a leak";
  }
}

TEST_P(FibFence, Updated) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    HistoryOptions options;
    options.family = GetParam();
    options.prefixes = 20 * seed;
    options.changes = 10;
    options.seed = seed;
    History history(options);
    RouteSet routes(GetParam());
    std::vector<std::unique_ptr<const Fib>> versions;
    std::unique_ptr<FibCompiler> compiler;
    std::unique_ptr<const Fib> first;
    {
      const FencedNew fence;
      compiler = std::make_unique<FibCompiler>(GetParam());
      first = compiler->Compile(routes).value();
    }
    versions.push_back(std::move(first));
    for (int batch = 0; batch < 60; ++batch) {
      std::vector<Prefix> changed;
      for (const Change& change : history.NextBatch()) {
        changed.push_back(change.prefix);
        if (change.next_hop == kNoRoute) {
          routes.Withdraw(change.prefix);
        } else {
          routes.Announce(change.prefix, change.next_hop);
        }
      }
      std::unique_ptr<const Fib> fib;
      {
        const FencedNew fence;
        fib = compiler->Update(routes, changed).value();
      }
      versions.push_back(std::move(fib));
      // The oldest goes, and what it alone held.
      if (versions.size() > 4) versions.erase(versions.begin());
      ASSERT_EQ(Differences(*versions.back(), RoutesOf(routes)), "")
          << "seed " << seed << ", batch " << batch;
    }
    compiler.reset();
    versions.erase(versions.begin(), versions.end() - 1);
    ASSERT_EQ(Differences(*versions[0], RoutesOf(routes)), "") << "alone";
    versions.clear();
    EXPECT_EQ(FencedNew::Bytes(), 0U) << "a leak";
  }
}

}  // namespace
}  // namespace planb
