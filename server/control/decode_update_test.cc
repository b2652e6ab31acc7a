// SPDX-License-Identifier: Apache-2.0

#include "server/control/decode_update.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "follow/convert.h"
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

// An entry of `changes_v6` or `changes_v4`.
std::string Pack(const Address& address, int length, int op,
                 const std::string& next_hop) {
  return address.ToPacked() + static_cast<char>(length) +
         static_cast<char>(op) + next_hop;
}

const std::string kSeven("\x07\0\0\0", 4);
const std::string kZero(4, '\0');

// Each operation and length in each form gives the same change.
TEST(DecodeUpdate, PackedChangesAreThoseOfMessages) {
  v1::StreamUpdatesRequest messages, packed;
  for (Family family : {Family::kIpv6, Family::kIpv4}) {
    for (int length = 0; length <= AddressBits(family); ++length) {
      const auto op = static_cast<v1::RouteUpdate::Op>(
          v1::RouteUpdate::OP_UPSERT + length % 5);
      const bool is_delete = op == v1::RouteUpdate::OP_DELETE ||
                             op == v1::RouteUpdate::OP_DELETE_STRICT;
      const Prefix prefix = Prefix::Truncate(
          Address::FromBits(family, absl::MakeUint128(0xdeadbeefcafe0123,
                                                      0x456789abcdef9999)),
          length);
      *messages.add_updates() =
          Update(op, prefix.ToString().c_str(), is_delete ? 0 : 0xfedc0007);
      (family == Family::kIpv6 ? packed.mutable_changes_v6()
                               : packed.mutable_changes_v4())
          ->append(Pack(prefix.address(), length, op,
                        is_delete ? kZero : std::string("\x07\0\xdc\xfe", 4)));
    }
  }
  const auto listed = DecodeUpdate(messages, 200);
  const auto unpacked = DecodeUpdate(packed, 200);
  ASSERT_TRUE(listed.ok()) << listed.status();
  ASSERT_TRUE(unpacked.ok()) << unpacked.status();
  ASSERT_EQ(listed->changes.size(), 129U + 33U);
  ASSERT_EQ(unpacked->changes.size(), 129U + 33U);
  for (size_t i = 0; i < listed->changes.size(); ++i) {
    EXPECT_EQ(unpacked->changes[i].op, listed->changes[i].op);
    EXPECT_EQ(unpacked->changes[i].prefix, listed->changes[i].prefix);
    EXPECT_EQ(unpacked->changes[i].next_hop, listed->changes[i].next_hop);
  }
  EXPECT_EQ(RefusedOperations(packed), RefusedOperations(messages));
  EXPECT_EQ(wire::CountEntries(packed), wire::CountEntries(messages));
  EXPECT_EQ(listed->ChangeField(3), "updates[3]");
  EXPECT_EQ(unpacked->ChangeField(128), "changes_v6[128]");
  EXPECT_EQ(unpacked->ChangeField(129), "changes_v4[0]");
}

TEST(DecodeUpdate, AnErrorNamesThePackedField) {
  const Address v6 = *Address::Parse("2001:db8::1");
  const Address v4 = *Address::Parse("10.0.0.1");
  const struct {
    std::string v6, v4;
    const char* field;
  } kCases[] = {
      {std::string(21, 'x'), "", "changes_v6"},
      {Pack(v6, 128, 1, kSeven) + "x", "", "changes_v6"},
      {"", std::string(11, 'x'), "changes_v4"},
      {Pack(v6, 129, 1, kSeven), "", "changes_v6[0].prefix"},
      {Pack(v6, 255, 1, kSeven), "", "changes_v6[0].prefix"},
      {Pack(v6, 128, 1, kSeven) + Pack(v6, 64, 1, kSeven), "",
       "changes_v6[1].prefix"},
      {Pack(v6, 128, 0, kSeven), "", "changes_v6[0].op"},
      {Pack(v6, 128, 6, kSeven), "", "changes_v6[0].op"},
      {Pack(v6, 128, 255, kSeven), "", "changes_v6[0].op"},
      {Pack(v6, 128, 1, kZero), "", "changes_v6[0].next_hop_id"},
      {Pack(v6, 128, 4, kSeven), "", "changes_v6[0].next_hop_id"},
      {Pack(v6, 128, 1, "\xff\xff\xff\xff"), "", "changes_v6[0].next_hop_id"},
      {Pack(v6, 128, 1, kSeven), Pack(v4, 33, 1, kSeven),
       "changes_v4[0].prefix"},
      {"", Pack(v4, 32, 1, kSeven) + Pack(v4, 31, 1, kSeven),
       "changes_v4[1].prefix"},
  };
  for (const auto& bad : kCases) {
    v1::UpdateRoutesRequest request;
    request.set_changes_v6(bad.v6);
    request.set_changes_v4(bad.v4);
    const absl::Status status = DecodeUpdate(request, 10).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << bad.field;
    EXPECT_EQ(ErrorField(status), bad.field) << status;
  }
}

