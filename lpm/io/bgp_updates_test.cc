// SPDX-License-Identifier: Apache-2.0

#include "lpm/io/bgp_updates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "lpm/io/testing/bytes.h"
#include "lpm/io/testing/read.h"

namespace planb {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

std::string Announce4(absl::string_view nlri) {
  return Update("", NextHop4("192.0.2.9"), nlri);
}

// A file with a record of each kind, and its lines.
std::string GoodFile() {
  return absl::StrCat(
      Heard("192.0.2.1", 64500, Announce4(Nlri("10.0.0.0/8"))),
      HeardAt(1785420001, 5, "::1", 64501,
              Update("", Announce6("::9", Nlri("2001:db8::/32")), "")),
      HeardAt(1785420001, 999999, "::1", 64501,
              Update(Nlri("10.0.0.0/8"), Withdraw6(Nlri("2001:db8::/32")), "")),
      Mrt(16, kMessageAs4Local,
          SessionBody("::1", 64501, Announce4(Nlri("10.1.0.0/16")))),
      Mrt(16, kMessageAs4AddPath,
          SessionBody("::1", 64501, Announce4(Nlri("10.2.0.0/16", 7)))),
      Mrt(16, kMessageLocalAddPath,
          SessionBody("::1", 64501, Update(Nlri("10.2.0.0/16", 8), "", ""),
                      /*narrow_as=*/true)));
}

constexpr const char* kGoodLines[] = {
    "1785420000.000000 AS64500 192.0.2.1 A 10.0.0.0/8 192.0.2.9",
    "1785420001.000005 AS64501 ::1 A 2001:db8::/32 ::9",
    "1785420001.999999 AS64501 ::1 W 10.0.0.0/8",
    "1785420001.999999 AS64501 ::1 W 2001:db8::/32",
    "1785420000.000000 AS64501 ::1 A 10.1.0.0/16 192.0.2.9 local",
    "1785420000.000000 AS64501 ::1 A 10.2.0.0/16 192.0.2.9 #7",
    "1785420000.000000 AS64501 ::1 W 10.2.0.0/16 #8 local",
};

TEST(ReadBgpUpdates, ReadsUnderEveryCompression) {
  for (const auto compress : {Plain, Gzip, Bzip2}) {
    for (const size_t piece : {size_t{1}, SIZE_MAX}) {
      const UpdateReading reading =
          ReadUpdates(compress(GoodFile()), /*strict=*/true, piece);
      EXPECT_TRUE(reading.status.ok()) << reading.status;
      EXPECT_THAT(reading.Lines(), ElementsAreArray(kGoodLines));
      EXPECT_EQ(reading.report.updates, 6u);
      EXPECT_EQ(reading.report.announced, 4u);
      EXPECT_EQ(reading.report.withdrawn, 3u);
      EXPECT_EQ(reading.report.state_changes, 0u);
      EXPECT_EQ(reading.report.malformed, 0u);
      EXPECT_EQ(reading.report.ignored, 0u);
      EXPECT_FALSE(reading.report.truncated);
    }
  }
}

TEST(ReadBgpUpdates, CountsSkippedRecords) {
  const UpdateReading reading = ReadUpdates(
      absl::StrCat(
          Heard("::1", 1, BgpMessage(4, "")),        // KEEPALIVE
          Heard("::1", 1, Update("", "", "")),       // end of a RIB
          Mrt(16, 3, "deprecated"), Mrt(13, 1, ""),  // others
          Mrt(16, kStateChangeAs4, SessionBody("::1", 1, U16(6) + U16(1))),
          Heard("::1", 1, Announce4(Nlri("10.0.0.0/8")))),
      /*strict=*/true);
  EXPECT_TRUE(reading.status.ok()) << reading.status;
  EXPECT_EQ(reading.report.ignored, 4u);
  EXPECT_EQ(reading.report.state_changes, 1u);
  EXPECT_EQ(reading.report.updates, 1u);
}

TEST(ReadBgpUpdates, SkipsMalformedRecordsAndReportsTheirPlace) {
  const std::string good = Heard("::1", 1, Announce4(Nlri("10.0.0.0/8")));
  const std::string bad = Heard("::1", 1, Announce4("\x21"));
  const std::string file =
      absl::StrCat(good, bad, Mrt(16, 4, "short"), Mrt(99, 0, "x"), good);
  const UpdateReading reading = ReadUpdates(file);
  EXPECT_TRUE(reading.status.ok()) << reading.status;
  EXPECT_EQ(reading.report.updates, 2u);
  EXPECT_EQ(reading.report.malformed, 3u);
  ASSERT_EQ(reading.report.problems.size(), 3u);
  EXPECT_EQ(reading.report.problems[0].offset, good.size());
  EXPECT_THAT(reading.report.problems[0].message,
              HasSubstr("from AS1 peer ::1: the list of routes has an IPv4"));
  EXPECT_EQ(reading.report.problems[1].offset, good.size() + bad.size());
  const UpdateReading strict = ReadUpdates(file, /*strict=*/true);
  EXPECT_TRUE(absl::IsDataLoss(strict.status)) << strict.status;
  EXPECT_THAT(strict.status.message(),
              HasSubstr(absl::StrCat("F: at byte ", good.size())));
  EXPECT_EQ(strict.events.size(), 1u);
}

TEST(ReadBgpUpdates, CutAnywhereKeepsAllBeforeTheCut) {
  const std::string file = GoodFile();
  const std::vector<std::string> whole = ReadUpdates(file).Lines();
  size_t clean = 0;
  for (size_t cut = 0; cut < file.size(); ++cut) {
    const UpdateReading reading = ReadUpdates(file.substr(0, cut));
    if (cut > 0 && cut < 6) {  // too little to know it by
      EXPECT_TRUE(absl::IsInvalidArgument(reading.status)) << reading.status;
      continue;
    }
    EXPECT_TRUE(reading.status.ok()) << reading.status;
    const std::vector<std::string> lines = reading.Lines();
    ASSERT_LT(lines.size(), whole.size());
    EXPECT_TRUE(std::equal(lines.begin(), lines.end(), whole.begin()));
    EXPECT_EQ(reading.report.malformed, 0u);
    clean += !reading.report.truncated;
    EXPECT_EQ(ReadUpdates(file.substr(0, cut), /*strict=*/true).status.ok(),
              !reading.report.truncated);
  }
  EXPECT_EQ(clean, 6u);  // empty, and between two records
  const std::string zipped = Gzip(file);
  for (size_t cut = 30; cut < zipped.size(); ++cut) {
    EXPECT_TRUE(ReadUpdates(zipped.substr(0, cut)).report.truncated) << cut;
  }
}

TEST(ReadBgpUpdates, RefusesOtherFormats) {
  for (const std::string& file :
       {std::string(100, '\0'), Gzip("no updates"), Bzip2("BGP4MP")}) {
    const UpdateReading reading = ReadUpdates(file);
    EXPECT_TRUE(absl::IsInvalidArgument(reading.status)) << reading.status;
    EXPECT_THAT(reading.status.message(), HasSubstr("F: not MRT"));
  }
  EXPECT_TRUE(ReadUpdates("", /*strict=*/true).status.ok());
  for (const auto& [file, says] :
       std::vector<std::pair<std::string, const char*>>{
           {"::/0 1\n", "F: a table: try planbctl load; "},
           {WriteTable({}), "F: a table: try planbctl load; "},
           {"<html>", "F: HTML or XML; "},
           {"\x04\x22\x4d\x18", "F: lz4; "}}) {
    const UpdateReading reading = ReadUpdates(Gzip(file));
    EXPECT_TRUE(absl::IsInvalidArgument(reading.status)) << reading.status;
    EXPECT_THAT(std::string(reading.status.message()), StartsWith(says));
  }
}

TEST(ReadBgpUpdates, RefusesAFileOfOtherRecords) {
  for (const auto& [file, says] :
       std::vector<std::pair<std::string, const char*>>{
           {TableDump(kPeerIndexTable, PeerTableBody({})) +
                TableDump(kRibIpv6Unicast, RibBody("::/0", {})),
            "F: a table dump: try planbctl load; no BGP4MP record: 2 records "
            "ignored (2 TABLE_DUMP_V2)"},
           {Mrt(12, 1, "x") + "cut",
            "F: a table dump: try planbctl load; no BGP4MP record: 1 records "
            "ignored (1 TABLE_DUMP), the file breaks off"},
           {Mrt(11, 0, "x"),
            "F: no BGP4MP record: 1 records ignored (1 OSPFv2)"}}) {
    const UpdateReading reading = ReadUpdates(file);
    EXPECT_TRUE(absl::IsInvalidArgument(reading.status)) << reading.status;
    EXPECT_EQ(reading.status.message(), says);
    // A quiet session is no other kind of file.
    EXPECT_TRUE(
        ReadUpdates(Heard("::1", 1, BgpMessage(4, "")) + file).status.ok());
  }
}

TEST(ReadBgpUpdates, ReadsAFileOfBird) {
  UpdateReading reading;
  const auto report = ReadBgpUpdates("lpm/io/testdata/bird_updates.mrt",
                                     {.strict = true}, reading);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(absl::IsNotFound(ReadBgpUpdates("none", {}, reading).status()));
  std::vector<std::string> lines;
  for (const std::string& line : reading.Lines()) {
    // The time changes from run to run of the script.
    lines.push_back(line.substr(line.find(' ') + 1));
  }
  EXPECT_THAT(lines, ElementsAreArray({
                         "AS64500 ::1 A 192.0.2.0/25 198.51.100.1",
                         "AS64500 ::1 A 10.0.0.0/8 198.51.100.1",
                         "AS64500 ::1 A 203.0.113.7/32 2001:db8:ffff::4",
                         "AS64500 ::1 A ::/0 2001:db8:ffff::1",
                         "AS64500 ::1 A 2001:db8::/32 2001:db8:ffff::1",
                         "AS64500 ::1 A 2001:db8:1:2::/63 2001:db8:ffff::2",
                         "AS64500 ::1 W 192.0.2.0/25",
                         "AS64500 ::1 W 203.0.113.7/32",
                         "AS64500 ::1 A 10.0.0.0/8 198.51.100.2",
                         "AS64500 ::1 W 2001:db8::/32",
                         "AS64500 ::1 W 2001:db8:1:2::/63",
                         "AS64500 ::1 A 2001:db8:1:2::7/128 2001:db8:ffff::2",
                     }));
  EXPECT_EQ(report->state_changes, 5u);
  EXPECT_EQ(report->announced, 8u);
  EXPECT_EQ(report->withdrawn, 4u);
  EXPECT_GT(report->ignored, 0u);  // OPEN, KEEPALIVE, the ends of the RIBs
}

struct Refusing : UpdateSink {
  absl::Status OnUpdate(const UpdateEvent&) override {
    ++calls;
    return absl::AbortedError("enough");
  }
  int calls = 0;
};

TEST(ReadBgpUpdates, StopsAtAnErrorOfTheSink) {
  Refusing sink;
  const auto report = ReadBgpUpdates("F", StringSource(GoodFile()), {}, sink);
  EXPECT_TRUE(absl::IsAborted(report.status()));
  EXPECT_EQ(sink.calls, 1);
}

// bgpdump's lines of updates, in the form of UpdateReading::Lines():
//   BGP4MP|TIME|A|PEER|AS|PREFIX|AS PATH|ORIGIN|NEXT HOP|...
//   BGP4MP_ET|TIME|W|PEER|AS|PREFIX
std::vector<std::string> LinesOf(
    const std::vector<std::vector<std::string>>& dump) {
  std::vector<std::string> lines;
  for (const std::vector<std::string>& fields : dump) {
    if (fields.size() < 6 || (fields[2] != "A" && fields[2] != "W")) continue;
    const std::pair<std::string, std::string> time =
        absl::StrSplit(fields[1], absl::MaxSplits('.', 1));
    uint64_t micros = 0;
    EXPECT_TRUE(time.second.empty() || absl::SimpleAtoi(time.second, &micros));
    lines.push_back(absl::StrFormat(
        "%s.%06d AS%s %s %s %s%s", time.first, micros, fields[4], fields[3],
        fields[2], fields[5], fields[2] == "A" ? " " + fields[8] : ""));
  }
  return lines;
}

// bgpdump orders the prefixes of an update differently; their order has no
// meaning.
std::vector<std::string> Sorted(std::vector<std::string> lines) {
  std::sort(lines.begin(), lines.end());
  return lines;
}

// Messages of both families and types, the same ones in every run. None is
// taken for one with path identifiers: no prefix is shorter than /8.
class Messages {
 public:
  std::string Next() {
    const std::string peer = Below(2) == 0 ? Address4() : Address6();
    const uint32_t as_number = 1 + Below(65000);
    std::string attributes;
    std::string withdrawn, nlri;
    const bool has6 = Below(3) > 0;
    if (has6) {
      if (Below(2) == 0) attributes += Withdraw6(List6());
      attributes += Announce6(Address6(), List6());
    } else {
      withdrawn = List4();
      nlri = List4();
    }
    attributes += Origin(0) + AsPath({as_number, 64999});
    if (!has6) attributes += NextHop4(Address4());
    const std::string update = Update(withdrawn, attributes, nlri);
    switch (Below(3)) {
      case 0:
        return Heard(peer, as_number, update);
      case 1:
        return HeardAt(1785420000 + Below(1000), Below(1000000), peer,
                       as_number, update);
      default:
        return Mrt(16, kMessage,
                   SessionBody(peer, as_number, Update(List4(), "", ""),
                               /*narrow_as=*/true));
    }
  }

