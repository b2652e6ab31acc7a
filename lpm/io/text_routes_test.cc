// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "lpm/io/route_file.h"
#include "lpm/io/table_file.h"
#include "lpm/io/testing/bytes.h"
#include "lpm/io/testing/read.h"
#include "lpm/testing/instruction_count.h"

namespace planb {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::Pair;

absl::Status ReadPlainText(ByteReader& in, RouteOutput& out) {
  return ReadTextRoutes(in, {}, out);
}

Reading ReadText(std::string text, bool strict = false,
                 size_t piece = SIZE_MAX) {
  return ReadWith(ReadPlainText, std::move(text), strict, piece);
}

TEST(ParseTextRoute, ReadsBothFamilies) {
  EXPECT_EQ(*ParseTextRoute("2001:db8::/32 1"),
            (Route{*Prefix::Parse("2001:db8::/32"), 1}));
  EXPECT_EQ(*ParseTextRoute("192.0.2.0/24 \t 4294967294"),
            (Route{*Prefix::Parse("192.0.2.0/24"), 4294967294}));
}

TEST(ParseTextRoute, NamesTheDefect) {
  const struct {
    absl::string_view content;
    absl::string_view message;
  } kCases[] = {
      {"2001:db8::/32", "is not \"PREFIX/LENGTH NEXTHOP\""},
      {"hello world", "\"hello\""},
      {"2001:db8:: 1", "no \"/LENGTH\""},
      {"2001:db8::1/32 1", "host bits"},
      {"2001:db8::/129 1", "129"},
      {"192.0.2.0/33 1", "33"},
      {"192.0.2/24 1", "192.0.2"},
      {"2001:db8::/32 0", "1..4294967294"},
      {"2001:db8::/32 4294967295", "1..4294967294"},
      {"2001:db8::/32 4294967296", "1..4294967294"},
      {"2001:db8::/32 99999999999999999999", "1..4294967294"},
      {"2001:db8::/32 -1", "1..4294967294"},
      {"2001:db8::/32 +1", "1..4294967294"},
      {"2001:db8::/32 01", "1..4294967294"},
      {"2001:db8::/32 0x1", "1..4294967294"},
      {"2001:db8::/32 1 2", "1..4294967294"},
      {"2001:db8::/32 via fe80::1", "have ids"},
      {"2001:db8::/32", "--next_hop"},
      {"2001:db8::/32 one", "\"one\""},
  };
  for (const auto& test : kCases) {
    const absl::Status status = ParseTextRoute(test.content).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << test.content;
    EXPECT_THAT(status.message(), HasSubstr(std::string(test.message)));
  }
}

TEST(ReadTextRoutes, ReadsLinesOfEveryForm) {
  const std::string text =
      "# a table\n"
      "\n"
      "2001:db8::/32 7\n"
      "  192.0.2.0/24\t9  # with a comment\r\n"
      "\r\n"
      " \t \n"
      "::/0 7\n"
      "2001:db8::/32 8\n"
      "# the end, without a newline";
  for (const size_t piece : {size_t{1}, size_t{5}, SIZE_MAX}) {
    const Reading reading = ReadText(text, /*strict=*/true, piece);
    EXPECT_THAT(reading.Lines(),
                ElementsAre("2001:db8::/32 7", "192.0.2.0/24 9", "::/0 7",
                            "2001:db8::/32 8"));
    // Text does not describe next hops; the table may have descriptions.
    EXPECT_EQ(reading.Summary(), "4 routes, 0 hops, 1 repeated");
  }
}

// A small compressed file may have millions.
TEST(ReadTextRoutes, ABlankLineTakesFewInstructions) {
  for (const std::string first : {"", "::/0 1\n"}) {
    uint64_t counts[2] = {};
    for (const size_t lines : {1, 1001}) {
      const auto count = CountInstructions(
          [&] { ReadText(first + std::string(lines, '\n')); });
      if (absl::IsUnimplemented(count.status())) GTEST_SKIP() << count.status();
      ASSERT_TRUE(count.ok()) << count.status();
      counts[lines / 1000] = *count;
    }
    EXPECT_LT(counts[1], counts[0] + 20 * 1000) << first;
  }
}

TEST(ReadTextRoutes, AcceptsEmptyFiles) {
  for (const std::string text : {"", "\n", "# nothing\n"}) {
    EXPECT_EQ(ReadText(text, /*strict=*/true).Summary(), "0 routes, 0 hops");
  }
}

TEST(ReadTextRoutes, SkipsMalformedLinesAndReportsTheirPlace) {
  const std::string text =
      "::/0 1\n"
      "oops\n"
      "2001:db8::/32 2\r\n"
      "2001:db8::/129 3\n"
      "192.0.2.0/24 4\n";
  const Reading reading = ReadText(text);
  EXPECT_EQ(reading.Summary(), "3 routes, 0 hops, 2 malformed");
  EXPECT_THAT(reading.Lines(),
              ElementsAre("::/0 1", "2001:db8::/32 2", "192.0.2.0/24 4"));
  ASSERT_EQ(reading.report.problems.size(), 2u);
  EXPECT_EQ(reading.report.problems[0].line, 2u);
  EXPECT_EQ(reading.report.problems[0].offset, 7u);
  EXPECT_THAT(reading.report.problems[0].message, HasSubstr("oops"));
  EXPECT_EQ(reading.report.problems[1].line, 4u);
  EXPECT_EQ(reading.report.problems[1].offset, 29u);
}

TEST(ReadTextRoutes, StopsAtTheFirstMalformedLineWhenStrict) {
  const Reading reading = ReadText("::/0 1\noops 2\n::/0 3\n", /*strict=*/true);
  EXPECT_TRUE(absl::IsDataLoss(reading.status)) << reading.status;
  EXPECT_THAT(reading.status.message(), HasSubstr("F:2: "));
  EXPECT_THAT(reading.Lines(), ElementsAre("::/0 1"));
}

TEST(ReadTextRoutes, LimitsTheLineButNotItsComment) {
  const std::string route = "2001:db8::/32 1";
  const std::string blanks(kMaxTextLine - route.size(), ' ');
  const std::string longest = absl::StrCat(route, blanks);
  ASSERT_EQ(longest.size(), kMaxTextLine);
  const std::string comment(300'000, '#');
  const std::string text = absl::StrCat(
      longest, "\n",                    // 1
      longest, " \n",                   // 2: too long
      route, " ", comment, "\n",        // 3
      comment, "\n",                    // 4
      std::string(500'000, '1'), "\n",  // 5: too long
      longest, "#", comment, "\n",      // 6: its comment begins too late to see
      "::/0 2\n");                      // 7
  for (const size_t piece : {size_t{100}, SIZE_MAX}) {
    const Reading reading = ReadText(text, /*strict=*/false, piece);
    EXPECT_EQ(reading.Summary(), "3 routes, 0 hops, 3 malformed");
    EXPECT_THAT(reading.Lines(), ElementsAre(route, route, "::/0 2"));
    ASSERT_EQ(reading.report.problems.size(), 3u);
    EXPECT_EQ(reading.report.problems[0].line, 2u);
    EXPECT_EQ(reading.report.problems[0].offset, kMaxTextLine + 1);
    EXPECT_EQ(reading.report.problems[1].line, 5u);
    EXPECT_EQ(reading.report.problems[2].line, 6u);
    EXPECT_THAT(reading.report.problems[0].message,
                HasSubstr("longer than 4096"));
  }
}

TEST(ReadTextRoutes, ALastLineWithoutNewlineIsALine) {
  for (const absl::string_view end : {"", "\r", " ", " # note", "\n"}) {
    const Reading reading =
        ReadText(absl::StrCat("::/0 1\n2001:db8::/32 17", end), true);
    EXPECT_EQ(reading.Summary(), "2 routes, 0 hops");
    EXPECT_THAT(reading.Lines(), ElementsAre("::/0 1", "2001:db8::/32 17"));
  }
  const Reading malformed = ReadText("::/0 1\n" + std::string(10'000, '1'));
  EXPECT_EQ(malformed.Summary(), "1 routes, 0 hops, 1 malformed");
  EXPECT_EQ(malformed.report.problems.at(0).line, 2u);
}

TEST(ReadTextRoutes, SkipsAByteOrderMarkAtTheStartAlone) {
  const std::string mark = "\xef\xbb\xbf";
  for (const size_t piece : {size_t{1}, SIZE_MAX}) {
    EXPECT_THAT(ReadText(mark + "::/0 1\n", true, piece).Lines(),
                ElementsAre("::/0 1"));
    EXPECT_EQ(ReadText(mark, true, piece).Summary(), "0 routes, 0 hops");
    EXPECT_EQ(ReadText(mark + mark + "::/0 1\n", false, piece).Summary(),
              "0 routes, 0 hops, 1 malformed");
    EXPECT_EQ(ReadText("::/0 1\n" + mark + "::/0 1\n", false, piece).Summary(),
              "1 routes, 0 hops, 1 malformed");
  }
  EXPECT_EQ(ReadText(mark + "::/0 1\noops\n").report.problems.at(0).offset,
            10u);
}

TEST(ReadTextRoutes, SemicolonsStartComments) {
  // pyasn's ipasn.dat, and the drop lists of Spamhaus.
  EXPECT_THAT(ReadText("; IP-ASN32-DAT file\n; \n192.0.2.0/24\t64500\n"
                       "198.51.100.0/24 7;SBL1\n;",
                       /*strict=*/true)
                  .Lines(),
              ElementsAre("192.0.2.0/24 64500", "198.51.100.0/24 7"));
}

TEST(ReadTextRoutes, CutAnywhereKeepsTheLinesBefore) {
  const std::string text =
      "::/0 1\r\n2001:db8::/32 23\n\n# note\n192.0.2.0/24 4\n";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    const Reading reading = ReadText(text.substr(0, cut));
    EXPECT_TRUE(reading.status.ok()) << reading.status;
    EXPECT_FALSE(reading.report.truncated);
    // All whole lines are read.
    const std::vector<std::string> lines = reading.Lines();
    const size_t whole = (cut >= 8) + (cut >= 25) + (cut >= text.size());
    ASSERT_GE(lines.size(), whole) << cut;
    if (whole > 0) {
      EXPECT_EQ(lines[0], "::/0 1");
    }
    if (whole > 1) {
      EXPECT_EQ(lines[1], "2001:db8::/32 23");
    }
    // A part of a line is a line.
    const bool in_route = (cut > 0 && cut < 8) || (cut > 8 && cut < 25) ||
                          (cut > 33 && cut < text.size());
    EXPECT_EQ(lines.size() - whole + reading.report.malformed, in_route) << cut;
  }
}

TEST(ReadTextRoutes, DropsALineInWhichTheStreamIsCut) {
  ListSink sink;
  ByteReader in(std::make_unique<FailingSource>(
      "::/0 1\n2001:db8::/32 17", absl::DataLossError("gzip cut")));
  RouteOutput out("F", /*strict=*/false, sink);
  EXPECT_TRUE(ReadTextRoutes(in, {}, out).ok());
  EXPECT_EQ(sink.routes.size(), 1u);
  EXPECT_TRUE(out.report().truncated);
  ASSERT_EQ(out.report().problems.size(), 1u);
  EXPECT_EQ(out.report().problems[0].message, "gzip cut");
  EXPECT_EQ(out.report().problems[0].offset, 7u);
}

TEST(ReadTextRoutes, ReturnsTheErrorOfTheFile) {
  ListSink sink;
  ByteReader in(std::make_unique<FailingSource>(
      "::/0 1\n::/0 2", absl::UnavailableError("disk")));
  RouteOutput out("F", /*strict=*/false, sink);
  EXPECT_EQ(ReadTextRoutes(in, {}, out), absl::UnavailableError("disk"));
  EXPECT_EQ(sink.routes.size(), 1u);
}

TEST(ReadTextRoutes, StopsAtAnErrorOfTheSink) {
  struct Refusing : ListSink {
    absl::Status OnRoute(const Route& route) override {
      if (routes.size() == 2) return absl::ResourceExhaustedError("full");
      return ListSink::OnRoute(route);
    }
  } sink;
  ByteReader in(StringSource("::/0 1\n::/0 2\n::/0 3\n::/0 4\n"));
  RouteOutput out("F", /*strict=*/false, sink);
  EXPECT_EQ(ReadTextRoutes(in, {}, out), absl::ResourceExhaustedError("full"));
  EXPECT_EQ(sink.routes.size(), 2u);
}

// Reads with detection, as files are read.
Reading ReadForm(const std::string& text, RouteFileOptions options = {}) {
  const Reading whole = ReadAny(text, options);
  const Reading pieces = ReadAny(text, options, /*piece=*/1);
  EXPECT_EQ(whole.Summary(), pieces.Summary());
  EXPECT_EQ(whole.routes, pieces.routes);
  return whole;
}

// "PREFIX GATEWAY%INTERFACE LABEL" each, absent parts left out; the members of
// a group are "A*2 B*1".
std::vector<std::string> Meanings(const Reading& reading) {
  std::map<NextHopId, std::string> meanings;
  for (const NextHop& hop : reading.next_hops) {
    std::string& meaning = meanings[hop.id];
    if (hop.gateway.has_value()) meaning = hop.gateway->ToString();
    if (!hop.interface.empty()) absl::StrAppend(&meaning, "%", hop.interface);
    meaning += hop.label;
  }
  for (const NextHopGroup& group : reading.groups) {
    std::vector<std::string> members;
    for (const NextHopGroup::Member& member : group.members) {
      members.push_back(
          absl::StrCat(meanings.at(member.next_hop), "*", member.weight));
    }
    meanings[group.id] = absl::StrJoin(members, " ");
  }
  std::vector<std::string> lines;
  for (const Route& route : reading.routes) {
    lines.push_back(absl::StrCat(route.prefix.ToString(), " ",
                                 meanings.contains(route.next_hop)
                                     ? meanings[route.next_hop]
                                     : absl::StrCat("#", route.next_hop)));
  }
  return lines;
}

TEST(TextForms, TakesWhatAnnounceTakes) {
  const Reading reading = ReadForm(
      "192.0.2.0/24 via 192.0.2.1\n"
      "# a comment\n"
      "198.51.100.0/24 via 192.0.2.1 dev eth0\r\n"
      "203.0.113.0/24\tdev eth0\n"
      "2001:db8::/32 dev eth0 via fe80::1\n"
      "2001:db8:1::/48 via 192.0.2.1",
      {.strict = true, .first_next_hop_id = 7});
  EXPECT_EQ(reading.Summary(), "5 routes, 4 hops");
  EXPECT_THAT(
      Meanings(reading),
      ElementsAre("192.0.2.0/24 192.0.2.1", "198.51.100.0/24 192.0.2.1%eth0",
                  "203.0.113.0/24 %eth0", "2001:db8::/32 fe80::1%eth0",
                  "2001:db8:1::/48 192.0.2.1"));
  EXPECT_EQ(reading.routes[0].next_hop, 7U);
  EXPECT_EQ(reading.routes[4].next_hop, 7U);
}

TEST(TextForms, IdsAndGatewaysDoNotMix) {
  const Reading gateways =
      ReadForm("192.0.2.0/24 via 192.0.2.1\n198.51.100.0/24 1\n");
  EXPECT_EQ(gateways.Summary(), "1 routes, 1 hops, 1 malformed");
  EXPECT_THAT(gateways.report.problems.at(0).message,
              HasSubstr("\"1\": an id, in a text whose routes have gateways"));
  const Reading ids =
      ReadForm("198.51.100.0/24 1\n192.0.2.0/24 via 192.0.2.1\n");
  EXPECT_EQ(ids.Summary(), "1 routes, 0 hops, 1 malformed");
  EXPECT_THAT(ids.report.problems.at(0).message,
              HasSubstr("a gateway, in a text whose routes have ids"));
}

TEST(TextForms, PrefixesAloneTakeTheGivenNextHop) {
  const std::string list = "192.0.2.0/24\n2001:db8::/32 # two\n10.0.0.0/8 3\n";
  const Reading reading = ReadForm(list, {.strict = true, .next_hop = 9});
  EXPECT_THAT(reading.Lines(),
              ElementsAre("192.0.2.0/24 9", "2001:db8::/32 9", "10.0.0.0/8 3"));
  const Reading without = ReadForm("192.0.2.0/24\n2001:db8::/32\n");
  EXPECT_THAT(without.status.message(),
              AllOf(HasSubstr("F:1: all 2 lines are malformed: "),
                    HasSubstr("--next_hop")));
}

// iproute2 6.1 printed these; interfaces without a carrier are "linkdown".
constexpr absl::string_view kIpRoutes =
    "default via 192.0.2.254 dev eth0 proto static linkdown \n"
    "default via 10.50.0.9 dev eth1 metric 100 linkdown \n"
    "10.0.0.0/8 via 192.0.2.1 dev eth0 linkdown \n"
    "10.9.0.0/16 linkdown \n"
    "\tnexthop via 192.0.2.1 dev eth0 weight 3 linkdown \n"
    "\tnexthop via 10.50.0.2 dev eth1 weight 1 linkdown \n"
    "10.10.0.0/16 via inet6 fe80::1 dev eth0 \n"
    "10.11.0.0/16 via 192.0.2.33 dev eth0 src 192.0.2.5 onlink linkdown mtu "
    "1400 \n"
    "10.12.0.0/16 \n"
    "\tnexthop via inet6 fe80::9 dev eth0 weight 1 \n"
    "\tnexthop via 10.50.0.2 dev eth1 weight 1 linkdown \n"
    "10.15.0.0/16 dev eth0 scope link linkdown \n"
    "10.60.0.0/24 dev eth2 proto kernel scope link src 10.60.0.1 linkdown \n"
    "blackhole 198.51.100.0/24 \n"
    "unreachable 198.51.101.0/24 \n"
    "prohibit 198.51.102.0/24 metric 5 \n"
    "throw 198.51.103.0/24 \n"
    "203.0.113.7 via 192.0.2.9 dev eth0 linkdown \n"
    "multicast 224.1.0.0/16 dev eth0 scope link linkdown \n";

constexpr absl::string_view kIpRoutes6 =
    "2001:db8::/64 dev eth0 proto kernel metric 256 linkdown pref medium\n"
    "2001:db8:1::/48 via 2001:db8::9 dev eth0 metric 1024 linkdown pref "
    "medium\n"
    "blackhole 2001:db8:2::/48 dev lo metric 1024 pref medium\n"
    "2001:db8:4::/48 metric 1024 pref medium\n"
    "\tnexthop via 2001:db8::9 dev eth0 weight 1 linkdown \n"
    "\tnexthop via fe80::2 dev eth1 weight 4 linkdown \n"
    "2001:db8:5::7 via 2001:db8::10 dev eth0 metric 5 linkdown pref medium\n"
    "2001:db8:5::7 via 2001:db8::9 dev eth0 metric 10 linkdown pref medium\n"
    "2001:db8:6::/48 from 2001:db8::/64 via 2001:db8::10 dev eth0 metric 1024 "
    "linkdown pref medium\n"
    "default via fe80::1 dev eth0 metric 1024 linkdown pref medium\n";

const char* const kIpMeanings[] = {
    "0.0.0.0/0 192.0.2.254%eth0",
    "10.0.0.0/8 192.0.2.1%eth0",
    "10.9.0.0/16 192.0.2.1%eth0*3 10.50.0.2%eth1*1",
    "10.10.0.0/16 fe80::1%eth0",
    "10.11.0.0/16 192.0.2.33%eth0",
    "10.12.0.0/16 10.50.0.2%eth1*1 fe80::9%eth0*1",
    "10.15.0.0/16 %eth0",
    "10.60.0.0/24 %eth2",
    "198.51.100.0/24 blackhole",
    "198.51.101.0/24 unreachable",
    "198.51.102.0/24 prohibit",
    "198.51.103.0/24 throw",
    "203.0.113.7/32 192.0.2.9%eth0",
};

TEST(TextForms, IpRouteShow) {
  const Reading reading = ReadForm(std::string(kIpRoutes), {.strict = true});
  EXPECT_THAT(Meanings(reading), ElementsAreArray(kIpMeanings));
  EXPECT_THAT(
      reading.report.ignored_by,
      ElementsAre(Pair("higher-metric route", 1), Pair("multicast route", 1)));
  EXPECT_EQ(reading.report.groups, 2U);
}

TEST(TextForms, IpRouteShowOnOneLineOrInDetail) {
  const std::string text(kIpRoutes);
  // As `ip -o route show` and `ip -d route show` print them.
  const std::string one_line = absl::StrReplaceAll(text, {{"\n\t", "\\\t"}});
  EXPECT_THAT(Meanings(ReadForm(one_line, {.strict = true})),
              ElementsAreArray(kIpMeanings));
  std::string detail = absl::StrReplaceAll(
      text, {{" linkdown", " proto boot scope global linkdown"},
             {"\n10.", "\nunicast 10."},
             {"default", "unicast default"}});
  EXPECT_THAT(Meanings(ReadForm(detail, {.strict = true})),
              ElementsAreArray(kIpMeanings));
}

TEST(TextForms, IpRouteShowOfIpv6) {
  const Reading reading = ReadForm(std::string(kIpRoutes6), {.strict = true});
  EXPECT_THAT(
      Meanings(reading),
      ElementsAre("2001:db8::/64 %eth0", "2001:db8:1::/48 2001:db8::9%eth0",
                  "2001:db8:2::/48 blackhole",
                  "2001:db8:4::/48 2001:db8::9%eth0*1 fe80::2%eth1*4",
                  "2001:db8:5::7/128 2001:db8::10%eth0", "::/0 fe80::1%eth0"));
  EXPECT_THAT(reading.report.ignored_by,
              ElementsAre(Pair("higher-metric route", 1),
                          Pair("source-specific route", 1)));
}

TEST(TextForms, TheDefaultRouteHasTheFamilyOfItsGateway) {
  const struct {
    std::string line;
    std::string meaning;
  } kCases[] = {
      {"default via 192.0.2.1", "0.0.0.0/0 192.0.2.1"},
      {"default via inet6 fe80::1 dev eth0", "0.0.0.0/0 fe80::1%eth0"},
      {"default via fe80::1 dev eth0", "::/0 fe80::1%eth0"},
      {"default dev tun0 scope link", "0.0.0.0/0 %tun0"},
      {"default dev tun0 metric 1024 pref medium", "::/0 %tun0"},
      {"blackhole default", "0.0.0.0/0 blackhole"},
      {"unreachable default dev lo metric 4294967295 error -101 pref medium",
       "::/0 unreachable"},
      {"default proto static\n\tnexthop via fd00::1 dev a weight 1\n"
       "\tnexthop via fd00::2 dev b weight 1",
       "::/0 fd00::1%a*1 fd00::2%b*1"},
  };
  for (const auto& [line, meaning] : kCases) {
    EXPECT_THAT(Meanings(ReadForm(line + "\n", {.strict = true})),
                ElementsAre(meaning));
  }
}

TEST(TextForms, OfAPrefixTheLowestMetricCountsWhereverItIs) {
  const Reading reading = ReadForm(
      "192.0.2.0/24 via 10.0.0.1 metric 20\n"
      "198.51.100.0/24 via 10.0.0.9\n"
      "192.0.2.0/24 via 10.0.0.2 metric 10\n"
      "192.0.2.0/24 via 10.0.0.3 metric 30\n",
      {.strict = true});
  EXPECT_EQ(reading.Summary(), "3 routes, 3 hops, 1 ignored");
  EXPECT_EQ(Meanings(reading).back(), "192.0.2.0/24 10.0.0.2");
}

TEST(TextForms, DeadNextHopsAndRoutesOfOtherTablesAreIgnored) {
  const Reading reading = ReadForm(
      "192.0.2.0/24 via 10.0.0.1 dev eth0 dead linkdown\n"
      "198.51.100.0/24\n\tnexthop via 10.0.0.1 dev eth0 weight 1 dead\n"
      "\tnexthop via 10.0.0.2 dev eth1 weight 1\n"
      "local 10.0.0.5 dev eth0 table local proto kernel scope host src "
      "10.0.0.5\n"
      "10.18.0.0/16 table 100\n\tnexthop via 10.0.0.1 dev eth0 weight 1\n"
      "10.19.0.0/16 tos 0x10 via 10.0.0.1 dev eth0\n",
      {.strict = true});
  EXPECT_THAT(Meanings(reading), ElementsAre("198.51.100.0/24 10.0.0.2%eth1"));
  EXPECT_THAT(reading.report.ignored_by,
              ElementsAre(Pair("dead route", 1), Pair("other-table route", 2),
                          Pair("type-of-service route", 1)));
}

TEST(TextForms, WordsOfIpRouteThatSayNothingOfTheNextHop) {
  for (const std::string words :
       {"rt_offload", "rt_offload_failed", "rt_trap", "offload", "pervasive",
        "unresolved", "onlink", "fastopen_no_cookie 1"}) {
    EXPECT_THAT(
        Meanings(ReadForm(
            absl::StrCat("10.0.0.0/8 via 10.9.0.1 ", words, "\n10.1.0.0/16 ",
                         words, "\n\tnexthop dev e weight 1 ", words),
            {.strict = true})),
        ElementsAre("10.0.0.0/8 10.9.0.1", "10.1.0.0/16 %e"))
        << words;
  }
}

TEST(TextForms, EncapsulatedRoutesAreIgnored) {
  const Reading reading = ReadForm(
      "10.0.0.0/8  encap ip id 7 src 0.0.0.0 dst 10.0.0.1 ttl 0 dev eth0 \n"
      "default  encap mpls  100/200 via 10.1.1.2 dev eth0 \n"
      "2001:db8::/32  encap seg6 mode encap segs 2 [ fd00::1 fd00::2 ] dev e "
      "metric 1024 pref medium\n"
      "10.1.0.0/16 proto static\n"
      "\tnexthop  encap mpls  7 via 10.1.1.2 dev eth0 weight 1 \n"
      "\tnexthop via 10.1.1.3 dev eth0 weight 1 \n"
      "10.2.0.0/16 via 10.1.1.2 dev eth0 \n",
      {.strict = true});
  EXPECT_THAT(Meanings(reading), ElementsAre("10.2.0.0/16 10.1.1.2%eth0"));
  EXPECT_THAT(reading.report.ignored_by,
              ElementsAre(Pair("encapsulated route", 4)));
}

TEST(TextForms, TheFirstWellFormedLineShowsTheForm) {
  const struct {
    std::string text;
    std::string meaning;
  } kCases[] = {
      {"10.0.0.0/8\n11.0.0.0/8 via 192.0.2.1\n", "11.0.0.0/8 192.0.2.1"},
      {"10.0.0.0/33 7\n11.0.0.0/8 dev e\n", "11.0.0.0/8 %e"},
      {"10.0.0.0/8 via 192.0.2.300\n11.0.0.0/8 7\n", "11.0.0.0/8 #7"},
      {"10.0.0.0/8 via ::\n11.0.0.0 8 7\n", "11.0.0.0/8 #7"},
      {"10.0.0.1 8 7\n11.0.0.0/8 blackhole [s 10:00] * (200)\n",
       "11.0.0.0/8 blackhole"},
      {"10.0.0.1/8 blackhole [s 10:00] * (200)\n11.0.0.0/8 7\n",
       "11.0.0.0/8 #7"},
      {absl::StrCat("10.0.0.0/8", std::string(5000, ' '),
                    "7\n11.0.0.0/8 dev e\n"),
       "11.0.0.0/8 %e"},
  };
  for (const auto& [text, meaning] : kCases) {
    const Reading reading = ReadForm(text);
    EXPECT_THAT(Meanings(reading), ElementsAre(meaning)) << text;
    EXPECT_EQ(reading.report.malformed, 1U) << text;
  }
  EXPECT_THAT(ReadForm("10.0.0.0/8 x\n11.0.0.0/8 via y\n").status.message(),
              HasSubstr("F:1: all 2 lines are malformed: \"x\": "));
  // A prefix alone is well-formed if it has a next hop.
  EXPECT_THAT(Meanings(ReadForm("10.0.0.0/8\n11.0.0.0/8 via 192.0.2.1\n",
                                {.next_hop = 9})),
              ElementsAre("10.0.0.0/8 #9"));
}

TEST(TextForms, CommentsOfAnyLengthShowNoForm) {
  const std::string comments[] = {
      absl::StrCat("#", std::string(kFormatProbe, '-'), "\n"),
      absl::StrReplaceAll(std::string(kFormatProbe, '-'), {{"-", "# -\n\n"}}),
      std::string(kFormatProbe, '\n'),
  };
  for (const std::string& comment : comments) {
    const Reading reading = ReadAny(absl::StrCat(
        "\xef\xbb\xbf", comment, "10.0.0.0/8 via 192.0.2.1 dev e\noops\n"));
    EXPECT_THAT(Meanings(reading), ElementsAre("10.0.0.0/8 192.0.2.1%e"));
    ASSERT_EQ(reading.report.problems.size(), 1U);
    EXPECT_EQ(reading.report.problems[0].line,
              2U + std::count(comment.begin(), comment.end(), '\n'));
    EXPECT_THAT(ReadAny(comment + "net,asn\n10.0.0.0/8,7\n",
                        {.strict = true, .csv_columns = {"net", "asn"}})
                    .Lines(),
                ElementsAre("10.0.0.0/8 7"));
  }
}

TEST(TextForms, NamesWhatIsWrongWithAGateway) {
  const struct {
    std::string line;
    std::string message;
  } kCases[] = {
      {"10.0.0.0/8 via", "\"via\": has no value"},
      {"10.0.0.0/8 via eth0", "\"eth0\""},
      {"10.0.0.0/8 via fe80::1%eth0", "zone"},
      {"10.0.0.0/8 via 0.0.0.0 dev eth0", "0.0.0.0 is no gateway"},
      {"2001:db8::/32 via ::", ":: is no gateway"},
      {"10.0.0.0/8 via inet6 ::", ":: is no gateway"},
      {"10.0.0.1/8 via 192.0.2.1", "host bits"},
      {"10.0.0.0/33 via 192.0.2.1", "33"},
      {"10.0.0.0/8 via 192.0.2.1 via 192.0.2.2", "\"via\": is there twice"},
      {"10.0.0.0/8 dev a dev b", "\"dev\": is there twice"},
      {absl::StrCat("10.0.0.0/8 dev ", std::string(65, 'a')),
       "an interface has at most 64 bytes"},
      {"10.0.0.0/8 dev e\xff", "\"e\\xff\": an interface has"},
      {"10.0.0.0/8 dev e\xc2\x85", "without control characters"},
      {"10.0.0.0/8 via 192.0.2.1 metric", "\"metric\": has no value"},
      {"10.0.0.0/8 via 192.0.2.1 metric -1", "\"metric\": has no value"},
      {"10.0.0.0/8 via 192.0.2.1 metric 4294967296", "\"metric\""},
      {"10.0.0.0/8 via 192.0.2.1 weight 0", "\"weight\""},
      {"10.0.0.0/8 via 192.0.2.1 weight 257", "\"weight\""},
      {"10.0.0.0/8 via 192.0.2.1 frob", "\"frob\": is unknown"},
      {"10.0.0.0/8", "10.0.0.0/8 has no next hops"},
      {"10.0.0.0/8 proto static", "10.0.0.0/8 has no next hops"},
      {"blackhole", "has no prefix"},
      {"nexthop via 192.0.2.1 dev eth0", "continues no route"},
      {"10.0.0.0/8\n\tnexthop via 192.0.2.1 weight x\n\tnexthop dev b",
       "\"weight\""},
  };
  for (const auto& [line, message] : kCases) {
    // A good line before and after.
    const Reading reading = ReadForm(absl::StrCat(
        "192.0.2.0/24 via 10.0.0.1\n", line, "\n192.0.3.0/24 dev e\n"));
    EXPECT_THAT(Meanings(reading),
                ElementsAre("192.0.2.0/24 10.0.0.1", "192.0.3.0/24 %e"))
        << line;
    ASSERT_EQ(reading.report.malformed, 1U) << line;
    EXPECT_THAT(reading.report.problems.at(0).message, HasSubstr(message));
  }
}

TEST(TextRoutesTest, HopsOfOneRouteAreBounded) {
  const struct {
    std::string first, hop, last;
  } kForms[] = {
      {"10.0.0.0/8\n", "\tnexthop dev e weight 1\n", "192.0.3.0/24 dev e\n"},
      {"10.0.0.0/8 unicast [s4 11:02:08.558] * (200)\n", "\tdev e\n",
       "192.0.3.0/24 unicast [s4 11:02:08.558] * (200)\n\tdev e\n"},
  };
  for (const auto& [first, hop, last] : kForms) {
    std::string text = first;
    for (int i = 0; i < 5000; ++i) text += hop;
    const Reading reading = ReadForm(text + last);
    EXPECT_THAT(Meanings(reading), ElementsAre("192.0.3.0/24 %e"));
    ASSERT_EQ(reading.report.malformed, 1U);
    // At the line that is one too many: those after it are not kept.
    EXPECT_EQ(reading.report.problems.at(0).line, 1 + 1025U);
    EXPECT_THAT(reading.report.problems.at(0).message,
                HasSubstr("more than 1024 next hops"));
  }
}

// BIRD 2.0.12 printed this.
constexpr absl::string_view kBirdRoutes =
    "BIRD 2.0.12 ready.\n"
    "Table master4:\n"
    "0.0.0.0/0            unicast [s4 11:02:08.558] * (200)\n"
    "\tvia 192.0.2.1 on eth0\n"
    "198.51.100.0/24      blackhole [s4 11:02:08.558] * (200)\n"
    "192.0.2.0/24         unicast [d1 11:02:08.563] * (240)\n"
    "\tdev eth0\n"
    "198.51.101.0/24      unreachable [s4 11:02:08.558] * (200)\n"
    "198.51.102.0/24      prohibited [s4 11:02:08.558] * (200)\n"
    "10.9.0.0/16          unicast [s4 11:02:08.558] * (200)\n"
    "\tvia 192.0.2.1 on eth0 weight 2\n"
    "\tvia 192.0.2.3 on eth0 weight 1\n"
    "203.0.113.0/24       unicast [s4 11:02:08.558] * (200)\n"
    "\tvia 192.0.2.2 on eth0\n"
    "                     unicast [s4b 11:02:08.558] (50)\n"
    "\tvia 192.0.2.3 on eth0\n"
    "\n"
    "Table master6:\n"
    "2001:db8::/32        unicast [b6 11:02:08.558 from fe80::7] * (100) "
    "[AS64500i]\n"
    "\tvia fe80::1 on eth0\n"
    "2001:db8:1::/48      unreachable [s6 11:02:08.558] * (200)\n";

const char* const kBirdMeanings[] = {
    "0.0.0.0/0 192.0.2.1%eth0",
    "198.51.100.0/24 blackhole",
    "192.0.2.0/24 %eth0",
    "198.51.101.0/24 unreachable",
    "198.51.102.0/24 prohibit",
    "10.9.0.0/16 192.0.2.1%eth0*2 192.0.2.3%eth0*1",
    "203.0.113.0/24 192.0.2.2%eth0",
    "2001:db8::/32 fe80::1%eth0",
    "2001:db8:1::/48 unreachable",
};

TEST(TextForms, BirdcShowRoute) {
  const std::string text(kBirdRoutes);
  const Reading reading = ReadForm(text, {.strict = true});
  EXPECT_THAT(Meanings(reading), ElementsAreArray(kBirdMeanings));
  EXPECT_THAT(reading.report.ignored_by,
              ElementsAre(Pair("unselected route", 1)));
  const std::string variants[] = {
      // `birdc -r`, `birdc -v`, `show route all`, and without headings.
      absl::StrReplaceAll(text, {{"ready.\n", "ready.\nAccess restricted\n"}}),
      absl::StrReplaceAll(text, {{"BIRD", "0001 BIRD"},
                                 {"Table master4", "1007-Table master4"},
                                 {"\n", "\n     "}}),
      absl::StrReplaceAll(text,
                          {{" on eth0\n",
                            " on eth0\n\tType: BGP univ\n\tBGP.origin: IGP\n"
                            "\tBGP.as_path: 64500 {64501\n\t\t64502} 3\n"
                            "\tBGP.community: (64500,1) [t]\n"
                            "\t\t(64500,2) (64500,3)\n\t\t(64500,4)\n"
                            "\tBGP.large_community: (65001, 1, 2)\n"
                            "\t\t(65001, 1, 3)\n"
                            "\tBGP.ext_community: (rt, 64500, 1)\n"
                            "\t\t(generic, 0x43000000, 0x1)\n"}}),
      // A socket of BIRD.
      absl::StrReplaceAll(text, {{"BIRD", "0001 BIRD"},
                                 {"Table master4", "1007-Table master4"},
                                 {"\n", "\n "}}) +
          "\n0000 \n",
      absl::StrReplaceAll(text, {{"\nTable", "\n0000 \nTable"}}) + "0000",
      text.substr(text.find("0.0.0.0/0")),
  };
  for (const std::string& variant : variants) {
    EXPECT_THAT(Meanings(ReadForm(variant, {.strict = true})),
                ElementsAreArray(kBirdMeanings))
        << variant;
  }
}

TEST(TextForms, BirdcShowRouteOfBird1) {
  const Reading reading = ReadForm(
      "BIRD 1.6.8 ready.\n"
      "0.0.0.0/0          via 192.0.2.1 on eth0 [static1 10:00:00] * (200)\n"
      "10.0.0.0/8         multipath [static1 10:00:00] * (200)\n"
      "\tvia 192.0.2.1 on eth0 weight 1\n"
      "\tvia 192.0.2.2 on eth0 weight 2\n"
      "192.0.2.0/24       dev eth0 [direct1 10:00:00] ! (240)\n"
      "198.51.100.0/24    via 192.0.2.8 on eth0 [b1 10:00:00] (100) [AS1i]\n"
      "                   via 192.0.2.9 on eth0 [b2 10:00:00] * (100) "
      "[AS2i]\n",
      {.strict = true});
  EXPECT_THAT(
      Meanings(reading),
      ElementsAre("0.0.0.0/0 192.0.2.1%eth0",
                  "10.0.0.0/8 192.0.2.1%eth0*1 192.0.2.2%eth0*2",
                  "192.0.2.0/24 %eth0", "198.51.100.0/24 192.0.2.9%eth0"));
  EXPECT_EQ(reading.report.ignored, 1U);
}

TEST(TextForms, NamesWhatIsWrongUnderBird) {
  const std::string good = "192.0.2.0/24 blackhole [s 10:00] * (200)\n";
  for (const std::string line : {
           "10.0.0.0/8 unicast [s 10:00] * (200)",  // without a next hop
           "10.0.0.0/8 unicast [s 10:00] * (200)\n\tvia x on eth0\n\tdev e",
           "10.0.0.0/8 unicast [s 10:00] * (200)\n\tvia 10.0.0.1 on e mpls 7",
           "10.0.0.0/8 unicast [s 10:00] * (200)\n\tvia 0.0.0.0 on e",
           "10.0.0.0/8 unicast [s 10:00] * (200)\n\tdev e\n\t\t(1,3)",
           "10.0.0.0/8 unicast [s 10:00] * (200)\n\tdev e\n\tAS: 1\n\t(x",
           "10.0.0.1/8 blackhole [s 10:00] * (200)",
           "10.0.0.0/8 frob [s 10:00] * (200)",
           "10.0.0.0/8",
       }) {
    const Reading reading = ReadForm(good + line + "\n" + good);
    EXPECT_THAT(Meanings(reading), Each("192.0.2.0/24 blackhole")) << line;
    EXPECT_EQ(reading.report.routes, 2U) << line;
    EXPECT_EQ(reading.report.malformed, 1U) << line;
  }
  EXPECT_THAT(ReadForm("Table a:\n\tvia 10.0.0.1 on eth0\n").status.message(),
              HasSubstr("F:2: 1 line is malformed: "));
}

// As `birdc show route` prints the default tables of a router with VPNs, and
// `show route table all` all of them.
TEST(TextForms, OtherTablesOfBirdAreIgnored) {
  const std::string vpn =
      "64500:1 10.2.0.0/16  unicast [v 10:00] * (200)\n"
      "\tvia 192.0.2.2 on eth1 mpls 1000\n"
      "                     unicast [w 10:00] (100)\n"
      "\tvia 192.0.2.3 on eth1\n"
      "192.0.2.9:1 10.3.0.0/16 blackhole [v 10:00] ! (200)\n";
  const std::string text =
      "Table master4:\n"
      "10.0.0.0/8           unicast [s4 10:00] * (200)\n"
      "\tvia 192.0.2.1 on eth0\n" +
      vpn +
      "Table vrf1:\n"
      "10.0.0.0/8           blackhole [s5 10:00] * (200)\n"
      "10.5.0.0/16          unicast [s5 10:00] * (200)\n"
      "\tvia 192.0.2.4 on eth2\n"
      "Table master6:\n"
      "2001:db8::/32        unicast [s6 10:00] * (200)\n"
      "\tdev eth0\n"
      "Table vpn6:\n" +
      vpn +
      "Table roa4:\n"
      "10.0.0.0/8-24 AS64500 [r 10:00] * (200)\n"
      "Table flow4:\n"
      "flow4 { dst 10.0.0.0/8; proto = 23; } [f 10:00] * (200)\n"
      "Table master4:\n"
      "10.1.0.0/16          blackhole [s4 10:00] * (200)\n";
  const Reading reading = ReadForm(text, {.strict = true});
  EXPECT_THAT(Meanings(reading),
              ElementsAre("10.0.0.0/8 192.0.2.1%eth0", "2001:db8::/32 %eth0",
                          "10.1.0.0/16 blackhole"));
  EXPECT_THAT(
      reading.report.ignored_by,
      ElementsAre(Pair("other-kind route", 8), Pair("other-table route", 2)));
}

// BIRD prints tables without routes too, its own first.
TEST(TextForms, AnEmptyTableOfBirdLetsNoVrfCount) {
  const std::string vrf =
      "Table vrf1:\n"
      "10.0.0.0/8           blackhole [s 10:00] * (200)\n"
      "2001:db8::/32        blackhole [s 10:00] * (200)\n";
  const std::string good = "2001:db8:6::/48 blackhole [s 10:00] * (200)\n";
  const struct {
    std::string before, after;
    std::vector<std::string> meanings;
  } kCases[] = {
      {"Table master4:\nTable master6:\n" + good,
       "",
       {"2001:db8:6::/48 blackhole"}},
      {"BIRD 2.0.12 ready.\nTable master4:\n\nTable master6:\n" + good,
       "Table master4:\n10.9.0.0/16 blackhole [s 10:00] * (200)\n",
       {"2001:db8:6::/48 blackhole", "10.9.0.0/16 blackhole"}},
      // Of IPv6 there is no other table.
      {"Table master4:\n", "", {"2001:db8::/32 blackhole"}},
      {"1007-Table master4:\n1007-Table master6:\n1007-" + good,
       "",
       {"2001:db8:6::/48 blackhole"}},
      // The one table that was asked for.
      {"", "", {"10.0.0.0/8 blackhole", "2001:db8::/32 blackhole"}},
      {"Table t6:\n", "", {"10.0.0.0/8 blackhole", "2001:db8::/32 blackhole"}},
  };
  for (const auto& [before, after, meanings] : kCases) {
    EXPECT_THAT(Meanings(ReadForm(before + vrf + after, {.strict = true})),
                ElementsAreArray(meanings))
        << before;
  }
  EXPECT_FALSE(ReadForm("Table master4:\nTable master6:\n" + vrf).status.ok());
}

// As BIRD prints a table of "ipv6 sadr".
TEST(TextForms, SourceSpecificRoutesOfBirdAreIgnored) {
  const std::string sadr =
      "2001:db8::/32 from 2001:db8:1::/48 unicast [s 10:00] * (200)\n"
      "\tvia fe80::1 on eth0\n"
      "                     unicast [t 10:00] (100)\n"
      "\tvia fe80::2 on eth0\n"
      "2001:db8::/32 from ::/0 blackhole [s 10:00] * (200)\n";
  const std::string plain =
      "2001:db8::/32        unicast [s 10:00 from fe80::7] * (200)\n"
      "\tvia fe80::3 on eth0\n";
  for (const std::string& text :
       {"Table sadr6:\n" + sadr + "Table master6:\n" + plain,
        "Table master6:\n" + plain + "Table sadr6:\n" + sadr, sadr + plain,
        absl::StrReplaceAll("Table sadr6:\n" + sadr + "Table main:\n" + plain,
                            {{"unicast [s", "unicast [s1"}})}) {
    const Reading reading = ReadForm(text, {.strict = true});
    EXPECT_THAT(Meanings(reading), ElementsAre("2001:db8::/32 fe80::3%eth0"))
        << text;
    EXPECT_THAT(reading.report.ignored_by,
                ElementsAre(Pair("other-kind route", 1),
                            Pair("source-specific route", 2)));
  }
  EXPECT_FALSE(ReadForm("2001:db8::/32 from ::/0\n" + plain, {.strict = true})
                   .status.ok());
}

// Linux lets an interface have any name without blanks and slashes.
TEST(TextForms, NamesOfInterfacesHaveWhatStartsComments) {
  EXPECT_THAT(
      Meanings(ReadForm("# a comment\n"
                        "10.0.0.0/8 via 192.0.2.1 dev ppp#0 proto bird\n"
                        "10.1.0.0/16 dev e;1 scope link ; dev x\n"
                        "  ;dev x\n"
                        "10.3.0.0/16\n"
                        "\tnexthop dev e weight 1 # y\n"
                        "\tnexthop via 192.0.2.1 dev a#b;c weight 1\n"
                        "10.4.0.0/16 via 192.0.2.1 dev #0 # dev x\n"
                        "10.5.0.0/16 dev dev ; dev x\n"
                        "10.6.0.0/16\n"
                        "\tnexthop dev ;1 weight 1\n",
                        {.strict = true})),
      ElementsAre("10.0.0.0/8 192.0.2.1%ppp#0", "10.1.0.0/16 %e;1",
                  "10.3.0.0/16 %e*1 192.0.2.1%a#b;c*1",
                  "10.4.0.0/16 192.0.2.1%#0", "10.5.0.0/16 %dev",
                  "10.6.0.0/16 %;1"));
  EXPECT_THAT(Meanings(ReadForm("10.0.0.0/8  unicast [s 10:00] * (200)\n"
                                "\tvia 192.0.2.1 on ppp#0\n"
                                "10.1.0.0/16 unicast [s#1 10:00] * (200) ; x\n"
                                "\tdev e;1\n"
                                "10.2.0.0/16 unicast [s 10:00] * (200)\n"
                                "\tvia 192.0.2.1 on #0 weight 1\n"
                                "10.3.0.0/16 dev ;1 [s 10:00] * (200)\n",
                                {.strict = true})),
              ElementsAre("10.0.0.0/8 192.0.2.1%ppp#0", "10.1.0.0/16 %e;1",
                          "10.2.0.0/16 192.0.2.1%#0", "10.3.0.0/16 %;1"));
  // A comment is no name.
  EXPECT_THAT(
      ReadForm("10.0.0.0/8 dev e\n10.1.0.0/16 dev # x\n", {.strict = true})
          .status.message(),
      HasSubstr("F:2: \"x\": is unknown"));
  // Where words have none, a comment needs no blank.
  EXPECT_THAT(
      ReadForm("10.0.0.0/8 7# x\n10.1.0.0/16 8;y\n", {.strict = true}).Lines(),
      ElementsAre("10.0.0.0/8 7", "10.1.0.0/16 8"));
}

TEST(TextForms, Pfx2as) {
  const Reading reading = ReadForm(
      "192.0.2.0\t24\t64500\n198.51.100.0\t24\t64501_64502\n"
      "2001:db8::\t32\t64503,64504_64505\n",
      {.strict = true});
  EXPECT_THAT(reading.Lines(),
              ElementsAre("192.0.2.0/24 64500", "198.51.100.0/24 64501",
                          "2001:db8::/32 64503"));
  for (const std::string line :
       {"192.0.2.0 33 1", "192.0.2.1 24 1", "192.0.2.0 24", "192.0.2.0 24 0",
        "192.0.2.0 24 1_", "192.0.2.0 24 AS1", "192.0.2.0/24 1",
        "192.0.2.0 +24 1"}) {
    EXPECT_EQ(ReadForm("192.0.2.0 24 5\n" + line + "\n").Summary(),
              "1 routes, 0 hops, 1 malformed")
        << line;
  }
}

TEST(TextForms, CsvByTheNamesOfItsColumns) {
  const std::string ids =
      "network,autonomous_system_number,\"organization\"\r\n"
      "192.0.2.0/24,64500,\"One, \"\"Inc\"\"; #1\"\r\n"
      "\"2001:db8::/32\", 64501 ,Two\r\n";
  const RouteFileOptions by_as = {
      .strict = true, .csv_columns = {"network", "autonomous_system_number"}};
  EXPECT_EQ(ReadForm(ids, by_as).Summary(), "2 routes, 0 hops");
  EXPECT_THAT(ReadForm(ids, by_as).Lines(),
              ElementsAre("192.0.2.0/24 64500", "2001:db8::/32 64501"));
  EXPECT_THAT(ReadForm("\xef\xbb\xbf" + ids, by_as).Lines().size(), 2U);
  const RouteFileOptions alone = {.next_hop = 3, .csv_columns = {"network"}};
  EXPECT_THAT(ReadForm(ids, alone).Lines(),
              ElementsAre("192.0.2.0/24 3", "2001:db8::/32 3"));

  const std::string gateways =
      "if,gw,prefix\neth0,192.0.2.1,10.0.0.0/8\n,fd00::1,2001:db8::/32\n"
      "eth1,,10.1.0.0/16\n,7,10.2.0.0/16\n,,10.3.0.0/16\n,1,2\n,x,10.4.0.0/16";
  const Reading reading =
      ReadForm(gateways, {.csv_columns = {"prefix", "gw", "if"}});
  EXPECT_THAT(Meanings(reading),
              ElementsAre("10.0.0.0/8 192.0.2.1%eth0", "2001:db8::/32 fd00::1",
                          "10.1.0.0/16 %eth1"));
  EXPECT_EQ(reading.report.malformed, 4U);
}

TEST(TextForms, CsvWithoutNamesOrTheirColumnsIsRefused) {
  const std::string text = "network,asn\n192.0.2.0/24,64500\n";
  const Reading without = ReadForm(text);
  EXPECT_TRUE(absl::IsInvalidArgument(without.status)) << without.status;
  EXPECT_THAT(without.status.message(), HasSubstr("--csv_columns"));
  EXPECT_THAT(without.status.message(), HasSubstr("network,asn"));
  const Reading other = ReadForm(text, {.csv_columns = {"network", "as"}});
  EXPECT_TRUE(absl::IsInvalidArgument(other.status)) << other.status;
  EXPECT_THAT(other.status.message(), HasSubstr("no column \"as\""));
}

TEST(TextForms, WithNamesOfColumnsAnyTextIsCsv) {
  const std::string headers[] = {
      "network,rate (Mbit/s),asn", "network,L\xc3\xa4nge,asn",
      "network,L\xe4nge,asn",      "network,\"a \"\"b\"\", c\",asn",
      "network,10.0.0.0/8,asn",    "network,[x],asn",
      "{x}\t@,network,x,asn",
  };
  const RouteFileOptions options = {.strict = true,
                                    .csv_columns = {"network", "asn"}};
  RouteFileOptions allow_empty = options;
  allow_empty.allow_empty = true;
  for (const std::string& header : headers) {
    const std::string first = header[0] == '{' ? "0," : "";
    EXPECT_THAT(
        ReadForm(absl::StrCat(header, "\n", first, "10.0.0.0/8,1,7\n"), options)
            .Lines(),
        ElementsAre("10.0.0.0/8 7"))
        << header;
    // A header alone is a file with nothing in it.
    for (const std::string end : {"", "\n", "\n\n"}) {
      EXPECT_EQ(ReadForm(header + end, allow_empty).Summary(),
                "0 routes, 0 hops");
      const absl::Status status = ReadForm(header + end, options).status;
      EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
      EXPECT_THAT(status.message(), HasSubstr("--allow_empty"));
    }
  }
  EXPECT_THAT(ReadForm("network,\"a\nb\",asn\n10.0.0.0/8,1,7\n", options)
                  .status.message(),
              HasSubstr("a quote is not closed in the header"));
}

TEST(TextForms, EmptyRowsOfCsvAreSkipped) {
  EXPECT_THAT(ReadForm("network,asn\n,\n10.0.0.0/8,7\n , \n\"\",\n,,,\n",
                       {.strict = true, .csv_columns = {"network", "asn"}})
                  .Lines(),
              ElementsAre("10.0.0.0/8 7"));
}

TEST(TextForms, ARowOfCsvGoesOnWhileItsQuoteIsOpen) {
  const RouteFileOptions options = {.csv_columns = {"network", "asn"}};
  const std::string head = "network,asn,note\n12.0.0.0/8,6,x\n";
  EXPECT_THAT(ReadForm(head + "10.0.0.0/8,7,\"a\n11.0.0.0/8,9,b\n\n#\nc\"\n"
                              "13.0.0.0/8,\"8\",\"\"\"\r\n\"\r\n",
                       {.strict = true, .csv_columns = options.csv_columns})
                  .Lines(),
              ElementsAre("12.0.0.0/8 6", "10.0.0.0/8 7", "13.0.0.0/8 8"));
  // Nothing that a quote may hold is a route.
  const std::string open = head + "10.0.0.0/8,7,\"a\n11.0.0.0/8,9,b\n";
  EXPECT_EQ(ReadForm(open, options).Summary(), "1 routes, 0 hops, 1 malformed");
  EXPECT_THAT(
      ReadForm(open, {.strict = true, .csv_columns = options.csv_columns})
          .status.message(),
      AllOf(HasSubstr("F:3"), HasSubstr("a quote is not closed")));
  EXPECT_EQ(
      ReadForm(open + std::string(4090, 'x') + "\n14.0.0.0/8,5,\n", options)
          .Lines(),
      (std::vector<std::string>{"12.0.0.0/8 6", "14.0.0.0/8 5"}));
}

TEST(TextForms, AQuoteWithinAFieldOfCsvIsOneCharacterOfIt) {
  const Reading reading = ReadForm(
      "network,gw,dev\n10.0.0.0/8,192.0.2.1,a\"b\n"
      " \" 11.0.0.0/8 \" ,\" 192.0.2.1\", \" \"\"c\" \n",
      {.strict = true,
       .first_next_hop_id = 1,
       .csv_columns = {"network", "gw", "dev"}});
  EXPECT_THAT(reading.Lines(), ElementsAre("10.0.0.0/8 1", "11.0.0.0/8 2"));
  ASSERT_EQ(reading.next_hops.size(), 2u);
  EXPECT_EQ(reading.next_hops[0].interface, "a\"b");
  EXPECT_EQ(reading.next_hops[1].interface, " \"c");
}

TEST(TextForms, TheFirstWellFormedRowOfCsvSaysWhatRowsHave) {
  const RouteFileOptions options = {.first_next_hop_id = 1,
                                    .csv_columns = {"network", "to"}};
  EXPECT_EQ(ReadForm("network,to\n10.0.0.0/8,AS7\n11.0.0.0/8,8\n"
                     "12.0.0.0/8,192.0.2.1\n",
                     options)
                .Summary(),
            "1 routes, 0 hops, 2 malformed");
  EXPECT_EQ(ReadForm("network,to\n10.0.0.0/8,\n11.0.0.0/8,192.0.2.1\n"
                     "12.0.0.0/8,7\n",
                     options)
                .Summary(),
            "1 routes, 1 hops, 2 malformed");
}

TEST(TextForms, CsvOfPrefixesAloneTakesANextHop) {
  const absl::Status status =
      ReadForm("network\n10.0.0.0/8\n", {.csv_columns = {"network"}}).status;
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("give --next_hop"));
}

TEST(TextForms, CsvWithoutAHeaderIsNamed) {
  for (const std::string text :
       {"10.0.0.0/8,US,,\n11.0.0.0/8,US,,\n", "\"10.0.0.0/8\",7",
        "7, 2001:db8::/32\n", "# a comment\n10.0.0.0/8, 7\n",
        "network,rate (Mbit/s)\n10.0.0.0/8,7\n"}) {
    const absl::Status status = ReadForm(text).status;
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr("F: CSV: give --csv_columns"));
  }
}

TEST(TextForms, APrefixTwiceWithDifferentNextHopsIsReported) {
  const Reading reading =
      ReadForm("192.0.2.0/24 1\n10.0.0.0/8 1\n192.0.2.0/24 1\n192.0.2.0/24 2\n",
               {.strict = true});
  EXPECT_EQ(reading.Summary(), "4 routes, 0 hops, 1 repeated");
  EXPECT_EQ(reading.Lines().back(), "192.0.2.0/24 2");
  EXPECT_EQ(reading.report.problems.at(0).line, 4U);
  EXPECT_THAT(reading.report.problems.at(0).message,
              HasSubstr("192.0.2.0/24 is there twice"));
  EXPECT_EQ(ReadForm("10.0.0.0/8 dev a\n10.0.0.0/8 dev a\n").Summary(),
            "2 routes, 1 hops");
  EXPECT_EQ(ReadForm("10.0.0.0/8 dev a\n10.0.0.0/8 dev b\n").Summary(),
            "2 routes, 2 hops, 1 repeated");
}

TEST(TextForms, AStreamThatBreaksOffLosesTheRouteThatMayContinue) {
  ListSink sink;
  ByteReader in(std::make_unique<FailingSource>(
      "10.0.0.0/8 dev a\n10.1.0.0/16\n\tnexthop dev a weight 1\n\tnexth",
      absl::DataLossError("gzip cut")));
  RouteOutput out("F", /*strict=*/false, sink);
  EXPECT_TRUE(ReadTextRoutes(in, {}, out).ok());
  EXPECT_EQ(sink.routes.size(), 1U);
  EXPECT_TRUE(out.report().truncated);
}

// A line is changed in any way, and no route comes out that no line names.
TEST(TextForms, MutatedLinesGiveNoOtherPrefix) {
  std::mt19937 random(7);
  for (const absl::string_view text : {kIpRoutes, kIpRoutes6, kBirdRoutes}) {
    std::set<std::string> prefixes;
    for (const Route& route : ReadForm(std::string(text)).routes) {
      prefixes.insert(route.prefix.ToString());
    }
    std::vector<std::string> words =
        absl::StrSplit(text, absl::ByAnyChar(" \t\n"), absl::SkipEmpty());
    for (int i = 0; i < 300; ++i) {
      // A word goes, comes twice, or trades places with another.
      std::string mutated(text);
      const std::string& word = words[random() % words.size()];
      const std::string& other = words[random() % words.size()];
      if (absl::StrContains(word, '/') || absl::StrContains(other, '/') ||
          absl::StrContains(other, "default") ||
          other.find('.') != other.npos || absl::StrContains(other, "::")) {
        continue;
      }
      const size_t at = mutated.find(word);
      mutated.replace(at, word.size(),
                      random() % 2 == 0 ? "" : other + " " + word);
      for (const Route& route : ReadAny(mutated).routes) {
        EXPECT_TRUE(
            prefixes.contains(route.prefix.ToString()) ||
            absl::StrContains(mutated, route.prefix.address().ToString()))
            << mutated;
      }
    }
  }
}

TEST(DetectRouteFormat, KnowsEachFormatAndNoOther) {
  const std::string magic(kTableFileMagic);
  const struct {
    RouteFormat format;
    std::vector<std::string> heads;
  } kCases[] = {
      {RouteFormat::kText,
       {"", "\n", "# only a comment", "2001:db8::/32 1\n",
        "  192.0.2.0/24\t1\r\n", "::/0 1", "# caf\xc3\xa9\n::/0 1\n",
        "; pyasn\n::/0 1\n", "\xef\xbb\xbf::/0 1\n", "\xef\xbb\xbf",
        "10.0.0.0/8 via 192.0.2.1\n", "default dev e\n", "throw ::/0\n",
        "10.0.0.0/8\n\tnexthop dev e\n", "Table master4:\n", "1007-Table t:\n",
        "192.0.2.0\t24\t1\n", "a,b\n192.0.2.0/24,1\n", "10.0.0.0/8,US,,\n",
        "10.0.0.0/8 via 10.0.0.1 on e [s 10:00] * (1)\n",
        "a heading\n\n::/0 1\n",  // will be counted as malformed
                                  // The file is cut in its first line.
        "2001:d", "1", "2001:db8::/32",
        // The probe ends inside a line.
        std::string(kFormatProbe, '1'), std::string(kFormatProbe, '#')}},
      {RouteFormat::kMrt, {Mrt(13, 1, "abc"), Mrt(16, 4, "abc").substr(0, 6)}},
      {RouteFormat::kTableFile, {magic, magic + "::/0 1\n"}},
      {RouteFormat::kUnknown,
       {"{\"prefix\": \"2001:db8::/32\"}\n", "<html>\n</html>\n",
        "prefix,nexthop\n", "127.0.0.1 localhost\n",
        "[\"a\",\n\"10.0.0.0/8\",\n", "default settings\n",
        "10.0.0.0 192.0.2.1 255.0.0.0 UG 0\n", "hello",
        "[\"a\", \"10.0.0.0/8\", \"b\"]", "dead beef\n", "#!/bin/sh\nexit 0\n",
        "\x7f"
        "ELF",
        std::string("::/0 1\n\0", 8), std::string("\0\0\0", 3),
        std::string("\xff\xfe:\0:\0", 6), Mrt(14, 1, "abc"),
        Mrt(13, 1, "abc").substr(0, 5), magic.substr(0, 7), "x" + magic}},
  };
  for (const auto& [format, heads] : kCases) {
    for (const std::string& head : heads) {
      EXPECT_EQ(DetectRouteFormat(head), format) << head;
    }
  }
}

}  // namespace
}  // namespace planb
