// SPDX-License-Identifier: Apache-2.0

#include "lpm/io/route_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lpm/address.h"
#include "lpm/prefix.h"

namespace planb {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST(ProblemOutput, CountsAllAndDescribesTheFirstOnes) {
  ProblemOutput out("F", /*strict=*/false);
  for (uint64_t i = 0; i < 100; ++i) {
    EXPECT_TRUE(out.OnMalformed({i, i + 1}, "bad").ok());
  }
  out.OnIgnored("OSPFv2");
  out.OnIgnored("ISIS");
  out.OnIgnored("OSPFv2");
  EXPECT_FALSE(out.records().truncated);
  EXPECT_TRUE(out.OnTruncated({100, 101}, "cut").ok());
  EXPECT_TRUE(out.records().truncated);
  EXPECT_EQ(out.records().malformed, 100u);
  EXPECT_EQ(out.records().ignored, 3u);
  EXPECT_THAT(out.records().ignored_by,
              ElementsAre(Pair("ISIS", 1), Pair("OSPFv2", 2)));
  ASSERT_EQ(out.records().problems.size(), kMaxRouteFileProblems);
  EXPECT_EQ(out.records().problems.back().offset, 15u);
  EXPECT_EQ(out.records().problems.back().line, 16u);
  EXPECT_EQ(out.records().problems.back().message, "bad");
}

TEST(ProblemCounts, NamesEachKindAndEachTypeApart) {
  RouteCollector sink;
  RouteOutput out("F", /*strict=*/false, sink);
  EXPECT_EQ(ProblemCounts(out.report()), "");
  out.OnIgnored("OSPFv2");
  EXPECT_EQ(ProblemCounts(out.report()), "1 records ignored (1 OSPFv2)");
  out.OnIgnored("BGP4MP");
  out.OnIgnored("OSPFv2");
  EXPECT_TRUE(out.OnMalformed({1, 0}, "bad").ok());
  EXPECT_TRUE(out.OnTruncated({2, 0}, "cut").ok());
  EXPECT_EQ(ProblemCounts(out.records()),
            "1 records malformed, 3 records ignored (1 BGP4MP, 2 OSPFv2), the "
            "file breaks off");
  out.OnPathSkipped({1, 0}, "bad");
  out.OnPathSkipped({1, 0}, "bad");
  EXPECT_TRUE(out.OnRouteLost({1, 0}, Prefix()).ok());
  out.OnRepeated({1, 0}, Prefix());
  EXPECT_EQ(ProblemCounts(out.report()),
            "1 records malformed, 2 paths skipped, 1 routes lost, 1 prefixes "
            "repeated, 3 records ignored (1 BGP4MP, 2 OSPFv2), the file breaks "
            "off");
}

TEST(ProblemOutput, StrictTurnsAProblemIntoAnError) {
  ProblemOutput out("F", /*strict=*/true);
  EXPECT_EQ(out.OnMalformed({12, 0}, "bad"),
            absl::DataLossError("F: at byte 12: bad"));
  EXPECT_EQ(out.OnMalformed({12, 3}, "bad"), absl::DataLossError("F:3: bad"));
  EXPECT_EQ(out.OnTruncated({10, 0}, "cut"),
            absl::DataLossError("F: at byte 10: cut"));
  EXPECT_EQ(out.OnTruncated({10, 3}, "cut"), absl::DataLossError("F:3: cut"));
}

TEST(ProblemOutput, DistinguishesAnEndFromACut) {
  ProblemOutput out("F", /*strict=*/false);
  EXPECT_TRUE(out.OnEnd({5, 0}, absl::OkStatus(), "").ok());
  EXPECT_FALSE(out.records().truncated);
  EXPECT_EQ(out.OnEnd({5, 0}, absl::UnavailableError("disk"), "half"),
            absl::UnavailableError("disk"));
  EXPECT_FALSE(out.records().truncated);
  for (const char* const cut : {"", "half"}) {
    EXPECT_TRUE(out.OnEnd({5, 0}, absl::DataLossError("gzip"), cut).ok());
    EXPECT_TRUE(out.records().truncated);
    EXPECT_EQ(out.records().problems.back().message, "gzip");
  }
  EXPECT_TRUE(out.OnEnd({5, 0}, absl::OkStatus(), "half").ok());
  EXPECT_EQ(out.records().problems.back().message, "half");
  EXPECT_EQ(out.records().malformed, 0u);
}

TEST(RouteCollector, SortsAndKeepsTheLastOfEachPrefixOrId) {
  const auto route = [](absl::string_view prefix, NextHopId next_hop) {
    return Route{*Prefix::Parse(prefix), next_hop};
  };
  const auto hop = [](NextHopId id, std::string label) {
    return NextHop{.id = id, .label = std::move(label)};
  };
  RouteCollector collector;
  EXPECT_THAT(collector.TakeRoutes(), IsEmpty());
  EXPECT_THAT(collector.TakeNextHops(), IsEmpty());
  for (const Route& each :
       {route("2001:db8::/32", 1), route("::/0", 2), route("192.0.2.0/24", 3),
        route("2001:db8::/32", 4), route("2001:db8::/33", 5), route("::/0", 6),
        route("2001:db8::/32", 1)}) {
    EXPECT_TRUE(collector.OnRoute(each).ok());
  }
  EXPECT_THAT(
      collector.TakeRoutes(),
      ElementsAre(route("192.0.2.0/24", 3), route("::/0", 6),
                  route("2001:db8::/32", 1), route("2001:db8::/33", 5)));
  for (const NextHop& each :
       {hop(7, "old"), hop(3, "b"), hop(7, "new"), hop(1, "a")}) {
    EXPECT_TRUE(collector.OnNextHop(each).ok());
  }
  EXPECT_THAT(collector.TakeNextHops(),
              ElementsAre(hop(1, "a"), hop(3, "b"), hop(7, "new")));
  const NextHopGroup first = {3, {{1, 2}}, "b"}, last = {7, {}, "new"};
  for (const NextHopGroup& each : {NextHopGroup{7, {}, "old"}, first, last}) {
    EXPECT_TRUE(collector.OnGroup(each).ok());
  }
  EXPECT_THAT(collector.TakeGroups(), ElementsAre(first, last));
}

TEST(NextHopIds, NumberMeaningsInOrderOfAppearance) {
  NextHopIds ids(10);
  NextHopId announcements = 0;
  const auto id_of = [&](absl::string_view gateway, std::string interface,
                         std::string label) {
    NextHop next_hop;
    if (!gateway.empty()) next_hop.gateway = *Address::Parse(gateway);
    next_hop.interface = std::move(interface);
    std::string is_new;
    const absl::StatusOr<NextHopId> id = ids.IdOf(
        next_hop, [&] { return label; },
        [&](const NextHop& announced) {
          is_new = " new";
          next_hop.id = 10 + announcements++;
          next_hop.label = label;
          EXPECT_EQ(announced, next_hop);
          return absl::OkStatus();
        });
    EXPECT_TRUE(id.ok()) << id.status();
    return absl::StrCat(*id, is_new);
  };
  EXPECT_EQ(id_of("192.0.2.1", "", "a"), "10 new");
  EXPECT_EQ(id_of("2001:db8::1", "", "a"), "11 new");
  EXPECT_EQ(id_of("192.0.2.1", "", "b"), "10");
  // The same bits in another family are another gateway.
  EXPECT_EQ(id_of("c000:201::", "", ""), "12 new");
  EXPECT_EQ(id_of("192.0.2.1", "eth0", ""), "13 new");
  // Without a neighbour the label counts.
  EXPECT_EQ(id_of("fe80::1", "", "a"), "14 new");
  EXPECT_EQ(id_of("fe80::1", "", "b"), "15 new");
  EXPECT_EQ(id_of("febf:ffff::1", "", "a"), "16 new");
  EXPECT_EQ(id_of("febf:ffff::1", "", "b"), "17 new");
  EXPECT_EQ(id_of("fec0::1", "", "a"), "18 new");
  EXPECT_EQ(id_of("fec0::1", "", "b"), "18");
  EXPECT_EQ(id_of("fe80::1", "eth0", "a"), "19 new");
  EXPECT_EQ(id_of("fe80::1", "eth0", "b"), "19");
  EXPECT_EQ(id_of("169.254.0.1", "", "a"), "20 new");
  EXPECT_EQ(id_of("169.254.0.1", "", "b"), "21 new");
  EXPECT_EQ(id_of("169.253.0.1", "", "a"), "22 new");
  EXPECT_EQ(id_of("169.253.0.1", "", "b"), "22");
  EXPECT_EQ(id_of("", "", "blackhole"), "23 new");
  EXPECT_EQ(id_of("", "", "connected"), "24 new");
  EXPECT_EQ(id_of("", "eth0", "connected"), "25 new");
  EXPECT_EQ(id_of("", "eth0", ""), "25");
}

TEST(NextHopIds, NumberGroupsByTheirMembersAndWeights) {
  NextHopIds ids(10);
  const auto id_of = [&](std::vector<NextHopGroup::Member> members,
                         std::string label) {
    NextHopGroup group{.members = std::move(members),
                       .label = std::move(label)};
    std::string is_new;
    const absl::StatusOr<NextHopId> id =
        ids.IdOf(group, [&](const NextHopGroup& announced) {
          is_new = " new";
          group.id = announced.id;
          EXPECT_EQ(announced, group);
          return absl::OkStatus();
        });
    EXPECT_TRUE(id.ok()) << id.status();
    return absl::StrCat(*id, is_new);
  };
  EXPECT_EQ(id_of({{1, 1}, {2, 1}}, ""), "10 new");
  EXPECT_EQ(id_of({{1, 1}, {2, 2}}, ""), "11 new");
  EXPECT_EQ(id_of({{1, 1}, {3, 1}}, ""), "12 new");
  EXPECT_EQ(id_of({{1, 1}, {2, 1}}, "a"), "13 new");
  EXPECT_EQ(id_of({{1, 1}, {2, 1}}, ""), "10");
  const absl::StatusOr<NextHopId> next_hop = ids.IdOf(
      NextHop{}, [] { return "a"; },
      [](const NextHop&) { return absl::OkStatus(); });
  EXPECT_EQ(*next_hop, 14U);
}

TEST(NextHopIds, FailWhenIdsRunOut) {
  NextHopIds ids(kUndecided - 1);
  const auto id_of = [&](uint32_t gateway) {
    return ids.IdOf(
        {.gateway = Address::V4(gateway)}, [] { return "peer"; },
        [](const NextHop&) { return absl::OkStatus(); });
  };
  EXPECT_EQ(*id_of(1), kUndecided - 1);
  EXPECT_TRUE(absl::IsResourceExhausted(id_of(2).status()));
  EXPECT_EQ(*id_of(1), kUndecided - 1);
}

TEST(NextHopIds, ReturnTheErrorOfAnnouncing) {
  NextHopIds ids(1);
  EXPECT_EQ(ids.IdOf(
                   {.gateway = Address::V4(1)}, [] { return "peer"; },
                   [](const NextHop&) { return absl::AbortedError("no"); })
                .status(),
            absl::AbortedError("no"));
}

}  // namespace
}  // namespace planb
