// SPDX-License-Identifier: Apache-2.0

#include "server/control/decode_update.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <string>

#include "server/base/error.h"

namespace planb::server {
namespace {

v1::RouteUpdate Update(v1::RouteUpdate::Op op, const char* prefix,
                       uint32_t next_hop) {
  v1::RouteUpdate update;
  update.set_op(op);
  update.mutable_prefix()->set_text(prefix);
  update.set_next_hop_id(next_hop);
  return update;
}

TEST(DecodeUpdate, ErrorNamesTheField) {
  const struct {
    v1::RouteUpdate update;
    const char* field;
  } kCases[] = {
      {Update(v1::RouteUpdate::OP_UNSPECIFIED, "::/0", 1), "updates[1].op"},
      {Update(static_cast<v1::RouteUpdate::Op>(99), "::/0", 1),
       "updates[1].op"},
      {Update(v1::RouteUpdate::OP_UPSERT, "::/129", 1), "updates[1].prefix"},
      {Update(v1::RouteUpdate::OP_UPSERT, "::1/64", 1), "updates[1].prefix"},
      {Update(v1::RouteUpdate::OP_UPSERT, "::/0", 0), "updates[1].next_hop_id"},
      {Update(v1::RouteUpdate::OP_DELETE, "::/0", 1), "updates[1].next_hop_id"},
  };
  for (const auto& bad : kCases) {
    v1::UpdateRoutesRequest request;
    *request.add_updates() =
        Update(v1::RouteUpdate::OP_DELETE, "10.0.0.0/8", 0);
    *request.add_updates() = bad.update;
    const absl::Status status = DecodeUpdate(request, 10).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status));
    EXPECT_EQ(ErrorField(status), bad.field);
  }
}

TEST(DecodeUpdate, BoundsTheBatch) {
  v1::UpdateRoutesRequest request;
  *request.add_updates() = Update(v1::RouteUpdate::OP_DELETE, "10.0.0.0/8", 0);
  *request.add_updates() = Update(v1::RouteUpdate::OP_DELETE, "11.0.0.0/8", 0);
  EXPECT_TRUE(DecodeUpdate(request, 2).ok());
  EXPECT_EQ(ErrorReason(DecodeUpdate(request, 1).status()), "BATCH_TOO_LARGE");
  request.set_request_id(std::string(129, 'x'));
  EXPECT_EQ(ErrorField(DecodeUpdate(request, 2).status()), "request_id");
}

TEST(DecodeUpdate, FingerprintLeavesOutAckAndEpoch) {
  v1::UpdateRoutesRequest request;
  request.set_request_id("x");
  *request.add_updates() = Update(v1::RouteUpdate::OP_DELETE, "10.0.0.0/8", 0);
  const uint64_t first = DecodeUpdate(request, 9)->fingerprint;
  request.set_ack(v1::ACK_ACCEPTED);
  request.set_writer_epoch(7);
  EXPECT_EQ(DecodeUpdate(request, 9)->fingerprint, first);
  request.mutable_updates(0)->mutable_prefix()->set_text("11.0.0.0/8");
  EXPECT_NE(DecodeUpdate(request, 9)->fingerprint, first);
}

// Stores keep fingerprints across versions.
TEST(DecodeUpdate, FingerprintIsAHashOfWhatIsLeft) {
  v1::StreamUpdatesRequest request;
  request.set_table("red");
  request.set_ack(v1::ACK_ACCEPTED);
  request.set_writer_epoch(7);
  request.set_batch_id(9);
  request.set_request_id("x");
  request.set_expected_generation(0);
  for (int i = 0; i < 3; ++i) {
    *request.add_updates() =
        Update(v1::RouteUpdate::OP_DELETE, "10.0.0.0/8", 0);
    request.add_next_hops()->set_id(5);
  }
  v1::StreamUpdatesRequest left = request;
  left.clear_table();
  left.clear_ack();
  left.clear_writer_epoch();
  left.clear_batch_id();
  left.clear_request_id();
  const std::string bytes = left.SerializeAsString();
  EXPECT_EQ(DecodeUpdate(request, 9)->fingerprint,
            XXH3_64bits(bytes.data(), bytes.size()));
}

TEST(DecodeUpdate, ErrorNamesTheFieldOfTheRequest) {
  v1::UpdateNextHopsRequest request;
  request.add_upserts()->set_id(1);
  request.add_upserts()->set_id(0);
  EXPECT_EQ(ErrorField(DecodeUpdate(request, 9).status()), "upserts[1]");
  request.clear_upserts();
  request.add_delete_ids(0xffffffff);
  EXPECT_EQ(ErrorField(DecodeUpdate(request, 9).status()), "delete_ids[0]");
  request.clear_delete_ids();
  request.add_delete_group_ids(0);
  EXPECT_EQ(ErrorField(DecodeUpdate(request, 9).status()),
            "delete_group_ids[0]");
}

TEST(DecodeUpdate, GroupsAreChecked) {
  const auto with = [](uint32_t id, int members, uint32_t weight) {
    v1::UpdateRoutesRequest request;
    v1::NextHopGroup& group = *request.add_groups();
    group.set_id(id);
    for (int i = 0; i < members; ++i) {
      v1::NextHopGroup::Member& member = *group.add_members();
      member.set_next_hop_id(static_cast<uint32_t>(i) + 1);
      member.set_weight(weight);
    }
    return request;
  };
  const auto valid = DecodeUpdate(with(7, 256, 0), 9);
  ASSERT_TRUE(valid.ok()) << valid.status();
  EXPECT_EQ(valid->groups[0].members[255].weight, 1U);
  EXPECT_TRUE(DecodeUpdate(with(7, 1, 0xffffffff), 9).ok());
  for (const auto& bad : {with(0, 1, 1), with(7, 0, 1), with(7, 257, 1),
                          with(7, 2, 0xffffffff)}) {
    const absl::Status status = DecodeUpdate(bad, 9).status();
    EXPECT_EQ(ErrorReason(status), "GROUP_INVALID");
    EXPECT_EQ(ErrorField(status), "groups[0]");
  }
  v1::UpdateRoutesRequest twice = with(7, 2, 1);
  twice.mutable_groups(0)->mutable_members(1)->set_next_hop_id(1);
  EXPECT_NE(DecodeUpdate(twice, 9).status().message().find("members[1]"),
            std::string::npos);
}

TEST(DecodeUpdate, ReplacementsCollectMessages) {
  UpdateBatch batch;
  batch.replacement.emplace();
  v1::ReplaceRoutesRequest request;
  v1::Route& route = *request.add_routes();
  route.mutable_prefix()->set_text("::/0");
  route.set_next_hop_id(1);
  EXPECT_TRUE(AppendReplacement(request, batch).ok());
  route.mutable_prefix()->set_text("::/1");
  EXPECT_TRUE(AppendReplacement(request, batch).ok());
  EXPECT_EQ(batch.replacement->size(), 2U);
  route.set_next_hop_id(0);
  EXPECT_EQ(ErrorField(AppendReplacement(request, batch)), "routes[0]");
}

}  // namespace
}  // namespace planb::server
