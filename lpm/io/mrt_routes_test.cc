// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lpm/io/route_file.h"
#include "lpm/io/testing/bytes.h"
#include "lpm/io/testing/read.h"

namespace planb {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Reading ReadMrt(std::string bytes, bool strict = false,
                NextHopId first_id = 1) {
  return ReadWith(
      [&](ByteReader& in, RouteOutput& out) {
        return ReadMrtRoutes(in, {.first_next_hop_id = first_id}, out);
      },
      std::move(bytes), strict);
}

// Three peers, of both families.
std::string Peers() {
  return TableDump(kPeerIndexTable,
                   PeerTableBody({PeerEntry("192.0.2.1", 64500),
                                  PeerEntry("2001:db8::1", 64501),
                                  PeerEntry("2001:db8::2", 64502)}));
}

std::string Path6(absl::string_view next_hop, std::vector<uint32_t> as_path,
                  uint8_t origin = 0) {
  return Origin(origin) + AsPath(as_path) + MpReach(next_hop);
}

std::string Path4(absl::string_view next_hop, std::vector<uint32_t> as_path) {
  return Origin(0) + AsPath(as_path) + NextHop4(next_hop);
}

std::string Rib6(absl::string_view prefix,
                 const std::vector<std::string>& entries) {
  return TableDump(kRibIpv6Unicast, RibBody(prefix, entries));
}

std::string Rib4(absl::string_view prefix,
                 const std::vector<std::string>& entries) {
  return TableDump(kRibIpv4Unicast, RibBody(prefix, entries));
}

TEST(ReadMrtRoutes, ReadsBothFamiliesAndNumbersNextHops) {
  const Reading reading = ReadMrt(
      Peers() + Rib4("0.0.0.0/0", {Entry(0, Path4("192.0.2.1", {1}))}) +
          Rib6("2001:db8::/32", {Entry(2, Path6("2001:db8::9", {1}))}) +
          Rib6("2001:db8:1::/48", {Entry(1, Path6("2001:db8::1", {1}))}) +
          Rib4("198.51.100.0/24", {Entry(0, Path4("192.0.2.1", {1, 2}))}) +
          // The same gateway from another peer is the same next hop.
          Rib6("2001:db8:2::/48", {Entry(1, Path6("2001:db8::9", {1}))}),
      /*strict=*/true);
  EXPECT_EQ(reading.Summary(), "5 routes, 3 hops");
  EXPECT_THAT(reading.Lines(),
              ElementsAre("0.0.0.0/0 1", "198.51.100.0/24 1", "2001:db8::/32 2",
                          "2001:db8:1::/48 3", "2001:db8:2::/48 2"));
  ASSERT_EQ(reading.next_hops.size(), 3u);
  EXPECT_EQ(reading.next_hops[0].id, 1u);
  EXPECT_EQ(reading.next_hops[0].gateway, *Address::Parse("192.0.2.1"));
  EXPECT_EQ(reading.next_hops[0].label, "AS64500 peer 192.0.2.1");
  EXPECT_EQ(reading.next_hops[1].id, 2u);
  EXPECT_EQ(reading.next_hops[1].gateway, *Address::Parse("2001:db8::9"));
  EXPECT_EQ(reading.next_hops[1].label, "AS64502 peer 2001:db8::2");
  EXPECT_EQ(reading.next_hops[2].label, "AS64501 peer 2001:db8::1");
}

// The end of the label of the chosen path.
std::string Chosen(const std::vector<std::string>& entries) {
  const Reading reading = ReadMrt(Peers() + Rib6("::/0", entries), true);
  EXPECT_TRUE(reading.status.ok()) << reading.status;
  EXPECT_EQ(reading.next_hops.size(), 1u);
  return reading.next_hops.at(0).gateway->ToString();
}

TEST(ReadMrtRoutes, PrefersTheShortestPathThenTheLowestOriginThenPeer) {
  EXPECT_EQ(
      Chosen({Entry(0, Path6("::1", {1, 2}, 0)), Entry(1, Path6("::2", {1}, 2)),
              Entry(2, Path6("::3", {1, 2, 3}, 0))}),
      "::2");
  EXPECT_EQ(
      Chosen({Entry(0, Path6("::1", {1}, 2)), Entry(1, Path6("::2", {2}, 1)),
              Entry(2, Path6("::3", {3}, 1))}),
      "::2");
  EXPECT_EQ(Chosen({Entry(2, Path6("::1", {1})), Entry(1, Path6("::2", {1})),
                    Entry(1, Path6("::3", {1}))}),
            "::2");
}

TEST(ReadMrtRoutes, LocalPrefDecidesFirstAndIs100IfAbsent) {
  EXPECT_EQ(Chosen({Entry(0, Path6("::1", {1}) + LocalPref(50)),
                    Entry(1, Path6("::2", {1, 2, 3}, 2) + LocalPref(200)),
                    Entry(2, Path6("::3", {1}) + LocalPref(199))}),
            "::2");
  const std::string absent = Entry(1, Path6("::2", {1, 2}));
  EXPECT_EQ(Chosen({Entry(0, Path6("::1", {1}) + LocalPref(99)), absent}),
            "::2");
  EXPECT_EQ(Chosen({Entry(2, Path6("::1", {1}) + LocalPref(101)), absent}),
            "::1");
  EXPECT_EQ(Chosen({Entry(2, Path6("::1", {1, 2}) + LocalPref(100)), absent}),
            "::2");
}

TEST(ReadMrtRoutes, MedDecidesBetweenPathsOfOneNeighborOnly) {
  EXPECT_EQ(Chosen({Entry(0, Path6("::1", {1}) + Med(5)),
                    Entry(1, Path6("::2", {1}))}),
            "::2");
  EXPECT_EQ(Chosen({Entry(0, Path6("::1", {1}) + Med(5)),
                    Entry(1, Path6("::2", {2}))}),
            "::1");
  // The neighbour's better path leaves it none that the lowest peer announced.
  EXPECT_EQ(Chosen({Entry(0, Path6("::1", {1}) + Med(5)),
                    Entry(1, Path6("::2", {2}) + Med(9)),
                    Entry(2, Path6("::3", {1}) + Med(4))}),
            "::2");
}

TEST(ReadMrtRoutes, ThePeerWithTheLowestIdThenAddressDecidesLast) {
  const auto chosen = [](const std::vector<std::string>& peers,
                         const std::vector<std::string>& entries) {
    return ReadMrt(TableDump(kPeerIndexTable, PeerTableBody(peers)) +
                       Rib6("::/0", entries),
                   /*strict=*/true)
        .next_hops.at(0)
        .gateway->ToString();
  };
  const std::vector<std::string> entries = {Entry(0, Path6("::1", {1})),
                                            Entry(1, Path6("::2", {2})),
                                            Entry(9, Path6("::3", {3}))};
  EXPECT_EQ(chosen({PeerEntry("192.0.2.1", 1, false, 7),
                    PeerEntry("192.0.2.2", 2, false, 6)},
                   entries),
            "::2");
  EXPECT_EQ(
      chosen({PeerEntry("2001:db8::1", 1), PeerEntry("192.0.2.2", 2)}, entries),
      "::2");
  // A peer that is not in the table comes last.
  EXPECT_EQ(chosen({}, {Entry(9, Path6("::3", {3})), entries[1]}), "::2");
  EXPECT_EQ(
      chosen({PeerEntry("192.0.2.1", 1)}, {entries[1], entries[2], entries[0]}),
      "::1");
}

// A path of a small world, as one list of all paths sees it.
struct WorldPath {
  uint32_t local_pref = 0;
  uint32_t neighbor = 0;
  uint32_t med = 0;
  uint16_t peer = 0;
  int gateway = 0;  // 192.0.2.this

