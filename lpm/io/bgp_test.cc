// SPDX-License-Identifier: Apache-2.0

#include "lpm/io/bgp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lpm/io/testing/bytes.h"

namespace planb {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

NlriPrefix Of(absl::string_view prefix, uint32_t path_id = 0) {
  return {*Prefix::Parse(prefix), path_id};
}

TEST(ParseNlri, ReadsEveryLength) {
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    const std::string ones(static_cast<size_t>(AddressBytes(family)), '\xff');
    for (int length = 0; length <= AddressBits(family); ++length) {
      const std::string bytes =
          U8(static_cast<uint64_t>(length)) +
          ones.substr(0, (static_cast<size_t>(length) + 7) / 8);
      const auto parsed = ParseNlri(bytes, family, false);
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

TEST(ParseNlri, NamesTheDefect) {
  const auto expect = [](const std::string& bytes, Family family,
                         const std::string& message) {
    const absl::Status status = ParseNlri(bytes, family, false).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr(message));
  };
  expect(U8(33) + Packed("::1"), Family::kIpv4, "IPv4 prefix of length 33");
  expect(U8(129) + Packed("::1") + "x", Family::kIpv6, "of length 129");
  expect(U8(25) + "abc", Family::kIpv4, "ends inside the one of ordinal 0");
  expect(Nlri("10.0.0.0/8") + U8(8), Family::kIpv4, "ordinal 1");
}

TEST(ParseNlri, AListCutInsideAPrefixIsMalformed) {
  const std::string bytes = Nlri("10.0.0.0/8", 1) + Nlri("10.1.0.0/16", 2);
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    EXPECT_EQ(ParseNlri(bytes.substr(0, cut), Family::kIpv4, true).ok(),
              cut == 0 || cut == 6 || cut == bytes.size())
        << cut;
  }
}

constexpr uint8_t kAsPathType = 2;
constexpr uint8_t kNextHopType = 3;
constexpr uint8_t kMpReachType = 14;

// The next hop, the length of the AS path and the origin, as "::1 2 0".
std::string Parse(const std::string& attributes, Family family) {
  const absl::StatusOr<BgpPath> path = ParseBgpPath(attributes, family);
  if (!path.ok()) return path.status().ToString();
  return absl::StrCat(path->next_hop ? path->next_hop->ToString() : "none", " ",
                      path->as_path_length, " ",
                      static_cast<int>(path->origin));
}

void ExpectMalformed(const std::string& attributes, Family family,
                     const std::string& message) {
  const absl::Status status = ParseBgpPath(attributes, family).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr(message));
}

TEST(ParseBgpPath, ReadsEitherFamily) {
  EXPECT_EQ(
      Parse(Origin(1) + AsPath({64500, 4200000000}) + NextHop4("192.0.2.1"),
            Family::kIpv4),
      "192.0.2.1 2 1");
  EXPECT_EQ(Parse(Origin(0) + AsPath({64500}) + MpReach("2001:db8::1"),
                  Family::kIpv6),
            "2001:db8::1 1 0");
}

TEST(ParseBgpPath, RequiresNoAttribute) {
  EXPECT_EQ(Parse(MpReach("2001:db8::1"), Family::kIpv6), "2001:db8::1 0 2");
  EXPECT_EQ(Parse("", Family::kIpv4), "none 0 2");
  EXPECT_EQ(Parse(Origin(0) + AsPath({1}), Family::kIpv6), "none 1 0");
  // NEXT_HOP does not count for IPv6.
  EXPECT_EQ(Parse(NextHop4("192.0.2.1"), Family::kIpv6), "none 0 2");
}

TEST(ParseBgpPath, AnUnspecifiedNextHopIsNoGateway) {
  const std::string none4 = NextHop4("0.0.0.0");
  const std::string reach = MpReach("2001:db8::1");
  EXPECT_EQ(Parse(none4, Family::kIpv4), "none 0 2");
  EXPECT_EQ(Parse(MpReach("::"), Family::kIpv6), "none 0 2");
  EXPECT_EQ(Parse(none4 + MpReach("::"), Family::kIpv4), "none 0 2");
  EXPECT_EQ(Parse(none4 + reach, Family::kIpv4), "2001:db8::1 0 2");
  EXPECT_EQ(Parse(reach + none4, Family::kIpv4), "2001:db8::1 0 2");
  EXPECT_EQ(Parse(MpReach("::") + NextHop4("192.0.2.1"), Family::kIpv4),
            "192.0.2.1 0 2");
}

