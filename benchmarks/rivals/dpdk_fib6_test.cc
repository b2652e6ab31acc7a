// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include "benchmarks/rivals/baseline_check.h"
#include "benchmarks/rivals/rivals.h"

namespace planb {
namespace {

class DpdkFib6Test : public testing::TestWithParam<RivalKernel> {
 protected:
  BaselineBuilder Builder() const {
    return
        [kernel = GetParam()](Family family, absl::Span<const Route> routes) {
          return BuildDpdkFib6(family, routes, kernel);
        };
  }
};

TEST_P(DpdkFib6Test, Exact) {
  ExpectExact(Builder(), {.next_hops = 0x7fffffff});
}

TEST_P(DpdkFib6Test, RealTable) { ExpectExactOnRealTable(Builder(), {}); }

INSTANTIATE_TEST_SUITE_P(All, DpdkFib6Test,
                         testing::Values(RivalKernel::kBest,
                                         RivalKernel::kScalar));

TEST(DpdkLpm6, Exact) {
  ExpectExact(
      [](Family family, absl::Span<const Route> routes) {
        return BuildDpdkLpm6(family, routes);
      },
      {.next_hops = UINT32_MAX});
}

TEST(DpdkLpm6, RealTable) {
  ExpectExactOnRealTable(
      [](Family family, absl::Span<const Route> routes) {
        return BuildDpdkLpm6(family, routes);
      },
      {});
}

TEST(DpdkFib6, RefusesWhatItCannotAnswer) {
  EXPECT_EQ(BuildDpdkFib6(Family::kIpv4, {}).status().code(),
            absl::StatusCode::kUnimplemented);
  const Route route = {*Prefix::Parse("::/0"), 0x80000000};
  EXPECT_EQ(BuildDpdkFib6(Family::kIpv6, {route}).status().code(),
            absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace planb
