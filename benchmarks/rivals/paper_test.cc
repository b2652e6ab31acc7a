// Every kernel, batch size and choice of boundaries answers exactly.

#include "benchmarks/rivals/paper.h"

#include <gtest/gtest.h>

#include <tuple>

#include "benchmarks/rivals/baseline_check.h"

namespace planb::paper {
namespace {

BaselineBuilder Builder(const PaperOptions& options) {
  return [options](Family family, absl::Span<const Route> routes) {
    return BuildPaper(family, routes, options);
  };
}

class PaperTest : public testing::TestWithParam<std::tuple<Boundaries, int>> {
 protected:
  PaperOptions Options() const {
    return {.boundaries = std::get<0>(GetParam()),
            .lanes = std::get<1>(GetParam())};
  }
};

TEST_P(PaperTest, Ipv6) {
  ExpectExact(Builder(Options()), {.next_hops = 0x7fffffff});
}

TEST_P(PaperTest, Ipv4) {
  ExpectExact(Builder(Options()), {.family = Family::kIpv4});
}

TEST_P(PaperTest, RealTables) {
  ExpectExactOnRealTable(Builder(Options()), {});
}

INSTANTIATE_TEST_SUITE_P(All, PaperTest,
                         testing::Combine(testing::Values(Boundaries::kAll,
                                                          Boundaries::kDistinct,
                                                          Boundaries::kMerged),
                                          testing::Values(8, 32)));

// The published layout: complete inner levels, leaves as needed, values apart.
TEST(Paper, IsAsLargeAsPublished) {
  // 73 boundaries that keep a key need ten leaves of eight: three levels.
  std::vector<Route> routes;
  for (uint32_t i = 0; i < 37; ++i) {
    routes.push_back(
        {Prefix::Truncate(Address::V4((i + 1) << 24 | 1 << 16), 16), 1});
  }
  const auto baseline = BuildPaper(Family::kIpv4, routes);
  ASSERT_TRUE(baseline.ok());
  const size_t nodes = 64 * (1 + 9 + 10);
  const size_t values = 4 * 75;
  EXPECT_GE((*baseline)->bytes(), nodes + values);
  EXPECT_LT((*baseline)->bytes(), nodes + values + 512);
}

TEST(Paper, RefusesWhatItCannotAnswer) {
  const Route route = {Prefix(), 0x80000000};
  EXPECT_EQ(BuildPaper(Family::kIpv4, {route}).status().code(),
            absl::StatusCode::kUnimplemented);
  for (const PaperOptions& options :
       {PaperOptions{.kernel = "sse9"}, PaperOptions{.lanes = 5}}) {
    EXPECT_EQ(BuildPaper(Family::kIpv4, {}, options).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace planb::paper
