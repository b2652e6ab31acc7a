#include "lpm/io/bgp_update.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "lpm/io/testing/bgp_bytes.h"
#include "lpm/io/testing/bytes.h"

namespace planb {
namespace {

using ::planb::testing::Announce6;
using ::planb::testing::AsPath;
using ::planb::testing::Attribute;
using ::planb::testing::BgpMessage;
using ::planb::testing::MpReachOf;
using ::planb::testing::MpUnreachOf;
using ::planb::testing::NextHop4;
using ::planb::testing::Nlri;
using ::planb::testing::Origin;
using ::planb::testing::Packed;
using ::planb::testing::U16;
using ::planb::testing::U8;
using ::planb::testing::Update;
using ::planb::testing::Withdraw6;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

BgpUpdate Parse(const std::string& message, bool additional_paths = false) {
  absl::StatusOr<BgpUpdate> update = ParseBgpMessage(message, additional_paths);
  EXPECT_TRUE(update.ok()) << update.status();
  return update.ok() ? *update : BgpUpdate{};
}

void ExpectMalformed(const std::string& message, const std::string& why) {
  const absl::Status status = ParseBgpMessage(message, false).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr(why));
}

NlriPrefix Of(absl::string_view prefix, uint32_t path_id = 0) {
  return {*Prefix::Parse(prefix), path_id};
}
BgpAnnounce To(absl::string_view prefix, absl::string_view gateway,
               uint32_t path_id = 0) {
  return {Of(prefix, path_id), *Address::Parse(gateway)};
}

TEST(ParseBgpMessage, ReadsIpv4) {
  const BgpUpdate update =
      Parse(Update(Nlri("10.0.0.0/8") + Nlri("0.0.0.0/0"),
                   Origin(0) + AsPath({64500}) + NextHop4("192.0.2.1"),
                   Nlri("192.0.2.0/24") + Nlri("198.51.100.7/32")));
  EXPECT_THAT(update.withdraws, ElementsAre(Of("10.0.0.0/8"), Of("0.0.0.0/0")));
  EXPECT_THAT(update.announces,
              ElementsAre(To("192.0.2.0/24", "192.0.2.1"),
                          To("198.51.100.7/32", "192.0.2.1")));
}

TEST(ParseBgpMessage, ReadsIpv6) {
  const BgpUpdate update = Parse(
      Update("",
             Withdraw6(Nlri("2001:db8:1::/48")) + Origin(0) +
                 Announce6("2001:db8::1", Nlri("2001:db8::/32") + Nlri("::/0")),
             ""));
  EXPECT_THAT(update.withdraws, ElementsAre(Of("2001:db8:1::/48")));
  EXPECT_THAT(update.announces, ElementsAre(To("2001:db8::/32", "2001:db8::1"),
                                            To("::/0", "2001:db8::1")));
}

TEST(ParseBgpMessage, ReadsBothFamiliesAtOnce) {
  const BgpUpdate update = Parse(Update(
      Nlri("10.0.0.0/8"),
      Announce6("2001:db8::1", Nlri("2001:db8::/32")) + NextHop4("192.0.2.1"),
      Nlri("192.0.2.0/24")));
  EXPECT_THAT(update.withdraws, ElementsAre(Of("10.0.0.0/8")));
  EXPECT_THAT(update.announces, ElementsAre(To("2001:db8::/32", "2001:db8::1"),
                                            To("192.0.2.0/24", "192.0.2.1")));
}

TEST(ParseBgpMessage, ReadsIpv4OfMultiprotocol) {
  // With a next hop of either family (RFC 8950), or a pair.
  const std::string pair = Packed("2001:db8::1") + Packed("fe80::1");
  for (const std::string& hop : {Packed("2001:db8::1"), pair}) {
    EXPECT_THAT(Parse(Update("", MpReachOf(1, 1, hop, Nlri("10.0.0.0/8")), ""))
                    .announces,
                ElementsAre(To("10.0.0.0/8", "2001:db8::1")));
  }
  const BgpUpdate update =
      Parse(Update("",
                   MpReachOf(1, 1, Packed("192.0.2.1"), Nlri("10.0.0.0/8")) +
                       MpUnreachOf(1, 1, Nlri("10.1.0.0/16")),
                   ""));
  EXPECT_THAT(update.announces, ElementsAre(To("10.0.0.0/8", "192.0.2.1")));
  EXPECT_THAT(update.withdraws, ElementsAre(Of("10.1.0.0/16")));
}

TEST(ParseBgpMessage, ReadsPathIdentifiers) {
  const BgpUpdate update =
      Parse(Update(Nlri("10.0.0.0/8", 1),
                   NextHop4("192.0.2.1") +
                       Announce6("2001:db8::1", Nlri("2001:db8::/32", 2)) +
                       Withdraw6(Nlri("2001:db8::/32", 3)),
                   Nlri("10.0.0.0/8", 4) + Nlri("10.0.0.0/8", 5)),
            /*additional_paths=*/true);
  EXPECT_THAT(update.withdraws,
              ElementsAre(Of("10.0.0.0/8", 1), Of("2001:db8::/32", 3)));
  EXPECT_THAT(update.announces,
              ElementsAre(To("2001:db8::/32", "2001:db8::1", 2),
                          To("10.0.0.0/8", "192.0.2.1", 4),
                          To("10.0.0.0/8", "192.0.2.1", 5)));
}

TEST(ParseBgpMessage, IsEmptyWhereNoUnicastRouteChanges) {
  for (const std::string& message :
       {BgpMessage(1, "anything"), BgpMessage(3, "xy"), BgpMessage(4, ""),
        BgpMessage(5, "abcd"), Update("", "", ""),  // the end of a RIB
        Update("", Withdraw6(""), ""),              // likewise
        Update("", MpUnreachOf(25, 70, "xyz"), ""),
        Update("", MpReachOf(1, 128, "anything", "at all"), ""),
        Update("", MpReachOf(2, 2, "", "") + MpUnreachOf(2, 2, "\xff"), ""),
        Update("", MpReachOf(2, 1, Packed("::1"), ""), "")}) {
    EXPECT_TRUE(Parse(message).empty());
  }
}

TEST(ParseBgpMessage, SaysWhatIsWrong) {
  const std::string good = Update("", NextHop4("192.0.2.1"), Nlri("::/0"));
  ASSERT_FALSE(Parse(good).empty());
  ExpectMalformed(good + "x", "says it has");
  ExpectMalformed(good.substr(0, good.size() - 1), "says it has");
  ExpectMalformed("\xfe" + good.substr(1), "marker");
  ExpectMalformed("", "ends inside its header");
  ExpectMalformed(good.substr(0, 18), "ends inside its header");
  ExpectMalformed(BgpMessage(0, ""), "unknown type 0");
  ExpectMalformed(BgpMessage(6, ""), "unknown type 6");
  ExpectMalformed(BgpMessage(2, ""), "withdrawn routes");
  ExpectMalformed(BgpMessage(2, U16(1)), "withdrawn routes");
  ExpectMalformed(BgpMessage(2, U16(0)), "path attributes");
  ExpectMalformed(BgpMessage(2, U16(0) + U16(9) + "short"), "path attributes");
  ExpectMalformed(Update(U8(33), "", ""),
                  "the list of withdrawn routes has an IPv4 prefix of length");
  ExpectMalformed(Update("", NextHop4("192.0.2.1"), U8(33)),
                  "the list of routes has an IPv4 prefix of length 33");
  ExpectMalformed(Update("", Origin(0), Nlri("10.0.0.0/8")), "no NEXT_HOP");
  ExpectMalformed(Update("", Attribute(3, "abc"), ""), "NEXT_HOP is not 4");
  ExpectMalformed(Update("", "\x40\x03\x04ok", ""), "inside attribute 3");
  const std::string reach = Announce6("::1", Nlri("::/0"));
  ExpectMalformed(Update("", reach + reach, ""),
                  "MP_REACH_NLRI is there twice");
  const std::string unreach = Withdraw6(Nlri("::/0"));
  ExpectMalformed(Update("", unreach + unreach, ""),
                  "MP_UNREACH_NLRI is there");
  ExpectMalformed(Update("", MpReachOf(2, 1, "12345", ""), ""), "5 octets");
  ExpectMalformed(Update("", Announce6("::1", U8(129)), ""), "of length 129");
  ExpectMalformed(Update("", Withdraw6(U8(129)), ""), "MP_UNREACH_NLRI has an");
  for (const uint8_t type : {uint8_t{14}, uint8_t{15}}) {
    ExpectMalformed(Update("", Attribute(type, U16(2)), ""), "is too short");
  }
  for (const std::string& value :
       {U16(2) + U8(1), U16(2) + U8(1) + U8(4) + "abc",
        U16(2) + U8(1) + U8(4) + "abcd"}) {
    ExpectMalformed(Update("", Attribute(14, value), ""),
                    "inside the next hop");
  }
}

TEST(ParseBgpMessage, TheFirstNextHopCounts) {
  EXPECT_THAT(Parse(Update("", NextHop4("192.0.2.1") + NextHop4("192.0.2.2"),
                           Nlri("10.0.0.0/8")))
                  .announces,
              ElementsAre(To("10.0.0.0/8", "192.0.2.1")));
}

TEST(ParseBgpMessage, CutAnywhereIsMalformed) {
  const std::string message =
      Update(Nlri("10.0.0.0/8"),
             Announce6("::1", Nlri("2001:db8::/32")) + NextHop4("192.0.2.1"),
             Nlri("10.1.0.0/16"));
  for (size_t cut = 0; cut < message.size(); ++cut) {
    EXPECT_FALSE(ParseBgpMessage(message.substr(0, cut), false).ok()) << cut;
  }
  // Also with a length that agrees, save where one prefix is left out.
  size_t good = 0;
  const std::string body = message.substr(19);
  for (size_t cut = 0; cut < body.size(); ++cut) {
    good += ParseBgpMessage(BgpMessage(2, body.substr(0, cut)), false).ok();
  }
  EXPECT_EQ(good, 1u);
}

}  // namespace
}  // namespace planb
