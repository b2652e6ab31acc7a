// SPDX-License-Identifier: Apache-2.0

// How watches begin and end: bookmarks, resuming, generations that take several
// messages, watchers that fall behind, and tables that go.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "server/testing/control_calls.h"

namespace planb::server {
namespace {

// The client's end. Not thread-safe.
class Watch {
 public:
  Watch(Stub& stub, uint64_t start, const std::string& table = "") {
    v1::WatchRoutesRequest request;
    request.set_start_generation(start);
    request.set_table(table);
    reader_ = stub.WatchRoutes(&context_, request);
  }
  ~Watch() {
    context_.TryCancel();
    v1::WatchRoutesResponse rest;
    while (reader_ != nullptr && reader_->Read(&rest)) continue;
  }

  bool Read(v1::WatchRoutesResponse* message) { return reader_->Read(message); }
  v1::WatchRoutesResponse Read() {
    v1::WatchRoutesResponse message;
    EXPECT_TRUE(reader_->Read(&message));
    return message;
  }
  // Reads what is left, which must be bookmarks.
  grpc::Status Finish() {
    v1::WatchRoutesResponse message;
    while (reader_->Read(&message)) {
      EXPECT_TRUE(message.updates().empty()) << message.ShortDebugString();
    }
    return reader_->Finish();
  }

