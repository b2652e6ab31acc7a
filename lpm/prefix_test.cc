// SPDX-License-Identifier: Apache-2.0

// Prefixes: strict parsing, and the arithmetic at both ends of everything.

#include "lpm/prefix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lpm/synthetic/random.h"

namespace planb {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Address A(absl::string_view text) { return Address::Parse(text).value(); }
Prefix P(absl::string_view text) { return Prefix::Parse(text).value(); }

Address Last(const Prefix& prefix) {
  return Address::FromBits(prefix.family(), prefix.last());
}

std::string Refusal(absl::string_view text) {
  const auto prefix = Prefix::Parse(text);
  EXPECT_EQ(prefix.status().code(), absl::StatusCode::kInvalidArgument)
      << '"' << text << '"';
  return std::string(prefix.status().message());
}

Address RandomAddress(Family family, Random& random) {
  return family == Family::kIpv4
             ? Address::V4(static_cast<uint32_t>(random.Next()))
             : Address::V6(random.Next128());
}

// Bit `i` of the address, counted from the left.
bool Bit(const Address& address, int i) {
  return ((address.bits() >> (127 - i)) & 1) != 0;
}

TEST(PrefixParse, ReadsAndPrintsEveryLength) {
  Random random(1);
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    for (int length = 0; length <= AddressBits(family); ++length) {
      for (int i = 0; i < 50; ++i) {
        const Prefix prefix =
            Prefix::Truncate(RandomAddress(family, random), length);
        const std::string text =
            absl::StrCat(prefix.address().ToString(), "/", length);
        EXPECT_EQ(prefix.ToString(), text);
        EXPECT_EQ(P(text), prefix);
        EXPECT_EQ(P(text).length(), length);
        EXPECT_EQ(P(text).family(), family);
      }
    }
  }
}

TEST(PrefixParse, PrintsCanonically) {
  EXPECT_EQ(P("2001:0DB8:0:0:0:0:0:0/32").ToString(), "2001:db8::/32");
  EXPECT_EQ(P("::ffff:0:0/96").ToString(), "::ffff:0.0.0.0/96");
  EXPECT_EQ(Prefix().ToString(), "0.0.0.0/0");
}

TEST(PrefixParse, RefusesHostBitsAndNamesTheCure) {
  EXPECT_THAT(Refusal("2001:db8::1/32"),
              AllOf(HasSubstr("host bits"), HasSubstr("2001:db8::1/32"),
                    HasSubstr("did you mean 2001:db8::/32?")));
  EXPECT_THAT(Refusal("10.1.2.3/8"), HasSubstr("did you mean 10.0.0.0/8?"));
  EXPECT_THAT(Refusal("::ffff:10.1.2.3/104"),
              HasSubstr("did you mean ::ffff:10.0.0.0/104?"));
}

// To follow the advice would announce a default route, or nearly one.
TEST(PrefixParse, NoCureLosesTheAddress) {
  for (const char* text :
       {"::1/0", "128.0.0.0/0", "10.1.2.3/0", "10.1.2.3/3", "::1/127",
        "::ffff:10.0.0.0/24", "::ffff:10.1.2.3/8", "::ffff:10.0.0.0/90",
        "::ffff:0.0.0.1/32", "10.1.2.3/33", "::ffff:10.1.2.3/129"}) {
    EXPECT_THAT(Refusal(text), Not(HasSubstr("did you mean"))) << text;
  }
}

TEST(PrefixParse, RefusesLengthsOutOfRange) {
  EXPECT_THAT(Refusal("::/129"), AllOf(HasSubstr("129"), HasSubstr("0..128")));
  EXPECT_THAT(Refusal("0.0.0.0/33"),
              AllOf(HasSubstr("33"), HasSubstr("0..32")));
  EXPECT_THAT(Refusal("::/999"), HasSubstr("0..128"));
  EXPECT_THAT(Refusal("::/1000"), HasSubstr("0..128"));
  EXPECT_THAT(Refusal("::/4294967296"), HasSubstr("0..128"));
  EXPECT_THAT(Refusal("::/18446744073709551616"), HasSubstr("0..128"));
}

TEST(ParseNextHopId, TakesOneForm) {
  EXPECT_EQ(ParseNextHopId("1"), 1U);
  EXPECT_EQ(ParseNextHopId("4294967294"), 4294967294U);
  for (const char* text :
       {"", "0", "007", "+7", "-1", " 7", "7 ", "0x7", "7.0", "4294967295",
        "4294967296", "18446744073709551623", "seven"}) {
    EXPECT_EQ(ParseNextHopId(text), std::nullopt) << text;
  }
  EXPECT_EQ(ParseDecimal("0"), 0U);
  EXPECT_EQ(ParseDecimal("00"), std::nullopt);
}

TEST(PrefixParse, RefusesOtherText) {
  const std::vector<std::string> texts = {
      // No length, or no address.
      "", "/", "/0", "::", "10.0.0.0", "::/", "//", "x/32", "10/8", "10.0.0/8",
      // Lengths that are no plain numbers.
      "::/+0", "::/-0", "::/-1", "::/00", "::/032", "::/32x", "::/0x20",
      "::/32/", "::/32/32", "::/1e1", "::/32.0", "10.0.0.0/255.0.0.0",
      // Blanks and decorations.
      "::/ 0", "::/0 ", " ::/0", ":: /0", "::/0\n", "::\\0", "[::]/0",
      "fe80::%eth0/64", "fe80::/64%eth0"};
  for (const std::string& text : texts) Refusal(text);
  EXPECT_THAT(Refusal("10.0.0.0"), HasSubstr("has no \"/LENGTH\""));
  EXPECT_THAT(Refusal("fe80::%eth0/64"), HasSubstr("zone id"));
  EXPECT_THAT(Refusal("::/032"), HasSubstr("plain number"));
  EXPECT_THAT(Refusal(absl::string_view("::/0\0", 5)), HasSubstr("\\x00"));
  EXPECT_THAT(Refusal(absl::string_view("::\0/0", 5)), HasSubstr("NUL"));
  EXPECT_LT(Refusal(std::string(1 << 20, '/')).size(), 400U);
  EXPECT_LT(Refusal("::/" + std::string(1 << 20, '1')).size(), 400U);
}

