// SPDX-License-Identifier: Apache-2.0

// Hand-picked tables that break lookups: empty ones, both ends of the address
// space, keys that look like padding, neighbours, every length on one path.

#include "lpm/fib/fib.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "lpm/synthetic/random.h"
#include "lpm/synthetic/synthetic.h"
#include "lpm/testing/fib_check.h"
#include "lpm/testing/oracle.h"
#include "lpm/testing/random_tables.h"

namespace planb {
namespace {

constexpr absl::string_view kOnes = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";

Address A(absl::string_view text) { return Address::Parse(text).value(); }
Route R(absl::string_view prefix, NextHopId next_hop) {
  return Route{Prefix::Parse(prefix).value(), next_hop};
}

std::unique_ptr<const Fib> Build(std::vector<Route> routes) {
  std::sort(routes.begin(), routes.end());
  const Family family =
      routes.empty() ? Family::kIpv6 : routes[0].prefix.family();
  return Fib::Build(family, routes).value();
}

// Expects this answer from every kernel and from the single lookup.
void ExpectAnswer(const Fib& fib, absl::string_view address,
                  NextHopId expected) {
  EXPECT_EQ(fib.Lookup(A(address)), expected) << address;
  const Address one[] = {A(address)};
  ExpectAnswers(fib, one, {expected});
}

TEST(Fib, EmptyTableAnswersNoRoute) {
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    ExpectLikeOracle(family, {}, UniformProbes(family, 1000, 1));
    EXPECT_EQ(Fib::Build(family, {}).value()->family(), family);
  }
}

TEST(Fib, DefaultRouteAlone) {
  const auto fib = Build({R("::/0", 7)});
  ExpectAnswer(*fib, "::", 7);
  ExpectAnswer(*fib, "2001:db8::1", 7);
  ExpectAnswer(*fib, "ffff:ffff:ffff:ffff::", 7);
  ExpectAnswer(*fib, kOnes, 7);
  ExpectLikeOracle(Family::kIpv6, {R("::/0", 7)},
                   UniformProbes(Family::kIpv6, 1000, 1));
  ExpectLikeOracle(Family::kIpv4, {R("0.0.0.0/0", 7)},
                   UniformProbes(Family::kIpv4, 1000, 1));
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
  const auto all_ones_64 = Build({R("ffff:ffff:ffff:ffff::/64", 3)});
  ExpectAnswer(*all_ones_64, "ffff:ffff:ffff:ffff::", 3);
  ExpectAnswer(*all_ones_64, kOnes, 3);
  ExpectAnswer(*all_ones_64, "ffff:ffff:ffff:fffe:ffff:ffff:ffff:ffff", 0);
  ExpectAnswer(*all_ones_64, "::", 0);

  const auto all_ones_128 = Build({R(absl::StrCat(kOnes, "/128"), 3)});
  ExpectAnswer(*all_ones_128, kOnes, 3);
  ExpectAnswer(*all_ones_128, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe", 0);
  ExpectAnswer(*all_ones_128, "ffff:ffff:ffff:ffff::", 0);
  ExpectAnswer(*all_ones_128, "::ffff:ffff:ffff:ffff", 0);

  const auto top = Build({R("ffff::/16", 2)});
  ExpectAnswer(*top, "ffff::", 2);
  ExpectAnswer(*top, kOnes, 2);
  ExpectAnswer(*top, "fffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff", 0);

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

TEST(Fib, LastAddressUnderDefault) {
  ExpectLikeOracle(Family::kIpv6,
                   {R("::/0", 1), R("ffff:ffff:ffff:ffff::/64", 2),
                    R(absl::StrCat(kOnes, "/128"), 3)});
  ExpectLikeOracle(Family::kIpv6, {R("::/0", 1), R("8000::/1", 1)});
  ExpectLikeOracle(
      Family::kIpv4,
      {R("0.0.0.0/0", 1), R("255.255.255.255/32", 2), R("0.0.0.0/32", 3)});
}

TEST(Fib, HostRouteBesideSlash64) {
  const auto fib =
      Build({R("2001:db8::/64", 1), R("2001:db8::ffff:ffff:ffff:ffff/128", 2),
             R("2001:db8:0:1::/128", 3), R("2001:db8:0:2::/64", 4),
             R("2001:db8:0:2::/128", 5)});
  ExpectAnswer(*fib, "2001:db8::", 1);
  ExpectAnswer(*fib, "2001:db8::ffff:ffff:ffff:fffe", 1);
  ExpectAnswer(*fib, "2001:db8::ffff:ffff:ffff:ffff", 2);
  ExpectAnswer(*fib, "2001:db8:0:1::", 3);
  ExpectAnswer(*fib, "2001:db8:0:1::1", 0);
  ExpectAnswer(*fib, "2001:db8:0:1:ffff:ffff:ffff:ffff", 0);
  ExpectAnswer(*fib, "2001:db8:0:2::", 5);
  ExpectAnswer(*fib, "2001:db8:0:2::1", 4);
  ExpectAnswer(*fib, "2001:db8:0:2:ffff:ffff:ffff:ffff", 4);
  ExpectAnswer(*fib, "2001:db8:0:3::", 0);
}

// The printed Algorithm 2 starts before it ends and gets this wrong.
TEST(Fib, OneRangeEndsWhereTheNextStarts) {
  const auto fib = Build({R("2001:db8:ffff::/48", 1), R("2001:db9::/32", 2)});
  ExpectAnswer(*fib, "2001:db8:fffe:ffff:ffff:ffff:ffff:ffff", 0);
  ExpectAnswer(*fib, "2001:db8:ffff::", 1);
  ExpectAnswer(*fib, "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", 1);
  ExpectAnswer(*fib, "2001:db9::", 2);
  ExpectAnswer(*fib, "2001:db9::1", 2);
  ExpectAnswer(*fib, "2001:db9:ffff:ffff:ffff:ffff:ffff:ffff", 2);
  ExpectAnswer(*fib, "2001:dba::", 0);
  // Many end at once where several start at once.
  std::vector<Route> routes;
  for (int length = 33; length <= 128; ++length) {
    const auto id = static_cast<NextHopId>(length);
    const Address last = A("2001:db8:ffff:ffff:ffff:ffff:ffff:ffff");
    routes.push_back({Prefix::Truncate(last, length), id});
    routes.push_back({Prefix::Truncate(A("2001:db9::"), length), 1000 + id});
  }
  ExpectLikeOracle(Family::kIpv6, routes);
}

TEST(Fib, AnyNextHopIsReturnedAsItIs) {
  const auto fib =
      Build({R("1::/16", 1), R("2::/16", 0x7fffffff), R("3::/16", 0x80000000),
             R("4::/16", 0xfffffffe), R("5::/64", 0xfffffffd),
             R("5::1/128", 0x80000001), R("5::2/128", 0x12345678)});
  ExpectAnswer(*fib, "1::1", 1);
  ExpectAnswer(*fib, "2::1", 0x7fffffff);
  ExpectAnswer(*fib, "3::1", 0x80000000);
  ExpectAnswer(*fib, "4::1", 0xfffffffe);
  ExpectAnswer(*fib, "5::", 0xfffffffd);
  ExpectAnswer(*fib, "5::1", 0x80000001);
  ExpectAnswer(*fib, "5::2", 0x12345678);
  ExpectAnswer(*fib, "6::", 0);
  ExpectLikeOracle(Family::kIpv4,
                   {R("1.0.0.0/8", 0x80000000), R("2.0.0.0/8", 0xfffffffe)});
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
  ExpectLikeOracle(Family::kIpv6,
                   {R("2001:db8::/33", 1), R("2001:db8:8000::/33", 1)});
  ExpectLikeOracle(Family::kIpv6,
                   {R("2001:db8::/32", 1), R("2001:db8:7::/48", 1),
                    R("2001:db8:7::1/128", 1), R("2001:db8:7::2/128", 2)});
}

TEST(Fib, SameNextHopWithAGapBetweenIsNotMerged) {
  ExpectLikeOracle(Family::kIpv6,
                   {R("2001:db8::/48", 1), R("2001:db8:2::/48", 1)});
  ExpectLikeOracle(Family::kIpv6,
                   {R("2001:db8::/128", 1), R("2001:db8::2/128", 1)});
  ExpectLikeOracle(Family::kIpv4, {R("10.0.0.0/32", 1), R("10.0.0.2/32", 1)});
}

TEST(Fib, BytesGrowWithTheTable) {
  std::vector<Route> routes;
  for (uint32_t i = 0; i < 4096; ++i) {
    routes.push_back({Prefix::Truncate(Address::V4(i << 12), 20), 1 + i});
  }
  const auto big = Fib::Build(Family::kIpv4, routes).value();
  const auto small =
      Fib::Build(Family::kIpv4, absl::MakeSpan(routes).first(1)).value();
  // No structure can tell so many next hops apart in less.
  EXPECT_GE(big->bytes(), 4096U * 2);
  EXPECT_LT(small->bytes(), big->bytes());
}

// LookupUpper on hand-picked tables: where a longer prefix makes it undecided
// and where it does not, how many descriptors that takes, and after changes.
// The exhaustive and random tests ask for upper halves, too.

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

// One FIB, many threads, all kernels: lookups only read. Mostly for TSan.

TEST(FibThreads, AllReadTheSameAnswers) {
  const std::vector<Route> routes = SyntheticTable({.ipv6_routes = 2000});
  const auto fib = Fib::Build(Family::kIpv6, routes).value();
  const std::vector<Address> trace =
      SyntheticTrace(routes, Family::kIpv6, 1000, 1);
  const Oracle oracle(routes);
  std::string packed;
  std::vector<NextHopId> expected;
  for (const Address& address : trace) {
    packed += address.ToPacked();
    const auto route = oracle.Lookup(address);
    expected.push_back(route.has_value() ? route->next_hop : kNoRoute);
  }
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      const auto kernels = AvailableKernels();
      const Kernel& kernel = *kernels[static_cast<size_t>(t) % kernels.size()];
      std::vector<NextHopId> found(trace.size());
      for (int round = 0; round < 20; ++round) {
        fib->Lookup(packed.data(), trace.size(), found.data(), kernel);
        ASSERT_EQ(found, expected) << KernelName(kernel);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace planb