TEST(DecodeUpdate, BoundsPackedChanges) {
  v1::UpdateRoutesRequest request;
  const Address v4 = *Address::Parse("10.0.0.1");
  request.set_changes_v4(Pack(v4, 32, 1, kSeven) + Pack(v4, 32, 1, kSeven));
  EXPECT_TRUE(DecodeUpdate(request, 2).ok());
  const absl::Status status = DecodeUpdate(request, 1).status();
  EXPECT_EQ(ErrorReason(status), "BATCH_TOO_LARGE");
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

TEST(DecodeUpdate, ControlCharactersAreRefused) {
  for (const char* bad : {"\n", "\x1b[2J", "\x7f", "\xc2\x9b", "\xff",
                          "\xe2\x80\xa8", "\xe2\x80\xae"}) {
    v1::UpdateNextHopsRequest request;
    for (uint32_t id : {1, 2}) {
      request.add_upserts()->set_id(id);
      v1::NextHopGroup& group = *request.add_group_upserts();
      group.set_id(id + 2);
      group.add_members()->set_next_hop_id(id);
    }
    const auto expect = [&](absl::string_view field, absl::string_view what) {
      const absl::Status status = DecodeUpdate(request, 9).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad;
      EXPECT_EQ(ErrorField(status), field) << bad;
      EXPECT_NE(status.message().find(what), std::string::npos) << status;
      request.mutable_upserts(1)->clear_label();
      request.mutable_upserts(1)->clear_interface();
      request.mutable_group_upserts(1)->clear_label();
    };
    const std::string text = absl::StrCat("ok", bad);
    request.mutable_upserts(1)->set_label(text);
    expect("upserts[1]", "label has a control character at byte 2");
    request.mutable_upserts(1)->set_interface(text);
    expect("upserts[1]", "interface has a control character at byte 2");
    request.mutable_group_upserts(1)->set_label(text);
    expect("group_upserts[1]", "label has a control character at byte 2");
    EXPECT_TRUE(DecodeUpdate(request, 9).ok());
  }
  v1::ReplaceRoutesRequest replacement;
  replacement.add_next_hops()->set_id(1);
  replacement.mutable_next_hops(0)->set_label("\x1b");
  UpdateBatch batch;
  batch.replacement.emplace();
  EXPECT_EQ(ErrorField(AppendReplacement(replacement, batch)), "next_hops[0]");
}

TEST(DecodeUpdate, TheUnspecifiedAddressIsNoGateway) {
  for (const char* text : {"0.0.0.0", "::"}) {
    const std::string gateway = Address::Parse(text)->ToPacked();
    const std::string says = absl::StrCat(text, " is no gateway");
    const auto expect = [&](const absl::Status& status,
                            absl::string_view field) {
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
      EXPECT_EQ(ErrorReason(status), "NEXT_HOP_INVALID") << status;
      EXPECT_EQ(ErrorField(status), field) << status;
      EXPECT_NE(status.message().find(says), std::string::npos) << status;
    };
    v1::UpdateNextHopsRequest request;
    v1::UpdateRoutesRequest routes;
    v1::ReplaceRoutesRequest replacement;
    for (const uint32_t id : {1, 2}) {
      request.add_upserts()->set_id(id);
      routes.add_next_hops()->set_id(id);
      replacement.add_next_hops()->set_id(id);
    }
    request.mutable_upserts(1)->set_gateway(gateway);
    routes.mutable_next_hops(1)->set_gateway(gateway);
    replacement.mutable_next_hops(1)->set_gateway(gateway);
    UpdateBatch batch;
    batch.replacement.emplace();
    expect(DecodeUpdate(request, 9).status(), "upserts[1]");
    expect(DecodeUpdate(routes, 9).status(), "next_hops[1]");
    expect(AppendReplacement(replacement, batch), "next_hops[1]");
    // One of a store stays.
    EXPECT_TRUE(FromProto(request.upserts(1)).ok());
  }
}

TEST(DecodeUpdate, AttributesAreNamedByTheirPath) {
  const auto expect = [](const absl::Status& status, absl::string_view field) {
    EXPECT_EQ(ErrorReason(status), "NEXT_HOP_INVALID") << status;
    EXPECT_EQ(ErrorField(status), field) << status;
    EXPECT_NE(status.message().find("is empty"), std::string::npos) << status;
  };
  v1::UpdateRoutesRequest routes;
  for (const uint32_t id : {1, 2}) routes.add_next_hops()->set_id(id);
  routes.mutable_next_hops(1)->mutable_attributes()->add_as_path();
  expect(DecodeUpdate(routes, 9).status(),
         "next_hops[1].attributes.as_path[0]");
  v1::UpdateNextHopsRequest request;
  *request.mutable_upserts() = routes.next_hops();
  expect(DecodeUpdate(request, 9).status(), "upserts[1].attributes.as_path[0]");
}

// A server checks all that it admits, and follows one that admits more.
TEST(DecodeUpdate, AttributesOfLaterVersionsAreLeftOut) {
  v1::UpdateNextHopsRequest request;
  request.add_upserts()->set_id(1);
  v1::Attributes& attributes =
      *request.mutable_upserts(0)->mutable_attributes();
  attributes.set_origin_as(64496);
  const NextHop known = *FromProto(request.upserts(0));
  attributes.GetReflection()
      ->MutableUnknownFields(&attributes)
      ->AddVarint(99, 1);
  EXPECT_EQ(DecodeUpdate(request, 9)->next_hops[0], known);
  const NextHop kept = *FromProto(request.upserts(0));
  EXPECT_NE(kept, known);
  EXPECT_EQ(*FromProto(ToProto(kept)), kept);
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
  EXPECT_EQ(valid->groups[0].members[255].weight, 0U);  // the table knows it
  EXPECT_TRUE(DecodeUpdate(with(7, 1, 0xffffffff), 9).ok());
  v1::UpdateRoutesRequest twice = with(7, 2, 1);
  twice.mutable_groups(0)->mutable_members(1)->set_next_hop_id(1);
  EXPECT_NE(DecodeUpdate(twice, 9).status().message().find("members[1]"),
            std::string::npos);
}

TEST(DecodeUpdate, ReplacementFingerprintsDependOnTheContents) {
  UpdateBatch batch;
  batch.replacement = {
      {{*Prefix::Parse("10.0.0.0/8"), 1}, {*Prefix::Parse("::/0"), 2}}};
  batch.next_hops = {{.id = 1}, {.id = 2}};
  batch.groups = {{.id = 3, .members = {{1, 1}}}};
  const uint64_t fingerprint = ReplacementFingerprint(batch);
  UpdateBatch same = batch;
  std::swap((*same.replacement)[0], (*same.replacement)[1]);
  std::swap(same.next_hops[0], same.next_hops[1]);
  same.writer_epoch = 9;
  same.request_id = "r";
  EXPECT_EQ(ReplacementFingerprint(same), fingerprint);
  std::vector<UpdateBatch> others(7, batch);
  (*others[0].replacement)[0].next_hop = 2;
  others[1].replacement->pop_back();
  others[2].next_hops[0].weight = 3;
  others[3].groups.clear();
  others[4].replace_next_hops = true;
  others[5].validate_only = true;
  others[6].expected_generation = 0;
  std::set<uint64_t> fingerprints = {fingerprint};
  for (const UpdateBatch& other : others) {
    fingerprints.insert(ReplacementFingerprint(other));
  }
  EXPECT_EQ(fingerprints.size(), 8U);
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
