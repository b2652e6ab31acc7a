// SPDX-License-Identifier: Apache-2.0

// ListRoutes, ListNextHops, GetRoute and ExplainLookup against plain models of
// them, on tables of nested prefixes; and lists during a storm of changes.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/numeric/int128.h"
#include "absl/strings/str_cat.h"
#include "lpm/synthetic/synthetic.h"
#include "lpm/testing/oracle.h"
#include "server/testing/control_calls.h"
#include "server/testing/nested_routes.h"

namespace planb::server {
namespace {

using List = v1::ListRoutesRequest;

std::vector<Route> RandomTable(uint64_t seed) {
  std::vector<Route> routes = NestedRoutes(Family::kIpv4, 400, 5, seed);
  const std::vector<Route> v6 = NestedRoutes(Family::kIpv6, 800, 5, seed);
  routes.insert(routes.end(), v6.begin(), v6.end());
  return routes;
}

void Announce(RunningServer& running, const std::vector<Route>& routes) {
  v1::UpdateRoutesRequest request;
  for (const Route& route : routes) {
    v1::RouteUpdate& update = *request.add_updates();
    update.set_op(v1::RouteUpdate::OP_UPSERT);
    SetPrefix(route.prefix, *update.mutable_prefix());
    update.set_next_hop_id(route.next_hop);
  }
  const auto reply = Call(running, &Stub::UpdateRoutes, request);
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
}

std::vector<Route> Listed(RunningServer& running, const List& request) {
  const auto list = Call(running, &Stub::ListRoutes, request);
  EXPECT_TRUE(list.status.ok()) << list.status.error_message();
  EXPECT_FALSE(list.all.empty());  // an empty list has a generation too
  std::vector<Route> routes;
  for (const v1::ListRoutesResponse& chunk : list.all) {
    EXPECT_EQ(chunk.generation(), 1U);
    EXPECT_LE(chunk.ByteSizeLong(), size_t{70} << 10);
    for (const v1::Route& route : chunk.routes()) {
      routes.push_back({ToPrefix(route.prefix()), route.next_hop_id()});
    }
  }
  return routes;
}

// The routes that a list holds by the contract.
std::vector<Route> Selected(const std::vector<Route>& routes, List::Match match,
                            const Prefix& prefix, uint32_t next_hop) {
  std::vector<Route> selected;
  for (const Route& route : routes) {
    const bool matches =
        match == List::MATCH_EXACT      ? route.prefix == prefix
        : match == List::MATCH_COVERING ? route.prefix.Covers(prefix)
        : match == List::MATCH_SUBTREE  ? prefix.Covers(route.prefix)
                                        : true;
    if (matches && (next_hop == 0 || route.next_hop == next_hop)) {
      selected.push_back(route);
    }
  }
  return selected;
}

// Prefixes of routes, around them, and the default routes.
std::vector<Prefix> Probes(const std::vector<Route>& routes, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Prefix> probes;
  for (Family family : {Family::kIpv4, Family::kIpv6}) {
    probes.push_back(Prefix::Truncate(Address::FromBits(family, 0), 0));
  }
  for (int i = 0; i < 150; ++i) {
    const Prefix& prefix = routes[random() % routes.size()].prefix;
    const auto bits = static_cast<uint64_t>(AddressBits(prefix.family()));
    probes.push_back(prefix);
    probes.push_back(Prefix::Truncate(prefix.address(),
                                      static_cast<int>(random() % (bits + 1))));
  }
  return probes;
}

TEST(ControlList, SelectsAsThePlainModelDoes) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const std::vector<Route> routes = RandomTable(seed);
    RunningServer running;
    Announce(running, routes);
    EXPECT_EQ(Listed(running, {}), routes);
    List by_next_hop;
    by_next_hop.set_next_hop_id(3);
    EXPECT_EQ(Listed(running, by_next_hop),
              Selected(routes, List::MATCH_UNSPECIFIED, Prefix(), 3));
    for (const Prefix& prefix : Probes(routes, seed)) {
      for (const auto match :
           {List::MATCH_EXACT, List::MATCH_COVERING, List::MATCH_SUBTREE}) {
        for (const uint32_t next_hop : {0U, 3U, 6U}) {
          List request;
          request.set_match(match);
          SetPrefix(prefix, *request.mutable_prefix());
          request.set_next_hop_id(next_hop);
          ASSERT_EQ(Listed(running, request),
                    Selected(routes, match, prefix, next_hop))
              << prefix.ToString() << " " << match << " " << next_hop;
        }
      }
    }
  }
}

TEST(ControlList, GetRouteIsExact) {
  const std::vector<Route> routes = RandomTable(4);
  RunningServer running;
  Announce(running, routes);
  for (const Prefix& prefix : Probes(routes, 4)) {
    v1::GetRouteRequest request;
    SetPrefix(prefix, *request.mutable_prefix());
    const auto reply = Call(running, &Stub::GetRoute, request);
    const std::vector<Route> expected =
        Selected(routes, List::MATCH_EXACT, prefix, 0);
    ASSERT_EQ(reply.status.ok(), !expected.empty()) << prefix.ToString();
    if (expected.empty()) {
      ExpectError(reply.status, Code::NOT_FOUND, "ROUTE_NOT_FOUND", "prefix");
    } else {
      EXPECT_EQ(ToPrefix(reply.response.prefix()), prefix);
      EXPECT_EQ(reply.response.next_hop_id(), expected[0].next_hop);
    }
  }
}

