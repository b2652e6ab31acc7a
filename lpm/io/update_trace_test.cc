// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lpm/io/bgp_updates.h"

namespace planb {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Keeps lines such as "hop 1 192.0.2.1 AS1 peer ::1", "5 10.0.0.0/8 1".
struct Lines : TraceSink {
  absl::Status OnNextHop(const NextHop& hop) override {
    lines.push_back(absl::StrCat("hop ", hop.id, " ", hop.gateway->ToString(),
                                 " ", hop.label));
    return status;
  }
  absl::Status OnChanges(const std::vector<TraceChange>& changes) override {
    for (const TraceChange& change : changes) {
      lines.push_back(absl::StrCat(absl::ToUnixSeconds(change.at), " ",
                                   change.route.prefix.ToString(), " ",
                                   change.route.next_hop));
    }
    return status;
  }
  std::vector<std::string> Take() { return std::exchange(lines, {}); }

  std::vector<std::string> lines;
  absl::Status status;
};

NlriPrefix Of(absl::string_view prefix, uint32_t path_id = 0) {
  return {*Prefix::Parse(prefix), path_id};
}
BgpAnnounce To(const NlriPrefix& nlri, absl::string_view gateway) {
  return {nlri, *Address::Parse(gateway)};
}
UpdateEvent Event(int64_t at, uint32_t as_number, BgpUpdate update) {
  return {absl::FromUnixSeconds(at), Peer{*Address::Parse("::1"), as_number},
          false, std::move(update)};
}

TEST(UpdateTrace, ChoosesThePeerThatAppearedFirst) {
  Lines sink;
  UpdateTrace trace(1, sink);
  const NlriPrefix p = Of("10.0.0.0/8");
  EXPECT_TRUE(trace.OnUpdate(Event(1, 7, {{}, {To(p, "192.0.2.1")}})).ok());
  EXPECT_THAT(sink.Take(),
              ElementsAre("hop 1 192.0.2.1 AS7 peer ::1", "1 10.0.0.0/8 1"));
  // Of another peer's path, only the gateway shows.
  EXPECT_TRUE(trace.OnUpdate(Event(2, 5, {{}, {To(p, "192.0.2.2")}})).ok());
  EXPECT_THAT(sink.Take(), ElementsAre("hop 2 192.0.2.2 AS5 peer ::1"));
  // Repeating the announcement changes nothing.
  EXPECT_TRUE(trace.OnUpdate(Event(3, 7, {{}, {To(p, "192.0.2.1")}})).ok());
  EXPECT_THAT(sink.Take(), IsEmpty());
  EXPECT_TRUE(trace.OnUpdate(Event(4, 7, {{p}, {}})).ok());
  EXPECT_THAT(sink.Take(), ElementsAre("4 10.0.0.0/8 2"));
  EXPECT_TRUE(trace.OnUpdate(Event(5, 7, {{p}, {}})).ok());
  EXPECT_THAT(sink.Take(), IsEmpty());
  EXPECT_TRUE(trace.OnUpdate(Event(6, 7, {{}, {To(p, "192.0.2.2")}})).ok());
  EXPECT_THAT(sink.Take(), IsEmpty());  // the same gateway by another peer
  EXPECT_EQ(trace.prefixes(), 1u);
  EXPECT_TRUE(trace.OnUpdate(Event(7, 5, {{p}, {}})).ok());
  EXPECT_THAT(sink.Take(), IsEmpty());
  EXPECT_TRUE(trace.OnUpdate(Event(8, 7, {{p}, {}})).ok());
  EXPECT_THAT(sink.Take(), ElementsAre("8 10.0.0.0/8 0"));
  EXPECT_EQ(trace.prefixes(), 0u);
  EXPECT_EQ(trace.peers(), 2u);
}

TEST(UpdateTrace, ReportsTheNetChangesOfAnEvent) {
  Lines sink;
  UpdateTrace trace(100, sink);
  const NlriPrefix a = Of("10.0.0.0/8"), b = Of("::/0"), c = Of("9.0.0.0/8");
  // Changes are ordered by prefix, each prefix once. A prefix that is withdrawn
  // and announced is announced.
  EXPECT_TRUE(
      trace
          .OnUpdate(
              Event(1, 1, {{a, c}, {To(b, "::1"), To(a, "::1"), To(a, "::2")}}))
          .ok());
  EXPECT_THAT(sink.Take(), ElementsAre("hop 100 ::1 AS1 peer ::1",
                                       "hop 101 ::2 AS1 peer ::1",
                                       "1 10.0.0.0/8 101", "1 ::/0 100"));
  EXPECT_TRUE(trace.OnUpdate(Event(2, 1, {{a}, {To(a, "::2")}})).ok());
  EXPECT_THAT(sink.Take(), IsEmpty());
}

// The next hop of a route that a dump of that peer brought.
NextHop HopOf(const std::optional<Address>& gateway, absl::string_view peer) {
  return {.gateway = gateway,
          .label = PathLabel(gateway, Peer{*Address::Parse(peer), 7}.Label())};
}
UpdateEvent From(absl::string_view peer, BgpUpdate update) {
  return {absl::FromUnixSeconds(1), Peer{*Address::Parse(peer), 7}, false,
          std::move(update)};
}

TEST(PeerOf, TellsThePeerOfEachRouteOrOfNone) {
  const Address own = *Address::Parse("::1");
  const Address link_local = *Address::Parse("fe80::1");
  const Address other = *Address::Parse("192.0.2.9");
  EXPECT_EQ(PeerOf(HopOf(own, "::1")), own);
  EXPECT_EQ(PeerOf(HopOf(std::nullopt, "::1")), own);
  EXPECT_EQ(PeerOf(HopOf(link_local, "::1")), own);
  EXPECT_EQ(PeerOf({.gateway = link_local,
                    .label = "AS7 peer fe80::1 router 192.0.2.1"}),
            link_local);
  // Several peers may announce the gateway; the label names the first.
  EXPECT_EQ(PeerOf(HopOf(other, "::1")), std::nullopt);
  for (const char* label : {"", "uplink", "AS7", "AS7 peer ", "AS7 peer x",
                            "unknown peer 3", "no gateway, "}) {
    EXPECT_EQ(PeerOf({.gateway = link_local, .label = label}), std::nullopt)
        << label;
  }
  NextHop through = HopOf(link_local, "::1");
  through.interface = "eth0";
  EXPECT_EQ(PeerOf(through), std::nullopt);
}

TEST(UpdateTrace, ARouteOfTheBaseEndsWithItsPeerOrIfNoneCanBeTold) {
  const NlriPrefix own = Of("10.0.0.0/8"), others = Of("11.0.0.0/8"),
                   shared = Of("12.0.0.0/8"), bare = Of("13.0.0.0/8"),
                   none = Of("14.0.0.0/8");
  Lines sink;
  UpdateTrace trace(1, sink);
  const auto add = [&](const NlriPrefix& nlri, const NextHop& hop) {
    EXPECT_TRUE(trace.AddBase(nlri.prefix, hop).ok());
  };
  add(own, HopOf(*Address::Parse("::1"), "::1"));
  add(others, HopOf(*Address::Parse("::2"), "::2"));
  add(shared, HopOf(*Address::Parse("192.0.2.9"), "::2"));
  add(bare, {});
  sink.Take();
  const BgpUpdate withdraw{{own, others, shared, bare, none}, {}};
  EXPECT_TRUE(trace.OnUpdate(From("::1", withdraw)).ok());
  EXPECT_THAT(sink.Take(), ElementsAre("1 10.0.0.0/8 0", "1 12.0.0.0/8 0",
                                       "1 13.0.0.0/8 0"));
  EXPECT_TRUE(trace.OnUpdate(From("::1", withdraw)).ok());
  EXPECT_THAT(sink.Take(), IsEmpty());
  EXPECT_TRUE(trace.OnUpdate(From("::2", withdraw)).ok());
  EXPECT_THAT(sink.Take(), ElementsAre("1 11.0.0.0/8 0"));
  EXPECT_EQ(trace.prefixes(), 0u);
}

TEST(UpdateTrace, ARouteOfTheBaseShowsAgainUnlessItsPeerSpoke) {
  const NlriPrefix p = Of("10.0.0.0/8"), with_id = Of("10.0.0.0/8", 7);
  for (const bool own : {false, true}) {
    Lines sink;
    UpdateTrace trace(1, sink);
    const NextHop base = HopOf(*Address::Parse("::1"), "::1");
    EXPECT_TRUE(trace.AddBase(p.prefix, base).ok());
    EXPECT_THAT(sink.Take(), ElementsAre("hop 1 ::1 AS7 peer ::1"));
    const char* const peer = own ? "::1" : "::2";
    EXPECT_TRUE(
        trace.OnUpdate(From(peer, {{}, {To(with_id, "192.0.2.2")}})).ok());
    EXPECT_EQ(sink.Take().back(), "1 10.0.0.0/8 2");
    EXPECT_TRUE(trace.OnUpdate(From(peer, {{with_id}, {}})).ok());
    EXPECT_THAT(sink.Take(),
                ElementsAre(own ? "1 10.0.0.0/8 0" : "1 10.0.0.0/8 1"));
  }
}

TEST(UpdateTrace, SessionsWithOneLinkLocalAddressAreTwoPeers) {
  Lines sink;
  UpdateTrace trace(1, sink);
  UpdateEvent one = From("fe80::1", {{}, {To(Of("10.0.0.0/8"), "fe80::1")}});
  UpdateEvent two = one;
  one.peer.interface = 2;
  two.peer.interface = 3;
  EXPECT_TRUE(trace.OnUpdate(one).ok());
  EXPECT_TRUE(trace.OnUpdate(two).ok());
  EXPECT_EQ(trace.peers(), 2u);
  two.update = {{Of("10.0.0.0/8")}, {}};
  EXPECT_TRUE(trace.OnUpdate(two).ok());
  EXPECT_EQ(trace.prefixes(), 1u);
  EXPECT_THAT(sink.Take(),
              ElementsAre("hop 1 fe80::1 AS7 peer fe80::1 interface 2",
                          "1 10.0.0.0/8 1",
                          "hop 2 fe80::1 AS7 peer fe80::1 interface 3"));
}

TEST(UpdateTrace, SkipsMessagesOfTheCollector) {
  Lines sink;
  UpdateTrace trace(1, sink);
  UpdateEvent event = Event(1, 1, {{}, {To(Of("::/0"), "::1")}});
  event.local = true;
  EXPECT_TRUE(trace.OnUpdate(event).ok());
  EXPECT_THAT(sink.Take(), IsEmpty());
  EXPECT_EQ(trace.peers(), 0u);
}

TEST(UpdateTrace, ReturnsErrorsOfTheSinkAndOfIds) {
  Lines sink;
  sink.status = absl::AbortedError("enough");
  UpdateTrace trace(kUndecided - 1, sink);
  const UpdateEvent event = Event(1, 1, {{}, {To(Of("::/0"), "::1")}});
  EXPECT_TRUE(absl::IsAborted(trace.OnUpdate(event)));
  sink.status = absl::OkStatus();
  EXPECT_TRUE(absl::IsResourceExhausted(
      trace.OnUpdate(Event(2, 1, {{}, {To(Of("::/0"), "::2")}}))));
}

// Compares the table that the changes make with a model that keeps every path.
struct Replica : TraceSink {
  absl::Status OnNextHop(const NextHop& hop) override {
    EXPECT_TRUE(gateways.try_emplace(hop.id, *hop.gateway).second);
    return absl::OkStatus();
  }
  absl::Status OnChanges(const std::vector<TraceChange>& changes) override {
    EXPECT_FALSE(changes.empty());
    for (const TraceChange& change : changes) {
      const auto& [prefix, next_hop] = change.route;
      if (next_hop == kNoRoute) {
        EXPECT_EQ(table.erase(prefix), 1u);
      } else {
        const Address& gateway = gateways.at(next_hop);
        const auto [at, added] = table.try_emplace(prefix, gateway);
        EXPECT_TRUE(added || at->second != gateway);
        at->second = gateway;
      }
    }
    return absl::OkStatus();
  }
  std::map<NextHopId, Address> gateways;
  std::map<Prefix, Address> table;
};

TEST(UpdateTrace, AgreesWithAModelOnRandomEvents) {
  std::mt19937 random(11);
  const auto below = [&](uint32_t bound) {
    return static_cast<uint32_t>(random() % bound);
  };
  Replica replica;
  UpdateTrace trace(1, replica);
  std::map<uint32_t, size_t> peers;  // AS number to index
  std::map<std::tuple<Prefix, size_t, uint32_t>, Address> paths;
  for (int i = 0; i < 5000; ++i) {
    const uint32_t as_number = 1 + below(4);
    const size_t peer =
        peers.try_emplace(as_number, peers.size()).first->second;
    const auto random_nlri = [&] {
      return NlriPrefix{Prefix::Truncate(Address::V4(below(4) << 30), 2),
                        below(3)};
    };
    BgpUpdate update;
    for (uint32_t n = below(4); n > 0; --n) {
      update.withdraws.push_back(random_nlri());
      const auto& [prefix, path_id] = update.withdraws.back();
      paths.erase({prefix, peer, path_id});
    }
    for (uint32_t n = below(3); n > 0; --n) {
      update.announces.push_back({random_nlri(), Address::V4(below(5))});
      const auto& [nlri, gateway] = update.announces.back();
      paths[{nlri.prefix, peer, nlri.path_id}] = *gateway;
    }
    ASSERT_TRUE(trace.OnUpdate(Event(i, as_number, update)).ok());
    std::map<Prefix, Address> expected;
    for (const auto& [key, gateway] : paths) {
      expected.try_emplace(std::get<0>(key), gateway);
    }
    ASSERT_EQ(replica.table, expected) << i;
    ASSERT_EQ(trace.prefixes(), expected.size());
  }
}

}  // namespace
}  // namespace planb
