// SPDX-License-Identifier: Apache-2.0

// Address text and packed forms: the RFCs' own examples, glibc's printer as an
// independent witness, every spelling of random addresses, and what to refuse.

#include "lpm/address.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lpm/synthetic/random.h"

namespace planb {
namespace {

using ::testing::HasSubstr;

Address A(absl::string_view text) { return Address::Parse(text).value(); }

Address V6(uint64_t high, uint64_t low) {
  return Address::V6(absl::MakeUint128(high, low));
}

std::string GlibcText(const Address& address) {
  const std::string bytes = address.ToPacked();
  std::array<char, INET6_ADDRSTRLEN> text;
  return inet_ntop(bytes.size() == 4 ? AF_INET : AF_INET6, bytes.data(),
                   text.data(), text.size());
}

// glibc prints the deprecated IPv4-compatible addresses (RFC 4291 section
// 2.5.5.1) in mixed notation; RFC 5952 section 5 reserves that for prefixes
// known to embed IPv4, of which ::/96 is none any more.
bool GlibcPrintsMixed(const Address& address) {
  return address.bits() >> 32 == 0 && address.bits() >> 16 != 0;
}

// Addresses with runs of zero groups everywhere, and small and large groups.
std::vector<Address> ManyV6() {
  Random random(1);
  std::vector<Address> addresses;
  for (uint64_t zeros = 0; zeros < 256; ++zeros) {
    for (int repeat = 0; repeat < 40; ++repeat) {
      absl::uint128 bits = 0;
      for (int group = 0; group < 8; ++group) {
        const uint64_t size = 1ULL << (4 * (1 + random.Below(4)));
        uint64_t value = random.Below(size);
        if ((zeros >> group) & 1) value = 0;
        if (repeat == 0 && value != 0) value = 0xffff;
        bits = bits << 16 | value;
      }
      addresses.push_back(Address::V6(bits));
    }
  }
  for (int i = 0; i < 10'000; ++i) {
    addresses.push_back(Address::V6(random.Next128()));
  }
  for (int i = 0; i < 1000; ++i) {  // IPv4-mapped and IPv4-compatible
    addresses.push_back(V6(0, 0xffff'0000'0000 | random.Below(1ULL << 32)));
    addresses.push_back(V6(0, random.Below(1ULL << random.Below(34))));
  }
  return addresses;
}

TEST(AddressParse, Rfc4291Examples) {
  EXPECT_EQ(A("0.0.0.0"), Address());
  EXPECT_EQ(A("192.0.2.1"), Address::V4(0xc0000201));
  // Section 2.2, all three forms.
  EXPECT_EQ(A("ABCD:EF01:2345:6789:ABCD:EF01:2345:6789"),
            V6(0xabcd'ef01'2345'6789, 0xabcd'ef01'2345'6789));
  EXPECT_EQ(A("2001:DB8:0:0:8:800:200C:417A"),
            V6(0x2001'0db8'0000'0000, 0x0008'0800'200c'417a));
  EXPECT_EQ(A("2001:DB8::8:800:200C:417A"), A("2001:DB8:0:0:8:800:200C:417A"));
  EXPECT_EQ(A("FF01:0:0:0:0:0:0:101"), V6(0xff01'0000'0000'0000, 0x101));
  EXPECT_EQ(A("FF01::101"), A("FF01:0:0:0:0:0:0:101"));
  EXPECT_EQ(A("0:0:0:0:0:0:0:1"), V6(0, 1));
  EXPECT_EQ(A("::1"), V6(0, 1));
  EXPECT_EQ(A("0:0:0:0:0:0:0:0"), V6(0, 0));
  EXPECT_EQ(A("::"), V6(0, 0));
  EXPECT_EQ(A("0:0:0:0:0:0:13.1.68.3"), V6(0, 0x0d01'4403));
  EXPECT_EQ(A("::13.1.68.3"), V6(0, 0x0d01'4403));
  EXPECT_EQ(A("0:0:0:0:0:FFFF:129.144.52.38"), V6(0, 0xffff'8190'3426));
  EXPECT_EQ(A("::FFFF:129.144.52.38"), V6(0, 0xffff'8190'3426));
  EXPECT_EQ(A("1::"), V6(0x0001'0000'0000'0000, 0));
  EXPECT_EQ(A("1:2:3:4:5:6:7::"),
            V6(0x0001'0002'0003'0004, 0x5'0006'0007'0000));
  EXPECT_EQ(A("::2:3:4:5:6:7:8"),
            V6(0x0000'0002'0003'0004, 0x5'0006'0007'0008));
  EXPECT_EQ(A("1:2:3:4:5:6:1.2.3.4"),
            V6(0x0001'0002'0003'0004, 0x0005'0006'0102'0304));
}

TEST(AddressToString, Rfc5952Examples) {
  const struct {
    absl::string_view text, canonical;
  } kExamples[] = {
      // Sections 1 and 4: leading zeros, shortening, ties, single groups, case.
      {"2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"},
      {"2001:0db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"},
      {"2001:db8::0:1:0:0:1", "2001:db8::1:0:0:1"},
      {"2001:DB8:0:0:1::1", "2001:db8::1:0:0:1"},
      {"2001:db8:aaaa:bbbb:cccc:dddd:eeee:0001",
       "2001:db8:aaaa:bbbb:cccc:dddd:eeee:1"},
      {"2001:db8:aaaa:bbbb:cccc:dddd::1", "2001:db8:aaaa:bbbb:cccc:dddd:0:1"},
      {"2001:db8:0:0:0:0:2:1", "2001:db8::2:1"},
      {"2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"},
      {"2001:db8::1:1:1:1:1", "2001:db8:0:1:1:1:1:1"},
      {"2001:0:0:1:0:0:0:1", "2001:0:0:1::1"},
      {"2001:db8:0000:0000:1:0000:0000:1", "2001:db8::1:0:0:1"},
      {"2001:DB8:AAAA::AAAA", "2001:db8:aaaa::aaaa"},
      {"0:0:0:0:0:0:0:0", "::"},
      {"0:0:0:0:0:0:0:1", "::1"},
      {"1:0:0:0:0:0:0:0", "1::"},
      {"0:0:1:0:0:0:0:0", "0:0:1::"},
      {"0:1:0:1:0:1:0:1", "0:1:0:1:0:1:0:1"},
      {"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
       "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
      // Section 5: mixed notation for IPv4-mapped, not for what only looks so.
      {"0:0:0:0:0:ffff:c000:201", "::ffff:192.0.2.1"},
      {"::ffff:0:0", "::ffff:0.0.0.0"},
      {"::192.0.2.1", "::c000:201"},
      {"::fffe:192.0.2.1", "::fffe:c000:201"},
      {"1::ffff:192.0.2.1", "1::ffff:c000:201"},
  };
  for (const auto& [text, canonical] : kExamples) {
    EXPECT_EQ(A(text).ToString(), canonical) << text;
  }
}

TEST(AddressToString, AgreesWithGlibc) {
  size_t mixed = 0;
  for (const Address& address : ManyV6()) {
    if (GlibcPrintsMixed(address)) {
      ++mixed;
      EXPECT_EQ(A(GlibcText(address)), address);
    } else {
      EXPECT_EQ(address.ToString(), GlibcText(address));
    }
    EXPECT_EQ(A(address.ToString()), address) << address.ToString();
  }
  EXPECT_GT(mixed, 100U);
  Random random(2);
  for (int i = 0; i < 20'000; ++i) {
    const Address address =
        Address::V4(static_cast<uint32_t>(random.Below(1ULL << 32)) &
                    static_cast<uint32_t>(random.Next()));
    EXPECT_EQ(address.ToString(), GlibcText(address));
    EXPECT_EQ(A(address.ToString()), address);
  }
}

// Some spelling that RFC 4291 allows: any case, leading zeros, any run of zero
// groups (or none) as "::", the last 32 bits as a dotted quad (or not).
std::string Spell(const Address& address, Random& random) {
  const bool mixed = random.Chance(1, 4);
  const size_t groups = mixed ? 6 : 8;
  std::vector<std::string> parts;
  std::vector<bool> zero;
  for (size_t i = 0; i < groups; ++i) {
    const auto value =
        static_cast<uint16_t>(address.bits() >> static_cast<int>(112 - 16 * i));
    zero.push_back(value == 0);
    std::string text = random.Chance(1, 2) ? absl::StrFormat("%x", value)
                                           : absl::StrFormat("%04x", value);
    if (random.Chance(1, 2)) absl::AsciiStrToUpper(&text);
    parts.push_back(std::move(text));
  }
  if (mixed) {
    const auto low = static_cast<uint32_t>(address.bits());
    parts.push_back(absl::StrFormat("%d.%d.%d.%d", low >> 24, low >> 16 & 255,
                                    low >> 8 & 255, low & 255));
  }
  size_t begin = random.Below(groups);
  size_t end = begin;
  while (end < groups && zero[end] && random.Chance(7, 8)) ++end;
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i == begin && end > begin) {
      text += "::";
      i = end - 1;
      continue;
    }
    if (!text.empty() && text.back() != ':') text += ':';
    text += parts[i];
  }
  return text;
}

TEST(AddressParse, TakesEverySpelling) {
  Random random(3);
  for (const Address& address : ManyV6()) {
    const std::string text = Spell(address, random);
    const auto parsed = Address::Parse(text);
    ASSERT_TRUE(parsed.ok()) << text << ": " << parsed.status();
    EXPECT_EQ(*parsed, address) << text;
  }
}

TEST(AddressParse, RefusesWhatIsNoAddress) {
  const std::vector<std::string> texts = {
      "", " ", ":", ":::", "::1 ", " ::1", "::1\n", "\t::1", ":: 1", "1", "x",
      // Too many or too few groups, or "::" that stands for none.
      "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "1:2:3:4::5:6:7:8", "1::2::3",
      "1:2:3:4:5:6:7:8::", "::1:2:3:4:5:6:7:8", ":1:2:3:4:5:6:7:8",
      "1:2:3:4:5:6:7:8:", "1:2:3:4:5:6:7:", ":1", "1:",
      // Bad groups.
      "::g", "::12345", "::00001", "::-1", "::+1", "::0x1",
      // Dotted quads.
      "1.2.3", "1.2.3.", ".1.2.3", "1.2.3.4.", "1.2.3.4.5", "1..2.3",
      "256.0.0.0", "1.2.3.256", "1.2.3.999", "01.2.3.4", "1.2.3.04", "1.2.3.00",
      "0x1.2.3.4", "1.2.3.-4", "+1.2.3.4", "1.2.3.4 ", " 1.2.3.4", "1. 2.3.4",
      "1,2,3,4", "16909060", "1.131844", "a.b.c.d", "1.2.3.4/32", "1.2.3.4:80",
      // Mixed notation.
      "::1.2.3", "::1.2.3.256", "::1.2.3.04", "::1.2.3.4:5",
      "1.2.3.4::", "1:2:3:4:5:6:7:1.2.3.4", "1:2:3:4:5:1.2.3.4", "::1.2.3.4.5",
      // Decorations.
      "[::1]", "::1/128", "2001:db8::1;", "::ffff:1.2.3.4%1", "localhost",
      "\xef\xbc\x91.2.3.4", "1.2.3.\xd9\xa4"};
  for (const std::string& text : texts) {
    const auto address = Address::Parse(text);
    EXPECT_EQ(address.status().code(), absl::StatusCode::kInvalidArgument)
        << '"' << text << '"';
  }
}

std::string Refusal(absl::string_view text) {
  return std::string(Address::Parse(text).status().message());
}

TEST(AddressParse, SaysWhatIsWrong) {
  const struct {
    absl::string_view text, defect;
  } kCases[] = {
      {"", "address \"\": is empty"},
      {"fe80::1%eth0", "zone id"},
      {"fe80::1%eth0", "\"fe80::1%eth0\""},
      {"10.0.0.1%eth0", "zone id"},
      {"2001:db8::x", "is not an IPv6 address"},
      {"1.2.3.400", "is not an IPv4 address"},
      {"1.2.3.04", "no leading zeros"},
      {"router", "neither an IPv6 nor an IPv4"},
      // Nothing unprintable gets into a log.
      {"::1\n", "\"::1\\n\""},
      {"::\x1b[31m", "\\x1b"},
      // NUL does not end the text.
      {absl::string_view("::1\0", 4), "NUL"},
      {absl::string_view("1.2.3.4\0junk", 12), "NUL"},
      {absl::string_view("\0", 1), "NUL"},
  };
  for (const auto& [text, defect] : kCases) {
    EXPECT_THAT(Refusal(text), HasSubstr(std::string(defect)));
  }
}

TEST(AddressParse, TakesTheLongestTextAndRefusesLonger) {
  const std::string longest = "ABCD:EF01:2345:6789:ABCD:EF01:255.255.255.255";
  ASSERT_EQ(longest.size(), 45U);
  EXPECT_EQ(A(longest), V6(0xabcd'ef01'2345'6789, 0xabcd'ef01'ffff'ffff));
  EXPECT_THAT(Refusal("0" + longest), HasSubstr("too long"));
  // The text is quoted in part: a hostile megabyte does not come back.
  EXPECT_LT(Refusal(std::string(1 << 20, '1')).size(), 300U);
}

TEST(AddressParse, NeedsNoTerminator) {
  const std::string text = "2001:db8::12";
  EXPECT_EQ(A(absl::string_view(text).substr(0, 11)), A("2001:db8::1"));
}

TEST(AddressPacked, IsNetworkByteOrder) {
  EXPECT_EQ(A("1.2.3.4").ToPacked(), std::string("\x01\x02\x03\x04"));
  EXPECT_EQ(A("102:304:506:708:90a:b0c:d0e:f10").ToPacked(),
            std::string("\x01\x02\x03\x04\x05\x06\x07\x08"
                        "\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10"));
  std::vector<Address> addresses = ManyV6();
  addresses.insert(addresses.end(), {A("0.0.0.0"), A("255.255.255.255")});
  for (const Address& address : addresses) {
    EXPECT_EQ(Address::FromPacked(address.ToPacked()).value(), address);
  }
}

TEST(AddressPacked, RefusesOtherSizes) {
  for (size_t size = 0; size <= 40; ++size) {
    if (size == 4 || size == 16) continue;
    const auto address = Address::FromPacked(std::string(size, 'x'));
    EXPECT_EQ(address.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(address.status().message()),
                HasSubstr(absl::StrCat("not ", size)));
  }
}

TEST(Address, IsLeftAligned) {
  EXPECT_EQ(Address::V4(0x01020304).bits(),
            absl::MakeUint128(0x0102'0304'0000'0000, 0));
  EXPECT_EQ(V6(1, 2).bits(), absl::MakeUint128(1, 2));
  EXPECT_EQ(Address::FromBits(Family::kIpv6, absl::MakeUint128(1, 2)),
            V6(1, 2));
  EXPECT_EQ(Address::FromBits(Family::kIpv4, absl::MakeUint128(1ULL << 32, 0)),
            Address::V4(1));
}

TEST(Address, OrdersByFamilyThenNumber) {
  std::vector<Address> ascending;
  for (const char* const text :
       {"0.0.0.0", "0.0.0.1", "127.255.255.255", "128.0.0.0", "255.255.255.255",
        "::", "::1", "::ffff:ffff:ffff:ffff", "0:0:0:1::", "7fff::", "8000::",
        "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe",
        "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"}) {
    ascending.push_back(A(text));
  }
  for (size_t i = 0; i < ascending.size(); ++i) {
    for (size_t j = 0; j < ascending.size(); ++j) {
      EXPECT_EQ(ascending[i] < ascending[j], i < j);
      EXPECT_EQ(ascending[i] == ascending[j], i == j);
    }
  }
}

TEST(Family, HasItsNumbers) {
  EXPECT_EQ(AddressBits(Family::kIpv4), 32);
  EXPECT_EQ(AddressBits(Family::kIpv6), 128);
  EXPECT_EQ(AddressBytes(Family::kIpv4), 4);
  EXPECT_EQ(AddressBytes(Family::kIpv6), 16);
  EXPECT_EQ(FamilyName(Family::kIpv4), "IPv4");
  EXPECT_EQ(FamilyName(Family::kIpv6), "IPv6");
}

}  // namespace
}  // namespace planb
