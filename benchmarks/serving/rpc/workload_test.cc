// SPDX-License-Identifier: Apache-2.0

#include "benchmarks/serving/rpc/workload.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace planb::rpc {
namespace {

Prefix P(const char* text) { return *Prefix::Parse(text); }

std::string Packed(const char* text, AddressForm form) {
  return Address::Parse(text)->ToPacked().substr(0, Width(form));
}

TEST(Workload, TheReferenceSaysWhatATableSays) {
  // The two halves of 2001:db8:0:1::/64 agree but for one host; those of :2::
  // agree throughout.
  const std::vector<Route> routes = {
      {P("2001:db8::/32"), 1},          {P("2001:db8:0:1::/65"), 1},
      {P("2001:db8:0:1::ffff/128"), 7}, {P("2001:db8:0:2::/65"), 5},
      {P("2001:db8:0:2:8000::/65"), 5}, {P("2001:db8:0:3:8000::/65"), 9}};
  const auto expected = [&](AddressForm form, const char* address) {
    return ExpectedAnswers(routes, form, Packed(address, form)).at(0);
  };
  EXPECT_EQ(expected(AddressForm::kFull, "2001:db8:0:1::ffff"), 7u);
  EXPECT_EQ(expected(AddressForm::kFull, "2001:db8:0:1::1:0"), 1u);
  EXPECT_EQ(expected(AddressForm::kFull, "2001:db9::"), kNoRoute);
  EXPECT_EQ(expected(AddressForm::kUpper, "2001:db8:0:1::"), kUndecided);
  EXPECT_EQ(expected(AddressForm::kUpper, "2001:db8:0:2::"), 5u);
  EXPECT_EQ(expected(AddressForm::kUpper, "2001:db8:0:3::"), kUndecided);
  EXPECT_EQ(expected(AddressForm::kUpper, "2001:db8:0:4::"), 1u);
  EXPECT_EQ(expected(AddressForm::kUpper, "2001:db9::"), kNoRoute);
}

TEST(Workload, TheEngineAgrees) {
  const std::vector<Route> routes = *LoadRoutes("", 5000);
  const auto fib = Fib::Build(Family::kIpv6, routes).value();
  for (const AddressForm form : {AddressForm::kFull, AddressForm::kUpper}) {
    const std::string trace = PackedTrace(routes, form, 20000);
    ASSERT_EQ(trace.size(), 20000 * Width(form));
    std::vector<NextHopId> got(20000);
    Answer(*fib, form, trace.data(), got.size(),
           reinterpret_cast<char*>(got.data()));
    EXPECT_EQ(got, ExpectedAnswers(routes, form, trace))
        << AddressFormName(form);
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
