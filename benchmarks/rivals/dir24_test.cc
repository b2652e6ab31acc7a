#include "benchmarks/rivals/dir24.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "benchmarks/rivals/baseline_check.h"

namespace planb {
namespace {

constexpr BaselineLimits kFewNextHops = {.family = Family::kIpv4,
                                         .max_length = 32};

class Dir24Test : public testing::TestWithParam<Dir24Kernel> {
 protected:
  BaselineBuilder Builder() const {
    return
        [kernel = GetParam()](Family family, absl::Span<const Route> routes) {
          return BuildDir24(family, routes, kernel);
        };
  }
};

TEST_P(Dir24Test, Exact) { ExpectExact(Builder(), kFewNextHops); }

TEST_P(Dir24Test, RealTable) {
  ExpectExactOnRealTable(Builder(), kFewNextHops);
}

// 32,767 next hops fit entries of 16 bits, one more does not.
TEST_P(Dir24Test, ManyNextHops) {
  std::vector<Route> routes;
  for (uint32_t i = 0; i < 32'768; ++i) {
    routes.push_back(
        {Prefix::Truncate(Address::V4(i << 12), 20 + static_cast<int>(i) % 13),
         UINT32_MAX - i});
  }
  ExpectLikeReference(Builder(), Family::kIpv4, routes);
  const auto many = Builder()(Family::kIpv4, routes);
  EXPECT_GT((*many)->bytes(), size_t{64} << 20);
  routes.pop_back();
  ExpectLikeReference(Builder(), Family::kIpv4, routes);
  const auto fewer = Builder()(Family::kIpv4, routes);
  EXPECT_LT((*fewer)->bytes(), size_t{49} << 20);
}

INSTANTIATE_TEST_SUITE_P(All, Dir24Test,
                         testing::Values(Dir24Kernel::kBest,
                                         Dir24Kernel::kScalar));

TEST(Dir24, RefusesIpv6) {
  EXPECT_EQ(BuildDir24(Family::kIpv6, {}).status().code(),
            absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace planb