TEST(ParseBgpPath, AnUnspecifiedGlobalNextHopLeavesTheLinkLocalOne) {
  const auto parse = [](absl::string_view global, absl::string_view local) {
    const std::string pair =
        absl::StrCat(U8(32), Packed(global), Packed(local));
    const std::string abbreviated =
        Parse(Attribute(kMpReachType, pair), Family::kIpv6);
    EXPECT_EQ(Parse(Attribute(kMpReachType, U16(2) + U8(1) + pair + U8(0)),
                    Family::kIpv6),
              abbreviated);
    return abbreviated;
  };
  EXPECT_EQ(parse("::", "fe80::1"), "fe80::1 0 2");
  EXPECT_EQ(parse("2001:db8::1", "fe80::1"), "2001:db8::1 0 2");
  EXPECT_EQ(parse("2001:db8::1", "::"), "2001:db8::1 0 2");
  EXPECT_EQ(parse("fe80::1", "fe80::1"), "fe80::1 0 2");
  EXPECT_EQ(parse("::", "::"), "none 0 2");
}

// LOCAL_PREF, MED and the neighbour, as "100 0 64500".
std::string Preference(const std::string& attributes,
                       AsSize as_size = AsSize::kFourBytes) {
  const absl::StatusOr<BgpPath> path =
      ParseBgpPath(attributes, Family::kIpv4, as_size);
  if (!path.ok()) return path.status().ToString();
  return absl::StrCat(path->local_pref, " ", path->med, " ", path->neighbor_as);
}

TEST(ParseBgpPath, ReadsLocalPrefAndMed) {
  EXPECT_EQ(Preference(""), "100 0 0");
  EXPECT_EQ(Preference(LocalPref(0) + Med(4294967295)), "0 4294967295 0");
  EXPECT_EQ(Preference(LocalPref(200) + LocalPref(1) + Med(5) + Med(6)),
            "200 5 0");
  ExpectMalformed(Attribute(4, "abc"), Family::kIpv4, "MULTI_EXIT_DISC is not");
  ExpectMalformed(Attribute(5, "12345"), Family::kIpv4, "LOCAL_PREF is not 4");
}

TEST(ParseBgpPath, TheNeighborIsTheFirstAsPastConfederations) {
  const std::string sequence = U8(2) + U8(2) + U32(64500) + U32(64501);
  const std::string set = U8(1) + U8(1) + U32(64502);
  const std::string confed = U8(3) + U8(1) + U32(65001);
  const auto neighbor = [](absl::string_view segments) {
    return Preference(Attribute(kAsPathType, segments));
  };
  EXPECT_EQ(neighbor(sequence), "100 0 64500");
  EXPECT_EQ(neighbor(sequence + sequence), "100 0 64500");
  EXPECT_EQ(neighbor(confed + sequence), "100 0 64500");
  EXPECT_EQ(neighbor(U8(2) + U8(0) + sequence), "100 0 64500");
  EXPECT_EQ(neighbor(set + sequence), "100 0 0");
  EXPECT_EQ(neighbor(confed), "100 0 0");
}

TEST(ParseBgpPath, AsNumbersOfTwoBytesCountWithAs4Path) {
  const std::string two = U8(2) + U8(2) + U16(23456) + U16(64501);
  const std::string path = Attribute(kAsPathType, two);
  const auto as4 = [](absl::string_view segments) {
    return Attribute(17, segments);
  };
  const std::string whole = U8(2) + U8(2) + U32(4200000000) + U32(64501);
  const std::string last = U8(2) + U8(1) + U32(64501);
  const std::string more = U8(2) + U8(3) + U32(1) + U32(2) + U32(3);
  const auto parse = [&](const std::string& attributes) {
    return Preference(attributes, AsSize::kTwoBytes);
  };
  EXPECT_EQ(parse(path), "100 0 23456");
  EXPECT_EQ(parse(path + as4(whole)), "100 0 4200000000");
  EXPECT_EQ(parse(as4(whole) + path), "100 0 4200000000");
  EXPECT_EQ(parse(path + as4(last)), "100 0 23456");
  EXPECT_EQ(parse(path + as4(more)), "100 0 23456");
  EXPECT_EQ(parse(path + as4("x")), "100 0 23456");
  EXPECT_EQ(ParseBgpPath(path + as4(more), Family::kIpv4, AsSize::kTwoBytes)
                ->as_path_length,
            2u);
  // With numbers of four bytes AS4_PATH does not count.
  EXPECT_EQ(Preference(AsPath({1}) + as4(last)), "100 0 1");
}

