// SPDX-License-Identifier: Apache-2.0

// Four million routes.

#include <gtest/gtest.h>

#include <vector>

#include "lpm/fib/fib.h"
#include "lpm/synthetic/random.h"
#include "lpm/testing/adversarial_tables.h"
#include "lpm/testing/fib_check.h"
#include "lpm/testing/histories.h"
#include "lpm/testing/oracle.h"
#include "lpm/testing/probes.h"

namespace planb {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr uint64_t kRoutes = 400'000;  // sanitizers take their time
#else
constexpr uint64_t kRoutes = 4'000'000;
#endif

// Ascending /40../48s all over 2000::/3, some of them inside the one before,
// one in a hundred a /128.
std::vector<Route> Routes(NextHopId (*next_hop)(uint64_t)) {
  Random random(1);
  std::vector<Route> routes;
  routes.reserve(kRoutes);
  const uint64_t step = (uint64_t{1} << 61) / kRoutes;
  for (uint64_t i = 0; i < kRoutes; ++i) {
    const uint64_t high = (uint64_t{1} << 61) + i * step + random.Below(step);
    const int length =
        i % 100 == 99 ? 128 : 48 - static_cast<int>(random.Below(9));
    const Prefix prefix = Prefix::Truncate(
        Address::V6(absl::MakeUint128(high, random.Next())), length);
    if (!routes.empty() && prefix <= routes.back().prefix) continue;
    routes.push_back({prefix, next_hop(i)});
  }
  return routes;
}

// The boundaries of one route in forty, and what is right there.
struct Sample {
  explicit Sample(const std::vector<Route>& routes) {
    std::vector<Route> some;
    for (size_t i = 0; i < routes.size(); i += 40) some.push_back(routes[i]);
    probes = BoundaryProbes(some);
    expected = Reference(Family::kIpv6, routes).Lookup(probes);
  }
  std::string Differences(const Fib& fib) const {
    return PackedProbes(Family::kIpv6, probes).Differences(fib, expected);
  }
  std::vector<Address> probes;
  std::vector<NextHopId> expected;
};

TEST(FibHuge, FewNextHops) {
  const std::vector<Route> routes =
      Routes([](uint64_t i) { return static_cast<NextHopId>(1 + i % 64); });
  ASSERT_GT(routes.size(), kRoutes / 10 * 9);
  const auto fib = Fib::Build(Family::kIpv6, routes).value();
  EXPECT_EQ(Sample(routes).Differences(*fib), "");
  EXPECT_LE(fib->bytes(), kMostBytesPerRoute * routes.size());
}

// As many next hops as routes; short prefixes come over them and go.
TEST(FibHuge, DistinctNextHopsUnderShortPrefixes) {
  const std::vector<Route> routes = Routes(
      [](uint64_t i) { return static_cast<NextHopId>(kUndecided - 1 - i); });
  LiveTable table(Family::kIpv6, routes);
  const auto without = table.fib();
  const Sample sample(routes);
  EXPECT_EQ(sample.Differences(*without), "");
  EXPECT_LE(without->bytes(), kMostBytesPerRoute * routes.size());
  for (const char* const text : {"::/0", "2000::/3", "2000::/8"}) {
    const Prefix prefix = Prefix::Parse(text).value();
    table.Apply({{prefix, 5}});
    std::vector<NextHopId> expected = sample.expected;
    for (size_t i = 0; i < expected.size(); ++i) {
      if (expected[i] == kNoRoute && prefix.Contains(sample.probes[i])) {
        expected[i] = 5;
      }
    }
    EXPECT_EQ(PackedProbes(Family::kIpv6, sample.probes)
                  .Differences(*table.fib(), expected),
              "")
        << text;
    table.Apply({{prefix, kNoRoute}});
    EXPECT_EQ(sample.Differences(*table.fib()), "") << "without " << text;
  }
  EXPECT_EQ(sample.Differences(*without), "") << "as it was";
}

}  // namespace
}  // namespace planb
