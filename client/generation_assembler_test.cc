// Generations come out whole and in order; anything else is an error.

#include "client/generation_assembler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/convert.h"

namespace planb::client {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const Prefix kPrefix = *Prefix::Parse("2001:db8::/32");
const Prefix kOther = *Prefix::Parse("192.0.2.0/24");

v1::WatchRoutesResponse Message(uint64_t generation, bool complete) {
  v1::WatchRoutesResponse message;
  message.set_generation(generation);
  message.set_generation_complete(complete);
  return message;
}

void AddUpdate(v1::RouteUpdate::Op op, const Prefix& prefix, uint32_t next_hop,
               v1::WatchRoutesResponse& message) {
  v1::RouteUpdate* update = message.add_updates();
  update->set_op(op);
  *update->mutable_prefix() = ToProto(prefix);
  update->set_next_hop_id(next_hop);
}

v1::WatchRoutesResponse Announce(uint64_t generation, bool complete) {
  v1::WatchRoutesResponse message = Message(generation, complete);
  AddUpdate(v1::RouteUpdate::OP_UPSERT, kPrefix, 7, message);
  return message;
}

// True if `message` after generation 5 ends the watch.
bool IsRefused(const v1::WatchRoutesResponse& message) {
  GenerationAssembler assembler(5);
  return absl::IsInternal(assembler.Add(message).status());
}

TEST(GenerationAssembler, WaitsForTheLastPart) {
  GenerationAssembler assembler(5);
  EXPECT_FALSE(assembler.Add(Announce(6, false))->has_value());
  v1::WatchRoutesResponse second = Message(6, false);
  AddUpdate(v1::RouteUpdate::OP_DELETE, kOther, 0, second);
  second.add_deleted_next_hop_ids(3);
  second.add_deleted_group_ids(4);
  EXPECT_FALSE(assembler.Add(second)->has_value());
  v1::WatchRoutesResponse last = Message(6, true);
  const NextHop next_hop = {
      .id = 7, .gateway = {}, .interface = "eth0", .label = {}};
  const NextHopGroup group = {.id = 9, .members = {{7, 1}}, .label = {}};
  *last.add_next_hops() = ToProto(next_hop);
  *last.add_groups() = ToProto(group);
  last.set_digest("0123456789abcdef");
  EXPECT_EQ(assembler.last_generation(), 5U);
  const auto whole = assembler.Add(last);
  ASSERT_TRUE(whole.ok() && whole->has_value()) << whole.status();
  const GenerationChanges& changes = **whole;
  EXPECT_EQ(changes.generation, 6U);
  EXPECT_FALSE(changes.bookmark);
  EXPECT_THAT(changes.routes,
              ElementsAre(Route{kPrefix, 7}, Route{kOther, kNoRoute}));
  EXPECT_THAT(changes.next_hops, ElementsAre(next_hop));
  EXPECT_THAT(changes.groups, ElementsAre(group));
  EXPECT_THAT(changes.deleted_next_hops, ElementsAre(3));
  EXPECT_THAT(changes.deleted_groups, ElementsAre(4));
  EXPECT_EQ(changes.digest, "0123456789abcdef");
  EXPECT_EQ(assembler.last_generation(), 6U);
}

TEST(GenerationAssembler, TheEndMayBeEmpty) {
  GenerationAssembler assembler(5);
  ASSERT_TRUE(assembler.Add(Announce(6, false)).ok());
  const auto whole = assembler.Add(Message(6, true));
  ASSERT_TRUE(whole.ok() && whole->has_value());
  EXPECT_FALSE((*whole)->bookmark);
  EXPECT_EQ((*whole)->routes.size(), 1U);
}

TEST(GenerationAssembler, BookmarksGoForwardOnly) {
  GenerationAssembler assembler(5);
  for (uint64_t generation : {5, 5, 8}) {
    const auto bookmark = assembler.Add(Message(generation, true));
    ASSERT_TRUE(bookmark.ok() && bookmark->has_value());
    EXPECT_TRUE((*bookmark)->bookmark);
    EXPECT_EQ((*bookmark)->generation, generation);
    EXPECT_THAT((*bookmark)->routes, IsEmpty());
  }
  EXPECT_EQ(assembler.last_generation(), 8U);
  EXPECT_FALSE(assembler.Add(Message(7, true)).ok());
}

TEST(GenerationAssembler, APartCanBeDropped) {
  GenerationAssembler assembler(5);
  ASSERT_TRUE(assembler.Add(Announce(6, false)).ok());
  assembler.DropPartial();
  const auto whole = assembler.Add(Announce(6, true));
  ASSERT_TRUE(whole.ok() && whole->has_value());
  EXPECT_EQ((*whole)->routes.size(), 1U);
}

TEST(GenerationAssembler, WhatIsOutOfTurnIsRefused) {
  EXPECT_FALSE(IsRefused(Announce(6, true)));
  EXPECT_TRUE(IsRefused(Announce(5, true)));
  GenerationAssembler assembler(5);
  ASSERT_TRUE(assembler.Add(Announce(6, false)).ok());
  EXPECT_FALSE(assembler.Add(Announce(7, true)).ok());
}

TEST(GenerationAssembler, MalformedChangesAreRefused) {
  v1::WatchRoutesResponse message = Announce(6, true);
  message.mutable_updates(0)->set_op(v1::RouteUpdate::OP_INSERT);
  EXPECT_TRUE(IsRefused(message));
  message.mutable_updates(0)->set_op(v1::RouteUpdate::OP_DELETE);
  EXPECT_TRUE(IsRefused(message));
  message.mutable_updates(0)->set_next_hop_id(0);
  EXPECT_FALSE(IsRefused(message));
  message.mutable_updates(0)->set_op(v1::RouteUpdate::OP_UPSERT);
  EXPECT_TRUE(IsRefused(message));
  message = Announce(6, true);
  message.mutable_updates(0)->mutable_prefix()->set_length(200);
  EXPECT_TRUE(IsRefused(message));
  message = Announce(6, true);
  message.add_next_hops()->set_gateway("abc");
  EXPECT_TRUE(IsRefused(message));
}

}  // namespace
}  // namespace planb::client