 private:
  uint32_t Below(uint32_t bound) {
    return static_cast<uint32_t>(random_() % bound);
  }
  std::string Address4() {
    return absl::StrCat("10.", Below(256), ".", Below(256), ".", 1 + Below(9));
  }
  std::string Address6() {
    return absl::StrFormat("2001:db8:%x::%x", 1 + Below(9999), 1 + Below(9999));
  }
  std::string List4() {
    std::string list;
    for (uint32_t i = 1 + Below(4); i > 0; --i) {
      list += Nlri(Prefix::Truncate(*Address::Parse(Address4()),
                                    static_cast<int>(8 + Below(25)))
                       .ToString());
    }
    return list;
  }
  std::string List6() {
    std::string list;
    for (uint32_t i = 1 + Below(4); i > 0; --i) {
      list += Nlri(Prefix::Truncate(*Address::Parse(Address6()),
                                    static_cast<int>(8 + Below(121)))
                       .ToString());
    }
    return list;
  }

  std::mt19937_64 random_{4};
};

// bgpdump shows neither path identifiers nor the sender.
void ExpectLikeBgpdump(const std::string& path, const UpdateReading& reading) {
  const auto dump = Bgpdump(path);
  if (!dump) GTEST_SKIP() << "bgpdump is not installed";
  EXPECT_EQ(Sorted(LinesOf(*dump)), Sorted(reading.Lines()));
}

TEST(Bgpdump, AgreesOnRandomUpdates) {
  Messages messages;
  std::string file;
  for (int i = 0; i < 500; ++i) file += messages.Next();
  const std::string path = ::testing::TempDir() + "/random_updates.mrt";
  std::ofstream(path, std::ios::binary) << file;
  const UpdateReading reading = ReadUpdates(file, /*strict=*/true);
  ASSERT_TRUE(reading.status.ok()) << reading.status;
  EXPECT_GT(reading.report.announced, 500u);
  EXPECT_GT(reading.report.withdrawn, 500u);
  ExpectLikeBgpdump(path, reading);
}

TEST(Bgpdump, AgreesOnAFileOfBird) {
  const std::string path = "lpm/io/testdata/bird_updates.mrt";
  UpdateReading reading;
  ASSERT_TRUE(ReadBgpUpdates(path, {.strict = true}, reading).ok());
  ExpectLikeBgpdump(path, reading);
}

// Needs files of recorded updates beside the real tables.
TEST(Bgpdump, AgreesOnRecordedUpdates) {
  const char* const folder = std::getenv("PLANB_DATA_DIR");
  int files = 0;
  std::error_code none;
  for (const auto& file : std::filesystem::directory_iterator(
           folder != nullptr ? folder : "../shared/data", none)) {
    const std::string path = file.path();
    if (!absl::StrContains(path, "updates")) continue;
    SCOPED_TRACE(path);
    ++files;
    UpdateReading reading;
    const auto report = ReadBgpUpdates(path, {}, reading);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->malformed, 0u);
    EXPECT_GT(report->updates, 0u);
    ExpectLikeBgpdump(path, reading);
  }
  if (files == 0) GTEST_SKIP() << "no *updates* file in PLANB_DATA_DIR";
}

}  // namespace
}  // namespace planb