  std::string ToEntry() const {
    return Entry(peer, Path4(absl::StrCat("192.0.2.", gateway), {neighbor, 9}) +
                           Med(med) + LocalPref(local_pref));
  }
};

// RFC 4271 section 9.1, step by step, over one list. The gateway that is left.
int ChosenOf(std::vector<WorldPath> paths) {
  const std::vector<WorldPath> all = paths;
  std::erase_if(paths, [&](const WorldPath& path) {
    return std::any_of(all.begin(), all.end(), [&](const WorldPath& other) {
      return other.local_pref > path.local_pref;
    });
  });
  const std::vector<WorldPath> best = paths;
  std::erase_if(paths, [&](const WorldPath& path) {
    return std::any_of(best.begin(), best.end(), [&](const WorldPath& other) {
      return other.neighbor == path.neighbor && other.med < path.med;
    });
  });
  return std::min_element(paths.begin(), paths.end(),
                          [](const WorldPath& a, const WorldPath& b) {
                            return std::tie(a.peer, a.gateway) <
                                   std::tie(b.peer, b.gateway);
                          })
      ->gateway;
}

// Each prefix of a file has the paths of another world, all of them in the same
// order and split over records in the same way.
TEST(ReadMrtRoutes, AllPathsOfAPrefixCompeteInAnyOrderAndRecords) {
  std::vector<WorldPath> kinds;
  for (const uint32_t local_pref : {100u, 200u}) {
    for (const uint32_t neighbor : {1u, 2u}) {
      for (const uint32_t med : {0u, 1u}) {
        for (const uint16_t peer : std::initializer_list<uint16_t>{0, 1}) {
          kinds.push_back({local_pref, neighbor, med, peer, 0});
        }
      }
    }
  }
  constexpr size_t kPaths = 3;
  std::vector<std::vector<WorldPath>> worlds;
  for (const WorldPath& a : kinds) {
    for (const WorldPath& b : kinds) {
      for (const WorldPath& c : kinds) {
        worlds.push_back({a, b, c});
        for (size_t i = 0; i < kPaths; ++i) {
          worlds.back()[i].gateway = static_cast<int>(i) + 1;
        }
      }
    }
  }
  const auto prefix = [](size_t world) {
    return absl::StrCat("10.", world >> 8, ".", world & 255, ".0/24");
  };
  std::vector<int> expected;
  for (const auto& world : worlds) expected.push_back(ChosenOf(world));
  std::vector<size_t> order = {0, 1, 2};
  do {
    for (const bool adjacent : {true, false}) {
      for (uint32_t splits = 0; splits < 1 << (kPaths - 1); ++splits) {
        // The records of each prefix.
        std::vector<std::vector<std::string>> rounds(kPaths);
        for (size_t w = 0; w < worlds.size(); ++w) {
          std::vector<std::string> entries;
          size_t round = 0;
          for (size_t i = 0; i < kPaths; ++i) {
            entries.push_back(worlds[w][order[i]].ToEntry());
            if (i + 1 < kPaths && (splits >> i & 1) == 0) continue;
            const size_t at = adjacent ? 0 : round++;
            rounds[at].push_back(Rib4(prefix(w), entries));
            entries.clear();
          }
        }
        std::string file = Peers();
        for (const auto& round : rounds) file += absl::StrJoin(round, "");
        const Reading reading = ReadMrt(file, /*strict=*/true);
        ASSERT_EQ(reading.routes.size(), worlds.size());
        for (size_t w = 0; w < worlds.size(); ++w) {
          const Route& route = reading.routes[w];
          ASSERT_EQ(route.prefix.ToString(), prefix(w));
          ASSERT_EQ(
              reading.next_hops.at(route.next_hop - 1).gateway,
              Address::V4(0xc0000200u + static_cast<uint32_t>(expected[w])))
              << route.prefix.ToString() << " split " << splits << " adjacent "
              << adjacent << " order " << order[0] << order[1] << order[2];
        }
      }
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

// Many paths of one prefix in ties, with as many neighbours. The best is the
// one of peer 0, in the middle.
TEST(ReadMrtRoutes, ManyPathsOfOnePrefixCompete) {
  constexpr uint32_t kMany = 60'000;
  const std::string other = Rib6("::/0", {Entry(1, Path6("::9", {1}))});
  std::vector<std::string> entries;
  std::string records;
  std::string apart;
  for (uint32_t i = 0; i < kMany; ++i) {
    const bool best = i == kMany / 2;
    const std::string entry =
        Entry(best ? 0 : 2, Path6(best ? "::2" : "::1", {i + 1}));
    entries.push_back(entry);
    const std::string record = Rib6("2001:db8::/32", {entry});
    records += record;
    apart += record + other;
  }
  for (const std::string& file :
       {Rib6("2001:db8::/32", entries), records, apart}) {
    const Reading reading = ReadMrt(Peers() + file, /*strict=*/true);
    ASSERT_FALSE(reading.routes.empty());
    EXPECT_EQ(reading.routes.back().prefix.ToString(), "2001:db8::/32");
    EXPECT_EQ(reading.next_hops.back().gateway, *Address::Parse("::2"));
  }
}

TEST(ReadMrtRoutes, ARouteIsLostOnlyIfNoRecordHasAPath) {
  const std::string bad = Rib6("::/0", {Entry(0, Origin(9))});
  const std::string good = Rib6("::/0", {Entry(1, Path6("::1", {1}))});
  const std::string other = Rib6("::/1", {Entry(1, Path6("::1", {1}))});
  for (const std::string& file :
       {bad + good, good + bad, bad + other + good, good + other + bad}) {
    const Reading reading = ReadMrt(Peers() + file, /*strict=*/true);
    EXPECT_EQ(reading.Lines().at(0), "::/0 1");
    EXPECT_EQ(reading.report.routes_lost, 0u);
    EXPECT_EQ(reading.report.paths_skipped, 1u);
  }
  const Reading lost = ReadMrt(Peers() + other + bad + bad + other + bad);
  EXPECT_EQ(lost.Summary(), "1 routes, 1 hops, 3 paths skipped, 1 routes lost");
  EXPECT_EQ(lost.report.problems.back().offset, Peers().size() + other.size());
}

// "PREFIX via GATEWAY: LABEL" of each route; without a gateway "none".
std::vector<std::string> RoutesOf(const std::string& file) {
  const Reading reading = ReadMrt(file, /*strict=*/true);
  EXPECT_TRUE(reading.status.ok()) << reading.status;
  std::vector<std::string> lines;
  for (const Route& route : reading.routes) {
    const NextHop& hop = reading.next_hops.at(route.next_hop - 1);
    lines.push_back(absl::StrCat(route.prefix.ToString(), " via ",
                                 hop.gateway ? hop.gateway->ToString() : "none",
                                 ": ", hop.label));
  }
  return lines;
}

TEST(ReadMrtRoutes, APathWithoutAGatewayIsOfItsPeer) {
  const std::string none = Origin(0) + AsPath({1}) + NextHop4("0.0.0.0");
  EXPECT_THAT(
      RoutesOf(Peers() + Rib4("10.0.0.0/8", {Entry(0, none)}) +
               Rib4("11.0.0.0/8", {Entry(1, none)}) +
               Rib4("12.0.0.0/8", {Entry(0, none + MpReach("::"))}) +
               Rib4("13.0.0.0/8", {Entry(0, none + MpReach("fe80::9"))})),
      ElementsAre("10.0.0.0/8 via none: no gateway, AS64500 peer 192.0.2.1",
                  "11.0.0.0/8 via none: no gateway, AS64501 peer 2001:db8::1",
                  "12.0.0.0/8 via none: no gateway, AS64500 peer 192.0.2.1",
                  "13.0.0.0/8 via fe80::9: AS64500 peer 192.0.2.1"));
  // It is no candidate beside a path with a gateway, in any record.
  const std::string weak = Path4("192.0.2.9", {1, 2}) + LocalPref(1);
  for (const std::string& file :
       {Rib4("10.0.0.0/8", {Entry(0, none), Entry(1, weak)}),
        Rib4("10.0.0.0/8", {Entry(1, weak)}) +
            Rib4("10.0.0.0/8", {Entry(0, none)})}) {
    EXPECT_THAT(
        RoutesOf(Peers() + file),
        ElementsAre("10.0.0.0/8 via 192.0.2.9: AS64501 peer 2001:db8::1"));
  }
}

TEST(ReadMrtRoutes, ALinkLocalGatewayIsOfItsPeer) {
  for (const char* gateway : {"fe80::1", "169.254.0.1"}) {
    const std::string path = Origin(0) + AsPath({1}) + MpReach(gateway);
    EXPECT_THAT(RoutesOf(Peers() + Rib6("2001:db8:1::/48", {Entry(0, path)}) +
                         Rib6("2001:db8:2::/48", {Entry(1, path)}) +
                         Rib6("2001:db8:3::/48", {Entry(0, path)})),
                ElementsAre(absl::StrCat("2001:db8:1::/48 via ", gateway,
                                         ": AS64500 peer 192.0.2.1"),
                            absl::StrCat("2001:db8:2::/48 via ", gateway,
                                         ": AS64501 peer 2001:db8::1"),
                            absl::StrCat("2001:db8:3::/48 via ", gateway,
                                         ": AS64500 peer 192.0.2.1")));
  }
}

// BIRD's static, direct and kernel routes.
TEST(ReadMrtRoutes, AnEntryWithoutAttributesIsARouteWithoutAGateway) {
  EXPECT_THAT(
      RoutesOf(
          Peers() + Rib4("0.0.0.0/0", {Entry(0, "")}) +
          Rib4("10.0.0.0/8", {Entry(0, ""), Entry(1, Path4("0.0.0.0", {1}))}) +
          Rib4("11.0.0.0/8",
               {Entry(0, ""), Entry(1, Path4("192.0.2.9", {1, 2}))})),
      ElementsAre("0.0.0.0/0 via none: no gateway, AS64500 peer 192.0.2.1",
                  "10.0.0.0/8 via none: no gateway, AS64500 peer 192.0.2.1",
                  "11.0.0.0/8 via 192.0.2.9: AS64501 peer 2001:db8::1"));
}

TEST(ReadMrtRoutes, ReadsTableDump) {
  const auto two_bytes = [](std::vector<uint16_t> numbers) {
    std::string segment = absl::StrCat(U8(2), U8(numbers.size()));
    for (const uint16_t number : numbers) segment += U16(number);
    return Origin(0) + Attribute(2, segment);
  };
  const std::string file =
      OldTableDump("10.0.0.0/8", "192.0.2.1", 64500,
                   two_bytes({64500, 7}) + NextHop4("192.0.2.1")) +
      OldTableDump("11.0.0.0/8", "192.0.2.1", 64500,
                   two_bytes({64500}) + NextHop4("192.0.2.1")) +
      // A shorter path, apart from the other one.
      OldTableDump("10.0.0.0/8", "192.0.2.2", 64501,
                   two_bytes({64501}) + NextHop4("192.0.2.2")) +
      OldTableDump("2001:db8::/32", "2001:db8::1", 64502,
                   two_bytes({64502}) + MpReachOf(2, 1, Packed("2001:db8::9"),
                                                  Nlri("2001:db8::/32")));
  EXPECT_THAT(RoutesOf(file),
              ElementsAre("10.0.0.0/8 via 192.0.2.2: AS64501 peer 192.0.2.2",
                          "11.0.0.0/8 via 192.0.2.1: AS64500 peer 192.0.2.1",
                          "2001:db8::/32 via 2001:db8::9: AS64502 peer "
                          "2001:db8::1"));
  const std::string bad =
      OldTableDump("12.0.0.0/8", "192.0.2.1", 64500, Origin(9));
  EXPECT_EQ(ReadMrt(bad + file + Mrt(12, 1, "short")).Summary(),
            "3 routes, 3 hops, 1 malformed, 1 paths skipped, 1 routes lost");
}

TEST(ReadMrtRoutes, ReadsUnicastOfRibGeneric) {
  const std::string file =
      Peers() +
      TableDump(kRibGeneric, GenericBody(1, 1, Nlri("10.0.0.0/8"),
                                         {Entry(0, Path4("192.0.2.1", {1, 2})),
                                          Entry(1, Path4("192.0.2.2", {1}))})) +
      TableDump(kRibGeneric,
                GenericBody(2, 1, Nlri("2001:db8::/32"),
                            {Entry(1, Origin(0) + AsPath({1}) +
                                          Announce6("2001:db8::9",
                                                    Nlri("2001:db8::/32")))})) +
      TableDump(kRibGenericAddPath,
                GenericBody(1, 1, Nlri("11.0.0.0/8", 1),
                            {Entry(0, Path4("192.0.2.3", {1, 2}))})) +
      TableDump(kRibGenericAddPath,
                GenericBody(1, 1, Nlri("11.0.0.0/8"),
                            {Entry(0, Path4("192.0.2.4", {1}), 2)}));
  EXPECT_THAT(RoutesOf(file),
              ElementsAre("10.0.0.0/8 via 192.0.2.2: AS64501 peer 2001:db8::1",
                          "11.0.0.0/8 via 192.0.2.4: AS64500 peer 192.0.2.1",
                          "2001:db8::/32 via 2001:db8::9: AS64501 peer "
                          "2001:db8::1"));
  EXPECT_EQ(ReadMrt(TableDump(kRibGeneric, "short")).Summary(),
            "0 routes, 0 hops, 1 malformed");
}

TEST(ReadMrtRoutes, ReadsAdditionalPaths) {
  const Reading reading = ReadMrt(
      Peers() +
          TableDump(kRibIpv6UnicastAddPath,
                    RibBody("2001:db8::/32",
                            {Entry(1, Path6("::1", {1, 2}), /*path_id=*/5),
                             Entry(1, Path6("::2", {1}), /*path_id=*/6)})) +
          TableDump(kRibIpv4UnicastAddPath,
                    RibBody("192.0.2.0/24", {Entry(0, Path4("192.0.2.7", {1}),
                                                   /*path_id=*/1)})),
      /*strict=*/true);
  EXPECT_TRUE(reading.status.ok()) << reading.status;
  EXPECT_THAT(reading.Lines(),
              ElementsAre("192.0.2.0/24 1", "2001:db8::/32 2"));
  EXPECT_EQ(reading.next_hops[1].gateway, *Address::Parse("::2"));
}

TEST(ReadMrtRoutes, IgnoresOtherRecords) {
  const std::string route = Rib6("::/0", {Entry(1, Path6("::1", {1}))});
  const Reading reading = ReadMrt(
      Mrt(16, 4, "BGP4MP") + Mrt(17, 4, "") + Mrt(12, 3, "TABLE_DUMP") +
          Mrt(11, 0, "OSPF") + Peers() + TableDump(kRibIpv4Multicast, "junk") +
          TableDump(kRibGeneric, GenericBody(25, 70, "", {})) +
          TableDump(7, "geo") + TableDump(99, "the future") +
          Rib6("2001:db8::/32", {}) + route,
      /*strict=*/true);
  EXPECT_EQ(reading.Summary(), "1 routes, 1 hops, 9 ignored");
  EXPECT_THAT(reading.Lines(), ElementsAre("::/0 1"));
}

TEST(ReadMrtRoutes, SkipsAMalformedPathButNotItsRecord) {
  const std::string bad = Origin(9) + MpReach("::1");
  const std::string file =
      Peers() +
      Rib6("2001:db8::/32",
           {Entry(0, bad), Entry(1, Path6("::2", {1})), Entry(2, bad)});
  const Reading reading = ReadMrt(file);
  EXPECT_EQ(reading.Summary(), "1 routes, 1 hops, 2 paths skipped");
  EXPECT_THAT(reading.Lines(), ElementsAre("2001:db8::/32 1"));
  ASSERT_EQ(reading.report.problems.size(), 2u);
  EXPECT_EQ(reading.report.problems[0].offset, Peers().size());
  EXPECT_THAT(reading.report.problems[0].message,
              HasSubstr("entry 0 of 2001:db8::/32: ORIGIN"));
  EXPECT_THAT(reading.report.problems[1].message, HasSubstr("entry 2 of "));

  // No route is lost.
  const Reading strict = ReadMrt(file, /*strict=*/true);
  EXPECT_TRUE(strict.status.ok()) << strict.status;
  EXPECT_THAT(strict.Lines(), ElementsAre("2001:db8::/32 1"));
}

TEST(ReadMrtRoutes, ARecordWithoutAValidPathGivesNoRoute) {
  const std::string file = Peers() + Rib6("::/0", {Entry(0, Origin(9))});
  EXPECT_EQ(ReadMrt(file).Summary(),
            "0 routes, 0 hops, 1 paths skipped, 1 routes lost");
  const Reading strict = ReadMrt(file, /*strict=*/true);
  EXPECT_TRUE(absl::IsDataLoss(strict.status)) << strict.status;
  EXPECT_THAT(strict.status.message(), HasSubstr("no path to ::/0"));
}

// Encodes an AS path of sequences and the number of communities.
EncodedPath EncodeText(const BgpAttributes& path) {
  std::string text;
  for (const BgpAttributes::Segment& segment : path.as_path) {
    absl::StrAppend(&text, absl::StrJoin(segment.numbers, " "));
  }
  return {Attributes(absl::StrCat(text, "+", path.communities.size())),
          path.communities.size() > 1};
}

// With their attributes.
Reading ReadMeanings(const std::string& bytes,
                     PathEncoder encoder = EncodeText) {
  return ReadWith(
      [&](ByteReader& in, RouteOutput& out) {
        return ReadMrtRoutes(in, {.path_encoder = encoder}, out);
      },
      bytes);
}

TEST(ReadMrtRoutes, WithAnEncoderAttributesMakeANextHop) {
  const std::string communities = Attribute(8, U32(1) + U32(2));
  const std::string file =
      Peers() + Rib4("10.0.0.0/8", {Entry(0, Path4("192.0.2.9", {1, 2}))}) +
      Rib4("11.0.0.0/8", {Entry(1, Path4("192.0.2.9", {1, 3}))}) +
      // The same from another peer, and with what is not encoded.
      Rib4("12.0.0.0/8", {Entry(1, Path4("192.0.2.9", {1, 2}) + Med(7))}) +
      // Of the paths the best counts.
      Rib4("13.0.0.0/8", {Entry(1, Path4("192.0.2.8", {1, 2, 3})),
                          Entry(0, Path4("192.0.2.9", {1, 3}))}) +
      Rib4("14.0.0.0/8", {Entry(0, Path4("192.0.2.9", {1, 2}) + communities)});
  const Reading reading = ReadMeanings(file);
  EXPECT_EQ(reading.Summary(), "5 routes, 3 hops");
  EXPECT_EQ(reading.report.paths_cut, 1u);
  EXPECT_EQ(ProblemCounts(reading.report), "1 paths with attributes cut");
  EXPECT_THAT(reading.Lines(),
              ElementsAre("10.0.0.0/8 1", "11.0.0.0/8 2", "12.0.0.0/8 1",
                          "13.0.0.0/8 2", "14.0.0.0/8 3"));
  ASSERT_EQ(reading.next_hops.size(), 3u);
  EXPECT_EQ(reading.next_hops[0].attributes, Attributes("1 2+0"));
  EXPECT_EQ(reading.next_hops[1].attributes, Attributes("1 3+0"));
  EXPECT_EQ(reading.next_hops[2].attributes, Attributes("1 2+2"));
  EXPECT_EQ(reading.next_hops[2].label, "AS64500 peer 192.0.2.1");
  // Without one, or with one that says nothing, the gateway alone.
  const auto none = [](const BgpAttributes&) { return EncodedPath(); };
  for (const Reading& other : {ReadMrt(file), ReadMeanings(file, none)}) {
    EXPECT_EQ(other.Summary(), "5 routes, 1 hops");
    EXPECT_TRUE(other.next_hops.at(0).attributes.empty());
  }
}

TEST(ReadMrtRoutes, AnEmptyPathIsOfThePeer) {
  const Reading reading = ReadMeanings(
      Peers() + Rib6("2001:db8:1::/48", {Entry(1, Path6("::9", {}))}) +
      Rib6("2001:db8:2::/48", {Entry(2, Path6("::9", {}))}) +
      Rib6("2001:db8:3::/48", {Entry(7, Path6("::9", {}))}) +
      OldTableDump("10.0.0.0/8", "192.0.2.1", 64500,
                   Origin(0) + Attribute(2, "") + NextHop4("192.0.2.9")));
  ASSERT_EQ(reading.next_hops.size(), 4u);
  EXPECT_EQ(reading.next_hops[0].attributes, Attributes("64500+0"));
  EXPECT_EQ(reading.next_hops[1].attributes, Attributes("64501+0"));
  EXPECT_EQ(reading.next_hops[2].attributes, Attributes("64502+0"));
  // Of a peer that is not in the table.
  EXPECT_EQ(reading.next_hops[3].attributes, Attributes("+0"));
}

TEST(ReadMrtRoutes, WithAnEncoderMalformedAttributesSkipAPath) {
  const std::string bad = Path6("::1", {1}) + Attribute(8, "12345");
  const std::string file =
      Peers() +
      Rib6("2001:db8::/32", {Entry(0, bad), Entry(1, Path6("::2", {1, 2}))});
  const Reading reading = ReadMeanings(file);
  EXPECT_EQ(reading.Summary(), "1 routes, 1 hops, 1 paths skipped");
  EXPECT_EQ(reading.next_hops.at(0).gateway, *Address::Parse("::2"));
  EXPECT_THAT(reading.report.problems.at(0).message,
              HasSubstr("entry 0 of 2001:db8::/32: COMMUNITIES has 5 bytes"));
  // Without one nothing of them is read.
  EXPECT_EQ(ReadMrt(file).next_hops.at(0).gateway, *Address::Parse("::1"));
}

TEST(ReadMrtRoutes, SkipsAMalformedRecord) {
  const std::string good = Rib6("::/0", {Entry(1, Path6("::1", {1}))});
  const std::string bad = TableDump(
      kRibIpv6Unicast, RibBody("::/1", {Entry(1, Path6("::2", {1}))}) + "more");
  const Reading reading = ReadMrt(Peers() + bad + good);
  EXPECT_EQ(reading.Summary(), "1 routes, 1 hops, 1 malformed");
  EXPECT_THAT(reading.Lines(), ElementsAre("::/0 1"));
  EXPECT_EQ(reading.report.problems[0].offset, Peers().size());

  const Reading strict = ReadMrt(Peers() + bad + good, /*strict=*/true);
  EXPECT_TRUE(absl::IsDataLoss(strict.status)) << strict.status;
  EXPECT_THAT(strict.status.message(),
              HasSubstr(absl::StrCat("F: at byte ", Peers().size(), ": ")));
}

TEST(ReadMrtRoutes, ReadsRoutesOfMissingPeers) {
  const std::string route = Rib6("::/0", {Entry(7, Path6("::1", {1}))});
  for (const std::string& peers : {std::string(), Peers()}) {
    const Reading reading = ReadMrt(peers + route, /*strict=*/true);
    EXPECT_TRUE(reading.status.ok()) << reading.status;
    EXPECT_THAT(reading.Lines(), ElementsAre("::/0 1"));
    EXPECT_EQ(reading.next_hops.at(0).label, "unknown peer 7");
  }
}

TEST(ReadMrtRoutes, EachPeerTableReplacesTheLast) {
  const std::string other = TableDump(
      kPeerIndexTable, PeerTableBody({PeerEntry("198.51.100.1", 64510)}));
  const std::string broken = TableDump(kPeerIndexTable, "short");
  const Reading reading =
      ReadMrt(Peers() + Rib6("::/0", {Entry(0, Path6("::1", {}))}) + other +
              Rib6("::/1", {Entry(0, Path6("::2", {}))}) + broken +
              Rib6("::/2", {Entry(0, Path6("::3", {}))}));
  ASSERT_EQ(reading.next_hops.size(), 3u);
  EXPECT_EQ(reading.next_hops[0].label, "AS64500 peer 192.0.2.1");
  EXPECT_EQ(reading.next_hops[1].label, "AS64510 peer 198.51.100.1");
  EXPECT_EQ(reading.next_hops[2].label, "unknown peer 0");
}

TEST(ReadMrtRoutes, ADamagedPeerTableOnlyTakesLabels) {
  const std::string routes =
      Rib4("10.0.0.0/8", {Entry(0, Path4("192.0.2.1", {1}))}) +
      Rib6("2001:db8:1::/48", {Entry(0, Path6("fe80::1", {1}))}) +
      Rib6("2001:db8:2::/48", {Entry(1, Path6("fe80::1", {1}))});
  const std::string whole = PeerTableBody(
      {PeerEntry("192.0.2.1", 64500), PeerEntry("192.0.2.2", 64501)});
  for (const std::string& body :
       {std::string(), whole.substr(0, whole.size() - 1), whole + "x"}) {
    const std::string file = TableDump(kPeerIndexTable, body) + routes;
    EXPECT_THAT(RoutesOf(file),
                ElementsAre("10.0.0.0/8 via 192.0.2.1: unknown peer 0",
                            "2001:db8:1::/48 via fe80::1: unknown peer 0",
                            "2001:db8:2::/48 via fe80::1: unknown peer 1"));
    const Reading reading = ReadMrt(file, /*strict=*/true);
    EXPECT_EQ(reading.Summary(), "3 routes, 3 hops, 1 ignored");
    EXPECT_EQ(reading.report.ignored_by.at("damaged PEER_INDEX_TABLE"), 1u);
    ASSERT_EQ(reading.report.problems.size(), 1u);
    EXPECT_THAT(reading.report.problems[0].message,
                HasSubstr("PEER_INDEX_TABLE"));
  }
}

TEST(ReadMrtRoutes, NumbersFromTheFirstIdAndStopsAtTheLast) {
  const std::string two = Rib6("::/0", {Entry(0, Path6("::1", {}))}) +
                          Rib6("::/1", {Entry(0, Path6("::2", {}))});
  EXPECT_THAT(ReadMrt(two, /*strict=*/true, 4294967293).Lines(),
              ElementsAre("::/0 4294967293", "::/1 4294967294"));
  const Reading reading = ReadMrt(two, /*strict=*/true, 4294967294);
  EXPECT_THAT(reading.Lines(), ElementsAre("::/0 4294967294"));
  EXPECT_TRUE(absl::IsResourceExhausted(reading.status)) << reading.status;
}

TEST(ReadMrtRoutes, StopsAtAnErrorOfTheSink) {
  struct Refusing : ListSink {
    absl::Status OnNextHop(const NextHop& next_hop) override {
      if (next_hops.size() == 1) return absl::ResourceExhaustedError("full");
      return ListSink::OnNextHop(next_hop);
    }
  } sink;
  ByteReader in(StringSource(Rib6("::/0", {Entry(0, Path6("::1", {}))}) +
                             Rib6("::/1", {Entry(0, Path6("::2", {}))})));
  RouteOutput out("F", /*strict=*/false, sink);
  EXPECT_EQ(ReadMrtRoutes(in, {}, out), absl::ResourceExhaustedError("full"));
  EXPECT_EQ(sink.routes.size(), 1u);
}

TEST(ReadMrtRoutes, CutAnywhereKeepsTheRoutesBefore) {
  const std::string file =
      Peers() + Rib4("0.0.0.0/0", {Entry(0, Path4("192.0.2.1", {1}))}) +
      Rib6("2001:db8::/32", {Entry(1, Path6("2001:db8::1", {1})),
                             Entry(2, Path6("2001:db8::2", {}))});
  const size_t first = Peers().size();
  const size_t second =
      first + Rib4("0.0.0.0/0", {Entry(0, Path4("192.0.2.1", {1}))}).size();
  for (size_t cut = 0; cut <= file.size(); ++cut) {
    const Reading reading = ReadMrt(file.substr(0, cut));
    EXPECT_TRUE(reading.status.ok()) << reading.status;
    EXPECT_EQ(reading.routes.size(),
              (cut >= second ? 1u : 0u) + (cut >= file.size() ? 1u : 0u))
        << cut;
    const bool whole =
        cut == 0 || cut == first || cut == second || cut == file.size();
    EXPECT_EQ(reading.report.truncated, !whole) << cut;
    EXPECT_EQ(reading.report.malformed, 0u) << cut;
  }
}

}  // namespace
}  // namespace planb
