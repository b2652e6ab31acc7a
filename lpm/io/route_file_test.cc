// SPDX-License-Identifier: Apache-2.0

#include "lpm/io/route_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lpm/io/testing/bytes.h"
#include "lpm/io/testing/read.h"

namespace planb {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::TempDir;

constexpr RouteFileOptions kStrict = {.strict = true};

std::string SmallMrt() {
  const std::string path = Origin(0) + AsPath({64510}) + MpReach("2001:db8::1");
  return TableDump(kPeerIndexTable,
                   PeerTableBody({PeerEntry("2001:db8::1", 64500)})) +
         TableDump(kRibIpv6Unicast,
                   RibBody("2001:db8::/32", {Entry(0, path)})) +
         TableDump(kRibIpv6Unicast,
                   RibBody("2001:db8:1::/48", {Entry(0, path)}));
}

constexpr absl::string_view kSmallText = "2001:db8::/32 1\n2001:db8:1::/48 1\n";

TEST(ReadRoutes, ReadsEitherFormatUnderEveryCompression) {
  for (const auto compress : {Plain, Gzip, Bzip2}) {
    for (const std::string& file : {std::string(kSmallText), SmallMrt()}) {
      for (const size_t piece : {size_t{1}, SIZE_MAX}) {
        const Reading reading = ReadAny(compress(file), kStrict, piece);
        EXPECT_THAT(reading.Lines(),
                    ElementsAre("2001:db8::/32 1", "2001:db8:1::/48 1"));
        EXPECT_EQ(reading.Summary(),
                  file == kSmallText ? "2 routes, 0 hops" : "2 routes, 1 hops");
      }
    }
  }
}

TEST(ReadRoutes, AnEmptyFileHasNoRoutes) {
  for (const std::string& file : {std::string(), Gzip(""), Bzip2("")}) {
    EXPECT_EQ(ReadAny(file, kStrict).Summary(), "0 routes, 0 hops");
  }
}

TEST(ReadRoutes, RefusesUnknownFormats) {
  for (const std::string& file :
       {std::string("{\"routes\": []}\n"), Gzip("<html></html>"),
        std::string("\x7f"
                    "ELF\x02\x01\x01\0\0\0\0\0\0\0",
                    14),
        std::string("\x1f"), std::string("BZh")}) {
    const Reading reading = ReadAny(file);
    EXPECT_TRUE(absl::IsInvalidArgument(reading.status)) << reading.status;
    EXPECT_THAT(reading.status.message(), HasSubstr("F: neither"));
  }
  EXPECT_THAT(ReadAny("hello\n").status.message(),
              HasSubstr("starts with \"hello\\n\""));
}

TEST(ReadRoutes, NumbersMrtNextHopsFromTheFirstId) {
  EXPECT_THAT(ReadAny(SmallMrt(), {.first_next_hop_id = 100}).Lines(),
              ElementsAre("2001:db8::/32 100", "2001:db8:1::/48 100"));
}

// Checks the reading of a cut file: its first routes, and a report of the cut.
void ExpectCut(const std::string& file, size_t cut, bool may_be_whole) {
  SCOPED_TRACE(cut);
  const Reading whole = ReadAny(file);
  const Reading reading = ReadAny(file.substr(0, cut));
  if (absl::IsInvalidArgument(reading.status)) {
    // Too short to recognize the format.
    EXPECT_LT(cut, 6u);
    EXPECT_THAT(reading.routes, IsEmpty());
    return;
  }
  EXPECT_TRUE(reading.status.ok()) << reading.status;
  ASSERT_LE(reading.routes.size(), whole.routes.size());
  for (size_t i = 0; i < reading.routes.size(); ++i) {
    EXPECT_EQ(reading.routes[i], whole.routes[i]);
  }
  if (!may_be_whole) {
    EXPECT_TRUE(reading.report.truncated);
    ASSERT_FALSE(reading.report.problems.empty());
    const Reading strict = ReadAny(file.substr(0, cut), kStrict);
    EXPECT_TRUE(absl::IsDataLoss(strict.status)) << strict.status;
  }
  EXPECT_EQ(reading.report.malformed, 0u);
}

TEST(ReadRoutes, CutAnywhereKeepsAllBeforeTheCut) {
  for (const std::string& plain : {std::string(kSmallText), SmallMrt()}) {
    for (size_t cut = 1; cut < plain.size(); ++cut) {
      // A plain file may end between two records; the tests of each format
      // cover that.
      ExpectCut(plain, cut, /*may_be_whole=*/true);
    }
    for (const auto compress : {Gzip, Bzip2}) {
      const std::string one = compress(plain);
      for (size_t cut = 1; cut < one.size(); ++cut) {
        ExpectCut(one, cut, /*may_be_whole=*/false);
      }
      const std::string two = one + compress(plain);
      for (size_t cut = one.size() + 1; cut < two.size(); ++cut) {
        ExpectCut(two, cut, /*may_be_whole=*/false);
        EXPECT_GE(ReadAny(two.substr(0, cut)).routes.size(), 2u);
      }
    }
  }
}

TEST(ReadRoutes, CorruptCompressionIsReported) {
  std::string file = Gzip(std::string(kSmallText));
  file[file.size() - 6] ^= 1;  // in its checksum
  const Reading reading = ReadAny(file);
  EXPECT_EQ(reading.Summary(), "2 routes, 0 hops, truncated");
  EXPECT_THAT(reading.report.problems.at(0).message, HasSubstr("corrupt"));
  EXPECT_EQ(reading.report.problems.at(0).offset, kSmallText.size());
}

TEST(ReadRouteFile, ReadsAFileAndNamesIt) {
  const std::string path = TempDir() + "/routes";
  std::ofstream(path) << kSmallText << "oops\n";
  RouteCollector sink;
  absl::StatusOr<RouteFileReport> report = ReadRouteFile(path, {}, sink);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->routes, 2u);
  EXPECT_EQ(report->malformed, 1u);
  EXPECT_EQ(sink.TakeRoutes().size(), 2u);

