// SPDX-License-Identifier: Apache-2.0

// The real IPv6 table under twenty thousand changes.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "lpm/fib/fib.h"
#include "lpm/synthetic/random.h"
#include "lpm/testing/fib_check.h"
#include "lpm/testing/histories.h"
#include "lpm/testing/probes.h"
#include "lpm/testing/real_tables.h"

namespace planb {
namespace {

constexpr size_t kChanges = 20'000;

// What happens to a real table: next hops move, prefixes come as parts and
// neighbours of others, prefixes go. One in a hundred is short, one in fifty is
// longer than /64.
Change AnyChange(const std::vector<Route>& routes, Random& random) {
  const Prefix& near = routes[random.Below(routes.size())].prefix;
  const auto next_hop = static_cast<NextHopId>(1 + random.Below(300));
  switch (random.Below(10)) {
    case 0:
    case 1:
    case 2:
    case 3:
      return {near, next_hop};
    case 4:
    case 5:
    case 6:
      return {near, kNoRoute};
    default: {
      int length = near.length() + static_cast<int>(random.Below(9));
      if (random.Chance(1, 30)) length = static_cast<int>(random.Below(21));
      if (random.Chance(1, 15)) {
        length = 65 + static_cast<int>(random.Below(64));
      }
      const absl::uint128 host = near.last() - near.first();
      const Address address =
          Address::V6(near.first() | (random.Next128() & (host | (host << 2))));
      return {Prefix::Truncate(address, std::min(length, 128)),
              random.Chance(1, 4) ? kNoRoute : next_hop};
    }
  }
}

TEST(FibCompilerRealTable, TwentyThousandChanges) {
  const std::string path = RealTablePath(Family::kIpv6);
  if (path.empty()) {
    GTEST_SKIP() << "no IPv6 table of 2026-07-30 in PLANB_DATA_DIR";
  }
  const auto routes = ReadPlainTable(path);
  ASSERT_TRUE(routes.ok()) << routes.status();
  LiveTable table(Family::kIpv6, *routes);
  Random random(1);
  size_t done = 0;
  size_t batches = 0;
  while (done < kChanges) {
    // Mostly small batches; some of a thousand and more.
    const size_t size =
        random.Chance(1, 40) ? 1 + random.Below(2000) : 1 + random.Below(60);
    std::vector<Change> changes;
    for (size_t i = 0; i < size; ++i) {
      changes.push_back(AnyChange(*routes, random));
    }
    table.Apply(changes);
    done += size;
    // Around what changed, as the routes themselves explain it.
    std::vector<Address> probes = BoundaryProbes(changes);
    std::vector<NextHopId> expected;
    for (const Address& probe : probes) {
      const auto route = table.routes().Match(probe);
      expected.push_back(route ? route->next_hop : kNoRoute);
    }
    ASSERT_EQ(PackedProbes(Family::kIpv6, std::move(probes))
                  .Differences(*table.fib(), expected),
              "")
        << "batch " << batches;
    ++batches;
  }
  const std::vector<Route> now = table.ModelRoutes();
  ASSERT_NE(now, *routes);
  EXPECT_EQ(DifferencesAtBoundaries(*table.fib(), now), "");
  EXPECT_EQ(
      DifferencesAtBoundaries(*Fib::Build(Family::kIpv6, now).value(), now),
      "");
}

}  // namespace
}  // namespace planb