// ExplainLookup lists every prefix that contains the address, the longest
// first. Lookup answers with the first.
TEST(ControlList, ExplainAgreesWithLookup) {
  const std::vector<Route> routes = RandomTable(5);
  const Oracle oracle(routes);
  RunningServer running;
  Announce(running, routes);
  std::mt19937_64 random(5);
  for (int i = 0; i < 300; ++i) {
    // Near a route: its prefix, then random bits.
    const Prefix& near = routes[random() % routes.size()].prefix;
    absl::uint128 host = absl::MakeUint128(random(), random());
    for (int bit = 0; bit < near.length(); ++bit) host >>= 1;
    if (near.family() == Family::kIpv4) host = host >> 96 << 96;
    const Address address =
        Address::FromBits(near.family(), near.first() | host);
    v1::ExplainLookupRequest request;
    if (i % 2 == 0) {
      request.set_address(address.ToPacked());
    } else {
      request.set_text(address.ToString());
    }
    const auto reply = Call(running, &Stub::ExplainLookup, request);
    ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
    EXPECT_EQ(reply.response.generation(), 1U);
    std::vector<Route> expected;
    for (const Route& route : routes) {
      if (route.prefix.Contains(address)) expected.push_back(route);
    }
    std::reverse(expected.begin(), expected.end());
    std::vector<Route> matches;
    for (const v1::Route& route : reply.response.matches()) {
      matches.push_back({ToPrefix(route.prefix()), route.next_hop_id()});
    }
    ASSERT_EQ(matches, expected) << address.ToString();

    v1::LookupRequest lookup;
    lookup.add_addresses()->set_packed(address.ToPacked());
    lookup.set_want_prefix(true);
    CallContext context;
    v1::LookupResponse answer;
    ASSERT_TRUE(running.lookup().Lookup(&context, lookup, &answer).ok());
    const auto winner = oracle.Lookup(address);
    const v1::LookupResult& result = answer.results(0);
    EXPECT_EQ(result.next_hop_id(),
              winner.has_value() ? winner->next_hop : kNoRoute);
    EXPECT_EQ(result.next_hop_id(), reply.response.next_hop_id());
    ASSERT_EQ(result.has_prefix(), !matches.empty());
    if (!matches.empty()) {
      EXPECT_EQ(ToPrefix(result.prefix()), matches[0].prefix);
    }
  }
}

// Every change sets all routes to one next hop, the generation's number.
TEST(ControlList, StaysOnOneGenerationInAStorm) {
  constexpr int kRoutes = 6000;  // three chunks
  RunningServer running;
  v1::UpdateRoutesRequest request;
  for (int i = 0; i < kRoutes; ++i) {
    AddUpdate(absl::StrCat("10.", i / 256, ".", i % 256, ".0/24"), 1, request);
  }
  request.set_ack(v1::ACK_ACCEPTED);
  ASSERT_TRUE(Call(running, &Stub::UpdateRoutes, request).status.ok());
  std::atomic<bool> stop{false};
  std::thread storm([&] {
    for (uint32_t generation = 2; !stop.load(); ++generation) {
      for (v1::RouteUpdate& update : *request.mutable_updates()) {
        update.set_next_hop_id(generation);
      }
      const auto reply = Call(running, &Stub::UpdateRoutes, request);
      ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
      ASSERT_EQ(reply.response.generation(), generation);
    }
  });
  std::map<uint64_t, int> seen;
  for (int round = 0; round < 1000 && seen.size() < 20; ++round) {
    const auto list = Call(running, &Stub::ListRoutes, {});
    ASSERT_TRUE(list.status.ok()) << list.status.error_message();
    ASSERT_FALSE(list.all.empty());
    const uint64_t generation = list.all[0].generation();
    ++seen[generation];
    int routes = 0;
    for (const v1::ListRoutesResponse& chunk : list.all) {
      ASSERT_EQ(chunk.generation(), generation);
      for (const v1::Route& route : chunk.routes()) {
        ASSERT_EQ(route.next_hop_id(), generation);
        ++routes;
      }
    }
    ASSERT_EQ(routes, generation == 0 ? 0 : kRoutes);
  }
  stop = true;
  storm.join();
  EXPECT_GE(seen.size(), 3U);
}

TEST(ControlList, ShowsOneGenerationInChunksInOrder) {
  ServerOptions options;
  options.initial.generate_v6 = 9000;
  options.initial.generate_v4 = 1000;
  RunningServer running(options);
  const auto expected =
      SyntheticTable({.ipv6_routes = 9000, .ipv4_routes = 1000, .seed = 1});
  CallContext context;
  const auto reader = running.table().ListRoutes(&context, {});
  v1::ListRoutesResponse chunk;
  std::vector<Route> routes;
  int chunks = 0;
  while (reader->Read(&chunk)) {
    ++chunks;
    EXPECT_EQ(chunk.generation(), 1U);
    EXPECT_LT(chunk.ByteSizeLong(), 80U << 10);
    for (const v1::Route& route : chunk.routes()) {
      routes.push_back({ToPrefix(route.prefix()), route.next_hop_id()});
    }
    // A change during the list does not show.
    if (chunks == 1) running.Announce({{"2001:db8::/48", 1}});
  }
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(routes, expected);
  EXPECT_GT(chunks, 1);
}

// Each kind of list takes one place of `max_lists` and gives it back.
TEST(ControlList, ListsLeaveRoomForOtherLists) {
  ServerOptions options;
  options.control.max_lists = 1;
  RunningServer running(options);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(Call(running, &Stub::ListNextHops, {}).status.ok());
    EXPECT_TRUE(Call(running, &Stub::ListRoutes, {}).status.ok());
    EXPECT_TRUE(Call(running, &Stub::ExportSnapshot, {}).status.ok());
  }
}

}  // namespace
}  // namespace planb::server
