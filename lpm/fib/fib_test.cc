// SPDX-License-Identifier: Apache-2.0

// Hand-picked tables that small worlds (fib_exhaustive_test.cc) do not have:
// keys that look like padding, every length on one path, many descriptors.

#include "lpm/fib/fib.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "lpm/synthetic/random.h"
#include "lpm/testing/fib_check.h"
#include "lpm/testing/oracle.h"
#include "lpm/testing/random_tables.h"

namespace planb {
namespace {

constexpr absl::string_view kOnes = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";

std::unique_ptr<const Fib> Build(std::vector<Route> routes) {
  std::sort(routes.begin(), routes.end());
  const Family family =
      routes.empty() ? Family::kIpv6 : routes[0].prefix.family();
  return Fib::Build(family, routes).value();
}

TEST(Fib, OneRouteOfEveryLengthAtBothEnds) {
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    const auto everything = UniformProbes(family, 20, 1);
    const Address ones = LastAddress(Prefix::Truncate(everything[0], 0));
    const Address zeros = NextAddress(ones);
    for (int length = 0; length <= AddressBits(family); ++length) {
      for (const Address& address : {zeros, ones, everything[1]}) {
        SCOPED_TRACE(Prefix::Truncate(address, length).ToString());
        ExpectLikeOracle(family, {{Prefix::Truncate(address, length), 5}},
                         everything);
      }
    }
  }
}

TEST(Fib, KeysThatLookLikePadding) {
  // The largest and smallest keys of either half, and the signed ones.
  ExpectLikeOracle(
      Family::kIpv6,
      {R("ffff:ffff:ffff:ffff::/64", 1), R("ffff:ffff:ffff:fffe::/64", 2),
       R("::/64", 3), R("0:0:0:1::/64", 4), R("7fff:ffff:ffff:ffff::/64", 5),
       R("8000::/64", 6), R("8000:0:0:1::/64", 7), R("::/128", 8),
       R("::ffff:ffff:ffff:ffff/128", 9), R("::7fff:ffff:ffff:ffff/128", 10),
       R("::8000:0:0:0/128", 11), R(absl::StrCat(kOnes, "/128"), 12)},
      std::vector<Address>{A("::8000:0:0:1"), A("7fff::"), A("ffff::")});
  ExpectLikeOracle(Family::kIpv4,
                   {R("255.255.255.255/32", 1), R("0.0.0.0/32", 2),
                    R("127.255.255.255/32", 3), R("128.0.0.0/32", 4)});
}

// The paper's printed Algorithm 2 starts an interval before it ends the last
// one and gets this wrong. Here many end at once where several start.
TEST(Fib, OneRangeEndsWhereTheNextStarts) {
  ExpectLikeOracle(Family::kIpv6,
                   {R("2001:db8:ffff::/48", 1), R("2001:db9::/32", 2)});
  std::vector<Route> routes;
  for (int length = 33; length <= 128; ++length) {
    const auto id = static_cast<NextHopId>(length);
    const Address last = A("2001:db8:ffff:ffff:ffff:ffff:ffff:ffff");
    routes.push_back({Prefix::Truncate(last, length), id});
    routes.push_back({Prefix::Truncate(A("2001:db9::"), length), 1000 + id});
  }
  ExpectLikeOracle(Family::kIpv6, routes);
}

// The address that leaves the path at bit i has the route of length i.
TEST(Fib, EveryLengthOnOnePath) {
  Random random(1);
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    const int bits = AddressBits(family);
    for (const Address& path : UniformProbes(family, 10, 2)) {
      std::vector<Route> routes;
      for (int length = 0; length <= bits; ++length) {
        routes.push_back({Prefix::Truncate(path, length),
                          static_cast<NextHopId>(1 + length)});
      }
      ExpectLikeOracle(family, routes);
      std::vector<Address> probes = {path};
      std::vector<NextHopId> expected = {static_cast<NextHopId>(1 + bits)};
      for (int i = 0; i < bits; ++i) {
        const absl::uint128 leave = absl::uint128(1) << (127 - i);
        const absl::uint128 below =
            UniformProbes(family, 1, random.Next())[0].bits() & (leave - 1);
        probes.push_back(Address::FromBits(family, path.bits() ^ leave));
        probes.push_back(
            Address::FromBits(family, path.bits() ^ leave ^ below));
        expected.resize(probes.size(), static_cast<NextHopId>(1 + i));
      }
      std::sort(routes.begin(), routes.end());
      ExpectAnswers(*Fib::Build(family, routes).value(), probes, expected);
    }
  }
}

