#include "lpm/io/mrt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lpm/io/testing/bytes.h"
#include "lpm/io/testing/read.h"

namespace planb {
namespace {

using ::planb::testing::Mrt;
using ::planb::testing::Reading;
using ::planb::testing::ReadWith;
using ::planb::testing::U16;
using ::planb::testing::U32;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Reads all records; each becomes "offset type/subtype body" in `*records`.
Reading ReadRecords(std::string octets, std::vector<std::string>* records,
                    bool strict = false, size_t piece = SIZE_MAX) {
  records->clear();
  return ReadWith(
      [&](ByteReader& in, RouteOutput& out) {
        MrtReader reader(in, out);
        for (;;) {
          MrtRecord record;
          absl::StatusOr<bool> more = reader.Next(&record);
          if (!more.ok() || !*more) return more.status();
          records->push_back(absl::StrCat(record.place.offset, " ", record.type,
                                          "/", record.subtype, " ",
                                          record.body));
        }
      },
      std::move(octets), strict, piece);
}

TEST(MrtReader, ReadsRecordsOfEveryKnownType) {
  const std::string octets = Mrt(11, 0, "a") + Mrt(12, 1, "bc") +
                             Mrt(13, 2, "") + Mrt(16, 4, "d") + Mrt(17, 4, "") +
                             Mrt(32, 0, "") + Mrt(33, 0, "") + Mrt(48, 0, "") +
                             Mrt(49, 65535, "e");
  std::vector<std::string> records;
  for (const size_t piece : {size_t{1}, size_t{13}, SIZE_MAX}) {
    const Reading reading =
        ReadRecords(octets, &records, /*strict=*/true, piece);
    EXPECT_TRUE(reading.status.ok()) << reading.status;
    EXPECT_THAT(records, ElementsAre("0 11/0 a", "13 12/1 bc", "27 13/2 ",
                                     "39 16/4 d", "52 17/4 ", "64 32/0 ",
                                     "76 33/0 ", "88 48/0 ", "100 49/65535 e"));
    EXPECT_FALSE(reading.report.truncated);
  }
}

TEST(MrtReader, PassesOverUnknownTypes) {
  const std::string octets =
      Mrt(13, 1, "a") + Mrt(14, 1, "b") + Mrt(0x4141, 1, "") + Mrt(13, 2, "c");
  std::vector<std::string> records;
  const Reading reading = ReadRecords(octets, &records);
  EXPECT_TRUE(reading.status.ok()) << reading.status;
  EXPECT_THAT(records, ElementsAre("0 13/1 a", "38 13/2 c"));
  EXPECT_EQ(reading.report.malformed, 2u);
  ASSERT_EQ(reading.report.problems.size(), 2u);
  EXPECT_EQ(reading.report.problems[0].offset, 13u);
  EXPECT_EQ(reading.report.problems[0].line, 0u);
  EXPECT_THAT(reading.report.problems[0].message, HasSubstr("14"));
  EXPECT_EQ(reading.report.problems[1].offset, 26u);

  const Reading strict = ReadRecords(octets, &records, /*strict=*/true);
  EXPECT_TRUE(absl::IsDataLoss(strict.status)) << strict.status;
  EXPECT_THAT(strict.status.message(), HasSubstr("at octet 13"));
  EXPECT_THAT(records, ElementsAre("0 13/1 a"));
}

TEST(MrtReader, BoundsARecord) {
  const std::string longest(kMaxMrtRecord, 'x');
  std::vector<std::string> records;
  Reading reading =
      ReadRecords(Mrt(13, 2, longest) + Mrt(13, 3, "a"), &records);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0], "0 13/2 " + longest);
  EXPECT_EQ(reading.report.malformed, 0u);

  reading = ReadRecords(Mrt(13, 2, longest + "x") + Mrt(13, 3, "a"), &records);
  EXPECT_THAT(records,
              ElementsAre(absl::StrCat(kMaxMrtRecord + 13, " 13/3 a")));
  EXPECT_EQ(reading.report.malformed, 1u);
  EXPECT_FALSE(reading.report.truncated);
  EXPECT_THAT(reading.report.problems[0].message, HasSubstr("16777217"));
}

TEST(MrtReader, AWildLengthSwallowsTheRest) {
  const std::string wild =
      absl::StrCat(U32(0), U16(13), U16(2), U32(0xffffffff));
  std::vector<std::string> records;
  const Reading reading =
      ReadRecords(Mrt(13, 1, "a") + wild + Mrt(13, 1, "b"), &records);
  EXPECT_TRUE(reading.status.ok()) << reading.status;
  EXPECT_THAT(records, ElementsAre("0 13/1 a"));
  EXPECT_EQ(reading.report.malformed, 1u);
  EXPECT_TRUE(reading.report.truncated);
  ASSERT_EQ(reading.report.problems.size(), 2u);
  EXPECT_EQ(reading.report.problems[0].offset, 13u);
  EXPECT_EQ(reading.report.problems[1].offset, 13u);
}

TEST(MrtReader, CutAnywhereKeepsTheRecordsBefore) {
  const std::string octets = Mrt(13, 1, "abc") + Mrt(13, 2, "defgh");
  std::vector<std::string> records;
  for (size_t cut = 0; cut <= octets.size(); ++cut) {
    const Reading reading = ReadRecords(octets.substr(0, cut), &records);
    EXPECT_TRUE(reading.status.ok()) << reading.status;
    EXPECT_EQ(records.size(), (cut >= 15) + (cut >= octets.size() ? 1u : 0u));
    const bool whole = cut == 0 || cut == 15 || cut == octets.size();
    EXPECT_EQ(reading.report.truncated, !whole) << cut;
    EXPECT_EQ(reading.report.malformed, 0u);
    if (whole) {
      EXPECT_THAT(reading.report.problems, IsEmpty());
    } else {
      ASSERT_EQ(reading.report.problems.size(), 1u);
      EXPECT_EQ(reading.report.problems[0].offset, cut < 15 ? 0u : 15u);
      EXPECT_THAT(reading.report.problems[0].message, HasSubstr("ends"));
    }
    const Reading strict =
        ReadRecords(octets.substr(0, cut), &records, /*strict=*/true);
    EXPECT_EQ(strict.status.ok(), whole) << cut;
  }
}

TEST(StartsLikeMrt, TellsFromSixOctets) {
  const std::string record = Mrt(13, 1, "abc");
  for (size_t size = 0; size <= record.size(); ++size) {
    EXPECT_EQ(StartsLikeMrt(record.substr(0, size)), size >= 6) << size;
  }
  EXPECT_FALSE(StartsLikeMrt(Mrt(14, 1, "abc")));
  EXPECT_FALSE(StartsLikeMrt("2001:db8::/32 1\n"));
  EXPECT_FALSE(StartsLikeMrt(
      absl::StrCat(U32(0), U16(13), U16(1), U32(kMaxMrtRecord + 1))));
}

}  // namespace
}  // namespace planb
