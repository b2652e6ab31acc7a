// What goes out comes back, and what is malformed is refused.

#include "client/convert.h"

#include <gtest/gtest.h>

namespace planb::client {
namespace {

TEST(Convert, PrefixesGoRound) {
  for (const char* text : {"0.0.0.0/0", "192.0.2.0/24", "::/0", "2001:db8::/32",
                           "2001:db8::1/128", "192.0.2.1/32"}) {
    const Prefix prefix = *Prefix::Parse(text);
    const v1::Prefix message = ToProto(prefix);
    EXPECT_EQ(message.address().size(),
              prefix.family() == Family::kIpv4 ? 4U : 16U);
    const auto back = FromProto(message);
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(*back, prefix) << text;
  }
}

TEST(Convert, MalformedPrefixesAreRefused) {
  v1::Prefix message = ToProto(*Prefix::Parse("192.0.2.0/24"));
  message.set_length(33);
  EXPECT_FALSE(FromProto(message).ok());
  message.set_length(0xffffffff);
  EXPECT_FALSE(FromProto(message).ok());
  message.set_length(23);
  EXPECT_TRUE(FromProto(message).ok());
  message.set_length(22);  // 192.0.2.0 has a bit set past 22
  EXPECT_FALSE(FromProto(message).ok());
  message.set_address("12345");
  EXPECT_FALSE(FromProto(message).ok());
  message.Clear();
  message.set_text("192.0.2.0/24");
  EXPECT_FALSE(FromProto(message).ok());
}

TEST(Convert, NextHopsGoRound) {
  const NextHop full = {.id = 7,
                        .gateway = *Address::Parse("fe80::1"),
                        .interface = "eth0",
                        .weight = 3,
                        .label = "transit"};
  EXPECT_EQ(*FromProto(ToProto(full)), full);
  const NextHop bare = {.id = 9, .gateway = {}, .interface = {}, .label = {}};
  EXPECT_EQ(*FromProto(ToProto(bare)), bare);
}

TEST(Convert, NextHopDefaultsAndErrors) {
  v1::NextHop message;
  message.set_id(1);
  EXPECT_EQ(FromProto(message)->weight, 1U);
  message.set_gateway("abc");
  EXPECT_FALSE(FromProto(message).ok());
}

TEST(Convert, GroupsGoRound) {
  const NextHopGroup group = {
      .id = 9, .members = {{7, 3}, {2, 1}}, .label = "both ways"};
  v1::NextHopGroup message = ToProto(group);
  EXPECT_EQ(FromProto(message), group);
  message.mutable_members(1)->clear_weight();
  EXPECT_EQ(FromProto(message), group);  // 0 means 1
}

TEST(Convert, RoutesGoRoundAndNeedANextHop) {
  const Route route = {*Prefix::Parse("2001:db8::/32"), 7};
  v1::Route message = ToProto(route);
  EXPECT_EQ(*FromProto(message), route);
  message.set_next_hop_id(kUndecided);
  EXPECT_FALSE(FromProto(message).ok());
  message.set_next_hop_id(kNoRoute);
  EXPECT_FALSE(FromProto(message).ok());
  message = ToProto(route);
  message.mutable_prefix()->set_length(129);
  EXPECT_FALSE(FromProto(message).ok());
}

}  // namespace
}  // namespace planb::client
