// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

#include "benchmarks/rivals/baseline_check.h"
#include "benchmarks/rivals/rivals.h"
#include "lpm/synthetic/synthetic.h"
#include "lpm/testing/oracle.h"

namespace planb {
namespace {

class DpdkFibTest : public testing::TestWithParam<RivalKernel> {
 protected:
  BaselineBuilder Builder() const {
    return
        [kernel = GetParam()](Family family, absl::Span<const Route> routes) {
          return BuildDpdkFib(family, routes, kernel);
        };
  }
};

TEST_P(DpdkFibTest, Exact) {
  ExpectExact(Builder(), {.next_hops = 0x7fffffff});
}

TEST_P(DpdkFibTest, RealTable) { ExpectExactOnRealTable(Builder(), {}); }

INSTANTIATE_TEST_SUITE_P(All, DpdkFibTest,
                         testing::Values(RivalKernel::kBest,
                                         RivalKernel::kScalar));

TEST(DpdkLpm6, Exact) {
  ExpectExact(
      [](Family family, absl::Span<const Route> routes) {
        return BuildDpdkLpm6(family, routes);
      },
      {.next_hops = UINT32_MAX});
}

TEST(DpdkLpm6, RealTable) {
  ExpectExactOnRealTable(
      [](Family family, absl::Span<const Route> routes) {
        return BuildDpdkLpm6(family, routes);
      },
      {});
}

TEST(DpdkFib, RefusesToChangeToANextHopThatItHasNoBytesFor) {
  const Prefix prefix = *Prefix::Parse("2001:db8::/32");
  const auto fib = BuildDpdkFib(Family::kIpv6, {{{prefix, 1}}});
  ASSERT_TRUE(fib.ok()) << fib.status();
  EXPECT_EQ((*fib)->Update({{{prefix, 0x80000000}}}).code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_TRUE((*fib)->Update({{{prefix, 0x7fffffff}}}).ok());
}

// rte_fib6 of 22.11 sets tables of 8 bits aside for a route that comes, and
// gives none back for one that goes: it refuses a table that it could hold,
// after so many changes. Until then, and when it is built anew, answers are
// right. rte_fib gives back.
TEST(DpdkFib, PrintsAfterHowManyChangesItIsFullThoughNoRouteWasAdded) {
  constexpr int kMost = 50'000;
  const std::vector<Route> routes = SyntheticTable(
      {.ipv6_routes = 20'000, .ipv4_routes = 20'000, .next_hops = 1000});
  const absl::Span<const Route> all = routes;
  const auto ipv4 = static_cast<size_t>(
      std::count_if(routes.begin(), routes.end(), [](const Route& route) {
        return route.prefix.family() == Family::kIpv4;
      }));
  for (const auto& [of, prefix] :
       {std::pair(all.subspan(ipv4), "3fff:fff:ffff::/48"),
        std::pair(all.first(ipv4), "223.255.255.1/32")}) {
    const Route route = {*Prefix::Parse(prefix), 7};
    const Route withdrawn = {route.prefix, kNoRoute};
    auto fib = BuildDpdkFib(route.prefix.family(), of);
    ASSERT_TRUE(fib.ok()) << fib.status();
    const auto change = [&] {
      absl::Status status = (*fib)->Update({&route, 1});
      status.Update((*fib)->Update({&withdrawn, 1}));
      return status.ok();
    };
    int times = 0;
    while (times < kMost && change()) ++times;
    std::printf("%s announced and withdrawn %d times, %s\n", prefix, times,
                times < kMost ? "then refused" : "never refused");
    if (route.prefix.family() == Family::kIpv4) {
      EXPECT_EQ(times, kMost);
    }
    EXPECT_GT(times, 1000);
    const std::vector<Address> probes =
        BoundaryProbes(of.subspan(0, of.size() / 4));
    const std::vector<NextHopId> right = RightAnswers(of, probes);
    for (const bool anew : {false, true}) {
      if (anew) {
        fib = BuildDpdkFib(route.prefix.family(), of);
        ASSERT_TRUE(fib.ok()) << fib.status();
        EXPECT_TRUE(change());
      }
      for (size_t i = 0; i < probes.size(); ++i) {
        NextHopId hop = kUndecided;
        (*fib)->Lookup(probes[i].ToPacked().data(), 1, &hop);
        ASSERT_EQ(hop, right[i]) << probes[i].ToString();
      }
    }
  }
}

}  // namespace
}  // namespace planb
