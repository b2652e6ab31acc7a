// SPDX-License-Identifier: Apache-2.0

#include "follow/convert.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace planb {
namespace {

v1::Prefix Text(const char* text) {
  v1::Prefix prefix;
  prefix.set_text(text);
  return prefix;
}

v1::Prefix Packed(std::string address, uint32_t length) {
  v1::Prefix prefix;
  prefix.set_address(std::move(address));
  prefix.set_length(length);
  return prefix;
}

TEST(DecodePrefix, AcceptsTextAndPackedForm) {
  EXPECT_EQ(DecodePrefix(Text("2001:db8::/32"))->ToString(), "2001:db8::/32");
  EXPECT_EQ(DecodePrefix(Packed(std::string("\x0a\0\0\0", 4), 8))->ToString(),
            "10.0.0.0/8");
  EXPECT_EQ(DecodePrefix(Packed(std::string(16, '\0'), 0))->ToString(), "::/0");
}

TEST(DecodePrefix, RefusesInvalidPrefixes) {
  EXPECT_FALSE(DecodePrefix(v1::Prefix()).ok());
  EXPECT_FALSE(DecodePrefix(Text("2001:db8::1/32")).ok());
  EXPECT_FALSE(DecodePrefix(Packed(std::string(16, '\0'), 129)).ok());
  EXPECT_FALSE(DecodePrefix(Packed(std::string(16, '\0'), 0xffffffff)).ok());
  EXPECT_FALSE(DecodePrefix(Packed(std::string(4, '\0'), 33)).ok());
  EXPECT_FALSE(DecodePrefix(Packed(std::string(5, '\0'), 0)).ok());
  EXPECT_FALSE(DecodePrefix(Packed(std::string(4, '\1'), 8)).ok());
  v1::Prefix both = Text("::/0");
  both.set_length(3);
  EXPECT_FALSE(DecodePrefix(both).ok());
}

TEST(DecodePrefix, RoundTrips) {
  for (const char* text : {"::/0", "0.0.0.0/0", "2001:db8::/32",
                           "255.255.255.255/32", "ffff::/16", "::1/128"}) {
    v1::Prefix out;
    Encode(*Prefix::Parse(text), out);
    EXPECT_EQ(DecodePrefix(out)->ToString(), text);
  }
}

TEST(DecodeNextHop, RoundTripsAndRefuses) {
  const NextHop full = {.id = 7,
                        .gateway = *Address::Parse("fe80::1"),
                        .interface = "eth0",
                        .weight = 3,
                        .label = "north"};
  v1::NextHop wire;
  Encode(full, wire);
  EXPECT_EQ(*DecodeNextHop(wire), full);
  wire.set_weight(0);
  EXPECT_EQ(DecodeNextHop(wire)->weight, 1U);
  wire.set_interface(std::string(65, 'x'));
  EXPECT_FALSE(DecodeNextHop(wire).ok());
  wire.set_interface("");
  wire.set_label(std::string(257, 'x'));
  EXPECT_FALSE(DecodeNextHop(wire).ok());
  wire.set_label("");
  wire.set_gateway("abc");
  EXPECT_FALSE(DecodeNextHop(wire).ok());
  wire.set_gateway("");
  EXPECT_TRUE(DecodeNextHop(wire).ok());
  wire.set_id(0);
  EXPECT_FALSE(DecodeNextHop(wire).ok());
}

}  // namespace
}  // namespace planb
