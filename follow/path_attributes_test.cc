// SPDX-License-Identifier: Apache-2.0

#include "follow/path_attributes.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "follow/convert.h"
#include "lpm/io/testing/bytes.h"

namespace planb {
namespace {

std::string Segment(bool set, const std::vector<uint32_t>& numbers) {
  std::string segment = U8(set ? 1 : 2) + U8(numbers.size());
  for (const uint32_t number : numbers) segment += U32(number);
  return segment;
}

// The message, and whether something was cut. The server takes it as it is.
std::pair<v1::Attributes, bool> Encode(const std::string& attributes,
                                       PathParts parts = PathParts::kFull) {
  const auto path = ParseBgpAttributes(attributes);
  EXPECT_TRUE(path.ok()) << path.status();
  const auto [encoded, cut] = EncoderOf(parts)(*path);
  v1::Attributes message = ToProto(encoded);
  EXPECT_EQ(message.SerializeAsString(), encoded.encoded());
  const auto taken = FromProto(message);
  EXPECT_TRUE(taken.ok()) << taken.status();
  return {message, cut};
}

TEST(PathAttributes, EachPartHasItsField) {
  const std::string path =
      Attribute(2, Segment(false, {64500, 64496}) + Segment(true, {8, 7})) +
      Attribute(8, U32(5) + U32(4)) + Attribute(16, U32(0x2fbf4) + U32(7)) +
      Attribute(32, U32(1) + U32(2) + U32(3)) + LocalPref(0) + Med(9);
  const auto [message, cut] = Encode(path);
  EXPECT_FALSE(cut);
  EXPECT_EQ(message.ShortDebugString(),
            "as_path { numbers: 64500 numbers: 64496 } "
            "as_path { set: true numbers: 7 numbers: 8 } "
            "communities: 4 communities: 5 "
            "extended_communities: 839975344013319 "
            "large_communities { global_administrator: 1 local_data_1: 2 "
            "local_data_2: 3 } local_preference: 0 med: 9");
  // A path that ends with a set has no origin, and so no attributes.
  EXPECT_EQ(Encode(path, PathParts::kOrigin).first.ByteSizeLong(), 0U);
  const std::string set = Segment(false, {1}) + Segment(true, {2, 2});
  EXPECT_EQ(Encode(Attribute(2, set)).first.ShortDebugString(),
            "as_path { numbers: 1 } as_path { set: true numbers: 2 }");
  EXPECT_EQ(Encode(AsPath({64500, 64496}) + Med(9), PathParts::kOrigin)
                .first.ShortDebugString(),
            "origin_as: 64496");
  EXPECT_EQ(EncoderOf(PathParts::kGateway), nullptr);
}

TEST(PathAttributes, WhatIsLongerThanTheContractAllowsIsCut) {
  std::vector<uint32_t> many(255);
  std::iota(many.begin(), many.end(), 1U << 31);
  std::string communities;
  std::string extended;
  std::string large;
  for (const uint32_t number : many) {
    communities += U32(number);
    extended += U32(number) + U32(number);
    large += U32(number) + U32(1U << 31) + U32(1U << 31);
  }
  const std::string path = Attribute(
      2, Segment(false, {1}) + Segment(false, many) + Segment(false, {7}));
  auto [message, cut] = Encode(path);
  EXPECT_TRUE(cut);
  ASSERT_EQ(message.as_path_size(), 1);
  EXPECT_EQ(message.as_path(0).numbers_size(), 255);
  EXPECT_EQ(message.as_path(0).numbers(0), 1U);
  EXPECT_EQ(message.origin_as(), 7U);
  // The lowest communities stay; of the large ones what fits.
  std::tie(message, cut) =
      Encode(path + Attribute(8, communities) + Attribute(16, extended) +
             Attribute(32, large));
  EXPECT_EQ(message.communities_size(), 128);
  EXPECT_EQ(message.communities(127), (1U << 31) + 127);
  EXPECT_EQ(message.extended_communities_size(), 128);
  EXPECT_GT(message.large_communities_size(), 50);
  EXPECT_LE(message.ByteSizeLong(), 4096U);
  EXPECT_GT(message.ByteSizeLong(), 4096U - 24);
  std::tie(message, cut) = Encode(Attribute(32, large.substr(0, 12 * 128)));
  EXPECT_FALSE(cut);
  EXPECT_EQ(message.large_communities_size(), 128);
  // Of many segments the nearest ones.
  std::string segments;
  for (uint32_t i = 0; i < 20; ++i) {
    segments += Segment(true, {2 * i, 2 * i + 1}) + Segment(false, {i});
  }
  std::tie(message, cut) = Encode(Attribute(2, segments));
  EXPECT_TRUE(cut);
  ASSERT_EQ(message.as_path_size(), 16);
  EXPECT_EQ(message.as_path(15).numbers(0), 7U);
  EXPECT_EQ(message.origin_as(), 19U);
}

TEST(PathAttributes, WordsAreThoseOfTheFeed) {
  for (const PathParts parts :
       {PathParts::kGateway, PathParts::kOrigin, PathParts::kFull}) {
    PathParts parsed = PathParts::kGateway;
    std::string error;
    EXPECT_TRUE(AbslParseFlag(AbslUnparseFlag(parts), &parsed, &error));
    EXPECT_EQ(parsed, parts);
  }
  PathParts parsed;
  std::string error;
  EXPECT_FALSE(AbslParseFlag("path", &parsed, &error));
  EXPECT_EQ(error, "must be one of: gateway, origin, full");
}

}  // namespace
}  // namespace planb
