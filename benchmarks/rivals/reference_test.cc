#include "benchmarks/rivals/reference.h"

#include <gtest/gtest.h>

#include "benchmarks/rivals/baseline_check.h"

namespace planb {
namespace {

class ReferenceTest : public testing::TestWithParam<ReferenceKernel> {
 protected:
  BaselineBuilder Builder() const {
    return
        [kernel = GetParam()](Family family, absl::Span<const Route> routes) {
          return BuildReference(family, routes, kernel);
        };
  }
};

TEST_P(ReferenceTest, Exact) {
  ExpectExact(Builder(), {.max_length = 64, .next_hops = UINT32_MAX});
}

TEST_P(ReferenceTest, RealTable) {
  ExpectExactOnRealTable(Builder(), {.max_length = 64});
}

INSTANTIATE_TEST_SUITE_P(All, ReferenceTest,
                         testing::Values(ReferenceKernel::kBest,
                                         ReferenceKernel::kScalar));

TEST(Reference, AllocatesEveryLevelInFull) {
  // Eleven boundaries: two levels, one node and nine.
  std::vector<Route> routes;
  for (uint32_t i = 1; i <= 6; ++i) {
    routes.push_back(
        {Prefix::Truncate(Address::V6(absl::MakeUint128(i, 0) << 32), 48), i});
  }
  const auto baseline = BuildReference(Family::kIpv6, routes);
  ASSERT_TRUE(baseline.ok());
  EXPECT_GE((*baseline)->bytes(), 64U * 10 + 4 * 13);
  EXPECT_LT((*baseline)->bytes(), 64U * 10 + 4 * 13 + 512);
}

TEST(Reference, RefusesWhatItCannotAnswer) {
  EXPECT_EQ(BuildReference(Family::kIpv4, {}).status().code(),
            absl::StatusCode::kUnimplemented);
  const Route host = {*Prefix::Parse("2001:db8::1/128"), 1};
  const absl::Status refused = BuildReference(Family::kIpv6, {host}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnimplemented);
  EXPECT_NE(refused.message().find("2001:db8::1/128"), absl::string_view::npos);
}

}  // namespace
}  // namespace planb
