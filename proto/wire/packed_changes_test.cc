// SPDX-License-Identifier: Apache-2.0

#include "proto/wire/packed_changes.h"

#include <gtest/gtest.h>

#include <string>

#include "planb/v1/route_table.pb.h"

namespace planb::wire {
namespace {

// The bytes of route_table.proto, at RouteUpdate.
TEST(PackedChanges, AreTheBytesOfTheContract) {
  v1::StreamUpdatesRequest batch;
  AddPackedChange({.address = "0123456789abcdef",
                   .length = 128,
                   .op = v1::RouteUpdate::OP_DELETE,
                   .next_hop = 0},
                  batch);
  AddPackedChange({.address = "wxyz",
                   .length = 31,
                   .op = v1::RouteUpdate::OP_UPSERT,
                   .next_hop = 0xfedc0107},
                  batch);
  EXPECT_EQ(batch.changes_v6(),
            std::string("0123456789abcdef\x80\x04\0\0\0\0", 22));
  EXPECT_EQ(batch.changes_v4(), "wxyz\x1f\x01\x07\x01\xdc\xfe");
}

TEST(PackedChanges, AreReadAsTheyWereAdded) {
  v1::UpdateRoutesRequest batch;
  for (int i = 0; i < 256; ++i) {
    const PackedChange change = {.length = static_cast<uint8_t>(i),
                                 .op = static_cast<uint8_t>(255 - i),
                                 .next_hop = 0x01010101U * i};
    for (const size_t bytes : {4, 16}) {
      const std::string address(bytes, static_cast<char>(i));
      PackedChange added = change;
      added.address = address;
      AddPackedChange(added, batch);
    }
  }
  batch.add_updates();
  batch.add_next_hops();
  EXPECT_EQ(CountEntries(batch), 514U);
  batch.mutable_changes_v6()->append(21, 'x');
  EXPECT_EQ(CountEntries(batch), 514U);
  for (const PackedChanges& changes : PackedChangesOf(batch)) {
    ASSERT_EQ(changes.size(), 256U) << changes.field();
    for (size_t i = 0; i < changes.size(); ++i) {
      EXPECT_EQ(changes[i].address,
                std::string(changes.is_v6() ? 16 : 4, static_cast<char>(i)));
      EXPECT_EQ(changes[i].length, i);
      EXPECT_EQ(changes[i].op, 255 - i);
      EXPECT_EQ(changes[i].next_hop, 0x01010101U * i);
    }
  }
}

}  // namespace
}  // namespace planb::wire
