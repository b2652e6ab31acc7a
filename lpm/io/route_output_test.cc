#include "lpm/io/route_output.h"

#include <gtest/gtest.h>

namespace planb {
namespace {

class RefusingSink : public RouteSink {
 public:
  absl::Status OnNextHop(const NextHop&) override {
    return absl::ResourceExhaustedError("no more next hops");
  }
  absl::Status OnRoute(const Route&) override {
    return absl::ResourceExhaustedError("no more routes");
  }
};

TEST(RouteOutput, CountsWhatTheSinkTook) {
  RouteCollector sink;
  RouteOutput out("F", /*strict=*/true, sink);
  EXPECT_TRUE(out.OnNextHop(NextHop{}).ok());
  EXPECT_TRUE(out.OnRoute(Route{}).ok());
  EXPECT_TRUE(out.OnRoute(Route{}).ok());
  out.OnIgnored();
  EXPECT_EQ(out.report().next_hops, 1u);
  EXPECT_EQ(out.report().routes, 2u);
  EXPECT_EQ(out.report().ignored, 1u);
}

TEST(RouteOutput, GivesTheErrorsOfTheSinkUnchanged) {
  RefusingSink sink;
  RouteOutput out("F", /*strict=*/false, sink);
  EXPECT_EQ(out.OnNextHop(NextHop{}),
            absl::ResourceExhaustedError("no more next hops"));
  EXPECT_EQ(out.OnRoute(Route{}),
            absl::ResourceExhaustedError("no more routes"));
  EXPECT_EQ(out.report().next_hops, 0u);
  EXPECT_EQ(out.report().routes, 0u);
}

TEST(RouteOutput, CountsEveryProblemAndDescribesTheFirst) {
  RouteCollector sink;
  RouteOutput out("F", /*strict=*/false, sink);
  for (uint64_t i = 0; i < 100; ++i) {
    EXPECT_TRUE(out.OnMalformed({i, i + 1}, "bad").ok());
  }
  EXPECT_TRUE(out.OnTruncated({100, 101}, "cut").ok());
  EXPECT_EQ(out.report().malformed, 100u);
  EXPECT_TRUE(out.report().truncated);
  ASSERT_EQ(out.report().problems.size(), kMaxRouteFileProblems);
  EXPECT_EQ(out.report().problems.back().offset, 15u);
  EXPECT_EQ(out.report().problems.back().line, 16u);
  EXPECT_EQ(out.report().problems.back().message, "bad");
}

TEST(RouteOutput, IsStrictWhenAsked) {
  RouteCollector sink;
  RouteOutput out("F", /*strict=*/true, sink);
  EXPECT_EQ(out.OnMalformed({10, 3}, "bad"), absl::DataLossError("F:3: bad"));
  EXPECT_EQ(out.OnTruncated({10, 0}, "cut"),
            absl::DataLossError("F: at octet 10: cut"));
}

TEST(RouteOutput, KnowsAGoodEndFromABadOne) {
  RouteCollector sink;
  RouteOutput out("F", /*strict=*/false, sink);
  EXPECT_TRUE(out.OnEnd({5, 0}, absl::OkStatus(), "").ok());
  EXPECT_FALSE(out.report().truncated);
  EXPECT_EQ(out.OnEnd({5, 0}, absl::UnavailableError("disk"), "half"),
            absl::UnavailableError("disk"));
  EXPECT_FALSE(out.report().truncated);
  EXPECT_TRUE(out.OnEnd({5, 0}, absl::DataLossError("gzip"), "half").ok());
  EXPECT_TRUE(out.report().truncated);
  EXPECT_EQ(out.report().problems.back().message, "gzip");
  EXPECT_TRUE(out.OnEnd({5, 0}, absl::OkStatus(), "half").ok());
  EXPECT_EQ(out.report().problems.back().message, "half");
  EXPECT_EQ(out.report().malformed, 0u);
}

}  // namespace
}  // namespace planb
