// Applying the differences to one table makes the other.

#include "client/planbctl/route_diff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "absl/random/random.h"

namespace planb::client {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<RouteDifference> Diff(const std::vector<Route>& old_routes,
                                  const std::vector<Route>& wanted) {
  std::vector<RouteDifference> differences;
  RouteDiff diff(wanted, [&](const RouteDifference& difference) {
    differences.push_back(difference);
  });
  for (const Route& route : old_routes) diff.Add(route);
  diff.Finish();
  return differences;
}

Route MakeRoute(uint32_t i, NextHopId next_hop) {
  return {*Prefix::Create(Address::V4(i << 8), 24), next_hop};
}

TEST(RouteDiff, FindsEveryKind) {
  EXPECT_THAT(Diff({MakeRoute(1, 1), MakeRoute(2, 2), MakeRoute(3, 3)},
                   {MakeRoute(0, 9), MakeRoute(2, 2), MakeRoute(3, 4),
                    MakeRoute(5, 5)}),
              ElementsAre(RouteDifference{MakeRoute(0, 0).prefix, 0, 9},
                          RouteDifference{MakeRoute(1, 0).prefix, 1, 0},
                          RouteDifference{MakeRoute(3, 0).prefix, 3, 4},
                          RouteDifference{MakeRoute(5, 0).prefix, 0, 5}));
}

TEST(RouteDiff, EmptyTables) {
  EXPECT_THAT(Diff({}, {}), IsEmpty());
  EXPECT_EQ(Diff({MakeRoute(1, 1)}, {}).size(), 1U);
  EXPECT_EQ(Diff({}, {MakeRoute(1, 1)}).size(), 1U);
  EXPECT_THAT(Diff({MakeRoute(1, 1)}, {MakeRoute(1, 1)}), IsEmpty());
}

TEST(RouteDiff, MakesOneTableOfTheOther) {
  absl::BitGen random;
  for (int round = 0; round < 200; ++round) {
    std::map<Prefix, NextHopId> tables[2];
    std::vector<Route> routes[2];
    for (int side : {0, 1}) {
      for (int i = 0; i < 20; ++i) {
        const Route route = MakeRoute(absl::Uniform(random, 0U, 30U),
                                      absl::Uniform(random, 1U, 4U));
        tables[side][route.prefix] = route.next_hop;
      }
      for (const auto& [prefix, next_hop] : tables[side]) {
        routes[side].push_back({prefix, next_hop});
      }
    }
    for (const RouteDifference& difference : Diff(routes[0], routes[1])) {
      EXPECT_NE(difference.old_next_hop, difference.next_hop);
      const auto found = tables[0].find(difference.prefix);
      EXPECT_EQ(found == tables[0].end() ? kNoRoute : found->second,
                difference.old_next_hop);
      tables[0].erase(difference.prefix);
      if (difference.next_hop != kNoRoute) {
        tables[0][difference.prefix] = difference.next_hop;
      }
    }
    EXPECT_EQ(tables[0], tables[1]);
  }
}

}  // namespace
}  // namespace planb::client
