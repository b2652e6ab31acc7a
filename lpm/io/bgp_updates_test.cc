#include "lpm/io/bgp_updates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "lpm/io/testing/bgp_bytes.h"
#include "lpm/io/testing/bytes.h"
#include "lpm/io/testing/update_read.h"

namespace planb {
namespace {

using ::planb::testing::Announce6;
using ::planb::testing::BgpMessage;
using ::planb::testing::Bzip2;
using ::planb::testing::Gzip;
using ::planb::testing::Heard;
using ::planb::testing::HeardAt;
using ::planb::testing::kMessageAs4AddPath;
using ::planb::testing::kMessageAs4Local;
using ::planb::testing::kMessageLocalAddPath;
using ::planb::testing::kStateChangeAs4;
using ::planb::testing::Mrt;
using ::planb::testing::NextHop4;
using ::planb::testing::Nlri;
using ::planb::testing::ReadUpdates;
using ::planb::testing::SessionBody;
using ::planb::testing::U16;
using ::planb::testing::Update;
using ::planb::testing::UpdateReading;
using ::planb::testing::Withdraw6;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Announce4(absl::string_view nlri) {
  return Update("", NextHop4("192.0.2.9"), nlri);
}

// A file with something of everything, and what is in it.
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

std::string Plain(absl::string_view octets) { return std::string(octets); }

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

TEST(ReadBgpUpdates, CountsWhatItPassesOver) {
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

TEST(ReadBgpUpdates, SkipsWhatIsMalformedAndSaysWhere) {
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
              HasSubstr(absl::StrCat("F: at octet ", good.size())));
  EXPECT_EQ(strict.events.size(), 1u);
}

TEST(ReadBgpUpdates, CutAnywhereKeepsWhatCameBefore) {
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

TEST(ReadBgpUpdates, RefusesWhatIsNotMrt) {
  for (const std::string& file :
       {std::string("::/0 1\n"), std::string(100, '\0'), Gzip("<html>")}) {
    const UpdateReading reading = ReadUpdates(file);
    EXPECT_TRUE(absl::IsInvalidArgument(reading.status)) << reading.status;
    EXPECT_THAT(reading.status.message(), HasSubstr("F: not MRT"));
  }
  EXPECT_TRUE(ReadUpdates("", /*strict=*/true).status.ok());
}

TEST(ReadBgpUpdates, OpensFiles) {
  const std::string path = ::testing::TempDir() + "/updates.mrt";
  std::ofstream(path, std::ios::binary) << GoodFile();
  UpdateReading reading;
  const auto report = ReadBgpUpdates(path, {}, reading);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(reading.Lines(), ElementsAreArray(kGoodLines));
  EXPECT_TRUE(
      absl::IsNotFound(ReadBgpUpdates(path + ".none", {}, reading).status()));
}

TEST(ReadBgpUpdates, ReadsWhatBirdWrote) {
  UpdateReading reading;
  const auto report = ReadBgpUpdates("lpm/io/testdata/bird_updates.mrt",
                                     {.strict = true}, reading);
  ASSERT_TRUE(report.ok()) << report.status();
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

TEST(ReadBgpUpdates, StopsWhereTheSinkDoes) {
  Refusing sink;
  const auto report = ReadBgpUpdates("F", StringSource(GoodFile()), {}, sink);
  EXPECT_TRUE(absl::IsAborted(report.status()));
  EXPECT_EQ(sink.calls, 1);
}

}  // namespace
}  // namespace planb
