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

TEST(RouteCollector, SortsAndKeepsTheLastOfEachPrefixOrId) {
  const auto route = [](absl::string_view prefix, NextHopId next_hop) {
    return Route{*Prefix::Parse(prefix), next_hop};
  };
  const auto hop = [](NextHopId id, std::string label) {
    return NextHop{.id = id, .label = std::move(label)};
  };
  RouteCollector collector;
  EXPECT_THAT(collector.TakeRoutes(), IsEmpty());
  EXPECT_THAT(collector.TakeNextHops(), IsEmpty());
  for (const Route& each :
       {route("2001:db8::/32", 1), route("::/0", 2), route("192.0.2.0/24", 3),
        route("2001:db8::/32", 4), route("2001:db8::/33", 5), route("::/0", 6),
        route("2001:db8::/32", 1)}) {
    EXPECT_TRUE(collector.OnRoute(each).ok());
  }
  EXPECT_THAT(
      collector.TakeRoutes(),
      ElementsAre(route("192.0.2.0/24", 3), route("::/0", 6),
                  route("2001:db8::/32", 1), route("2001:db8::/33", 5)));
  for (const NextHop& each :
       {hop(7, "old"), hop(3, "b"), hop(7, "new"), hop(1, "a")}) {
    EXPECT_TRUE(collector.OnNextHop(each).ok());
  }
  EXPECT_THAT(collector.TakeNextHops(),
              ElementsAre(hop(1, "a"), hop(3, "b"), hop(7, "new")));
  const NextHopGroup first = {3, {{1, 2}}, "b"}, last = {7, {}, "new"};
  for (const NextHopGroup& each : {NextHopGroup{7, {}, "old"}, first, last}) {
    EXPECT_TRUE(collector.OnGroup(each).ok());
  }
  EXPECT_THAT(collector.TakeGroups(), ElementsAre(first, last));
}

}  // namespace
}  // namespace planb
