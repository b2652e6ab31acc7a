// SPDX-License-Identifier: Apache-2.0

// What is refused about next-hop groups, and how many mistakes are listed.

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/testing/control_calls.h"

namespace planb::server {
namespace {

using Groups = google::protobuf::RepeatedPtrField<v1::NextHopGroup>;

class GroupErrors : public testing::Test {
 protected:
  GroupErrors() {
    v1::UpdateNextHopsRequest request;
    request.add_upserts()->set_id(1);
    AddGroup(9, {{1, 1}, {2, 1}}, *request.mutable_group_upserts());
    EXPECT_TRUE(Call(running_, &Stub::UpdateNextHops, request).status.ok());
  }
  ~GroupErrors() override {
    EXPECT_EQ(GetTable(running_).accepted_generation(), 1U);
  }

  // By both calls that take groups, behind one that is good.
  void Expect(const v1::NextHopGroup& group, const char* reason,
              const std::string& field) {
    SCOPED_TRACE(absl::StrCat(reason, " ", field));
    v1::UpdateNextHopsRequest request;
    AddGroup(100, {{77, 1}}, *request.mutable_group_upserts());
    *request.add_group_upserts() = group;
    ExpectError(Call(running_, &Stub::UpdateNextHops, request).status,
                Code::INVALID_ARGUMENT, reason,
                absl::StrCat("group_upserts[1]", field));
    v1::UpdateRoutesRequest beside;
    *beside.mutable_groups() = request.group_upserts();
    ExpectError(Call(running_, &Stub::UpdateRoutes, beside).status,
                Code::INVALID_ARGUMENT, reason,
                absl::StrCat("groups[1]", field));
  }
  static v1::NextHopGroup Group(
      uint32_t id,
      std::initializer_list<std::pair<uint32_t, uint32_t>> members) {
    Groups groups;
    AddGroup(id, members, groups);
    return groups[0];
  }