// Segments of AS_PATH.
std::string Seq(const std::vector<uint32_t>& numbers, uint8_t type = 2) {
  std::string segment = U8(type) + U8(numbers.size());
  for (const uint32_t number : numbers) segment += U32(number);
  return segment;
}
std::string Set(const std::vector<uint32_t>& numbers) {
  return Seq(numbers, 1);
}

// "1 2 {3,4} from 0": the path and its origin.
std::string PathText(const std::string& attributes,
                     AsSize as_size = AsSize::kFourBytes) {
  const auto parsed = ParseBgpAttributes(attributes, as_size);
  if (!parsed.ok()) return std::string(parsed.status().message());
  std::string text;
  for (const BgpAttributes::Segment& segment : parsed->as_path) {
    absl::StrAppend(&text, segment.set ? "{" : "",
                    absl::StrJoin(segment.numbers, segment.set ? "," : " "),
                    segment.set ? "} " : " ");
  }
  return absl::StrCat(text, "from ", parsed->origin_as());
}

TEST(ParseBgpAttributes, APathIsWhatASesHandedOn) {
  const auto path = [](const std::string& segments) {
    return PathText(Attribute(kAsPathType, segments));
  };
  EXPECT_EQ(PathText(""), "from 0");
  EXPECT_EQ(path(""), "from 0");
  EXPECT_EQ(path(Seq({1, 2, 2})), "1 2 2 from 2");
  EXPECT_EQ(path(Seq({1, 2}) + Seq({}) + Seq({3})), "1 2 3 from 3");
  EXPECT_EQ(path(Seq({4294967295, 4200000000})),
            "4294967295 4200000000 from 4200000000");
  EXPECT_EQ(path(Seq({1}) + Set({3, 2, 3})), "1 {2,3} from 0");
  EXPECT_EQ(path(Seq({1}) + Set({2})), "1 {2} from 0");
  EXPECT_EQ(path(Seq({1}) + Set({2, 2})), "1 {2} from 0");
  EXPECT_EQ(path(Set({2, 1}) + Set({}) + Seq({3})), "{1,2} 3 from 3");
  EXPECT_EQ(path(Set({2}) + Set({1})), "{2} {1} from 0");
  // Confederations are left out.
  EXPECT_EQ(path(Seq({9}, 3) + Set({8}) + Seq({7, 6}, 4)), "{8} from 0");
  EXPECT_EQ(path(Seq({1}) + Seq({9}, 3) + Seq({2})), "1 2 from 2");
  EXPECT_EQ(path(Seq({9}, 3)), "from 0");
  EXPECT_EQ(path(Seq({1}, 5)), "AS_PATH has a segment of unknown type 5");
  EXPECT_EQ(path(U8(2) + U8(2) + U32(1)), "AS_PATH ends inside a segment");
  EXPECT_EQ(path("\x02"), "AS_PATH ends inside a segment");
}

TEST(ParseBgpAttributes, As4PathHasTheLastNumbers) {
  constexpr uint32_t kTrans = 23456;
  constexpr uint32_t kFour = 4200000000;
  const auto two = [](const std::vector<uint16_t>& numbers, uint8_t type = 2) {
    std::string segment = U8(type) + U8(numbers.size());
    for (const uint16_t number : numbers) segment += U16(number);
    return segment;
  };
  const auto path = [](const std::string& segments, const std::string& as4) {
    return PathText(Attribute(17, as4) + Attribute(kAsPathType, segments),
                    AsSize::kTwoBytes);
  };
  EXPECT_EQ(path(two({1, kTrans}), ""), "1 23456 from 23456");
  EXPECT_EQ(path(two({1, kTrans, 3}), Seq({kFour, 3})),
            "1 4200000000 3 from 3");
  EXPECT_EQ(path(two({kTrans, 3}), Seq({kFour, 3})), "4200000000 3 from 3");
  EXPECT_EQ(path(two({1}) + two({kTrans, 5}, 1), Set({kFour, 5})),
            "1 {5,4200000000} from 0");
  EXPECT_EQ(path(two({7, 6}, 1) + two({kTrans}), Seq({kFour})),
            "{6,7} 4200000000 from 4200000000");
  EXPECT_EQ(path(two({9}, 3) + two({kTrans}), Seq({kFour})),
            "4200000000 from 4200000000");
  // A longer one, and a malformed one, do not count.
  EXPECT_EQ(path(two({kTrans}), Seq({1, kFour})), "23456 from 23456");
  EXPECT_EQ(path(two({kTrans}), "x"), "23456 from 23456");
  EXPECT_EQ(
      PathText(Attribute(kAsPathType, Seq({1, 2})) + Attribute(17, Seq({9}))),
      "1 2 from 2");
}

