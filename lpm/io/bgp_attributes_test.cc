#include "lpm/io/bgp_attributes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "lpm/io/testing/bytes.h"

namespace planb {
namespace {

using ::planb::testing::AsPath;
using ::planb::testing::Attribute;
using ::planb::testing::MpReach;
using ::planb::testing::NextHop4;
using ::planb::testing::Origin;
using ::planb::testing::Packed;
using ::planb::testing::U16;
using ::planb::testing::U32;
using ::planb::testing::U8;
using ::testing::HasSubstr;

constexpr uint8_t kAsPathType = 2;
constexpr uint8_t kNextHopType = 3;
constexpr uint8_t kMpReachType = 14;

BgpPath Parse(const std::string& attributes, Family family) {
  absl::StatusOr<BgpPath> path = ParseBgpPath(attributes, family);
  EXPECT_TRUE(path.ok()) << path.status();
  return path.value_or(BgpPath{});
}

void ExpectMalformed(const std::string& attributes, Family family,
                     const std::string& message) {
  const absl::Status status = ParseBgpPath(attributes, family).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr(message));
}

TEST(ParseBgpPath, ReadsAnIpv4Path) {
  const BgpPath path =
      Parse(Origin(1) + AsPath({64500, 4200000000}) + NextHop4("192.0.2.1"),
            Family::kIpv4);
  EXPECT_EQ(path.next_hop.ToString(), "192.0.2.1");
  EXPECT_EQ(path.as_path_length, 2u);
  EXPECT_EQ(path.origin, BgpOrigin::kEgp);
}

TEST(ParseBgpPath, ReadsAnIpv6Path) {
  const BgpPath path = Parse(
      Origin(0) + AsPath({64500}) + MpReach("2001:db8::1"), Family::kIpv6);
  EXPECT_EQ(path.next_hop.ToString(), "2001:db8::1");
  EXPECT_EQ(path.as_path_length, 1u);
  EXPECT_EQ(path.origin, BgpOrigin::kIgp);
}

TEST(ParseBgpPath, NeedsNothingButANextHop) {
  const BgpPath path = Parse(MpReach("2001:db8::1"), Family::kIpv6);
  EXPECT_EQ(path.as_path_length, 0u);
  EXPECT_EQ(path.origin, BgpOrigin::kIncomplete);
  ExpectMalformed("", Family::kIpv4, "no next hop");
  ExpectMalformed(Origin(0) + AsPath({1}), Family::kIpv6, "no next hop");
  // NEXT_HOP says nothing about IPv6.
  ExpectMalformed(NextHop4("192.0.2.1"), Family::kIpv6, "no next hop");
}

TEST(ParseBgpPath, PassesOverOtherAttributesAndRepetitions) {
  const BgpPath path =
      Parse(Attribute(8, std::string(300, 'c')) + Origin(0) + Origin(2) +
                AsPath({1, 2, 3}) + AsPath({1}) + NextHop4("192.0.2.1") +
                NextHop4("192.0.2.2") + Attribute(255, "") +
                Attribute(4, U32(100), /*extended=*/true),
            Family::kIpv4);
  EXPECT_EQ(path.next_hop.ToString(), "192.0.2.1");
  EXPECT_EQ(path.as_path_length, 3u);
  EXPECT_EQ(path.origin, BgpOrigin::kIgp);
}

TEST(ParseBgpPath, TakesTheGlobalOfTwoNextHops) {
  const std::string value =
      absl::StrCat(U8(32), Packed("2001:db8::1"), Packed("fe80::1"));
  EXPECT_EQ(Parse(Attribute(kMpReachType, value), Family::kIpv6).next_hop,
            *Address::Parse("2001:db8::1"));
}

TEST(ParseBgpPath, ReadsMpReachInFull) {
  const std::string next_hop = absl::StrCat(U8(16), Packed("2001:db8::1"));
  const std::string two =
      absl::StrCat(U8(32), Packed("2001:db8::1"), Packed("fe80::1"));
  const std::string nlri = absl::StrCat(U8(0), U8(32), U32(0x20010db8));
  for (const std::string& hops : {next_hop, two}) {
    for (const std::string& rest : {std::string(), U8(0), nlri}) {
      const std::string value = absl::StrCat(U16(2), U8(1), hops, rest);
      EXPECT_EQ(Parse(Attribute(kMpReachType, value), Family::kIpv6).next_hop,
                *Address::Parse("2001:db8::1"));
    }
  }
  const std::string ipv4 =
      absl::StrCat(U16(1), U8(1), U8(4), Packed("192.0.2.1"), U8(0));
  EXPECT_EQ(Parse(Attribute(kMpReachType, ipv4), Family::kIpv4).next_hop,
            *Address::Parse("192.0.2.1"));
}

TEST(ParseBgpPath, Ipv4PrefersNextHopButTakesAnIpv6One) {
  EXPECT_EQ(Parse(MpReach("2001:db8::1"), Family::kIpv4).next_hop,
            *Address::Parse("2001:db8::1"));
  EXPECT_EQ(Parse(MpReach("2001:db8::1") + NextHop4("192.0.2.1"), Family::kIpv4)
                .next_hop,
            *Address::Parse("192.0.2.1"));
}

TEST(ParseBgpPath, CountsSegmentsAsBgpDoes) {
  const std::string sequence =
      absl::StrCat(U8(2), U8(3), U32(1), U32(2), U32(3));
  const std::string set = absl::StrCat(U8(1), U8(2), U32(4), U32(5));
  const std::string confed = absl::StrCat(U8(3), U8(1), U32(6));
  const std::string confed_set = absl::StrCat(U8(4), U8(1), U32(7));
  const std::string empty = absl::StrCat(U8(2), U8(0));
  const auto length = [](absl::string_view value) {
    return Parse(Attribute(kAsPathType, value) + NextHop4("192.0.2.1"),
                 Family::kIpv4)
        .as_path_length;
  };
  EXPECT_EQ(length(""), 0u);
  EXPECT_EQ(length(sequence), 3u);
  EXPECT_EQ(length(set), 1u);
  EXPECT_EQ(length(confed), 0u);
  EXPECT_EQ(length(confed_set), 0u);
  EXPECT_EQ(length(empty), 0u);
  EXPECT_EQ(length(confed + sequence + set + sequence), 7u);
}

TEST(ParseBgpPath, SaysWhatIsWrong) {
  const std::string hop = NextHop4("192.0.2.1");
  const auto as_path = [&](absl::string_view value) {
    return Attribute(kAsPathType, value) + hop;
  };
  ExpectMalformed(Attribute(1, "") + hop, Family::kIpv4, "ORIGIN");
  ExpectMalformed(Attribute(1, U16(0)) + hop, Family::kIpv4, "ORIGIN");
  ExpectMalformed(Origin(3) + hop, Family::kIpv4, "ORIGIN");
  ExpectMalformed(Origin(255) + hop, Family::kIpv4, "ORIGIN");
  ExpectMalformed(as_path(U8(2)), Family::kIpv4, "ends inside");
  ExpectMalformed(as_path(absl::StrCat(U8(2), U8(1), U16(1))), Family::kIpv4,
                  "ends inside");
  ExpectMalformed(as_path(absl::StrCat(U8(0), U8(0))), Family::kIpv4,
                  "unknown type 0");
  ExpectMalformed(as_path(absl::StrCat(U8(5), U8(1), U32(1))), Family::kIpv4,
                  "unknown type 5");
  ExpectMalformed(Attribute(kNextHopType, "abc"), Family::kIpv4, "NEXT_HOP");
  ExpectMalformed(Attribute(kNextHopType, Packed("::1")), Family::kIpv4,
                  "NEXT_HOP");
}

TEST(ParseBgpPath, SaysWhatIsWrongWithMpReach) {
  const auto expect = [](absl::string_view value, const std::string& message) {
    ExpectMalformed(Attribute(kMpReachType, value), Family::kIpv6, message);
  };
  const std::string address = Packed("2001:db8::1");
  expect("", "ends inside");
  expect(U8(16), "ends inside");
  expect(absl::StrCat(U8(16), address.substr(1)), "ends inside");
  expect(absl::StrCat(U8(16), address, "x"), "goes on");
  expect(absl::StrCat(U8(24), address, "12345678"), "24 octets");
  expect(absl::StrCat(U8(15), address.substr(1)), "15 octets");
  expect(U8(0), "too short");
  expect(U16(2), "too short");
  expect(absl::StrCat(U16(2), U8(1)), "ends inside");
  expect(absl::StrCat(U16(2), U8(1), U8(0), U8(0)), "0 octets");
  expect(absl::StrCat(U16(1), U8(1), U8(16), address), "1/1, not IPv6");
  expect(absl::StrCat(U16(2), U8(2), U8(16), address), "2/2, not IPv6");
  expect(absl::StrCat(U16(2), U8(1), U8(16), address.substr(1)), "ends inside");
}

TEST(ParseBgpPath, AListCutAnywhereIsMalformed) {
  const std::string attributes = MpReach("2001:db8::1") + Origin(0) +
                                 AsPath({1}) +
                                 Attribute(8, U32(1), /*extended=*/true);
  size_t good = 0;
  for (size_t cut = 0; cut <= attributes.size(); ++cut) {
    if (ParseBgpPath(attributes.substr(0, cut), Family::kIpv6).ok()) ++good;
  }
  // Only where an attribute ends.
  EXPECT_EQ(good, 4u);
}

}  // namespace
}  // namespace planb