 private:
  CallContext context_;
  std::unique_ptr<grpc::ClientReader<v1::WatchRoutesResponse>> reader_;
};

TEST(ControlWatch, BeginsWithABookmarkAndHasThemNowAndThen) {
  ServerOptions options;
  options.control.bookmark_interval = absl::Milliseconds(10);
  RunningServer running(options);
  running.Announce({{"::/0", 1}});
  running.Announce({{"::/0", 2}});
  Watch watch(running.table(), 1);
  v1::WatchRoutesResponse message = watch.Read();
  EXPECT_EQ(message.generation(), 1U);
  EXPECT_TRUE(message.updates().empty());
  EXPECT_TRUE(message.generation_complete());
  message = watch.Read();
  EXPECT_EQ(message.generation(), 2U);
  ASSERT_EQ(message.updates_size(), 1);
  EXPECT_EQ(message.updates(0).next_hop_id(), 2U);
  for (int i = 0; i < 3; ++i) {
    message = watch.Read();
    EXPECT_TRUE(message.updates().empty());
    EXPECT_EQ(message.generation(), 2U);
    EXPECT_EQ(message.digest(), GetTable(running).digest());
  }
}

// What has no route in it is a generation all the same.
TEST(ControlWatch, TellsOfNextHopsAndGroups) {
  RunningServer running;
  Watch watch(running.table(), 0);
  EXPECT_EQ(watch.Read().generation(), 0U);
  v1::UpdateNextHopsRequest request;
  request.add_upserts()->set_id(1);
  AddGroup(9, {{1, 7}}, *request.mutable_group_upserts());
  ASSERT_TRUE(Call(running, &Stub::UpdateNextHops, request).status.ok());
  v1::WatchRoutesResponse message = watch.Read();
  EXPECT_EQ(message.generation(), 1U);
  ASSERT_EQ(message.next_hops_size(), 1);
  EXPECT_EQ(message.next_hops(0).id(), 1U);
  ASSERT_EQ(message.groups_size(), 1);
  EXPECT_EQ(message.groups(0).members(0).weight(), 7U);
  EXPECT_EQ(message.digest(), std::string(16, '\0'));
  request.Clear();
  request.add_delete_ids(1);
  request.add_delete_group_ids(9);
  ASSERT_TRUE(Call(running, &Stub::UpdateNextHops, request).status.ok());
  message = watch.Read();
  EXPECT_EQ(message.generation(), 2U);
  ASSERT_EQ(message.deleted_next_hop_ids_size(), 1);
  EXPECT_EQ(message.deleted_next_hop_ids(0), 1U);
  ASSERT_EQ(message.deleted_group_ids_size(), 1);
  EXPECT_EQ(message.deleted_group_ids(0), 9U);
}

// Nothing of the next generation before the last message of this one.
TEST(ControlWatch, ALargeGenerationIsSplitForAllToSee) {
  RunningServer running;
  Watch watch(running.table(), 0);
  EXPECT_EQ(watch.Read().generation(), 0U);
  v1::UpdateRoutesRequest large;
  for (int i = 0; i < 20'000; ++i) {
    AddUpdate(absl::StrCat("10.", i / 256, ".", i % 256, ".0/24"), 1, large);
  }
  ASSERT_TRUE(Call(running, &Stub::UpdateRoutes, large).status.ok());
  running.Announce({{"::/0", 2}});
  int routes = 0, messages = 0;
  for (bool complete = false; !complete; ++messages) {
    const v1::WatchRoutesResponse message = watch.Read();
    ASSERT_EQ(message.generation(), 1U);
    ASSERT_LE(message.ByteSizeLong(), size_t{80} << 10);
    routes += message.updates_size();
    complete = message.generation_complete();
    EXPECT_EQ(message.digest().empty(), !complete);
  }
  EXPECT_EQ(routes, 20'000);
  EXPECT_GT(messages, 5);
  EXPECT_EQ(watch.Read().generation(), 2U);
}

// The server's memory for those who do not read is what it keeps of history;
// those who do are not disturbed.
TEST(ControlWatch, ASlowWatcherIsCutOffAndOthersGoOn) {
  ServerOptions options;
  options.tables.table.history_bytes = 4 << 20;
  RunningServer running(options);
  const auto other = v1::RouteTable::NewStub(running.unix_socket());
  Watch slow(running.table(), 0);
  EXPECT_EQ(slow.Read().generation(), 0U);

  constexpr uint64_t kGenerations = 400;  // 26 MB on the wire
  std::atomic<uint64_t> seen{0};
  std::thread fast([&] {
    Watch watch(*other, 0);
    v1::WatchRoutesResponse message;
    while (seen.load() < kGenerations) {
      if (!watch.Read(&message)) {
        ADD_FAILURE() << watch.Finish().error_message();
        seen = kGenerations;
      } else if (message.generation_complete()) {
        seen = message.generation();
        seen.notify_one();
      }
    }
    seen.notify_one();
  });
  v1::UpdateRoutesRequest request;
  for (int i = 0; i < 2000; ++i) {
    AddUpdate(absl::StrCat("2001:db8:", i, "::/48"), 1, request);
  }
  uint64_t most = 0;
  for (uint32_t generation = 1; generation <= kGenerations; ++generation) {
    for (v1::RouteUpdate& update : *request.mutable_updates()) {
      update.set_next_hop_id(generation);
    }
    ASSERT_TRUE(Call(running, &Stub::UpdateRoutes, request).status.ok());
    // The fast one is given the time it needs, however busy the machine is.
    for (uint64_t at = seen; at + 5 < generation; at = seen) seen.wait(at);
    if (generation % 50 == 0) {
      most = std::max(most, GetTable(running).history_bytes());
    }
  }
  fast.join();
  EXPECT_EQ(seen.load(), kGenerations);
  EXPECT_GT(most, uint64_t{2} << 20);
  EXPECT_LE(most, uint64_t{4} << 20);

  v1::WatchRoutesResponse message;
  uint64_t last = 0;
  while (slow.Read(&message)) {
    ASSERT_EQ(message.generation(),
              message.updates().empty() ? last : last + 1);
    last = message.generation();
  }
  EXPECT_LT(last, kGenerations);
  const grpc::Status status = slow.Finish();
  ExpectQuota(status, "WATCHER_TOO_SLOW", false);
  EXPECT_NE(status.error_message().find(absl::StrCat(last + 1)),
            std::string::npos)
      << status.error_message();
}

TEST(ControlWatch, EndsWithItsTable) {
  RunningServer running;
  CreateTable(running, "red");
  CreateTable(running, "blue");
  Watch red(running.table(), 0, "red"), blue(running.table(), 0, "blue");
  EXPECT_EQ(red.Read().generation(), 0U);
  EXPECT_EQ(blue.Read().generation(), 0U);
  ASSERT_TRUE(DeleteTable(running, "red").ok());
  ExpectError(red.Finish(), Code::NOT_FOUND, "TABLE_NOT_FOUND", "table");
  // Who held the old one's last generation is not taken for its successor's.
  CreateTable(running, "red");
  ASSERT_TRUE(Call(running, &Stub::UpdateRoutes, Updates({{"::/0", 1}}, "blue"))
                  .status.ok());
  EXPECT_EQ(blue.Read().generation(), 1U);
  running.server().Drain(absl::Minutes(1));
  ExpectError(blue.Finish(), Code::UNAVAILABLE, "DRAINING", "");
}

// Whoever has seen a generation may go on from it, at once.
TEST(ControlWatch, BeginsWhereALookupOrAnAckLeftOff) {
  RunningServer running;
  v1::UpdateRoutesRequest request;
  for (int i = 0; i < 1000; ++i) {
    AddUpdate(absl::StrCat("10.", i / 256, ".", i % 256, ".0/24"), 1, request);
  }
  for (uint32_t round = 1; round <= 200; ++round) {
    for (v1::RouteUpdate& update : *request.mutable_updates()) {
      update.set_next_hop_id(round);
    }
    request.set_ack(round % 2 == 0 ? v1::ACK_VISIBLE : v1::ACK_ACCEPTED);
    ASSERT_TRUE(Call(running, &Stub::UpdateRoutes, request).status.ok());
    v1::LookupRequest lookup;
    lookup.add_addresses()->set_text("10.0.0.1");
    lookup.set_min_generation(round);
    CallContext context;
    v1::LookupResponse answer;
    if (round % 2 == 1) {
      ASSERT_TRUE(running.lookup().Lookup(&context, lookup, &answer).ok());
      ASSERT_EQ(answer.generation(), round);
    }
    Watch watch(running.table(), round);
    v1::WatchRoutesResponse bookmark;
    ASSERT_TRUE(watch.Read(&bookmark)) << watch.Finish().error_message();
    ASSERT_EQ(bookmark.generation(), round);
    ASSERT_FALSE(bookmark.digest().empty());
  }
}

TEST(ControlWatch, ResumesAnywhereInWhatIsKept) {
  RunningServer running;
  for (uint32_t i = 1; i <= 20; ++i) running.Announce({{"::/0", i}});
  for (uint64_t start = 0; start <= 20; ++start) {
    Watch watch(running.table(), start);
    EXPECT_EQ(watch.Read().generation(), start);
    for (uint64_t next = start + 1; next <= 20; ++next) {
      const v1::WatchRoutesResponse message = watch.Read();
      ASSERT_EQ(message.generation(), next);
      ASSERT_EQ(message.updates(0).next_hop_id(), next);
    }
  }
}

}  // namespace
}  // namespace planb::server