TEST(Fib, NextHopsThatAlternateDownAPath) {
  // Every second level repeats the one above it but one: merging must not
  // reach across what lies between.
  const Address path = A("2001:db8:1234:5678:9abc:def0:1357:9bdf");
  for (const int step : {1, 2, 3, 8, 16}) {
    std::vector<Route> routes;
    for (int length = 0; length <= 128; length += step) {
      routes.push_back({Prefix::Truncate(path, length),
                        static_cast<NextHopId>(1 + length / step % 2)});
    }
    ExpectLikeOracle(Family::kIpv6, routes);
  }
}

TEST(Fib, MergesNeighboursWithOneNextHop) {
  const auto whole = Build({R("2001:db8::/32", 1)});
  const auto halves =
      Build({R("2001:db8::/33", 1), R("2001:db8:8000::/33", 1)});
  const auto nested = Build({R("2001:db8::/32", 1), R("2001:db8:7::/48", 1),
                             R("2001:db8:7::1/128", 1)});
  const auto apart = Build({R("2001:db8::/32", 1), R("2001:db8:7::/48", 2)});
  EXPECT_EQ(halves->Stats().intervals, whole->Stats().intervals);
  EXPECT_EQ(nested->Stats().intervals, whole->Stats().intervals);
  EXPECT_EQ(apart->Stats().intervals, whole->Stats().intervals + 2);
  const auto whole_v4 = Build({R("10.0.0.0/8", 1)});
  const auto halves_v4 = Build({R("10.0.0.0/9", 1), R("10.128.0.0/9", 1)});
  const auto apart_v4 = Build({R("10.0.0.0/9", 1), R("10.128.0.0/9", 2)});
  EXPECT_EQ(halves_v4->Stats().intervals, whole_v4->Stats().intervals);
  EXPECT_EQ(apart_v4->Stats().intervals, whole_v4->Stats().intervals + 1);
}

// A lookup for lengths needs to know where they change; one for upper halves
// does not.
TEST(LookupWithLengths, NeighboursMergeOnlyWhereLengthsAgree) {
  const std::vector<Route> routes = {
      R("2001:db8::/33", 1), R("2001:db8:8000::/33", 1),
      R("2001:db8:8000:1::/64", 1), R("2001:db8:8000:1::1/128", 1),
      R("2001:db8:8000:1:8000::/65", 1)};
  const auto plain = Fib::Build(Family::kIpv6, routes).value();
  const auto fib =
      Fib::Build(Family::kIpv6, routes, {.prefix_lengths = true}).value();
  EXPECT_EQ(plain->Stats().intervals, 3U);
  EXPECT_EQ(plain->Stats().descriptors, 0U);
  EXPECT_EQ(fib->Stats().intervals, 8U);
  EXPECT_GT(fib->Stats().descriptors, 0U);
  EXPECT_EQ(fib->Stats().prefix_length_bytes, 5U);
  const std::vector<char> halves =
      PackAs(Form::kIpv6Upper, {A("2001:db8:8000:1::"), A("2001:db8:8000::")});
  for (const Kernel* kernel : AvailableKernels()) {
    std::vector<NextHopId> found(2);
    fib->LookupUpper(halves.data(), found.size(), found.data(), *kernel);
    EXPECT_EQ(found, (std::vector<NextHopId>{1, 1}));
  }
}

TEST(LookupWithLengthsDeathTest, OnlyWhereTheyAreKept) {
  const auto fib = Fib::Build(Family::kIpv4, {}).value();
  const char bytes[4] = {};
  char found[4], length[1];
  EXPECT_DEATH(fib->LookupWithLengths(bytes, 1, found, length,
                                      *AvailableKernels().front()),
               "no prefix lengths");
}

// Descriptors: how many long prefixes take, and how many a lookup passes.

TEST(LookupUpper, ALongerRouteOfTheSameNextHopTakesNoDescriptor) {
  for (const char* const around : {"::/0", "2001:db8::/48", "2001:db8::/64"}) {
    for (const char* const inside :
         {"2001:db8::/65", "2001:db8:0:0:8000::/65", "2001:db8::/96",
          "2001:db8::12:0:0/96", "2001:db8::/128", "2001:db8::1/128",
          "2001:db8::ffff:ffff:ffff:ffff/128"}) {
      SCOPED_TRACE(absl::StrCat(inside, " in ", around));
      ExpectLikeOracle(Family::kIpv6, {R(around, 1), R(inside, 2)});
      ExpectLikeOracle(Family::kIpv6, {R(around, 2), R(inside, 2)});
      EXPECT_EQ(Build({R(around, 2), R(inside, 2)})->Stats().descriptors,
                Build({R(around, 2)})->Stats().descriptors);
    }
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

TEST(LookupUpperDeathTest, Ipv4HasNoUpperHalves) {
  const auto fib = Fib::Build(Family::kIpv4, {}).value();
  const char bytes[8] = {};
  char found[4];
  EXPECT_DEATH(fib->LookupUpper(bytes, 1, found, *AvailableKernels().front()),
               "IPv4");
}

}  // namespace
}  // namespace planb
