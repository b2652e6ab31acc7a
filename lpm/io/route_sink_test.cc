// SPDX-License-Identifier: Apache-2.0

#include "lpm/io/route_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace planb {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ProblemOutput, CountsAllAndDescribesTheFirstOnes) {
  ProblemOutput out("F", /*strict=*/false);
  for (uint64_t i = 0; i < 100; ++i) {
    EXPECT_TRUE(out.OnMalformed({i, i + 1}, "bad").ok());
  }
  out.OnIgnored();
  EXPECT_FALSE(out.records().truncated);
  EXPECT_TRUE(out.OnTruncated({100, 101}, "cut").ok());
  EXPECT_TRUE(out.records().truncated);
  EXPECT_EQ(out.records().malformed, 100u);
  EXPECT_EQ(out.records().ignored, 1u);
  ASSERT_EQ(out.records().problems.size(), kMaxRouteFileProblems);
  EXPECT_EQ(out.records().problems.back().offset, 15u);
  EXPECT_EQ(out.records().problems.back().line, 16u);
  EXPECT_EQ(out.records().problems.back().message, "bad");
}

TEST(ProblemOutput, StrictTurnsAProblemIntoAnError) {
  ProblemOutput out("F", /*strict=*/true);
  EXPECT_EQ(out.OnMalformed({12, 0}, "bad"),
            absl::DataLossError("F: at byte 12: bad"));
  EXPECT_EQ(out.OnMalformed({12, 3}, "bad"), absl::DataLossError("F:3: bad"));
  EXPECT_EQ(out.OnTruncated({10, 0}, "cut"),
            absl::DataLossError("F: at byte 10: cut"));
  EXPECT_EQ(out.OnTruncated({10, 3}, "cut"), absl::DataLossError("F:3: cut"));
}

TEST(ProblemOutput, DistinguishesAnEndFromACut) {
  ProblemOutput out("F", /*strict=*/false);
  EXPECT_TRUE(out.OnEnd({5, 0}, absl::OkStatus(), "").ok());
  EXPECT_FALSE(out.records().truncated);
  EXPECT_EQ(out.OnEnd({5, 0}, absl::UnavailableError("disk"), "half"),
            absl::UnavailableError("disk"));
  EXPECT_FALSE(out.records().truncated);
  for (const char* const cut : {"", "half"}) {
    EXPECT_TRUE(out.OnEnd({5, 0}, absl::DataLossError("gzip"), cut).ok());
    EXPECT_TRUE(out.records().truncated);
    EXPECT_EQ(out.records().problems.back().message, "gzip");
  }
  EXPECT_TRUE(out.OnEnd({5, 0}, absl::OkStatus(), "half").ok());
  EXPECT_EQ(out.records().problems.back().message, "half");
  EXPECT_EQ(out.records().malformed, 0u);
}

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

class RefusingSink : public RouteSink {
 public:
  absl::Status OnNextHop(const NextHop&) override {
    return absl::ResourceExhaustedError("no more next hops");
  }
  absl::Status OnRoute(const Route&) override {
    return absl::ResourceExhaustedError("no more routes");
  }
};

TEST(RouteOutput, ReportsDeliveredItemsAndProblems) {
  RouteCollector sink;
  RouteOutput out("F", /*strict=*/false, sink);
  EXPECT_TRUE(out.OnNextHop(NextHop{}).ok());
  EXPECT_TRUE(out.OnRoute(Route{}).ok());
  EXPECT_TRUE(out.OnRoute(Route{}).ok());
  out.OnIgnored();
  EXPECT_TRUE(out.OnMalformed({}, "bad").ok());
  EXPECT_TRUE(out.OnTruncated({}, "cut").ok());
  EXPECT_EQ(out.report().next_hops, 1u);
  EXPECT_EQ(out.report().routes, 2u);
  EXPECT_EQ(out.report().ignored, 1u);
  EXPECT_EQ(out.report().malformed, 1u);
  EXPECT_TRUE(out.report().truncated);
  EXPECT_EQ(out.report().problems.size(), 2u);
}

TEST(RouteOutput, ReturnsTheErrorsOfTheSinkUnchanged) {
  RefusingSink sink;
  RouteOutput out("F", /*strict=*/false, sink);
  EXPECT_EQ(out.OnNextHop(NextHop{}),
            absl::ResourceExhaustedError("no more next hops"));
  EXPECT_EQ(out.OnRoute(Route{}),
            absl::ResourceExhaustedError("no more routes"));
  EXPECT_EQ(out.report().next_hops, 0u);
  EXPECT_EQ(out.report().routes, 0u);
}

}  // namespace
}  // namespace planb