TEST(ParseBgpAttributes, As4PathOfAnotherAggregatorDoesNotCount) {
  const std::string base =
      Attribute(kAsPathType, U8(2) + U8(2) + U16(1) + U16(2)) +
      Attribute(17, Seq({70000, 80000}));
  const auto by = [](uint16_t as_number) {
    return Attribute(7, U16(as_number) + U32(0));
  };
  const std::string as4 = Attribute(18, U32(80000) + U32(0));
  const std::string merged = "70000 80000 from 80000";
  for (const auto& [attributes, path, neighbor] :
       std::vector<std::tuple<std::string, std::string, uint32_t>>{
           {base, merged, 70000},
           {base + by(2), merged, 70000},
           {base + as4, merged, 70000},
           {base + by(23456) + as4, merged, 70000},
           {base + by(2) + as4, "1 2 from 2", 1},
           {as4 + by(2) + by(23456) + base, "1 2 from 2", 1},
           {base + Attribute(7, U16(2)) + as4, merged, 70000}}) {
    EXPECT_EQ(PathText(attributes, AsSize::kTwoBytes), path);
    EXPECT_EQ(
        ParseBgpPath(attributes, Family::kIpv4, AsSize::kTwoBytes)->neighbor_as,
        neighbor);
  }
}

TEST(ParseBgpAttributes, ReadsWhatIsThereOnceAndInOrder) {
  const std::string large = U32(2) + U32(0) + U32(9);
  const auto parsed = ParseBgpAttributes(
      Attribute(8, U32(5) + U32(0xfffffffe) + U32(5)) +
      Attribute(16, U32(0x0003fbf4) + U32(1) + U32(0x0002fbf4) + U32(7)) +
      Attribute(32, large + U32(1) + U32(2) + U32(3) + large) + LocalPref(0) +
      Med(4294967295) +
      // Of a type the first counts; others are skipped.
      Attribute(8, U32(1)) + Med(1) + Attribute(35, "x") + Attribute(255, ""));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_THAT(parsed->communities, ElementsAre(5, 0xfffffffe));
  EXPECT_THAT(parsed->extended_communities,
              ElementsAre(0x0002fbf400000007, 0x0003fbf400000001));
  EXPECT_THAT(parsed->large_communities,
              ElementsAre(ElementsAre(1, 2, 3), ElementsAre(2, 0, 9)));
  EXPECT_EQ(parsed->local_pref, 0u);
  EXPECT_EQ(parsed->med, 4294967295u);
  const auto none = ParseBgpAttributes("");
  EXPECT_TRUE(none->communities.empty() && none->as_path.empty());
  EXPECT_FALSE(none->local_pref || none->med);
}

TEST(ParseBgpAttributes, NamesTheDefect) {
  const auto expect = [](const std::string& attributes,
                         const std::string& message) {
    const absl::Status status = ParseBgpAttributes(attributes).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_EQ(status.message(), message);
  };
  expect(Attribute(8, "12345"), "COMMUNITIES has 5 bytes, not a multiple of 4");
  expect(Attribute(16, U32(1)),
         "EXTENDED_COMMUNITIES has 4 bytes, not a multiple of 8");
  expect(Attribute(32, U32(1) + U32(2) + U32(3) + U32(4)),
         "LARGE_COMMUNITY has 16 bytes, not a multiple of 12");
  expect(Attribute(4, "123"), "MULTI_EXIT_DISC is not 4 bytes");
  expect(Attribute(5, "12345"), "LOCAL_PREF is not 4 bytes");
  const std::string whole = Attribute(8, U32(1));
  for (size_t size = 1; size < whole.size(); ++size) {
    expect(whole.substr(0, size),
           absl::StrCat("attribute list ends inside attribute ",
                        size < 2 ? 0 : 8));
  }
}

