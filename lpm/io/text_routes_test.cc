// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "lpm/io/route_file.h"
#include "lpm/io/table_file.h"
#include "lpm/io/testing/bytes.h"
#include "lpm/io/testing/read.h"

namespace planb {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Reading ReadText(std::string text, bool strict = false,
                 size_t piece = SIZE_MAX) {
  return ReadWith(ReadTextRoutes, std::move(text), strict, piece);
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
    EXPECT_EQ(reading.Summary(), "4 routes, 0 hops");
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
  EXPECT_TRUE(ReadTextRoutes(in, out).ok());
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
  EXPECT_EQ(ReadTextRoutes(in, out), absl::UnavailableError("disk"));
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
  EXPECT_EQ(ReadTextRoutes(in, out), absl::ResourceExhaustedError("full"));
  EXPECT_EQ(sink.routes.size(), 2u);
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
        "a heading\n\n::/0 1\n",  // will be counted as malformed
        // The file is cut in its first line.
        "2001:d", "1", "2001:db8::/32",
        // The probe ends inside a line.
        std::string(kFormatProbe, '1'), std::string(kFormatProbe, '#')}},
      {RouteFormat::kMrt, {Mrt(13, 1, "abc"), Mrt(16, 4, "abc").substr(0, 6)}},
      {RouteFormat::kTableFile, {magic, magic + "::/0 1\n"}},
      {RouteFormat::kUnknown,
       {"{\"prefix\": \"2001:db8::/32\"}\n", "<html>\n</html>\n",
        "prefix,nexthop\n", "hello", "dead beef\n", "#!/bin/sh\nexit 0\n",
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
