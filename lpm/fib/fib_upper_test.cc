// SPDX-License-Identifier: Apache-2.0

// LookupUpper by hand: where a longer prefix leaves it open, and where it does
// not; what that costs in descriptors; and that changes take it back. All
// tables of small worlds, and large ones: in the tests of whole addresses.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "lpm/fib/fib.h"
#include "lpm/testing/fib_check.h"
#include "lpm/testing/histories.h"

namespace planb {
namespace {

Address A(absl::string_view text) { return Address::Parse(text).value(); }
Route R(absl::string_view prefix, NextHopId next_hop) {
  return {Prefix::Parse(prefix).value(), next_hop};
}

std::unique_ptr<const Fib> Build(std::vector<Route> routes) {
  std::sort(routes.begin(), routes.end());
  return Fib::Build(Family::kIpv6, routes).value();
}

// Expects this answer to the first 64 bits from every kernel, alone and in
// company.
void ExpectUpper(const Fib& fib, absl::string_view address,
                 NextHopId expected) {
  const PackedProbes probes(Form::kIpv6Upper, {A(address)}, 300);
  EXPECT_EQ(probes.Differences(fib, {expected}), "");
  EXPECT_EQ(probes.Differences(fib, {expected}, 1), "");
}

TEST(LookupUpper, ShortRoutesDecide) {
  ExpectUpper(*Build({}), "2001:db8::", kNoRoute);
  const auto fib =
      Build({R("::/0", 1), R("2001:db8::/32", 2), R("2001:db8:1::/48", 3),
             R("2001:db8:1:2::/63", 4), R("2001:db8:1:3::/64", 5)});
  ExpectUpper(*fib, "2001:db9::", 1);
  ExpectUpper(*fib, "ffff:ffff:ffff:ffff::", 1);
  ExpectUpper(*fib, "2001:db8::", 2);
  ExpectUpper(*fib, "2001:db8:1::", 3);
  ExpectUpper(*fib, "2001:db8:1:2::", 4);
  ExpectUpper(*fib, "2001:db8:1:3::", 5);
  ExpectUpper(*fib, "2001:db8:1:4::", 3);
}

TEST(LookupUpper, OneLongerRouteLeavesItOpen) {
  for (const char* const around : {"::/0", "2001:db8::/48", "2001:db8::/64"}) {
    for (const char* const inside :
         {"2001:db8::/65", "2001:db8:0:0:8000::/65", "2001:db8::/96",
          "2001:db8::12:0:0/96", "2001:db8::/128", "2001:db8::1/128",
          "2001:db8::ffff:ffff:ffff:ffff/128"}) {
      SCOPED_TRACE(absl::StrCat(inside, " in ", around));
      const auto fib = Build({R(around, 1), R(inside, 2)});
      ExpectUpper(*fib, "2001:db8::", kUndecided);
      ExpectUpper(*fib, "2001:db8::ffff", kUndecided);
      ExpectUpper(*fib, "2001:db8:0:1::",
                  absl::string_view(around) == "2001:db8::/64" ? 0 : 1);
      ExpectUpper(*fib, "2001:db7:ffff:ffff::",
                  absl::string_view(around) == "::/0" ? 1 : 0);
      // Where it has the next hop of all around it, it makes no difference.
      const auto same = Build({R(around, 2), R(inside, 2)});
      ExpectUpper(*same, "2001:db8::", 2);
      EXPECT_EQ(same->Stats().descriptors,
                Build({R(around, 2)})->Stats().descriptors);
      // Alone it does.
      ExpectUpper(*Build({R(inside, 2)}), "2001:db8::", kUndecided);
    }
  }
}

TEST(LookupUpper, HalvesThatAgree) {
  const auto fib =
      Build({R("2001:db8::/48", 9), R("2001:db8::/65", 1),
             R("2001:db8:0:0:8000::/65", 1), R("2001:db8:0:1::/65", 1),
             R("2001:db8:0:1:8000::/65", 2)});
  ExpectUpper(*fib, "2001:db8::", 1);
  ExpectUpper(*fib, "2001:db8:0:1::", kUndecided);
  ExpectUpper(*fib, "2001:db8:0:2::", 9);
}

// The last next hop there is, and the first, are told from what is reserved.
TEST(LookupUpper, ExtremeNextHops) {
  const auto fib =
      Build({R("2001:db8:1::/64", 1), R("2001:db8:1:1::/64", 0xfffffffe),
             R("2001:db8:1:2::/127", 0x7fffffff)});
  ExpectUpper(*fib, "2001:db8:1::", 1);
  ExpectUpper(*fib, "2001:db8:1:1::", 0xfffffffe);
  ExpectUpper(*fib, "2001:db8:1:2::", kUndecided);
  ExpectUpper(*fib, "2001:db8:1:3::", kNoRoute);
  // As large as values get that are the ids themselves.
  for (const NextHopId next_hop : {0x7fffu, 0x8000u, 0xff'ffffu, 0x1ff'ffffu}) {
    const auto ids = Build({R("2001:db8:1::/64", next_hop),
                            R("2001:db8:1:1::/64", next_hop - 1),
                            R("2001:db8:1:2::/66", next_hop)});
    ExpectUpper(*ids, "2001:db8:1::", next_hop);
    ExpectUpper(*ids, "2001:db8:1:1::", next_hop - 1);
    ExpectUpper(*ids, "2001:db8:1:2::", kUndecided);
  }
}

TEST(LookupUpper, DescriptorsDoNotCrossBit64) {
  // What lies in one /64 is one descriptor, as long as the rest is alike.
  EXPECT_EQ(Build({R("2001:db8::/48", 1), R("2001:db8::/64", 2)})
                ->Stats()
                .descriptors,
            1U);
  EXPECT_EQ(Build({R("2001:db8::/48", 1), R("2001:db8::/66", 2),
                   R("2001:db8:0:0:c000::/66", 3)})
                ->Stats()
                .descriptors,
            1U);
  // Two /64s are divided: one for the /48, one for each.
  const FibStats two =
      Build({R("2001:db8::/66", 2), R("2001:db8:0:1::/66", 3)})->Stats();
  EXPECT_EQ(two.descriptors, 3U);
  EXPECT_EQ(two.descriptor_steps, 2);
}

// However prefixes nest, a lookup passes three descriptors.
TEST(LookupUpper, ThreeDescriptorsNestAtMost) {
  int most = 0;
  for (int first = 49; first <= 126; ++first) {
    std::vector<Route> routes;
    const absl::uint128 path =
        A("2001:db8:5555:5555:5555:5555:5555:5555").bits();
    // Every prefix on the path, and beside each another: nothing is skipped.
    for (int length = first; length <= 128; ++length) {
      const auto id = static_cast<NextHopId>(2 * length);
      const absl::uint128 other = absl::uint128(1) << (128 - length);
      routes.push_back({Prefix::Truncate(Address::V6(path), length), id});
      routes.push_back(
          {Prefix::Truncate(Address::V6(path ^ other), length), id + 1});
    }
    const auto fib = Build(routes);
    std::sort(routes.begin(), routes.end());
    EXPECT_EQ(DifferencesAtBoundaries(*fib, routes), "") << "from " << first;
    most = std::max(most, fib->Stats().descriptor_steps);
  }
  EXPECT_EQ(most, 3);
}

// A /64 that becomes one again is answered again.
TEST(LookupUpper, FollowsChanges) {
  LiveTable table(Family::kIpv6, std::vector<Route>{R("2001:db8::/48", 1),
                                                    R("2001:db8:0:7::/64", 2)});
  const auto go = [&](absl::string_view prefix, NextHopId next_hop) {
    const Change change = R(prefix, next_hop);
    table.Apply({&change, 1});
  };
  const auto expect = [&](absl::string_view address, NextHopId next_hop) {
    ExpectUpper(*table.fib(), address, next_hop);
  };
  expect("2001:db8:0:7::", 2);
  go("2001:db8:0:7::5/128", 3);
  const auto old = table.fib();
  expect("2001:db8:0:7::", kUndecided);
  expect("2001:db8:0:8::", 1);
  go("2001:db8:0:7::5/128", 2);
  expect("2001:db8:0:7::", 2);
  go("2001:db8:0:7::5/128", 3);
  expect("2001:db8:0:7::", kUndecided);
  go("2001:db8:0:7::5/128", kNoRoute);
  expect("2001:db8:0:7::", 2);
  // The route around it comes to agree with the one inside.
  go("2001:db8:0:7:8000::/65", 4);
  expect("2001:db8:0:7::", kUndecided);
  go("2001:db8:0:7::/64", 4);
  expect("2001:db8:0:7::", 4);
  go("2001:db8:0:7::/64", kNoRoute);
  expect("2001:db8:0:7::", kUndecided);
  go("2001:db8::/48", 4);
  expect("2001:db8:0:7::", 4);
  expect("2001:db8:0:8::", 4);
  ExpectUpper(*old, "2001:db8:0:7::", kUndecided);
}

TEST(LookupUpperDeathTest, Ipv4HasNoUpperHalves) {
  const auto fib = Fib::Build(Family::kIpv4, {}).value();
  const char bytes[8] = {};
  char found[4];
  EXPECT_DEATH(fib->LookupUpper(bytes, 1, found, *AvailableKernels().front()),
               "IPv4");
}

}  // namespace
}  // namespace planb
