#include "lpm/io/nlri.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "lpm/io/testing/bgp_bytes.h"
#include "lpm/io/testing/bytes.h"

namespace planb {
namespace {

using ::planb::testing::Nlri;
using ::planb::testing::Packed;
using ::planb::testing::U8;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

NlriPrefix Of(absl::string_view prefix, uint32_t path_id = 0) {
  return {*Prefix::Parse(prefix), path_id};
}

TEST(ParseNlri, ReadsEveryLength) {
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    const std::string ones(static_cast<size_t>(AddressBytes(family)), '\xff');
    for (int length = 0; length <= AddressBits(family); ++length) {
      const std::string octets =
          U8(static_cast<uint64_t>(length)) +
          ones.substr(0, (static_cast<size_t>(length) + 7) / 8);
      const auto parsed = ParseNlri(octets, family, false);
      ASSERT_TRUE(parsed.ok()) << parsed.status();
      EXPECT_THAT(*parsed, ElementsAre(NlriPrefix{Prefix::Truncate(
                               *Address::FromPacked(ones), length)}));
    }
  }
}

TEST(ParseNlri, ReadsLists) {
  EXPECT_TRUE(ParseNlri("", Family::kIpv4, false)->empty());
  EXPECT_THAT(*ParseNlri(Nlri("::/0") + Nlri("2001:db8::/33") + Nlri("::1/128"),
                         Family::kIpv6, false),
              ElementsAre(Of("::/0"), Of("2001:db8::/33"), Of("::1/128")));
  EXPECT_THAT(*ParseNlri(Nlri("10.0.0.0/8", 7) + Nlri("10.0.0.0/8", 0xffffffff),
                         Family::kIpv4, true),
              ElementsAre(Of("10.0.0.0/8", 7), Of("10.0.0.0/8", 0xffffffff)));
}

TEST(ParseNlri, SaysWhatIsWrong) {
  const auto expect = [](const std::string& octets, Family family,
                         const std::string& message) {
    const absl::Status status = ParseNlri(octets, family, false).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr(message));
  };
  expect(U8(33) + Packed("::1"), Family::kIpv4, "IPv4 prefix of length 33");
  expect(U8(129) + Packed("::1") + "x", Family::kIpv6, "of length 129");
  expect(U8(25) + "abc", Family::kIpv4, "ends inside the one of ordinal 0");
  expect(Nlri("10.0.0.0/8") + U8(8), Family::kIpv4, "ordinal 1");
}

TEST(ParseNlri, CutAnywhereButBetweenTwoIsMalformed) {
  const std::string octets = Nlri("10.0.0.0/8", 1) + Nlri("10.1.0.0/16", 2);
  for (size_t cut = 0; cut <= octets.size(); ++cut) {
    EXPECT_EQ(ParseNlri(octets.substr(0, cut), Family::kIpv4, true).ok(),
              cut == 0 || cut == 6 || cut == octets.size())
        << cut;
  }
}

}  // namespace
}  // namespace planb
