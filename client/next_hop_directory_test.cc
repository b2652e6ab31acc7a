// SPDX-License-Identifier: Apache-2.0

// The meaning of ids beside a real server. client/go/directory_test.go and
// client/python/planb_lookup_test.py have the same cases.

#include "client/next_hop_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/testing/server_process.h"
#include "client/table_client.h"
#include "client/testing/real_server_fixture.h"

namespace planb::client {
namespace {

using ::testing::HasSubstr;

absl::Time Soon() { return absl::Now() + absl::Seconds(60); }

class NextHopDirectoryTest : public testing::RealServerFixture {
 protected:
  // The generation of a change.
  uint64_t Change(const v1::UpdateNextHopsRequest& request) {
    const auto response = TableClient(Channel()).UpdateNextHops(request);
    EXPECT_TRUE(response.ok()) << response.status();
    return response.ok() ? response->generation() : 0;
  }
  uint64_t Label(NextHopId id, const std::string& label) {
    v1::UpdateNextHopsRequest request;
    *request.add_upserts() = ToProto(NextHop{.id = id, .label = label});
    return Change(request);
  }
  static std::string LabelOf(const NextHopDirectory& directory, NextHopId id) {
    const auto now = directory.Read();
    const NextHop* found = now.objects->FindNextHop(id);
    return found == nullptr ? "none" : found->label;
  }
  std::unique_ptr<NextHopDirectory> Follow(
      NextHopDirectoryOptions options = {}) {
    auto directory = NextHopDirectory::Follow(Channel(), options, Soon());
    EXPECT_TRUE(directory.ok()) << directory.status();
    return directory.ok() ? *std::move(directory) : nullptr;
  }
};

TEST_F(NextHopDirectoryTest, KnowsObjectsAndGroupsAndFollowsTheirChanges) {
  const NextHop neighbor = {.id = 1,
                            .gateway = *Address::Parse("fe80::1"),
                            .interface = "eth0",
                            .label = "transit"};
  v1::UpdateNextHopsRequest first;
  *first.add_upserts() = ToProto(neighbor);
  *first.add_upserts() = ToProto(NextHop{.id = 2, .label = "other"});
  const NextHopGroup group = {
      .id = 5, .members = {{1, 3}, {2, 1}, {9, 1}}, .label = "both"};
  *first.add_group_upserts() = ToProto(group);
  Change(first);
  const auto directory = Follow();
  ASSERT_NE(directory, nullptr);
  EXPECT_TRUE(directory->state().ok());
  const auto before = directory->Read();
  EXPECT_EQ(before.generation, 1U);
  EXPECT_EQ(before.objects->size(), 3U);
  ASSERT_NE(before.objects->FindNextHop(1), nullptr);
  EXPECT_EQ(*before.objects->FindNextHop(1), neighbor);
  EXPECT_EQ(before.objects->FindGroup(1), nullptr);
  ASSERT_NE(before.objects->FindGroup(5), nullptr);
  EXPECT_EQ(*before.objects->FindGroup(5), group);
  EXPECT_EQ(before.objects->FindNextHop(5), nullptr);
  EXPECT_EQ(before.objects->FindNextHop(9), nullptr);

  v1::UpdateNextHopsRequest second;
  second.add_delete_group_ids(5);
  second.add_delete_ids(2);
  *second.add_upserts() = ToProto(NextHop{.id = 9, .label = "new"});
  ASSERT_TRUE(directory->WaitFor(Change(second), Soon()).ok());
  EXPECT_EQ(LabelOf(*directory, 9), "new");
  EXPECT_EQ(LabelOf(*directory, 2), "none");
  EXPECT_EQ(directory->Read().objects->FindGroup(5), nullptr);
  EXPECT_EQ(LabelOf(*directory, 1), "transit");
  // A snapshot stays what it is.
  EXPECT_EQ(before.objects->FindNextHop(2)->label, "other");
}

TEST_F(NextHopDirectoryTest, ReachesGenerationsThatChangeRoutesAlone) {
  Label(1, "one");
  const auto directory = Follow();
  ASSERT_NE(directory, nullptr);
  const auto before = directory->Read();
  v1::UpdateRoutesRequest request;
  *request.add_updates() = ToUpdate({*Prefix::Parse("2001:db8::/32"), 1});
  const auto response = TableClient(Channel()).UpdateRoutes(request);
  ASSERT_TRUE(response.ok()) << response.status();
  ASSERT_TRUE(directory->WaitFor(response->generation(), Soon()).ok());
  EXPECT_EQ(directory->Read().objects, before.objects);
  EXPECT_EQ(directory->Read().objects_version, before.objects_version);
  const absl::Status later = directory->WaitFor(
      response->generation() + 1, absl::Now() + absl::Milliseconds(10));
  EXPECT_EQ(later.code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(NextHopDirectoryTest, KeepsItsAnswersWhileTheServerIsAway) {
  const std::string store = TempPath("directory.db");
  Start(store);
  Label(1, "one");
  const auto directory = Follow();
  ASSERT_NE(directory, nullptr);
  Kill();
  while (directory->state().ok()) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_EQ(directory->state().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(LabelOf(*directory, 1), "one");
  Start(store);
  ASSERT_TRUE(directory->WaitFor(Label(2, "two"), Soon()).ok());
  EXPECT_EQ(LabelOf(*directory, 1), "one");
  EXPECT_EQ(LabelOf(*directory, 2), "two");
  EXPECT_TRUE(directory->state().ok()) << directory->state();
}

// Its generations begin again, and soon have the numbers of before.
TEST_F(NextHopDirectoryTest, IsThatOfAServerThatLostItsTable) {
  Label(1, "one");
  Label(2, "two");
  const auto directory = Follow();
  ASSERT_NE(directory, nullptr);
  const uint64_t version = directory->Read().objects_version;
  Kill();
  Start("none");
  Label(3, "three");
  Label(3, "four");
  while (LabelOf(*directory, 3) != "four") {
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_EQ(LabelOf(*directory, 1), "none");
  EXPECT_EQ(directory->Read().generation, 2U);
  EXPECT_GT(directory->Read().objects_version, version);
}

TEST_F(NextHopDirectoryTest, ReadsAGenerationAsAWhole) {
  const auto both = [](int n) {
    v1::UpdateNextHopsRequest request;
    for (const NextHopId id : {1, 2}) {
      *request.add_upserts() =
          ToProto(NextHop{.id = id, .label = absl::StrCat(n)});
    }
    return request;
  };
  Change(both(0));
  const auto directory = Follow();
  ASSERT_NE(directory, nullptr);
  std::atomic<bool> stop = false;
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i) {
    readers.emplace_back([&] {
      uint64_t last = 0;
      while (!stop) {
        const auto now = directory->Read();
        EXPECT_GE(now.generation, last);
        last = now.generation;
        ASSERT_EQ(now.objects->FindNextHop(1)->label,
                  now.objects->FindNextHop(2)->label);
      }
    });
  }
  uint64_t last = 0;
  for (int n = 1; n <= 200; ++n) last = Change(both(n));
  EXPECT_TRUE(directory->WaitFor(last, Soon()).ok());
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(LabelOf(*directory, 1), "200");
}

TEST_F(NextHopDirectoryTest, RefusesMoreObjectsThanItMayHave) {
  Label(1, "one");
  Label(2, "two");
  const auto refused =
      NextHopDirectory::Follow(Channel(), {.max_objects = 1}, Soon());
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  const auto directory = Follow({.max_objects = 2});
  ASSERT_NE(directory, nullptr);
  Label(3, "three");
  while (directory->state().ok()) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_THAT(std::string(directory->state().message()),
              HasSubstr("more than 2 next hops"));
  EXPECT_EQ(LabelOf(*directory, 2), "two");
  EXPECT_EQ(LabelOf(*directory, 3), "none");
}

TEST_F(NextHopDirectoryTest, SaysWhyThereIsNone) {
  EXPECT_EQ(NextHopDirectory::Follow(Channel(), {.table = "red"}, Soon())
                .status()
                .code(),
            absl::StatusCode::kNotFound);
  Kill();
  const absl::Status status =
      NextHopDirectory::Follow(Channel(), {},
                               absl::Now() + absl::Milliseconds(200))
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), HasSubstr("not there in time: "));
}

}  // namespace
}  // namespace planb::client
