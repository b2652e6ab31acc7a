// SPDX-License-Identifier: Apache-2.0

#include "examples/router/rival_routes.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/channel.h"
#include "client/table_client.h"
#include "client/testing/real_server_fixture.h"
#include "lpm/synthetic/synthetic.h"
#include "lpm/testing/oracle.h"

namespace planb::router {
namespace {

constexpr NextHopId kWide = 0xfffffffe;  // more than 31 bits

NextHopId Ask(const RivalRoutes& routes, const std::string& address,
              uint32_t flow_hash = 0) {
  const Address asked = *Address::Parse(address);
  NextHopId next_hop = kUndecided;
  routes.Lookup(asked.family(), asked.ToPacked().data(), 1, &flow_hash,
                &next_hop);
  return next_hop;
}

Route RouteTo(NextHopId next_hop, const char* prefix = "2001:db8::/32") {
  return {*Prefix::Parse(prefix), next_hop};
}

class EachKind : public testing::TestWithParam<absl::string_view> {};
INSTANTIATE_TEST_SUITE_P(Kinds, EachKind, testing::ValuesIn(RivalKinds()));

// Both families, groups, and prefixes of all lengths that come and go.
TEST_P(EachKind, AnswersAsTheOracleSaysWhileRoutesChange) {
  constexpr NextHopId kGroup = 21;
  std::map<Prefix, NextHopId> table;
  for (const Route& route : SyntheticTable(
           {.ipv6_routes = 2000, .ipv4_routes = 1000, .next_hops = kGroup})) {
    table[route.prefix] = route.next_hop;
  }
  NextHopGroup group = {.id = kGroup, .members = {{1, 1}, {2, 2}, {3, 1}}};
  RivalRoutes routes(GetParam());
  EXPECT_EQ(Ask(routes, "2001:db8::1"), kNoRoute);
  std::mt19937 random(1);
  GenerationChanges changes = {
      .generation = 1, .reset = true, .groups = {group}};
  for (const auto& [prefix, hop] : table)
    changes.routes.push_back({prefix, hop});
  for (int round = 0; round < 5; ++round) {
    routes.Take(changes);
    ASSERT_TRUE(routes.Build().ok());
    EXPECT_EQ(routes.generation(), changes.generation);
    const auto groups = GroupTable::Make({group}, nullptr);
    std::vector<Route> all;
    for (const auto& [prefix, hop] : table) all.push_back({prefix, hop});
    for (const Family family : {Family::kIpv4, Family::kIpv6}) {
      std::vector<Address> asked = SyntheticTrace(all, family, 2000, random());
      for (const Address& probe : BoundaryProbes(changes.routes)) {
        if (probe.family() == family) asked.push_back(probe);
      }
      const std::vector<NextHopId> right = RightAnswers(all, asked);
      std::string packed;
      std::vector<uint32_t> hashes;
      for (const Address& address : asked) {
        packed += address.ToPacked();
        hashes.push_back(static_cast<uint32_t>(random()));
      }
      std::vector<NextHopId> hops(asked.size());
      EXPECT_EQ(routes.Lookup(family, packed.data(), asked.size(),
                              hashes.data(), hops.data()),
                changes.generation);
      for (size_t i = 0; i < asked.size(); ++i) {
        ASSERT_EQ(hops[i], groups->Choose(right[i], hashes[i]))
            << asked[i].ToString() << " in round " << round;
      }
    }
    changes = {.generation = changes.generation + 1};
    for (int i = 0; i < 300; ++i) {
      auto at = std::next(table.begin(),
                          static_cast<ptrdiff_t>(random() % table.size()));
      Prefix prefix = at->first;
      const int bits = prefix.family() == Family::kIpv6 ? 128 : 32;
      if (i % 3 == 0) {  // a longer one within
        prefix = Prefix::Truncate(
            prefix.address(),
            prefix.length() +
                static_cast<int>(random() % static_cast<uint32_t>(
                                                bits - prefix.length() + 1)));
      }
      const auto hop =
          static_cast<NextHopId>(i % 5 == 0 ? kNoRoute : 1 + random() % kGroup);
      changes.routes.push_back({prefix, hop});
      if (hop == kNoRoute) {
        table.erase(prefix);
      } else {
        table[prefix] = hop;
      }
    }
    group.members.push_back({static_cast<NextHopId>(4 + round), 1});
    changes.groups = {group};
  }
  // DPDK's were changed in place.
  EXPECT_EQ(routes.builds(), GetParam() == "dpdk" ? 2U : 10U);
}

TEST_P(EachKind, HasObjectsOfTheGenerationAndForgetsAWholeTable) {
  RivalRoutes routes(GetParam());
  routes.Take({.generation = 1,
               .reset = true,
               .routes = {RouteTo(1)},
               .next_hops = {{.id = 1, .interface = "a"}}});
  EXPECT_EQ(routes.objects()->FindNextHop(1), nullptr);
  ASSERT_TRUE(routes.Build().ok());
  const uint64_t version = routes.objects_version();
  ASSERT_NE(routes.objects()->FindNextHop(1), nullptr);
  routes.Take({.generation = 2, .routes = {RouteTo(2)}});
  ASSERT_TRUE(routes.Build().ok());
  EXPECT_EQ(routes.objects_version(), version);
  EXPECT_EQ(Ask(routes, "2001:db8::1"), 2U);
  routes.Take({.generation = 3,
               .routes = {RouteTo(kNoRoute)},
               .deleted_next_hops = {1}});
  ASSERT_TRUE(routes.Build().ok());
  EXPECT_GT(routes.objects_version(), version);
  EXPECT_EQ(routes.objects()->FindNextHop(1), nullptr);
  EXPECT_EQ(Ask(routes, "2001:db8::1"), kNoRoute);
  routes.Take({.generation = 4, .routes = {RouteTo(4)}});
  // What is not built yet goes too.
  routes.Take({.generation = 1,
               .reset = true,
               .routes = {RouteTo(5, "2001:db8:5::/48")}});
  ASSERT_TRUE(routes.Build().ok());
  EXPECT_EQ(routes.generation(), 1U);
  EXPECT_EQ(Ask(routes, "2001:db8::1"), kNoRoute);
  EXPECT_EQ(Ask(routes, "2001:db8:5::1"), 5U);
}

TEST_P(EachKind, HoldsANextHopOf32BitsOrRefusesItAndGoesOn) {
  RivalRoutes routes(GetParam());
  routes.Take({.generation = 1,
               .reset = true,
               .routes = {RouteTo(1), RouteTo(1, "10.0.0.0/8")}});
  ASSERT_TRUE(routes.Build().ok());
  routes.Take({.generation = 2,
               .routes = {RouteTo(kWide), RouteTo(kWide, "10.0.0.0/8")}});
  const absl::Status built = routes.Build();
  if (GetParam() == "neurotrie" || GetParam() == "paper") {
    EXPECT_EQ(built.code(), absl::StatusCode::kUnimplemented) << built;
    EXPECT_EQ(Ask(routes, "2001:db8::1"), 1U);
    EXPECT_EQ(routes.generation(), 1U);
    routes.Take(
        {.generation = 3, .routes = {RouteTo(3), RouteTo(3, "10.0.0.0/8")}});
    ASSERT_TRUE(routes.Build().ok());
    EXPECT_EQ(Ask(routes, "2001:db8::1"), 3U);
    EXPECT_EQ(Ask(routes, "10.1.1.1"), 3U);
  } else {
    ASSERT_TRUE(built.ok()) << built;
    EXPECT_EQ(Ask(routes, "2001:db8::1"), kWide);
    EXPECT_EQ(Ask(routes, "10.1.1.1"), kWide);
  }
}

// More changes than there was room for at the build.
TEST(RivalRoutes, BuildsDpdksFibAnewWhenItIsFull) {
  RivalRoutes routes("dpdk");
  routes.Take({.generation = 1, .reset = true, .routes = {RouteTo(1)}});
  ASSERT_TRUE(routes.Build().ok());
  const uint64_t before = routes.builds();
  for (uint64_t generation = 2; routes.builds() == before; ++generation) {
    ASSERT_LT(generation, 1000U);
    GenerationChanges changes = {.generation = generation};
    for (uint64_t i = 0; i < 100; ++i) {
      // Each has its own tables.
      const Address address = Address::V6(
          absl::MakeUint128(0x2001'0db8'0000'0000 + (generation << 16) + i, 1));
      changes.routes.push_back({Prefix::Truncate(address, 128), 7});
    }
    routes.Take(changes);
    ASSERT_TRUE(routes.Build().ok());
    ASSERT_EQ(Ask(routes, changes.routes.back().prefix.address().ToString()),
              7U);
  }
  EXPECT_EQ(Ask(routes, "2001:db8:0:2::1"), 1U);
  EXPECT_EQ(Ask(routes, "2001:db8:2::1"), 7U);
}

class RivalTableTest : public client::testing::RealServerFixture {
 protected:
  uint64_t Update(const std::vector<Route>& routes) const {
    v1::UpdateRoutesRequest request;
    request.set_ack(v1::ACK_VISIBLE);
    for (const Route& route : routes) {
      *request.add_updates() = client::ToUpdate(route);
    }
    const auto updated = client::TableClient(Channel()).UpdateRoutes(request);
    EXPECT_TRUE(updated.ok()) << updated.status();
    return updated.ok() ? updated->generation() : 0;
  }
};

TEST_F(RivalTableTest, FollowsAServerAlsoToAnEarlierGeneration) {
  for (const char* const kind : {"dpdk", "poptrie"}) {
    Start("none");
    Update({RouteTo(1)});
    const auto table = RivalTable::Follow(Channel(), "", kind);
    ASSERT_TRUE(table.ok()) << table.status();
    const RivalRoutes& routes = (*table)->routes();
    EXPECT_EQ(Ask(routes, "2001:db8::1"), 1U);
    const auto update = [&](const std::vector<Route>& changes) {
      ASSERT_TRUE(
          (*table)
              ->WaitFor(Update(changes), Deadline::After(absl::Seconds(20)))
              .ok());
    };
    update({RouteTo(2), RouteTo(3, "10.0.0.0/8")});
    EXPECT_EQ(Ask(routes, "2001:db8::1"), 2U);
    EXPECT_EQ(Ask(routes, "10.0.0.1"), 3U);
    update({RouteTo(kNoRoute, "10.0.0.0/8")});
    EXPECT_EQ(Ask(routes, "10.0.0.1"), kNoRoute);
    Kill();
    EXPECT_EQ(Ask(routes, "2001:db8::1"), 2U);
    Start("none");
    Update({RouteTo(9)});
    const absl::Time deadline = absl::Now() + absl::Seconds(30);
    while (Ask(routes, "2001:db8::1") != 9 && absl::Now() < deadline) {
      absl::SleepFor(absl::Milliseconds(10));
    }
    EXPECT_EQ(Ask(routes, "2001:db8::1"), 9U);
    Kill();
  }
}

TEST_F(RivalTableTest, SaysWhyThereIsNoTable) {
  EXPECT_EQ(RivalTable::Follow(Channel(), "nowhere", "hbs").status().code(),
            absl::StatusCode::kNotFound);
  Update({RouteTo(kWide)});
  EXPECT_EQ(RivalTable::Follow(Channel(), "", "paper").status().code(),
            absl::StatusCode::kUnimplemented);
}

TEST_F(RivalTableTest, BeginsWithAnEmptyTable) {
  const auto table = RivalTable::Follow(Channel(), "", "dpdk");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(Ask((*table)->routes(), "2001:db8::1"), kNoRoute);
}

}  // namespace
}  // namespace planb::router
