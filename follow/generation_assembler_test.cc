// SPDX-License-Identifier: Apache-2.0

// The assembler returns whole generations in order; all else is an error.

#include "follow/generation_assembler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "follow/convert.h"

namespace planb {
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

v1::WatchRoutesResponse Announce(uint64_t generation, bool complete) {
  v1::WatchRoutesResponse message = Message(generation, complete);
  *message.add_updates() = ToUpdate({kPrefix, 7});
  return message;
}

GenerationAssembler After(uint64_t generation,
                          Replacement replacement = Replacement::kAny) {
  return {generation, "digest", replacement};
}

// True if `message` after generation 5 ends the watch.
bool IsRefused(const v1::WatchRoutesResponse& message) {
  GenerationAssembler assembler = After(5);
  return absl::IsInternal(assembler.Add(message).status());
}

TEST(GenerationAssembler, WaitsForTheLastPart) {
  GenerationAssembler assembler = After(5);
  EXPECT_FALSE(assembler.Add(Announce(6, false))->has_value());
  v1::WatchRoutesResponse second = Message(6, false);
  *second.add_updates() = ToUpdate({kOther, kNoRoute});
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

// Parts that never end. Changes may withdraw all that there was.
TEST(GenerationAssembler, AGenerationHasNoMoreThanTheLimits) {
  v1::WatchRoutesResponse hops = Message(6, false);
  hops.add_next_hops()->set_id(1);
  hops.add_groups()->set_id(2);
  hops.add_deleted_next_hop_ids(3);
  hops.add_deleted_group_ids(4);
  for (auto& group : *hops.mutable_groups()) {
    group.add_members()->set_next_hop_id(1);
  }
  struct Case {
    const char* what;
    GenerationLimits limits;
    v1::WatchRoutesResponse part;
    int fit;  // parts of a whole table
  };
  for (const auto& [what, limits, part, fit] :
       {Case{"routes", {.max_routes = 4}, Announce(6, false), 4},
        Case{"next hops", {.max_next_hops = 8}, hops, 2},
        Case{"bytes",
             {.max_bytes = 2 * sizeof(Route) + 8},
             Announce(6, false),
             2},
        Case{"bytes of next hops",
             {.max_bytes = 2 * hops.next_hops(0).ByteSizeLong() +
                           2 * hops.groups(0).ByteSizeLong()},
             hops,
             2}}) {
    for (const bool reset : {true, false}) {
      GenerationAssembler assembler(5, "digest", Replacement::kAny, limits);
      v1::WatchRoutesResponse message = part;
      message.set_reset(reset);
      absl::Status status;
      int parts = 0;
      while (status.ok() && parts < 100) {
        ++parts;
        status = assembler.Add(message).status();
      }
      EXPECT_TRUE(absl::IsResourceExhausted(status)) << what << status;
      EXPECT_GT(parts, reset ? fit : 2 * fit) << what;
      EXPECT_LE(parts, 1 + (reset ? fit + 1 : 2 * fit + 1)) << what;
      // The next watch begins anew, and so does the count.
      EXPECT_EQ(assembler.NextWatch().start_generation(), 5U);
      EXPECT_TRUE(assembler.Add(message).ok()) << what;
    }
  }
}

TEST(GenerationAssembler, TheEndMayBeEmpty) {
  GenerationAssembler assembler = After(5);
  ASSERT_TRUE(assembler.Add(Announce(6, false)).ok());
  const auto whole = assembler.Add(Message(6, true));
  ASSERT_TRUE(whole.ok() && whole->has_value());
  EXPECT_FALSE((*whole)->bookmark);
  EXPECT_EQ((*whole)->routes.size(), 1U);
}

TEST(GenerationAssembler, AWholeTableMayBeOlderOrEmpty) {
  GenerationAssembler assembler = After(5);
  v1::WatchRoutesResponse first = Announce(3, false);
  first.set_reset(true);
  EXPECT_FALSE(assembler.Add(first)->has_value());
  v1::WatchRoutesResponse last = Message(3, true);
  last.set_reset(true);
  const auto whole = assembler.Add(last);
  ASSERT_TRUE(whole.ok() && whole->has_value());
  EXPECT_TRUE((*whole)->reset);
  EXPECT_FALSE((*whole)->bookmark);
  EXPECT_THAT((*whole)->routes, ElementsAre(Route{kPrefix, 7}));
  EXPECT_EQ(assembler.last_generation(), 3U);
  // An empty table is no bookmark.
  last.set_generation(2);
  const auto empty = assembler.Add(last);
  ASSERT_TRUE(empty.ok() && empty->has_value());
  EXPECT_TRUE((*empty)->reset);
  EXPECT_THAT((*empty)->routes, IsEmpty());
  // All messages of a generation say the same.
  ASSERT_TRUE(assembler.Add(first).ok());
  EXPECT_TRUE(absl::IsInternal(assembler.Add(Message(3, true)).status()));
}

TEST(GenerationAssembler, AnOlderWholeTableMayBeRefusedAsItBegins) {
  GenerationAssembler assembler = After(5, Replacement::kNotOlder);
  v1::WatchRoutesResponse first = Announce(5, true);
  first.set_reset(true);
  EXPECT_TRUE(assembler.Add(first)->has_value());
  first.set_generation(4);
  first.set_generation_complete(false);
  EXPECT_TRUE(absl::IsOutOfRange(assembler.Add(first).status()));
}

TEST(GenerationAssembler, AWholeTableMayHaveToBeNewer) {
  GenerationAssembler assembler = After(5, Replacement::kNewer);
  v1::WatchRoutesResponse whole = Announce(5, false);
  whole.set_reset(true);
  EXPECT_TRUE(absl::IsOutOfRange(assembler.Add(whole).status()));
  whole.set_generation(6);
  whole.set_generation_complete(true);
  EXPECT_TRUE(assembler.Add(whole)->has_value());
  EXPECT_TRUE(absl::IsOutOfRange(assembler.Add(whole).status()));
}

TEST(GenerationAssembler, WithoutAWholeTableNothingElseCounts) {
  GenerationAssembler assembler(5, kWholeTable, Replacement::kNewer);
  v1::WatchRoutesResponse other = Announce(6, true);
  other.set_digest("of 6");
  EXPECT_FALSE(assembler.Add(other)->has_value());
  EXPECT_FALSE(assembler.Add(Message(5, true))->has_value());
  EXPECT_EQ(assembler.NextWatch().start_generation(), 5U);
  EXPECT_EQ(assembler.NextWatch().start_digest(), kWholeTable);
  other.set_generation(5);
  other.set_reset(true);
  EXPECT_TRUE(assembler.Add(other)->has_value());
  other.set_reset(false);
  other.set_generation(6);
  EXPECT_TRUE(assembler.Add(other)->has_value());
}

TEST(GenerationAssembler, TheNextWatchBeginsAtTheLastGenerationAndItsDigest) {
  GenerationAssembler assembler = After(5);
  EXPECT_EQ(assembler.NextWatch().start_digest(), "digest");
  ASSERT_TRUE(assembler.Add(Message(5, true)).ok());  // without a digest
  EXPECT_EQ(assembler.NextWatch().start_digest(), "digest");
  v1::WatchRoutesResponse message = Announce(6, true);
  message.set_digest("of 6");
  ASSERT_TRUE(assembler.Add(message).ok());
  EXPECT_EQ(assembler.NextWatch().start_generation(), 6U);
  EXPECT_EQ(assembler.NextWatch().start_digest(), "of 6");
}

TEST(GenerationAssembler, GoesBackToWhereItWasBeforeAGeneration) {
  GenerationAssembler assembler = After(5);
  v1::WatchRoutesResponse sixth = Announce(6, true);
  sixth.set_digest("0123456789abcdef");
  const TablePosition first = assembler.Add(sixth).value()->previous;
  EXPECT_EQ(first.generation, 5U);
  EXPECT_EQ(first.digest, "digest");
  const auto bookmark = assembler.Add(Message(6, true)).value()->previous;
  EXPECT_EQ(bookmark.generation, 6U);
  EXPECT_EQ(bookmark.digest, sixth.digest());
  EXPECT_EQ(assembler.Add(Announce(7, true)).value()->previous.digest,
            sixth.digest());
  assembler.GoBack(first);
  EXPECT_EQ(assembler.NextWatch().start_generation(), 5U);
  EXPECT_EQ(assembler.NextWatch().start_digest(), "digest");
  EXPECT_TRUE(assembler.Add(sixth)->has_value());
}

TEST(GenerationAssembler, BookmarksGoForwardOnly) {
  GenerationAssembler assembler = After(5);
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

TEST(GenerationAssembler, SaysSinceWhenTheTableIsComplete) {
  GenerationAssembler assembler = After(5);
  const auto add = [&](uint64_t generation, std::optional<uint64_t> since) {
    v1::WatchRoutesResponse message = Message(generation, true);
    if (since.has_value()) message.set_complete_since_unix_nanos(*since);
    return assembler.Add(message).value()->complete_since;
  };
  EXPECT_EQ(add(5, std::nullopt), std::nullopt);
  EXPECT_EQ(add(6, 9), 9U);
  EXPECT_EQ(add(6, std::nullopt), 9U);
  EXPECT_EQ(add(7, 0), 0U);
}

TEST(GenerationAssembler, APartCanBeDropped) {
  GenerationAssembler assembler = After(5);
  ASSERT_TRUE(assembler.Add(Announce(6, false)).ok());
  assembler.NextWatch();
  const auto whole = assembler.Add(Announce(6, true));
  ASSERT_TRUE(whole.ok() && whole->has_value());
  EXPECT_EQ((*whole)->routes.size(), 1U);
}

TEST(GenerationAssembler, RefusesMessagesOutOfOrder) {
  EXPECT_FALSE(IsRefused(Announce(6, true)));
  EXPECT_TRUE(IsRefused(Announce(5, true)));
  GenerationAssembler assembler = After(5);
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
  // Text is for input alone.
  message = Announce(6, true);
  *message.mutable_updates(0)->mutable_prefix() = v1::Prefix();
  message.mutable_updates(0)->mutable_prefix()->set_text("::/0");
  EXPECT_TRUE(IsRefused(message));
  message = Announce(6, true);
  message.add_next_hops()->set_gateway("abc");
  EXPECT_TRUE(IsRefused(message));
  message = Announce(6, true);
  message.add_groups()->set_id(9);  // without members
  EXPECT_TRUE(IsRefused(message));
}

}  // namespace
}  // namespace planb
