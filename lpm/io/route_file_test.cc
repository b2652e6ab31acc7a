// SPDX-License-Identifier: Apache-2.0

#include "lpm/io/route_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lpm/io/testing/bytes.h"
#include "lpm/io/testing/read.h"

namespace planb {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using ::testing::TempDir;

const RouteFileOptions kStrict = {.strict = true};

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

constexpr RouteFileOptions kAllowEmpty = {.allow_empty = true};

TEST(ReadRoutes, AFileWithNothingInItIsATableOnlyIfAllowed) {
  std::vector<std::string> files = {WriteTable({})};
  for (const char* text : {"", "\n", " \t\r\n\n", "# no route\n", "# cut"}) {
    for (const auto compress : {Plain, Gzip, Bzip2}) {
      files.push_back(compress(text));
    }
  }
  for (const std::string& file : files) {
    const Reading reading = ReadAny(file);
    EXPECT_TRUE(absl::IsFailedPrecondition(reading.status)) << reading.status;
    EXPECT_EQ(reading.status.message(),
              "F: no routes in it; --allow_empty takes it for an empty table");
    EXPECT_EQ(ReadAny(file, kStrict).status, reading.status);
    EXPECT_EQ(ReadAny(file, kAllowEmpty).Summary(), "0 routes, 0 hops");
  }
  // A table without routes may have other things.
  TableContents objects;
  objects.next_hops = {{.id = 5}};
  EXPECT_TRUE(absl::IsFailedPrecondition(ReadAny(WriteTable(objects)).status));
  EXPECT_EQ(ReadAny(WriteTable(objects), kAllowEmpty).Summary(),
            "0 routes, 1 hops");
}

std::string Peers() {
  return TableDump(kPeerIndexTable,
                   PeerTableBody({PeerEntry("2001:db8::1", 64500)}));
}

std::string AnUpdate() {
  return Heard("::1", 1, Update("", NextHop4("192.0.2.9"), Nlri("::/0")));
}

TEST(ReadRoutes, NamesWhatGivesNoRoute) {
  const std::string no_paths =
      TableDump(kRibIpv6Unicast, RibBody("2001:db8::/32", {}));
  struct {
    std::string file;
    const char* says;
  } const cases[] = {
      {AnUpdate(),
       "BGP4MP updates: try planbctl replay; no route: 1 records ignored (1 "
       "BGP4MP)"},
      {HeardAt(1, 2, "::1", 1, BgpMessage(4, "")) + Mrt(11, 0, "x"),
       "BGP4MP updates: try planbctl replay; no route: 2 records ignored (1 "
       "BGP4MP, 1 OSPFv2)"},
      {Mrt(11, 0, "x") + Mrt(11, 0, "y") + Mrt(48, 0, "z"),
       "no route: 3 records ignored (2 OSPFv2, 1 OSPFv3)"},
      {Mrt(32, 0, "x"), "no route: 1 records ignored (1 ISIS)"},
      {Peers() + TableDump(kRibIpv4Multicast, RibBody("10.0.0.0/8", {})),
       "multicast"},
      {Peers(), "no route: an MRT peer index without RIB records"},
      {Peers() + no_paths,
       "no route: 1 records ignored (1 RIB records without paths)"},
      {AnUpdate() + Mrt(99, 0, "x"),
       "no route: 1 records malformed, 1 records ignored (1 BGP4MP)"},
      {AnUpdate() + "cut", "1 records ignored (1 BGP4MP), the file breaks off"},
  };
  for (const auto& [file, says] : cases) {
    for (const auto compress : {Plain, Gzip, Bzip2}) {
      // `allow_empty` is for files with nothing in them.
      const Reading reading = ReadAny(compress(file), kAllowEmpty);
      EXPECT_TRUE(absl::IsInvalidArgument(reading.status)) << reading.status;
      EXPECT_THAT(reading.status.message(), HasSubstr(says));
      EXPECT_THAT(std::string(reading.status.message()), StartsWith("F: "));
      EXPECT_FALSE(ReadAny(compress(file), kStrict).status.ok());
    }
    // Beside a route it is only counted.
    const Reading mixed = ReadAny(SmallMrt() + file);
    EXPECT_TRUE(mixed.status.ok()) << mixed.status;
    EXPECT_EQ(mixed.report.routes, 2u);
  }
}

TEST(ReadRoutes, NamesTheFirstReasonIfNothingCouldBeRead) {
  const std::string bad_path =
      TableDump(kRibIpv6Unicast,
                RibBody("2001:db8::/32", {Entry(0, Origin(0) + "\x40")}));
  const std::string route = SmallMrt().substr(Peers().size());
  struct {
    std::string file;
    const char* says;
  } const cases[] = {
      {"# made by hand\n10.0.0.0/8\n::/0 0\n",
       "F:2: all 2 lines are malformed: \"10.0.0.0/8\""},
      {Peers() + Mrt(99, 0, "x") + Mrt(98, 0, "x"),
       "F: at byte 49: all 2 records are malformed: "},
      {TableDump(kRibIpv6Unicast, "short"),
       "F: at byte 0: 1 record is malformed: "},
      {bad_path,
       "F: at byte 0: no route could be read: 1 paths skipped, 1 routes lost"},
      {route.substr(0, 20),
       "F: at byte 0: no route could be read: the file breaks off: "},
      {route.substr(0, 11),
       "F: at byte 0: no route could be read: the file breaks off: "},
      {Gzip(kSmallText).substr(0, 12),
       "F:1: no route could be read: the file breaks off: "},
      {Bzip2(kSmallText).substr(0, 12),
       "F:1: no route could be read: the file breaks off: "},
  };
  for (const auto& [file, says] : cases) {
    const Reading reading = ReadAny(file, kAllowEmpty);
    EXPECT_TRUE(absl::IsFailedPrecondition(reading.status)) << reading.status;
    EXPECT_THAT(std::string(reading.status.message()), StartsWith(says));
    const Reading strict = ReadAny(file, kStrict);
    EXPECT_TRUE(absl::IsDataLoss(strict.status)) << strict.status;
  }
}

TEST(ReadRoutes, NamesAFileThatTakesTooMuchMemory) {
  const std::string frame("\x28\xb5\x2f\xfd\x00\x90\x01\x00\x00", 9);
  const absl::Status status = ReadAny(frame).status;
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("F: the zstd data take"));
}

