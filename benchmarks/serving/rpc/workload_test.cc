// SPDX-License-Identifier: Apache-2.0

#include "benchmarks/serving/rpc/workload.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace planb::rpc {
namespace {

TEST(Workload, TheEngineAgrees) {
  const std::vector<Route> routes = *LoadRoutes("", 5000);
  const auto fib = Fib::Build(Family::kIpv6, routes).value();
  for (const AddressForm form : {AddressForm::kFull, AddressForm::kUpper}) {
    const std::string trace = PackedTrace(routes, form, 20000);
    ASSERT_EQ(trace.size(), 20000 * Width(form));
    std::vector<NextHopId> got(20000);
    Answer(*fib, form, trace.data(), got.size(),
           reinterpret_cast<char*>(got.data()));
    EXPECT_EQ(got, ExpectedAnswers(routes, form, trace)) << Width(form);
  }
}

TEST(Workload, OneTableIsToBeNamed) {
  EXPECT_FALSE(LoadRoutes("", 0).ok());
  EXPECT_FALSE(LoadRoutes("/dev/null", 5).ok());
  EXPECT_FALSE(LoadRoutes("/dev/null", 0).ok());
  EXPECT_FALSE(LoadRoutes("/nowhere/file", 0).ok());
  EXPECT_FALSE(ParseAddressForm("lower").ok());
}

}  // namespace
}  // namespace planb::rpc
