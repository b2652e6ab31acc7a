#include "lpm/io/route_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace planb {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Route MakeRoute(absl::string_view prefix, NextHopId next_hop) {
  return {*Prefix::Parse(prefix), next_hop};
}

NextHop MakeNextHop(NextHopId id, std::string label) {
  NextHop next_hop;
  next_hop.id = id;
  next_hop.label = std::move(label);
  return next_hop;
}

TEST(RouteCollector, SortsAndKeepsTheLastOfEachPrefix) {
  RouteCollector collector;
  for (const Route& route :
       {MakeRoute("2001:db8::/32", 1), MakeRoute("::/0", 2),
        MakeRoute("192.0.2.0/24", 3), MakeRoute("2001:db8::/32", 4),
        MakeRoute("2001:db8::/33", 5), MakeRoute("::/0", 6),
        MakeRoute("2001:db8::/32", 1)}) {
    EXPECT_TRUE(collector.OnRoute(route).ok());
  }
  EXPECT_THAT(collector.TakeRoutes(),
              ElementsAre(MakeRoute("192.0.2.0/24", 3), MakeRoute("::/0", 6),
                          MakeRoute("2001:db8::/32", 1),
                          MakeRoute("2001:db8::/33", 5)));
}

TEST(RouteCollector, SortsNextHopsAndKeepsTheLastOfEachId) {
  RouteCollector collector;
  for (const NextHop& next_hop : {MakeNextHop(7, "old"), MakeNextHop(3, "b"),
                                  MakeNextHop(7, "new"), MakeNextHop(1, "a")}) {
    EXPECT_TRUE(collector.OnNextHop(next_hop).ok());
  }
  EXPECT_THAT(collector.TakeNextHops(),
              ElementsAre(MakeNextHop(1, "a"), MakeNextHop(3, "b"),
                          MakeNextHop(7, "new")));
}

TEST(RouteCollector, SortsGroupsAndKeepsTheLastOfEachId) {
  RouteCollector collector;
  for (const NextHopGroup& group :
       {NextHopGroup{7, {}, "old"}, NextHopGroup{3, {{1, 2}}, "b"},
        NextHopGroup{7, {}, "new"}}) {
    EXPECT_TRUE(collector.OnGroup(group).ok());
  }
  EXPECT_THAT(
      collector.TakeGroups(),
      ElementsAre(NextHopGroup{3, {{1, 2}}, "b"}, NextHopGroup{7, {}, "new"}));
}

TEST(RouteCollector, MayBeEmpty) {
  RouteCollector collector;
  EXPECT_THAT(collector.TakeRoutes(), IsEmpty());
  EXPECT_THAT(collector.TakeNextHops(), IsEmpty());
}

}  // namespace
}  // namespace planb
