#include "lpm/io/gateway_ids.h"

#include <gtest/gtest.h>

namespace planb {
namespace {

TEST(GatewayIds, NumbersInOrderOfAppearance) {
  GatewayIds ids(10);
  const auto id_of = [&](absl::string_view gateway, bool is_new) {
    const absl::StatusOr<GatewayIds::Id> id =
        ids.IdOf(*Address::Parse(gateway));
    EXPECT_TRUE(id.ok()) << id.status();
    EXPECT_EQ(id->is_new, is_new);
    return id->id;
  };
  EXPECT_EQ(id_of("192.0.2.1", true), 10u);
  EXPECT_EQ(id_of("2001:db8::1", true), 11u);
  EXPECT_EQ(id_of("192.0.2.1", false), 10u);
  // The same bits, another family.
  EXPECT_EQ(id_of("c000:201::", true), 12u);
  EXPECT_EQ(id_of("c000:201::", false), 12u);
}

TEST(GatewayIds, RunOut) {
  GatewayIds ids(kUndecided - 1);
  EXPECT_EQ(ids.IdOf(Address::V4(1))->id, kUndecided - 1);
  EXPECT_TRUE(absl::IsResourceExhausted(ids.IdOf(Address::V4(2)).status()));
  EXPECT_EQ(ids.IdOf(Address::V4(1))->id, kUndecided - 1);
}

}  // namespace
}  // namespace planb