  const absl::Status strict = ReadRouteFile(path, kStrict, sink).status();
  EXPECT_TRUE(absl::IsDataLoss(strict)) << strict;
  EXPECT_THAT(strict.message(), HasSubstr(absl::StrCat(path, ":3: ")));
}

TEST(ReadRouteFile, NamesTheFileItCannotRead) {
  RouteCollector sink;
  absl::Status status = ReadRouteFile("/nonexistent", {}, sink).status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("/nonexistent"));
  status = ReadRouteFile(TempDir(), {}, sink).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr(TempDir().substr(0, 4)));
}

TEST(ReadRouteFileDeathTest, RefusesAReservedFirstId) {
  EXPECT_DEATH(ReadAny("", {.first_next_hop_id = 0}), "reserved");
}

TEST(ReadTableFileRoutes, DeliversEverything) {
  const TableContents table = SmallTable();
  for (const auto compress : {Plain, Gzip, Bzip2}) {
    for (const size_t piece : {size_t{1}, SIZE_MAX}) {
      const Reading reading = ReadAny(compress(WriteTable(table)), {}, piece);
      EXPECT_EQ(reading.Summary(), "7 routes, 3 hops, 2 groups");
      EXPECT_EQ(reading.routes, table.routes);
      EXPECT_EQ(reading.groups, table.groups);
      // Without the two next hops that only routes name.
      EXPECT_TRUE(reading.next_hops == table.next_hops);
    }
  }
}

// The table may already have descriptions of them.
TEST(ReadTableFileRoutes, DoesNotDescribeMembersOfGroups) {
  TableContents table;
  table.groups = {{5, {{6, 1}, {7, 1}}, ""}};
  const Reading reading = ReadAny(WriteTable(table));
  EXPECT_TRUE(reading.status.ok()) << reading.status;
  EXPECT_TRUE(reading.next_hops.empty());
}

TEST(ReadTableFileRoutes, RefusesAnIdOfBothANextHopAndAGroup) {
  TableContents table;
  table.next_hops = {{.id = 5}};
  table.groups = {{.id = 5}};
  const Reading reading = ReadAny(WriteTable(table));
  EXPECT_TRUE(absl::IsDataLoss(reading.status)) << reading.status;
  EXPECT_THAT(reading.status.message(), HasSubstr("F: damaged"));
  EXPECT_THAT(reading.status.message(), HasSubstr("5 is the id of"));
  table.next_hops.clear();
  table.groups = {{5, {{6, 1}}, ""}, {.id = 6}};
  EXPECT_TRUE(absl::IsDataLoss(ReadAny(WriteTable(table)).status));
  table.groups = {{5, {{5, 1}}, ""}};
  EXPECT_EQ(ReadAny(WriteTable(table)).next_hops.size(), 0u);
}

TEST(ReadTableFileRoutes, NeverAcceptsACutFile) {
  const std::string bytes = WriteTable(SmallTable());
  const std::string zipped = Gzip(bytes);
  for (size_t cut = 8; cut < bytes.size(); ++cut) {
    const Reading reading = ReadAny(bytes.substr(0, cut));
    EXPECT_TRUE(absl::IsDataLoss(reading.status)) << reading.status;
    EXPECT_THAT(reading.status.message(), HasSubstr("F: damaged table file"));
  }
  // From the first size at which the format is recognized. A cut may remove
  // only the checksum of the compression.
  for (size_t cut = 40; cut < zipped.size(); ++cut) {
    const Reading reading = ReadAny(zipped.substr(0, cut));
    EXPECT_TRUE(absl::IsDataLoss(reading.status)) << reading.status;
    EXPECT_THAT(reading.status.message(), HasSubstr("F: "));
  }
}

TEST(ReadTableFileRoutes, NamesTheFileOfANewerVersion) {
  const absl::Status status = ReadAny(TableFileOf({}, 2)).status;
  EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("F: a table file of format version"));
}

}  // namespace
}  // namespace planb