TEST(ParseBgpPath, SkipsOtherAttributesAndRepetitions) {
  EXPECT_EQ(Parse(Attribute(8, std::string(300, 'c')) + Origin(0) + Origin(2) +
                      AsPath({1, 2, 3}) + AsPath({1}) + NextHop4("192.0.2.1") +
                      NextHop4("192.0.2.2") + Attribute(255, "") +
                      Attribute(4, U32(100), /*extended=*/true),
                  Family::kIpv4),
            "192.0.2.1 3 0");
}

TEST(ParseBgpPath, ReadsMpReachAbbreviatedAndInFull) {
  const std::string one = U8(16) + Packed("2001:db8::1");
  // Of a global and a link-local next hop, the global one counts.
  const std::string two = U8(32) + Packed("2001:db8::1") + Packed("fe80::1");
  for (const std::string& hops : {one, two}) {
    const std::string full = U16(2) + U8(1) + hops;
    for (const std::string& value :
         {hops, full, full + U8(0), full + U8(0) + U8(32) + U32(0x20010db8)}) {
      EXPECT_EQ(Parse(Attribute(kMpReachType, value), Family::kIpv6),
                "2001:db8::1 0 2");
    }
  }
  const std::string ipv4 = U16(1) + U8(1) + U8(4) + Packed("192.0.2.1") + U8(0);
  EXPECT_EQ(Parse(Attribute(kMpReachType, ipv4), Family::kIpv4),
            "192.0.2.1 0 2");
}

TEST(ParseBgpPath, Ipv4PrefersNextHopToMpReach) {
  const std::string reach = MpReach("2001:db8::1");
  EXPECT_EQ(Parse(reach, Family::kIpv4), "2001:db8::1 0 2");
  EXPECT_EQ(Parse(reach + NextHop4("192.0.2.1"), Family::kIpv4),
            "192.0.2.1 0 2");
}

TEST(ParseBgpPath, CountsSegmentsLikeBgp) {
  const std::string sequence = U8(2) + U8(3) + U32(1) + U32(2) + U32(3);
  const std::string set = U8(1) + U8(2) + U32(4) + U32(5);
  const std::string confed = U8(3) + U8(1) + U32(6);
  const std::string confed_set = U8(4) + U8(1) + U32(7);
  const auto expect = [](absl::string_view value, int length) {
    EXPECT_EQ(Parse(Attribute(kAsPathType, value) + NextHop4("192.0.2.1"),
                    Family::kIpv4),
              absl::StrCat("192.0.2.1 ", length, " 2"));
  };
  expect("", 0);
  expect(sequence, 3);
  expect(set, 1);
  expect(confed, 0);
  expect(confed_set, 0);
  expect(U8(2) + U8(0), 0);
  expect(confed + sequence + set + sequence, 7);
}

