// SPDX-License-Identifier: Apache-2.0

// Route files of other programs: small fixtures (testdata/README.md), and real
// tables if PLANB_DATA_DIR has them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "lpm/io/route_file.h"
#include "lpm/io/testing/read.h"

namespace planb {
namespace {

using ::testing::IsEmpty;
using ::testing::UnorderedElementsAreArray;

struct Fixture {
  RouteFileReport report;
  std::vector<std::string> routes;     // "PREFIX via GATEWAY"
  std::vector<std::string> next_hops;  // "GATEWAY: LABEL"
};

Fixture ReadFixture(const std::string& name) {
  RouteCollector sink;
  absl::StatusOr<RouteFileReport> report = ReadRouteFile(
      absl::StrCat("lpm/io/testdata/", name), {.strict = true}, sink);
  EXPECT_TRUE(report.ok()) << report.status();
  if (!report.ok()) return {};
  Fixture fixture;
  fixture.report = *report;
  std::map<NextHopId, std::string> gateways;
  NextHopId next_id = 1;
  for (const NextHop& next_hop : sink.TakeNextHops()) {
    EXPECT_EQ(next_hop.id, next_id++);
    gateways[next_hop.id] = next_hop.gateway->ToString();
    fixture.next_hops.push_back(
        absl::StrCat(next_hop.gateway->ToString(), ": ", next_hop.label));
  }
  for (const Route& route : sink.TakeRoutes()) {
    fixture.routes.push_back(absl::StrCat(route.prefix.ToString(), " via ",
                                          gateways.at(route.next_hop)));
  }
  return fixture;
}

// The routes that both scripts announce, with the chosen paths.
const char* const kRoutes[] = {
    "0.0.0.0/0 via 198.51.100.1",
    "192.0.2.0/24 via 198.51.100.2",
    "203.0.113.128/25 via 198.51.100.2",
    "203.0.113.7/32 via 198.51.100.3",
    "::/0 via 2001:db8:ffff::1",
    "2001:db8::/32 via 2001:db8:ffff::1",
    "2001:db8:1::/48 via 2001:db8:ffff::2",
    "2001:db8:1:2::/63 via 2001:db8:ffff::3",
    "2001:db8:1:2::7/128 via 2001:db8:ffff::2",
};

TEST(RouteFileFixture, Bird) {
  const Fixture fixture = ReadFixture("bird.mrt");
  EXPECT_THAT(fixture.routes, UnorderedElementsAreArray(kRoutes));
  EXPECT_THAT(fixture.next_hops, UnorderedElementsAreArray({
                                     "198.51.100.1: AS64500 peer 127.0.0.2",
                                     "198.51.100.2: AS64500 peer ::1",
                                     "198.51.100.3: AS64500 peer ::1",
                                     "2001:db8:ffff::1: AS64500 peer 127.0.0.2",
                                     "2001:db8:ffff::2: AS64500 peer ::1",
                                     "2001:db8:ffff::3: AS64500 peer 127.0.0.2",
                                 }));
  EXPECT_EQ(fixture.report.routes, 9u);
  EXPECT_EQ(fixture.report.next_hops, 6u);
  EXPECT_EQ(fixture.report.malformed, 0u);
  EXPECT_EQ(fixture.report.ignored, 0u);
  EXPECT_FALSE(fixture.report.truncated);
  EXPECT_THAT(fixture.report.problems, IsEmpty());
}

TEST(RouteFileFixture, Gobgp) {
  const Fixture fixture = ReadFixture("gobgp.mrt");
  std::vector<std::string> routes(std::begin(kRoutes), std::end(kRoutes));
  // GoBGP's own route, of a peer that is not in the peer table.
  routes.push_back("2001:db8:2::/48 via 2001:db8:ffff::4");
  EXPECT_THAT(fixture.routes, UnorderedElementsAreArray(routes));
  EXPECT_THAT(fixture.next_hops, UnorderedElementsAreArray({
                                     "198.51.100.1: AS64500 peer 127.0.0.2",
                                     "198.51.100.2: AS64500 peer 127.0.0.3",
                                     "198.51.100.3: AS64500 peer 127.0.0.3",
                                     "2001:db8:ffff::1: AS64500 peer 127.0.0.2",
                                     "2001:db8:ffff::2: AS64500 peer 127.0.0.3",
                                     "2001:db8:ffff::3: AS64500 peer 127.0.0.2",
                                     "2001:db8:ffff::4: unknown peer 3",
                                 }));
  EXPECT_EQ(fixture.report.routes, 10u);
  EXPECT_EQ(fixture.report.malformed, 0u);
  EXPECT_EQ(fixture.report.ignored, 0u);
  EXPECT_FALSE(fixture.report.truncated);
}

struct Table {
  RouteFileReport report;
  std::vector<Route> routes;
  std::map<NextHopId, NextHop> next_hops;
};

Table Read(const std::string& path, bool strict,
           PathEncoder encoder = nullptr) {
  RouteCollector sink;
  absl::StatusOr<RouteFileReport> report =
      ReadRouteFile(path, {.strict = strict, .path_encoder = encoder}, sink);
  EXPECT_TRUE(report.ok()) << report.status();
  Table table;
  if (report.ok()) table.report = *report;
  table.routes = sink.TakeRoutes();
  for (NextHop& next_hop : sink.TakeNextHops()) {
    const NextHopId id = next_hop.id;
    table.next_hops[id] = std::move(next_hop);
  }
  return table;
}

// Real tables, where they are at hand.
class RouteFileData : public ::testing::TestWithParam<Family> {
 protected:
  bool ipv4() const { return GetParam() == Family::kIpv4; }
  std::string text() const {
    return DataFile(ipv4() ? "rv4_20260730.txt.gz" : "rv6_20260730.txt");
  }
  std::string mrt() const {
    return DataFile(ipv4() ? "mrt_rib4_20260730_first_2_megabytes.bz2"
                           : "mrt_rib6_20260730_first_megabyte.bz2");
  }

