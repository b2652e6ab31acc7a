// SPDX-License-Identifier: Apache-2.0

#include "follow/convert.h"

#include <gtest/gtest.h>

#include <limits>
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

TEST(Convert, PrefixesHaveATextAndAPackedForm) {
  EXPECT_EQ(FromProto(Text("2001:db8::/32"))->ToString(), "2001:db8::/32");
  EXPECT_EQ(FromProto(Packed(std::string("\x0a\0\0\0", 4), 8))->ToString(),
            "10.0.0.0/8");
  EXPECT_EQ(FromProto(Packed(std::string(16, '\0'), 0))->ToString(), "::/0");
}

TEST(Convert, MalformedPrefixesAreRefused) {
  EXPECT_FALSE(FromProto(v1::Prefix()).ok());
  EXPECT_FALSE(FromProto(Text("2001:db8::1/32")).ok());
  EXPECT_FALSE(FromProto(Packed(std::string(16, '\0'), 129)).ok());
  EXPECT_FALSE(FromProto(Packed(std::string(16, '\0'), 0xffffffff)).ok());
  EXPECT_FALSE(FromProto(Packed(std::string(4, '\0'), 33)).ok());
  EXPECT_FALSE(FromProto(Packed(std::string(5, '\0'), 0)).ok());
  EXPECT_FALSE(FromProto(Packed(std::string(4, '\1'), 8)).ok());
  v1::Prefix both = Text("::/0");
  both.set_length(3);
  EXPECT_FALSE(FromProto(both).ok());
}

TEST(Convert, PrefixesGoRoundInPackedForm) {
  for (const char* text :
       {"::/0", "0.0.0.0/0", "2001:db8::/32", "255.255.255.255/32", "ffff::/16",
        "192.0.2.0/24", "::1/128"}) {
    const Prefix prefix = *Prefix::Parse(text);
    const v1::Prefix message = ToProto(prefix);
    EXPECT_EQ(message.address().size(),
              prefix.family() == Family::kIpv4 ? 4U : 16U);
    const auto back = FromProto(message);
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(*back, prefix) << text;
  }
}

TEST(Convert, RoutesGoRoundAndNeedANextHop) {
  const Route route = {*Prefix::Parse("2001:db8::/32"), 7};
  v1::Route message = ToProto(route);
  EXPECT_EQ(*FromProto(message), route);
  message.set_next_hop_id(kUndecided);
  EXPECT_EQ(FromProto(message).status().message(),
            "next_hop_id must be 1..4294967294, not 4294967295");
  message.set_next_hop_id(kNoRoute);
  EXPECT_FALSE(FromProto(message).ok());
  message = ToProto(route);
  message.mutable_prefix()->set_length(129);
  EXPECT_FALSE(FromProto(message).ok());
}

TEST(Convert, NextHopsGoRoundAndKeepTheirBounds) {
  const NextHop full = {.id = 7,
                        .gateway = *Address::Parse("fe80::1"),
                        .interface = "eth0",
                        .weight = 3,
                        .label = "north"};
  v1::NextHop wire = ToProto(full);
  EXPECT_EQ(*FromProto(wire), full);
  wire.set_weight(0);
  EXPECT_EQ(FromProto(wire)->weight, 1U);
  wire.set_interface(std::string(65, 'x'));
  EXPECT_FALSE(FromProto(wire).ok());
  wire.set_interface("");
  wire.set_label(std::string(257, 'x'));
  EXPECT_FALSE(FromProto(wire).ok());
  wire.set_label("");
  wire.set_gateway("abc");
  EXPECT_FALSE(FromProto(wire).ok());
  wire.set_gateway("");
  EXPECT_TRUE(FromProto(wire).ok());
  wire.set_id(0);
  EXPECT_FALSE(FromProto(wire).ok());
}

TEST(Convert, GroupsGoRoundAndKeepTheirBounds) {
  const NextHopGroup group = {
      .id = 9, .members = {{7, 3}, {2, 1}}, .label = "both ways"};
  v1::NextHopGroup wire = ToProto(group);
  EXPECT_EQ(*FromProto(wire), group);
  wire.mutable_members(1)->clear_weight();
  EXPECT_EQ(*FromProto(wire), group);  // 0 means 1
  wire.mutable_members(1)->set_weight(std::numeric_limits<uint32_t>::max());
  EXPECT_FALSE(FromProto(wire).ok());
  wire.mutable_members(1)->set_weight(1);
  wire.mutable_members(1)->set_next_hop_id(7);  // twice
  EXPECT_FALSE(FromProto(wire).ok());
  wire.clear_members();
  EXPECT_FALSE(FromProto(wire).ok());
  for (uint32_t i = 1; i <= 256; ++i) wire.add_members()->set_next_hop_id(i);
  EXPECT_TRUE(FromProto(wire).ok());
  wire.add_members()->set_next_hop_id(257);
  EXPECT_EQ(FromProto(wire).status().message(), "has 257 members, not 1..256");
}

}  // namespace
}  // namespace planb