TEST(ParseBgpPath, NamesTheDefect) {
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

TEST(ParseBgpPath, NamesTheDefectOfMpReach) {
  const auto expect = [](absl::string_view value, const std::string& message) {
    ExpectMalformed(Attribute(kMpReachType, value), Family::kIpv6, message);
  };
  const std::string address = Packed("2001:db8::1");
  expect("", "ends inside");
  expect(U8(16), "ends inside");
  expect(absl::StrCat(U8(16), address.substr(1)), "ends inside");
  expect(absl::StrCat(U8(16), address, "x"), "goes on");
  expect(absl::StrCat(U8(24), address, "12345678"), "24 bytes");
  expect(absl::StrCat(U8(15), address.substr(1)), "15 bytes");
  expect(U8(0), "too short");
  expect(U16(2), "too short");
  expect(absl::StrCat(U16(2), U8(1)), "ends inside");
  expect(absl::StrCat(U16(2), U8(1), U8(0), U8(0)), "0 bytes");
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
  // A list may only end where an attribute ends.
  EXPECT_EQ(good, 5u);
}

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

TEST(ParseBgpMessage, ReadsIpv4FromMpReach) {
  // The next hop may be of either family (RFC 8950) or a pair.
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

TEST(ParseBgpMessage, IsEmptyIfNoUnicastRouteChanges) {
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

TEST(ParseBgpMessage, NamesTheDefect) {
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
  ExpectMalformed(Update("", MpReachOf(2, 1, "12345", ""), ""), "5 bytes");
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

TEST(ParseBgpMessage, AnUnspecifiedNextHopIsNoGateway) {
  const BgpAnnounce none{Of("10.0.0.0/8"), std::nullopt};
  EXPECT_THAT(
      Parse(Update("", NextHop4("0.0.0.0"), Nlri("10.0.0.0/8"))).announces,
      ElementsAre(none));
  EXPECT_THAT(
      Parse(Update("", MpReachOf(1, 1, Packed("::"), Nlri("10.0.0.0/8")), ""))
          .announces,
      ElementsAre(none));
  EXPECT_THAT(Parse(Update("",
                           MpReachOf(1, 1, Packed("::") + Packed("fe80::1"),
                                     Nlri("10.0.0.0/8")),
                           ""))
                  .announces,
              ElementsAre(To("10.0.0.0/8", "fe80::1")));
}

// A list of prefixes with path identifiers, in each place of an UPDATE.
std::vector<std::string> Updates(const std::string& nlri,
                                 const std::string& nlri6) {
  return {Update("", NextHop4("192.0.2.1"), nlri), Update(nlri, "", ""),
          Update("", Announce6("2001:db8::1", nlri6), ""),
          Update("", Withdraw6(nlri6), ""), Update(nlri, Withdraw6(nlri6), "")};
}

TEST(ParseBgpMessage, UnmarkedPathIdentifiersGiveNoShortPrefix) {
  int refused = 0;
  for (const int64_t id : {0, 1, 2, 7, 8, 24, 33, 255, 256, 65536, 1 << 24}) {
    for (const char* prefix : {"0.0.0.0/0", "0.0.0.0/1", "128.0.0.0/1",
                               "10.0.0.0/8", "192.0.2.0/24"}) {
      for (const char* prefix6 : {"::/0", "2000::/3", "2001:db8::/32"}) {
        for (const std::string& message :
             Updates(Nlri(prefix, id), Nlri(prefix6, id))) {
          const auto update = ParseBgpMessage(message, false);
          if (!update.ok()) {
            refused += update.status().message().find("path identifiers") !=
                       std::string::npos;
            continue;
          }
          for (const NlriPrefix& nlri : update->withdraws) {
            EXPECT_GE(nlri.prefix.length(), 8) << id << " " << prefix;
          }
          for (const BgpAnnounce& announce : update->announces) {
            EXPECT_GE(announce.nlri.prefix.length(), 8) << id << " " << prefix;
          }
        }
      }
    }
  }
  EXPECT_GT(refused, 100);
}

TEST(ParseBgpMessage, ShortPrefixesAreReadIfTheUpdateHasOneReading) {
  for (const std::string& message :
       Updates(Nlri("0.0.0.0/0"), Nlri("::/0") + Nlri("2000::/3"))) {
    EXPECT_FALSE(Parse(message).empty());
  }
  for (const std::string& message :
       Updates(Nlri("0.0.0.0/1") + Nlri("128.0.0.0/1"), Nlri("::/0"))) {
    EXPECT_FALSE(Parse(message).empty());
  }
  // A default route beside others is none of four bytes.
  EXPECT_EQ(
      Parse(Update("", NextHop4("192.0.2.1"),
                   Nlri("0.0.0.0/0") + Nlri("10.0.0.0/8") + Nlri("8.8.0.0/16")))
          .announces.size(),
      3u);
  EXPECT_EQ(Parse(Update(Nlri("0.0.0.0/0") + Nlri("10.0.0.0/8"),
                         Announce6("2001:db8::1",
                                   Nlri("::/0") + Nlri("2001:db8::/32")),
                         ""))
                .announces.size(),
            2u);
  // One list decides for the others.
  const std::string ambiguous = Nlri("10.0.0.0/8", 0);
  ExpectMalformed(Update(ambiguous, "", ""), "path identifiers");
  EXPECT_EQ(Parse(Update(ambiguous, Withdraw6(Nlri("2001:db8::/32")), ""))
                .withdraws.size(),
            6u);
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
  // Also with a matching length, unless exactly one prefix is cut off.
  size_t good = 0;
  const std::string body = message.substr(19);
  for (size_t cut = 0; cut < body.size(); ++cut) {
    good += ParseBgpMessage(BgpMessage(2, body.substr(0, cut)), false).ok();
  }
  EXPECT_EQ(good, 1u);
}

}  // namespace
}  // namespace planb