TEST(PrefixCreate, ChecksLikeParse) {
  EXPECT_EQ(Prefix::Create(A("10.0.0.0"), 8).value(), P("10.0.0.0/8"));
  EXPECT_EQ(Prefix::Create(A("::"), 0).value(), P("::/0"));
  for (const int length : {-1, 33, 128, 1 << 30, -(1 << 30), 256, 264}) {
    const auto prefix = Prefix::Create(A("10.0.0.0"), length);
    EXPECT_EQ(prefix.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(prefix.status().message()),
                AllOf(HasSubstr(absl::StrCat(length)), HasSubstr("10.0.0.0"),
                      HasSubstr("0..32")));
  }
  EXPECT_FALSE(Prefix::Create(A("::"), 129).ok());
  EXPECT_FALSE(Prefix::Create(A("::"), -1).ok());
  EXPECT_FALSE(Prefix::Create(A("::1"), 127).ok());
}

TEST(PrefixTruncate, ClearsHostBitsOnly) {
  Random random(2);
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    for (int length = 0; length <= AddressBits(family); ++length) {
      const Address address = RandomAddress(family, random);
      const Prefix prefix = Prefix::Truncate(address, length);
      EXPECT_EQ(prefix.length(), length);
      for (int i = 0; i < 128; ++i) {
        EXPECT_EQ(Bit(prefix.address(), i), i < length && Bit(address, i));
        const bool host = i >= length && i < AddressBits(family);
        EXPECT_EQ(Bit(Last(prefix), i), host || Bit(prefix.address(), i));
      }
      EXPECT_TRUE(prefix.Contains(address));
    }
  }
}

TEST(Prefix, LastAtTheEdges) {
  const std::string ones = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
  EXPECT_EQ(P("::/0").first(), 0);
  EXPECT_EQ(Last(P("::/0")), A(ones));
  EXPECT_EQ(Last(P(ones + "/128")), A(ones));
  EXPECT_EQ(Last(P("2001:db8::/65")), A("2001:db8::7fff:ffff:ffff:ffff"));
  EXPECT_EQ(Last(P("0.0.0.0/0")), A("255.255.255.255"));
  EXPECT_EQ(Last(P("10.0.0.0/31")), A("10.0.0.1"));
}

// Families never contain each other, though the bits may agree.
TEST(PrefixContains, IsOfOneFamily) {
  EXPECT_FALSE(P("::/0").Contains(A("1.2.3.4")));
  EXPECT_FALSE(P("0.0.0.0/0").Contains(A("::")));
  EXPECT_FALSE(P("10.0.0.0/8").Contains(A("a00::")));
  EXPECT_FALSE(P("0.0.0.0/0").Covers(P("::/0")));
  EXPECT_FALSE(P("::/0").Covers(P("0.0.0.0/0")));
}

// Contains and Covers against their definition, bit by bit.
TEST(PrefixContains, IsSharingTheFirstBits) {
  Random random(3);
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    const auto bits = static_cast<uint64_t>(AddressBits(family));
    for (int i = 0; i < 20'000; ++i) {
      const Address address = RandomAddress(family, random);
      const int length = static_cast<int>(random.Below(bits + 1));
      const Prefix prefix = Prefix::Truncate(address, length);
      // An address that differs first in a bit near the end of the prefix.
      const int flip = static_cast<int>(
          std::min(bits - 1,
                   random.Below(bits) / 2 + static_cast<uint64_t>(length) / 2));
      const Address other = Address::FromBits(
          family, address.bits() ^ absl::uint128(1) << (127 - flip));
      EXPECT_EQ(prefix.Contains(other), flip >= length);
      const int other_length = static_cast<int>(random.Below(bits + 1));
      const Prefix other_prefix = Prefix::Truncate(other, other_length);
      EXPECT_EQ(prefix.Covers(other_prefix),
                length <= other_length && flip >= length)
          << prefix.ToString() << " " << other_prefix.ToString();
    }
  }
}

TEST(Prefix, OrdersByFamilyAddressLength) {
  std::vector<Prefix> ascending;
  for (const char* const text :
       {"0.0.0.0/0", "0.0.0.0/1", "0.0.0.0/32", "0.0.0.1/32", "10.0.0.0/8",
        "10.0.0.0/9", "10.128.0.0/9", "255.255.255.255/32", "::/0", "::/1",
        "::/128", "::1/128", "0:0:0:1::/64", "2001:db8::/32", "2001:db8::/48",
        "8000::/1"}) {
    ascending.push_back(P(text));
  }
  for (size_t i = 0; i < ascending.size(); ++i) {
    for (size_t j = 0; j < ascending.size(); ++j) {
      EXPECT_EQ(ascending[i] < ascending[j], i < j);
      EXPECT_EQ(ascending[i] == ascending[j], i == j);
    }
  }
}

TEST(Route, OrdersByPrefixFirst) {
  EXPECT_LT((Route{P("10.0.0.0/8"), 9}), (Route{P("10.0.0.0/9"), 1}));
  EXPECT_LT((Route{P("10.0.0.0/8"), 1}), (Route{P("10.0.0.0/8"), 2}));
  EXPECT_EQ(Route().next_hop, kNoRoute);
}

}  // namespace
}  // namespace planb
