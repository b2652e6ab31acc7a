// Each kind of traffic goes where it says, and is the same each time.

#include "lpm/synthetic/traffic.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

#include "lpm/synthetic/synthetic.h"

namespace planb {
namespace {

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