TEST(ReadRoutes, NamesOtherFormats) {
  struct {
    std::string file;
    const char* says;
  } const cases[] = {
      {std::string("\x04\x22\x4d\x18\0\0\4", 8), "F: lz4, which is not read"},
      {"\x1f\x9d\x90", "F: compress (.Z), "},
      {"PK\x03\x04", "F: a zip archive, "},
      {"7z\xbc\xaf\x27\x1c", "F: a 7-Zip archive, "},
      {"routes.txt" + std::string(247, '\0') + "ustar", "F: a tar archive, "},
      {std::string("\xff\xfe"
                   "1\0"
                   "0\0",
                   6),
       "F: UTF-16 text, "},
      {" {\"routes\": []}\n", "F: JSON, "},
      {"\xef\xbb\xbf{}", "F: JSON, "},
      {"[\n {\"dst\": \"10.0.0.0/8\"}\n]\n", "F: JSON, "},
      {"<!DOCTYPE html><p>404</p>", "F: HTML or XML, "},
      {"SQLite format 3", "F: an SQLite database, "},
  };
  for (const auto& [file, says] : cases) {
    for (const auto compress : {Plain, Gzip, Bzip2}) {
      const Reading reading = ReadAny(compress(file));
      EXPECT_TRUE(absl::IsInvalidArgument(reading.status)) << reading.status;
      EXPECT_THAT(std::string(reading.status.message()), StartsWith(says));
    }
  }
}

TEST(ReadRoutes, RefusesUnknownFormats) {
  for (const std::string& file :
       {std::string("no routes\n"), Gzip("host,port\n"),
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
  if (absl::IsFailedPrecondition(reading.status) ||
      absl::StrContains(reading.status.message(), "F: no route")) {
    // Cut before the first route.
    EXPECT_THAT(reading.routes, IsEmpty());
    return;
  }
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
    EXPECT_EQ(reading.report.malformed, 0u);
  }
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
      // The first byte of bzip2 alone is a text, the letter B.
      for (size_t cut = 2; cut < one.size(); ++cut) {
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
  const Reading reading = ReadAny(WriteTable(table), kAllowEmpty);
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
  const absl::Status status = ReadAny(TableFileOf({}, 3)).status;
  EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("F: a table file of format version"));
}

}  // namespace
}  // namespace planb
