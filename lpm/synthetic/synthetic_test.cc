// SPDX-License-Identifier: Apache-2.0

#include "lpm/synthetic/synthetic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "lpm/synthetic/random.h"
#include "lpm/synthetic/traffic.h"

namespace planb {
namespace {

std::vector<Route> Table(size_t ipv6, size_t ipv4, uint64_t seed = 1) {
  return SyntheticTable(
      {.ipv6_routes = ipv6, .ipv4_routes = ipv4, .seed = seed});
}

// FNV-1a over the bytes of addresses and numbers.
class Digest {
 public:
  void Add(uint64_t number) {
    for (int i = 0; i < 8; ++i, number >>= 8) {
      value_ = (value_ ^ (number & 255)) * 0x100000001b3;
    }
  }
  void Add(const Address& address) {
    Add(static_cast<uint64_t>(address.family()));
    Add(absl::Uint128High64(address.bits()));
    Add(absl::Uint128Low64(address.bits()));
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xcbf29ce484222325;
};

uint64_t DigestOf(const std::vector<Route>& routes) {
  Digest digest;
  for (const Route& route : routes) {
    digest.Add(route.prefix.address());
    digest.Add(static_cast<uint64_t>(route.prefix.length()));
    digest.Add(route.next_hop);
  }
  return digest.value();
}

uint64_t DigestOf(const std::vector<Address>& trace) {
  Digest digest;
  for (const Address& address : trace) digest.Add(address);
  return digest.value();
}

size_t CountOf(const std::vector<Route>& routes, Family family) {
  return static_cast<size_t>(std::count_if(
      routes.begin(), routes.end(),
      [&](const Route& route) { return route.prefix.family() == family; }));
}

// Ascending by prefix, none twice (which also puts IPv4 first).
void ExpectStrictlyAscending(const std::vector<Route>& routes) {
  for (size_t i = 1; i < routes.size(); ++i) {
    ASSERT_LT(routes[i - 1].prefix, routes[i].prefix)
        << routes[i].prefix.ToString();
  }
}

TEST(SyntheticTable, HasExactlyAsManyRoutesAsAskedFor) {
  for (const size_t n : {0, 1, 2, 3, 10, 99, 1000, 54'321}) {
    const std::vector<Route> routes = Table(n, n + 7);
    EXPECT_EQ(CountOf(routes, Family::kIpv6), n);
    EXPECT_EQ(CountOf(routes, Family::kIpv4), n + 7);
    ExpectStrictlyAscending(routes);
  }
}

TEST(SyntheticTable, MakesAMillion) {
  const std::vector<Route> routes = Table(1'000'000, 300'000);
  EXPECT_EQ(CountOf(routes, Family::kIpv6), 1'000'000U);
  EXPECT_EQ(CountOf(routes, Family::kIpv4), 300'000U);
  ExpectStrictlyAscending(routes);
}

TEST(SyntheticTable, IsTheSameEverywhere) {
  // Recorded once. Other numbers mean that all made-up tables change.
  EXPECT_EQ(DigestOf(Table(20'000, 20'000)), 14759275564023876493U);
  EXPECT_EQ(DigestOf(Table(20'000, 20'000, 2)), 7004798749185190016U);
}

TEST(SyntheticTable, FamiliesDoNotDependOnEachOther) {
  const std::vector<Route> both = Table(3000, 5000);
  const std::vector<Route> ipv4 = Table(0, 5000);
  const std::vector<Route> ipv6 = Table(3000, 0);
  ASSERT_EQ(both.size(), 8000U);
  EXPECT_TRUE(std::equal(ipv4.begin(), ipv4.end(), both.begin()));
  EXPECT_TRUE(std::equal(ipv6.begin(), ipv6.end(), both.begin() + 5000));
}

TEST(SyntheticTable, HasTheMixOfThePaper) {
  constexpr size_t kRoutes = 235'466;  // the paper's table
  std::array<size_t, 129> count{};
  for (const Route& route : Table(kRoutes, 0)) {
    ++count[static_cast<size_t>(route.prefix.length())];
  }
  const auto percent = [&](size_t length) {
    return 100.0 * static_cast<double>(count[length]) / kRoutes;
  };
  EXPECT_NEAR(percent(48), 44.55, 0.05);
  EXPECT_NEAR(percent(32), 11.00, 0.05);
  EXPECT_NEAR(percent(40), 10.11, 0.05);
  EXPECT_NEAR(percent(44), 9.69, 0.05);
  EXPECT_NEAR(percent(36), 3.89, 0.05);
  size_t longer_than_64 = 0;
  for (size_t n = 65; n <= 128; ++n) longer_than_64 += count[n];
  EXPECT_GT(longer_than_64, 0U);
  EXPECT_LT(longer_than_64, 100U);
  for (size_t n = 0; n < 19; ++n) EXPECT_EQ(count[n], 0U) << n;
}

TEST(SyntheticTable, HasTheMixOfEachYear) {
  struct Year {
    int year;
    double at_48, at_32, at_64;
  };
  for (const Year& of :
       {Year{2019, 46.52, 17.13, 0.07}, Year{2021, 41.82, 14.59, 4.81},
        Year{2024, 45.27, 11.19, 0.08}}) {
    SCOPED_TRACE(of.year);
    std::array<size_t, 129> count{};
    for (const Route& route :
         SyntheticTable({.ipv6_routes = 100'000, .year = of.year})) {
      ++count[static_cast<size_t>(route.prefix.length())];
    }
    EXPECT_NEAR(static_cast<double>(count[48]) / 1000, of.at_48, 0.05);
    EXPECT_NEAR(static_cast<double>(count[32]) / 1000, of.at_32, 0.05);
    EXPECT_NEAR(static_cast<double>(count[64]) / 1000, of.at_64, 0.03);
  }
}

TEST(SyntheticTable, IsClusteredLikeTheInternet) {
  const std::vector<Route> routes = Table(258'956, 0);
  size_t sites = 0, fullest = 0, here = 0, nested = 0, same_next_hop = 0;
  absl::uint128 site = 0;
  std::vector<Prefix> covers;
  for (size_t i = 0; i < routes.size(); ++i) {
    const Prefix& prefix = routes[i].prefix;
    while (!covers.empty() && !covers.back().Covers(prefix)) covers.pop_back();
    nested += covers.empty() ? 0 : 1;
    covers.push_back(prefix);
    if (i > 0 && routes[i].next_hop == routes[i - 1].next_hop) ++same_next_hop;
    if (prefix.length() < 32) continue;
    if (prefix.first() >> 96 != site) ++sites, here = 0;
    site = prefix.first() >> 96;
    fullest = std::max(fullest, ++here);
  }
  EXPECT_NEAR(static_cast<double>(sites), 37'000, 5'000);
  EXPECT_NEAR(static_cast<double>(fullest), 4'200, 1'000);
  EXPECT_NEAR(static_cast<double>(nested), 0.57 * 258'956, 0.08 * 258'956);
  EXPECT_GT(same_next_hop, routes.size() / 2);
}

TEST(SyntheticTable, AnnouncesNothingReserved) {
  std::vector<Prefix> reserved;
  for (const char* text :
       {"2001:db8::/32", "0.0.0.0/8", "10.0.0.0/8", "127.0.0.0/8",
        "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16", "224.0.0.0/3"}) {
    reserved.push_back(*Prefix::Parse(text));
  }
  const Prefix global_unicast = *Prefix::Parse("2000::/3");
  for (const Route& route : Table(100'000, 100'000)) {
    for (const Prefix& prefix : reserved) {
      ASSERT_FALSE(prefix.Covers(route.prefix)) << route.prefix.ToString();
    }
    if (route.prefix.family() == Family::kIpv6) {
      ASSERT_TRUE(global_unicast.Covers(route.prefix));
    }
  }
}

TEST(SyntheticTable, NextHopsAreInRange) {
  for (const uint32_t n : {1U, 2U, 1000U, 0xffffffffU}) {
    for (const Route& route : SyntheticTable(
             {.ipv6_routes = 2000, .ipv4_routes = 2000, .next_hops = n})) {
      ASSERT_GE(route.next_hop, 1U);
      ASSERT_LE(route.next_hop, n);
    }
  }
  for (const Route& route :
       SyntheticTable({.ipv6_routes = 10, .next_hops = 0})) {
    EXPECT_EQ(route.next_hop, 1U);
  }
}

bool Matches(const std::vector<Route>& routes, const Address& address) {
  return std::any_of(routes.begin(), routes.end(), [&](const Route& route) {
    return route.prefix.Contains(address);
  });
}

TEST(SyntheticTrace, IsOfOneFamilyAndMostlyMatches) {
  const std::vector<Route> routes = Table(500, 500);
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    const std::vector<Address> trace = SyntheticTrace(routes, family, 8000, 1);
    ASSERT_EQ(trace.size(), 8000U);
    int matches = 0;
    for (const Address& address : trace) {
      ASSERT_EQ(address.family(), family);
      matches += Matches(routes, address) ? 1 : 0;
    }
    // 15 of 16 by design, and by chance some of the others.
    EXPECT_GT(matches, 8000 * 14 / 16);
    EXPECT_LT(matches, 8000);
  }
}

TEST(SyntheticTrace, DrawsPrefixesUniformly) {
  const std::vector<Route> routes = {
      {*Prefix::Parse("10.0.0.0/8"), 1},
      {*Prefix::Parse("192.0.2.1/32"), 2},
  };
  const auto trace = SyntheticTrace(routes, Family::kIpv4, 16'000, 1);
  const auto host = static_cast<double>(
      std::count(trace.begin(), trace.end(), *Address::Parse("192.0.2.1")));
  EXPECT_NEAR(host, 7500, 400);
}

TEST(SyntheticTrace, WithoutRoutesIsRandom) {
  const std::vector<Route> only_ipv4 = Table(0, 10);
  const Prefix global_unicast = *Prefix::Parse("2000::/3");
  auto trace = SyntheticTrace(only_ipv4, Family::kIpv6, 1000, 1);
  for (const Address& address : trace) {
    EXPECT_TRUE(global_unicast.Contains(address));
  }
  std::sort(trace.begin(), trace.end());
  EXPECT_EQ(std::unique(trace.begin(), trace.end()), trace.end());
  EXPECT_EQ(SyntheticTrace({}, Family::kIpv4, 5, 1).size(), 5U);
  EXPECT_TRUE(SyntheticTrace(only_ipv4, Family::kIpv4, 0, 1).empty());
}

TEST(SyntheticTrace, IsTheSameEverywhere) {
  const std::vector<Route> routes = Table(1000, 1000);
  EXPECT_EQ(DigestOf(SyntheticTrace(routes, Family::kIpv6, 5000, 1)),
            1439671869816761502U);
  EXPECT_EQ(DigestOf(SyntheticTrace(routes, Family::kIpv4, 5000, 2)),
            10385214210262077664U);
}

TEST(Random, IsSplitMix64) {
  // The first numbers of the published generator for seed 1234567.
  Random random(1234567);
  EXPECT_EQ(random.Next(), 6457827717110365317U);
  EXPECT_EQ(random.Next(), 3203168211198807973U);
  EXPECT_EQ(random.Next(), 9817491932198370423U);
}

TEST(Random, BelowCoversItsRangeEvenly) {
  Random random(1);
  std::array<int, 10> count{};
  for (int i = 0; i < 100'000; ++i) ++count[random.Below(count.size())];
  for (const int n : count) EXPECT_NEAR(n, 10'000, 500);
  EXPECT_EQ(random.Below(1), 0U);
  EXPECT_FALSE(random.Chance(0, 5));
  EXPECT_TRUE(random.Chance(5, 5));
}

constexpr size_t kCount = 20'000;

std::vector<Route> Table() {
  return {{*Prefix::Parse("10.0.0.0/8"), 9},
          {*Prefix::Parse("2001:db8::/32"), 1},
          {*Prefix::Parse("2001:db9::/48"), 2},
          {*Prefix::Parse("2001:dba::/96"), 3}};
}

absl::StatusOr<std::vector<Address>> Make(TraceKind kind, Family family,
                                          const std::vector<Route>& routes,
                                          size_t count, uint64_t seed = 1) {
  std::vector<Address> addresses;
  const absl::Status status =
      MakeTraffic(kind, family, routes, count, seed,
                  [&](const Address& a) { addresses.push_back(a); });
  if (!status.ok()) return status;
  return addresses;
}

// How many addresses go to each of Table()'s routes; 0 is none.
std::map<NextHopId, size_t> CountByRoute(
    const std::vector<Address>& addresses) {
  std::map<NextHopId, size_t> counts;
  for (const Address& address : addresses) {
    NextHopId found = 0;
    for (const Route& route : Table()) {
      if (route.prefix.Contains(address)) found = route.next_hop;
    }
    ++counts[found];
  }
  return counts;
}

TEST(Traffic, MatchDrawsRoutesOfItsFamilyEvenly) {
  const auto addresses =
      Make(TraceKind::kMatch, Family::kIpv6, Table(), kCount);
  ASSERT_TRUE(addresses.ok());
  EXPECT_EQ(addresses->size(), kCount);
  const auto counts = CountByRoute(*addresses);
  EXPECT_EQ(counts.size(), 3U);
  for (NextHopId id : {1, 2, 3}) {
    ASSERT_TRUE(counts.contains(id)) << id;
    EXPECT_NEAR(static_cast<double>(counts.at(id)), kCount / 3.0,
                kCount / 30.0);
  }
}

TEST(Traffic, ZipfFavoursTheFirst) {
  const auto addresses = Make(TraceKind::kZipf, Family::kIpv6, Table(), kCount);
  ASSERT_TRUE(addresses.ok());
  std::multiset<size_t> shares;
  for (const auto& [id, count] : CountByRoute(*addresses)) {
    EXPECT_NE(id, 0U);
    shares.insert(count);
  }
  // Weights 1, 1/2, 1/3 of 11/6.
  const std::vector<size_t> sorted(shares.begin(), shares.end());
  ASSERT_EQ(sorted.size(), 3U);
  EXPECT_NEAR(static_cast<double>(sorted[0]), kCount * 2 / 11.0, 400);
  EXPECT_NEAR(static_cast<double>(sorted[1]), kCount * 3 / 11.0, 400);
  EXPECT_NEAR(static_cast<double>(sorted[2]), kCount * 6 / 11.0, 400);
}

TEST(Traffic, LongTakesOnlyLongOnes) {
  const auto addresses = Make(TraceKind::kLong, Family::kIpv6, Table(), kCount);
  ASSERT_TRUE(addresses.ok());
  EXPECT_EQ(CountByRoute(*addresses),
            (std::map<NextHopId, size_t>{{3, kCount}}));
  const auto none =
      Make(TraceKind::kLong, Family::kIpv6, {Table()[1], Table()[2]}, kCount);
  EXPECT_EQ(none.status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(Traffic, UniformIsGlobalUnicast) {
  const auto addresses = Make(TraceKind::kUniform, Family::kIpv6, {}, kCount);
  ASSERT_TRUE(addresses.ok());
  const Prefix global = *Prefix::Parse("2000::/3");
  std::set<uint64_t> slash8s;
  for (const Address& address : *addresses) {
    ASSERT_TRUE(global.Contains(address));
    slash8s.insert(absl::Uint128High64(address.bits()) >> 56);
  }
  EXPECT_EQ(slash8s.size(), 32U);
}

TEST(Traffic, RepeatHasSixteen) {
  const std::vector<Route> routes = SyntheticTable({.ipv6_routes = 5000});
  const auto addresses =
      Make(TraceKind::kRepeat, Family::kIpv6, routes, kCount);
  ASSERT_TRUE(addresses.ok());
  std::map<Address, size_t> counts;
  for (const Address& address : *addresses) ++counts[address];
  EXPECT_EQ(counts.size(), 16U);
  for (const auto& [address, count] : counts) EXPECT_EQ(count, kCount / 16);
}

TEST(Traffic, IsTheSameEachTime) {
  for (const char* name : {"match", "uniform", "zipf", "repeat"}) {
    const auto kind = ParseTraceKind(name);
    ASSERT_TRUE(kind.ok());
    EXPECT_EQ(TraceKindName(*kind), name);
    const auto a = Make(*kind, Family::kIpv4, Table(), 1000, 5);
    const auto b = Make(*kind, Family::kIpv4, Table(), 1000, 5);
    const auto c = Make(*kind, Family::kIpv4, Table(), 1000, 6);
    EXPECT_EQ(*a, *b);
    EXPECT_NE(*a, *c);
  }
}

TEST(Traffic, NamesWhatThereIs) {
  const absl::Status refused = ParseTraceKind("fast").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(refused.message().find("zipf"), absl::string_view::npos);
  EXPECT_EQ(
      Make(TraceKind::kMatch, Family::kIpv6, {Table()[0]}, 1).status().code(),
      absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace planb