  RunningServer running_;
};

TEST_F(GroupErrors, Malformed) {
  const char* const kReason = "GROUP_INVALID";
  Expect(Group(5, {}), kReason, "");
  Expect(Group(0, {{1, 1}}), kReason, "");
  Expect(Group(4294967295U, {{1, 1}}), kReason, "");
  Expect(Group(5, {{1, 1}, {0, 1}}), kReason, "");
  Expect(Group(5, {{4294967295U, 1}}), kReason, "");
  Expect(Group(5, {{1, 1}, {2, 1}, {1, 1}}), kReason, "");
  Expect(Group(5, {{1, 4294967295U}, {2, 1}}), kReason, "");
  Expect(Group(5, {{1, 4294967295U}, {2, 0}}), kReason, "");  // 0 means 1
  v1::NextHopGroup group = Group(5, {{1, 1}});
  group.set_label(std::string(257, 'l'));
  Expect(group, kReason, "");
  group = Group(5, {});
  for (uint32_t i = 1; i <= 257; ++i) group.add_members()->set_next_hop_id(i);
  Expect(group, kReason, "");
}

TEST_F(GroupErrors, DoNotNestAndShareNoIds) {
  Expect(Group(5, {{3, 1}, {4, 1}, {9, 1}}), "GROUP_NESTED",
         ".members[2].next_hop_id");
  Expect(Group(5, {{5, 1}}), "GROUP_NESTED", ".id");
  Expect(Group(2, {{3, 1}}), "GROUP_NESTED", ".id");  // a member of 9
  Expect(Group(1, {{3, 1}}), "NEXT_HOP_IS_GROUP", ".id");
  Expect(Group(100, {{3, 1}}), "NEXT_HOP_REPEATED", ".id");
  // Nor within one request: both ends are at fault.
  v1::UpdateNextHopsRequest request;
  AddGroup(5, {{6, 1}}, *request.mutable_group_upserts());
  AddGroup(6, {{7, 1}}, *request.mutable_group_upserts());
  ExpectError(Call(running_, &Stub::UpdateNextHops, request).status,
              Code::INVALID_ARGUMENT, "GROUP_NESTED",
              "group_upserts[0].members[0].next_hop_id");
  request.Clear();
  request.add_upserts()->set_id(3);
  request.add_upserts()->set_id(9);
  ExpectError(Call(running_, &Stub::UpdateNextHops, request).status,
              Code::INVALID_ARGUMENT, "NEXT_HOP_IS_GROUP", "upserts[1].id");
}

// The number in "(and 984 more)".
int More(const std::string& message) {
  const size_t at = message.find("(and ");
  int more = -1;
  if (at == std::string::npos ||
      !absl::SimpleAtoi(message.substr(at + 5, message.find(" more") - at - 5),
                        &more)) {
    ADD_FAILURE() << message;
  }
  return more;
}

// Sixteen are listed, all are counted, and all of it fits into the trailers,
// whatever the mistakes look like: a status too large would not arrive.
TEST_F(GroupErrors, AThousandMistakesFitInTheTrailers) {
  const std::string texts[] = {"", "no prefix", std::string(3000, 'x'),
                               std::string(3000, '\x01'), [] {
                                 std::string text;
                                 while (text.size() < 3000) text += "prefix ü€";
                                 return text;
                               }()};
  for (const std::string& text : texts) {
    SCOPED_TRACE(text.substr(0, 20));
    v1::UpdateRoutesRequest request;
    for (int i = 0; i < 1000; ++i) AddUpdate(text, 1, request);
    const auto status = Call(running_, &Stub::UpdateRoutes, request).status;
    ExpectError(status, Code::INVALID_ARGUMENT, "UPDATE_INVALID",
                "updates[0].prefix");
    const auto bad = DetailOf<google::rpc::BadRequest>(status);
    ASSERT_EQ(bad.field_violations_size(), 16);
    EXPECT_EQ(bad.field_violations(15).field(), "updates[15].prefix");
    EXPECT_EQ(More(status.error_message()), 999);
    EXPECT_LT(status.error_details().size() + status.error_message().size(),
              6000U);
  }
}

TEST_F(GroupErrors, MistakesOfOtherListsAreCountedTheSame) {
  v1::UpdateRoutesRequest twice;
  for (int i = 0; i < 101; ++i) AddUpdate("2001:db8::/32", 1, twice);
  auto status = Call(running_, &Stub::UpdateRoutes, twice).status;
  ExpectError(status, Code::INVALID_ARGUMENT, "PREFIX_REPEATED",
              "updates[1].prefix");
  EXPECT_EQ(DetailOf<google::rpc::BadRequest>(status).field_violations_size(),
            16);
  EXPECT_EQ(More(status.error_message()), 99);

  v1::UpdateNextHopsRequest hops;
  for (uint32_t i = 0; i < 50; ++i) hops.add_delete_ids(1000 + i);
  status = Call(running_, &Stub::UpdateNextHops, hops).status;
  ExpectError(status, Code::NOT_FOUND, "NEXT_HOP_NOT_FOUND", "delete_ids[0]");
  EXPECT_EQ(More(status.error_message()), 49);

  v1::ReplaceRoutesRequest routes;
  for (int i = 0; i < 30; ++i) routes.add_routes();
  routes.set_commit(true);
  status = Call(running_, &Stub::ReplaceRoutes, {routes}).status;
  ExpectError(status, Code::INVALID_ARGUMENT, "ROUTE_INVALID", "routes[0]");
  EXPECT_EQ(More(status.error_message()), 29);
}

// Exactly as many as are listed, and one.
TEST_F(GroupErrors, AFewMistakesAreAllListed) {
  for (const int count : {1, 16}) {
    v1::UpdateRoutesRequest request = Updates({{"::/0", 1}});
    for (int i = 0; i < count; ++i) request.add_updates();
    const auto status = Call(running_, &Stub::UpdateRoutes, request).status;
    const auto bad = DetailOf<google::rpc::BadRequest>(status);
    EXPECT_EQ(bad.field_violations_size(), count);
    EXPECT_EQ(bad.field_violations(count - 1).field(),
              absl::StrCat("updates[", count, "].op"));
    if (count > 1) {
      EXPECT_EQ(More(status.error_message()), count - 1);
    }
  }
}

}  // namespace
}  // namespace planb::server
