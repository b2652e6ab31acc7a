#include "lpm/io/rib_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "lpm/io/testing/bytes.h"

namespace planb {
namespace {

using ::planb::testing::Entry;
using ::planb::testing::RibBody;
using ::planb::testing::U16;
using ::planb::testing::U32;
using ::planb::testing::U8;
using ::testing::HasSubstr;

TEST(ParseRibRecord, ReadsPrefixesOfEveryLength) {
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    const Address ones = Address::FromBits(
        family, absl::Uint128Max() << (128 - AddressBits(family)));
    for (int length = 0; length <= AddressBits(family); ++length) {
      // All host bits set that the octets have room for: to be cleared.
      const std::string body = RibBody(
          absl::StrCat(ones.ToString(), "/", length), {Entry(3, "abc")});
      absl::StatusOr<RibRecord> record =
          ParseRibRecord(body, family, /*additional_paths=*/false);
      ASSERT_TRUE(record.ok()) << record.status();
      EXPECT_EQ(record->prefix, Prefix::Truncate(ones, length));
      ASSERT_EQ(record->entries.size(), 1u);
      EXPECT_EQ(record->entries[0].peer, 3);
      EXPECT_EQ(record->entries[0].attributes, "abc");
    }
  }
}

TEST(ParseRibRecord, ReadsEntriesInOrder) {
  for (const bool additional_paths : {false, true}) {
    const int64_t id = additional_paths ? 77 : -1;
    const std::string body =
        RibBody("2001:db8::/32", {Entry(65535, "first", id), Entry(0, "", id),
                                  Entry(7, std::string(65535, 'x'), id)});
    absl::StatusOr<RibRecord> record =
        ParseRibRecord(body, Family::kIpv6, additional_paths);
    ASSERT_TRUE(record.ok()) << record.status();
    EXPECT_EQ(record->prefix.ToString(), "2001:db8::/32");
    ASSERT_EQ(record->entries.size(), 3u);
    EXPECT_EQ(record->entries[0].peer, 65535);
    EXPECT_EQ(record->entries[0].attributes, "first");
    EXPECT_EQ(record->entries[1].attributes, "");
    EXPECT_EQ(record->entries[2].attributes.size(), 65535u);
    // The other form does not fit by chance.
    EXPECT_FALSE(ParseRibRecord(body, Family::kIpv6, !additional_paths).ok());
  }
}

TEST(ParseRibRecord, CutAnywhereIsMalformed) {
  const std::string body =
      RibBody("2001:db8::/32", {Entry(1, "first"), Entry(2, "second")});
  for (size_t cut = 0; cut < body.size(); ++cut) {
    const absl::Status status =
        ParseRibRecord(body.substr(0, cut), Family::kIpv6, false).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << cut;
    EXPECT_THAT(status.message(), HasSubstr("ends"));
  }
}

TEST(ParseRibRecord, SaysWhatIsWrong) {
  const auto message = [](const std::string& body, Family family) {
    const absl::Status status = ParseRibRecord(body, family, false).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(message(absl::StrCat(U32(1), U8(33), U32(0), U8(0), U16(0)),
                      Family::kIpv4),
              HasSubstr("IPv4 prefix of length 33"));
  EXPECT_THAT(
      message(absl::StrCat(U32(1), U8(129), std::string(17, 'x'), U16(0)),
              Family::kIpv6),
      HasSubstr("IPv6 prefix of length 129"));
  EXPECT_THAT(message(absl::StrCat(U32(1), U8(0), U16(65535)), Family::kIpv6),
              HasSubstr("::/0 ends inside entry 0 of 65535"));
  EXPECT_THAT(message(RibBody("::/0", {Entry(1, "x")}) + "!", Family::kIpv6),
              HasSubstr("::/0 goes on for 1 octets"));
}

}  // namespace
}  // namespace planb
