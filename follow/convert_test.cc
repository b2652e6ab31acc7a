// SPDX-License-Identifier: Apache-2.0

#include "follow/convert.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"

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

// Something of each field.
v1::Attributes FullAttributes() {
  v1::Attributes attributes;
  attributes.set_origin_as(64496);
  v1::Attributes::Segment* segment = attributes.add_as_path();
  segment->add_numbers(64500);
  segment->add_numbers(64496);
  segment = attributes.add_as_path();
  segment->set_set(true);
  segment->add_numbers(4294967295U);
  attributes.add_communities(64500U << 16 | 1);
  attributes.add_extended_communities(0x0002fbf400000064);
  v1::Attributes::LargeCommunity& large = *attributes.add_large_communities();
  large.set_global_administrator(64500);
  large.set_local_data_2(2);
  attributes.set_local_preference(0);
  attributes.set_med(5);
  v1::Attributes::Tag& tag = *attributes.add_tags();
  tag.set_key("site");
  tag.set_value("ams");
  return attributes;
}

TEST(Convert, AttributesGoRoundInOneEncoding) {
  v1::NextHop wire;
  wire.set_id(7);
  *wire.mutable_attributes() = FullAttributes();
  const NextHop hop = *FromProto(wire);
  // Digests and stores have these bytes: they never change.
  EXPECT_EQ(absl::BytesToHexString(hop.attributes.encoded()),
            "08f0f703"              // origin
            "12081206f4f703f0f703"  // path
            "120908011205ffffffff0f"
            "1a040100f4fb"
            "220864000000f4fb0200"
            "2a0608f4f7031802"
            "3000"
            "3805"
            "420b0a04736974651203616d73");
  wire.set_weight(1);
  EXPECT_EQ(ToProto(hop).SerializeAsString(), wire.SerializeAsString());
  EXPECT_EQ(*FromProto(ToProto(hop)), hop);
  wire.mutable_attributes()->set_med(6);
  EXPECT_NE(*FromProto(wire), hop);
  // Without any field set they are none.
  wire.mutable_attributes()->Clear();
  EXPECT_TRUE(FromProto(wire)->attributes.empty());
  EXPECT_FALSE(ToProto(*FromProto(wire)).has_attributes());
  // What is no message is none.
  EXPECT_EQ(ToProto(Attributes("\x08")).ByteSizeLong(), 0U);
}

TEST(Convert, AttributesKeepTheirBounds) {
  const auto refused = [](auto change) {
    v1::Attributes attributes = FullAttributes();
    change(attributes);
    return std::string(FromProto(attributes).status().message());
  };
  using A = v1::Attributes;
  EXPECT_EQ(refused([](A&) {}), "");
  EXPECT_EQ(refused([](A& a) { a.add_as_path(); }),
            "attributes.as_path[2]: is empty");
  EXPECT_EQ(refused([](A& a) {
              while (a.as_path_size() < 17) a.add_as_path()->add_numbers(1);
            }),
            "attributes.as_path: has 17 entries; the limit is 16");
  const auto path = [](int numbers) {
    return [=](A& a) {
      for (int i = 3; i < numbers; ++i) a.mutable_as_path(1)->add_numbers(1);
    };
  };
  EXPECT_EQ(refused(path(255)), "");
  EXPECT_EQ(refused(path(256)),
            "attributes.as_path[1]: is past the limit of 255 numbers");
  const auto add = [](auto add_one, int count) {
    return [=](A& a) {
      for (int i = 1; i < count; ++i) add_one(a, i);
    };
  };
  const auto community = [](A& a, int) { a.add_communities(0); };
  const auto extended = [](A& a, int) { a.add_extended_communities(0); };
  const auto large = [](A& a, int) { a.add_large_communities(); };
  const auto tag = [](A& a, int i) {
    a.add_tags()->set_key(std::string(static_cast<size_t>(i), 'k'));
  };
  const std::string many = "has 129 entries; the limit is 128";
  EXPECT_EQ(refused(add(community, 128)), "");
  EXPECT_EQ(refused(add(community, 129)), "attributes.communities: " + many);
  EXPECT_EQ(refused(add(extended, 128)), "");
  EXPECT_EQ(refused(add(extended, 129)),
            "attributes.extended_communities: " + many);
  EXPECT_EQ(refused(add(large, 128)), "");
  EXPECT_EQ(refused(add(large, 129)), "attributes.large_communities: " + many);
  EXPECT_EQ(refused(add(tag, 16)), "");
  EXPECT_EQ(refused(add(tag, 17)),
            "attributes.tags: has 17 entries; the limit is 16");
  const auto key = [&](const std::string& text) {
    return refused([&](A& a) { a.mutable_tags(0)->set_key(text); });
  };
  const auto value = [&](const std::string& text) {
    return refused([&](A& a) { a.mutable_tags(0)->set_value(text); });
  };
  EXPECT_EQ(key(std::string(63, 'k')), "");
  EXPECT_EQ(key(std::string(64, 'k')),
            "attributes.tags[0].key: has more than 63 bytes");
  for (const char* bad : {"", "a=b"}) {
    EXPECT_EQ(key(bad), "attributes.tags[0].key: is empty or has \"=\"");
  }
  EXPECT_EQ(key("k\x1b"),
            "attributes.tags[0].key: has a control character at byte 1");
  EXPECT_EQ(refused([](A& a) { *a.add_tags() = a.tags(0); }),
            "attributes.tags[1].key: appears twice");
  EXPECT_EQ(value(""), "");
  EXPECT_EQ(value("\xc3\xa9"), "");
  EXPECT_EQ(value(std::string(255, 'v')), "");
  EXPECT_EQ(value(std::string(256, 'v')),
            "attributes.tags[0].value: has more than 255 bytes");
  EXPECT_EQ(value("v\n"),
            "attributes.tags[0].value: has a control character at byte 1");
  EXPECT_EQ(refused([&](A& a) {
              for (int i = 1; i < 16; ++i) {
                A::Tag& one = *a.add_tags();
                one.set_key(std::string(static_cast<size_t>(i), 'k'));
                one.set_value(std::string(255, 'v'));
              }
            }),
            "attributes: takes 4131 bytes; the limit is 4096");
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
