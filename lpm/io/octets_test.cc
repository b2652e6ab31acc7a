#include "lpm/io/octets.h"

#include <gtest/gtest.h>

#include <string>

namespace planb {
namespace {

TEST(OctetCursor, ReadsNetworkOrder) {
  const std::string octets(
      "\x80\x01\x02\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8\xf7"
      "\xf6\xf5\xf4rest");
  OctetCursor cursor(octets);
  uint8_t u8 = 0;
  uint16_t u16 = 0;
  uint32_t u32 = 0;
  uint64_t u64 = 0;
  absl::string_view rest;
  EXPECT_TRUE(cursor.Read(&u8));
  EXPECT_TRUE(cursor.Read(&u16));
  EXPECT_TRUE(cursor.Read(&u32));
  EXPECT_TRUE(cursor.Read(&u64));
  EXPECT_EQ(u8, 0x80);
  EXPECT_EQ(u16, 0x0102);
  EXPECT_EQ(u32, 0xfffefdfcu);
  EXPECT_EQ(u64, 0xfbfaf9f8f7f6f5f4u);
  EXPECT_EQ(cursor.left(), "rest");
  EXPECT_TRUE(cursor.Read(size_t{3}, &rest));
  EXPECT_EQ(rest, "res");
  EXPECT_FALSE(cursor.empty());
  EXPECT_TRUE(cursor.Read(size_t{0}, &rest));
  EXPECT_EQ(rest, "");
}

TEST(OctetCursor, ReadsTheLeastSignificantOctetFirst) {
  const std::string octets(
      "\x80\x01\x02\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8\xf7"
      "\xf6\xf5\xf4res");
  OctetCursor cursor(octets);
  uint8_t u8 = 0;
  uint16_t u16 = 0;
  uint32_t u32 = 0;
  uint64_t u64 = 0;
  EXPECT_TRUE(cursor.ReadLittle(&u8));
  EXPECT_TRUE(cursor.ReadLittle(&u16));
  EXPECT_TRUE(cursor.ReadLittle(&u32));
  EXPECT_TRUE(cursor.ReadLittle(&u64));
  EXPECT_EQ(u8, 0x80);
  EXPECT_EQ(u16, 0x0201);
  EXPECT_EQ(u32, 0xfcfdfeffu);
  EXPECT_EQ(u64, 0xf4f5f6f7f8f9fafbu);
  EXPECT_FALSE(cursor.ReadLittle(&u32));
  EXPECT_EQ(u32, 0xfcfdfeffu);
  EXPECT_EQ(cursor.left(), "res");
}

TEST(OctetCursor, AReadThatFailsTakesNothing) {
  OctetCursor cursor("abc");
  uint32_t u32 = 7;
  absl::string_view octets = "old";
  EXPECT_FALSE(cursor.Read(&u32));
  EXPECT_EQ(u32, 7u);
  EXPECT_FALSE(cursor.Read(size_t{4}, &octets));
  EXPECT_FALSE(cursor.Read(SIZE_MAX, &octets));
  EXPECT_EQ(octets, "old");
  EXPECT_EQ(cursor.left(), "abc");
  EXPECT_TRUE(cursor.Read(size_t{3}, &octets));
  EXPECT_TRUE(cursor.empty());
}

}  // namespace
}  // namespace planb
