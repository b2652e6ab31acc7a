// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
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
        return ReadMrtRoutes(in, first_id, out);
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
              ElementsAre("0.0.0.0/0 1", "2001:db8::/32 2", "2001:db8:1::/48 3",
                          "198.51.100.0/24 1", "2001:db8:2::/48 2"));
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
              ElementsAre("2001:db8::/32 1", "192.0.2.0/24 2"));
  EXPECT_EQ(reading.next_hops[0].gateway, *Address::Parse("::2"));
}

TEST(ReadMrtRoutes, IgnoresOtherRecords) {
  const std::string route = Rib6("::/0", {Entry(1, Path6("::1", {1}))});
  const Reading reading = ReadMrt(
      Mrt(16, 4, "BGP4MP") + Mrt(17, 4, "") + Mrt(12, 1, "TABLE_DUMP") +
          Mrt(11, 0, "OSPF") + Peers() + TableDump(kRibIpv4Multicast, "junk") +
          TableDump(kRibGeneric, "") + TableDump(7, "geo") +
          TableDump(99, "the future") + Rib6("2001:db8::/32", {}) + route,
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
  const std::string file = Peers() + Rib6("::/0", {Entry(0, Origin(0))});
  EXPECT_EQ(ReadMrt(file).Summary(),
            "0 routes, 0 hops, 1 paths skipped, 1 routes lost");
  const Reading strict = ReadMrt(file, /*strict=*/true);
  EXPECT_TRUE(absl::IsDataLoss(strict.status)) << strict.status;
  EXPECT_THAT(strict.status.message(), HasSubstr("no path to ::/0"));
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
  EXPECT_EQ(reading.report.malformed, 1u);
  ASSERT_EQ(reading.next_hops.size(), 3u);
  EXPECT_EQ(reading.next_hops[0].label, "AS64500 peer 192.0.2.1");
  EXPECT_EQ(reading.next_hops[1].label, "AS64510 peer 198.51.100.1");
  EXPECT_EQ(reading.next_hops[2].label, "unknown peer 0");
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
  EXPECT_EQ(ReadMrtRoutes(in, 1, out), absl::ResourceExhaustedError("full"));
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