 private:
  // The path of the file; "" if it is missing.
  static std::string DataFile(absl::string_view name) {
    const char* const folder = std::getenv("PLANB_DATA_DIR");
    if (folder == nullptr) return "";
    const std::string path = absl::StrCat(folder, "/", name);
    return std::ifstream(path).good() ? path : "";
  }
};

constexpr char kMissing[] = "the table is not in PLANB_DATA_DIR; not tested";

INSTANTIATE_TEST_SUITE_P(Families, RouteFileData,
                         ::testing::Values(Family::kIpv4, Family::kIpv6));

TEST_P(RouteFileData, TextIsWhole) {
  if (text().empty()) GTEST_SKIP() << kMissing;
  const Table table = Read(text(), /*strict=*/true);
  const uint64_t routes = ipv4() ? 1'107'938 : 258'956;
  EXPECT_EQ(table.report.routes, routes);
  EXPECT_EQ(table.routes.size(), routes);  // each prefix once
  EXPECT_EQ(table.report.next_hops, 0u);   // named, not described
  EXPECT_EQ(table.report.malformed, 0u);
  EXPECT_EQ(table.report.ignored, 0u);
  EXPECT_FALSE(table.report.truncated);
  std::set<NextHopId> next_hops;
  for (const Route& route : table.routes) {
    ASSERT_EQ(route.prefix.family(), GetParam());
    next_hops.insert(route.next_hop);
  }
  EXPECT_EQ(next_hops.size(), 64u);
  EXPECT_EQ(*next_hops.begin(), 1u);
  EXPECT_EQ(*next_hops.rbegin(), 64u);
}

TEST_P(RouteFileData, MrtIsCut) {
  if (mrt().empty()) GTEST_SKIP() << kMissing;
  const Table table = Read(mrt(), /*strict=*/false);
  EXPECT_TRUE(table.report.truncated);
  EXPECT_EQ(table.report.malformed, 0u);
  ASSERT_EQ(table.report.problems.size(), 1u);
  EXPECT_GT(table.report.problems[0].offset, 10'000'000u);
  EXPECT_GT(table.routes.size(), 10'000u);
  EXPECT_EQ(table.routes.size(), table.report.routes);
  EXPECT_EQ(table.next_hops.size(), table.report.next_hops);
  for (const Route& route : table.routes) {
    ASSERT_EQ(route.prefix.family(), GetParam());
    ASSERT_TRUE(table.next_hops.contains(route.next_hop));
  }
  RouteCollector sink;
  const absl::Status strict =
      ReadRouteFile(mrt(), {.strict = true}, sink).status();
  EXPECT_TRUE(absl::IsDataLoss(strict)) << strict;
}

// What bgpdump prints for a path.
struct Path {
  Address next_hop;
  std::string neighbor;  // "" if the path is empty or starts with a set
  uint32_t med = 0;
  std::string as_path;
  std::string communities;
};
// The paths of a prefix by (LOCAL_PREF negated, AS path length, origin): the
// best come first.
using Paths = std::map<std::tuple<int64_t, size_t, int>, std::vector<Path>>;

// An AS path and communities, each kind in one form.
std::string Meaning(absl::string_view as_path,
                    const std::set<uint32_t>& communities) {
  return absl::StrCat(as_path, "|", absl::StrJoin(communities, " "));
}

EncodedPath EncodeMeaning(const BgpAttributes& path) {
  std::vector<std::string> segments;
  for (const BgpAttributes::Segment& segment : path.as_path) {
    segments.push_back(
        segment.set
            ? absl::StrCat("{", absl::StrJoin(segment.numbers, ","), "}")
            : absl::StrJoin(segment.numbers, " "));
  }
  const std::set<uint32_t> communities(path.communities.begin(),
                                       path.communities.end());
  EXPECT_EQ(communities.size(), path.communities.size());
  return {Attributes(Meaning(absl::StrJoin(segments, " "), communities)),
          false};
}

// The communities that bgpdump prints, "64500:1 no-export".
std::set<uint32_t> CommunitiesOf(absl::string_view text) {
  static const std::map<std::string, uint32_t> kNamed = {
      {"no-export", 0xffffff01},
      {"no-advertise", 0xffffff02},
      {"local-AS", 0xffffff03}};
  std::set<uint32_t> communities;
  const std::vector<std::string> words =
      absl::StrSplit(text, ' ', absl::SkipEmpty());
  for (const std::string& word : words) {
    const std::vector<std::string> halves = absl::StrSplit(word, ':');
    uint32_t high = 0;
    uint32_t low = 0;
    if (halves.size() == 2) {
      EXPECT_TRUE(absl::SimpleAtoi(halves[0], &high)) << word;
      EXPECT_TRUE(absl::SimpleAtoi(halves[1], &low)) << word;
      communities.insert(high << 16 | low);
    } else {
      EXPECT_TRUE(kNamed.contains(word)) << word;
      communities.insert(kNamed.at(word));
    }
  }
  return communities;
}

// The next hops and meanings of paths of which MED rules out none. Among them
// the peer decides, by its BGP identifier, which bgpdump does not print.
std::set<std::pair<Address, std::string>> NextHopsOf(
    const std::vector<Path>& paths) {
  std::map<std::string, uint32_t> lowest;
  for (const Path& path : paths) {
    const auto at = lowest.try_emplace(path.neighbor, path.med).first;
    at->second = std::min(at->second, path.med);
  }
  std::set<std::pair<Address, std::string>> next_hops;
  for (const Path& path : paths) {
    if (path.med != lowest.at(path.neighbor)) continue;
    next_hops.emplace(path.next_hop,
                      Meaning(path.as_path, CommunitiesOf(path.communities)));
  }
  return next_hops;
}

size_t AsPathLength(absl::string_view text) {
  size_t length = 0;
  for (absl::string_view as : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    // "{1,2}" is a set and counts once; "(1)" is of a confederation.
    if (!absl::StartsWith(as, "(") && !absl::StartsWith(as, "[")) ++length;
  }
  return length;
}

int OriginRank(absl::string_view text) {
  return text == "IGP" ? 0 : text == "EGP" ? 1 : 2;
}

std::map<Prefix, Paths> PathsOf(
    const std::vector<std::vector<std::string>>& dump) {
  std::map<Prefix, Paths> prefixes;
  for (const std::vector<std::string>& fields : dump) {
    // TABLE_DUMP2|time|B|peer|AS|prefix|path|origin|next hop|local pref|MED|
    // communities|...
    const bool whole = fields.size() >= 12;
    EXPECT_TRUE(whole) << absl::StrJoin(fields, "|");
    if (!whole) continue;
    int64_t local_pref = 0;
    Path path{.next_hop = Address::Parse(fields[8]).value()};
    EXPECT_TRUE(absl::SimpleAtoi(fields[9], &local_pref));
    EXPECT_TRUE(absl::SimpleAtoi(fields[10], &path.med));
    if (local_pref == 0) local_pref = 100;  // how an absent one is printed
    const std::string first = fields[6].substr(0, fields[6].find(' '));
    if (!absl::StartsWith(first, "{")) path.neighbor = first;
    // An empty path is of the peer.
    path.as_path = fields[6].empty() ? fields[4] : fields[6];
    path.communities = fields[11];
    prefixes[Prefix::Parse(fields[5]).value()]
            [{-local_pref, AsPathLength(fields[6]), OriginRank(fields[7])}]
                .push_back(path);
  }
  return prefixes;
}

void ExpectAsBgpdump(const std::string& path) {
  const auto dump = Bgpdump(path);
  if (!dump) GTEST_SKIP() << "bgpdump is not installed; not tested";
  const Table table = Read(path, /*strict=*/false, EncodeMeaning);
  const std::map<Prefix, Paths> expected = PathsOf(*dump);
  ASSERT_EQ(table.routes.size(), expected.size());
  auto it = expected.begin();
  for (const Route& route : table.routes) {
    ASSERT_EQ(route.prefix, it->first);
    const auto best = NextHopsOf(it->second.begin()->second);
    const NextHop& chosen = table.next_hops.at(route.next_hop);
    EXPECT_TRUE(best.contains(
        {*chosen.gateway, std::string(chosen.attributes.encoded())}))
        << route.prefix.ToString() << " " << chosen.attributes.encoded();
    ++it;
  }
}

TEST_P(RouteFileData, MrtAgreesWithBgpdump) {
  if (mrt().empty()) GTEST_SKIP() << kMissing;
  ExpectAsBgpdump(mrt());
}

TEST(RouteFileFixture, BirdAgreesWithBgpdump) {
  ExpectAsBgpdump("lpm/io/testdata/bird.mrt");
}

}  // namespace
}  // namespace planb
