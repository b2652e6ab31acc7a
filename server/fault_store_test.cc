// SPDX-License-Identifier: Apache-2.0

// A store without room, without a directory or in use by another server. The
// server refuses updates or its start with a clear error; it never serves a
// partial table and never loses an acknowledged batch.

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "server/store/sqlite_store.h"
#include "server/testing/faulty_disk.h"
#include "server/testing/running_server.h"
#include "server/testing/store_place.h"
#include "server/testing/stored_server.h"

namespace planb::server {
namespace {

using testing::HasSubstr;

// The path as SQLite names it.
std::string NewStore(const std::string& name) {
  return std::filesystem::path(NewStorePath(name)).lexically_normal();
}

std::string DirectoryOf(const std::string& path) {
  return std::filesystem::path(path).parent_path().string();
}

// Expects that a server on `store` ends with status 1; returns its only line.
std::string Refusal(const std::string& store) {
  StoredServer server(store);
  EXPECT_FALSE(server.Begins()) << server.process().Log();
  EXPECT_EQ(server.process().Wait(), 1);
  return OneLine(server.process());
}

// Announces routes until the store is full, makes room, and announces more.
void FillUp(StoredServer& server, const std::string& store,
            const std::function<void()>& make_room) {
  uint32_t batch = 0;
  grpc::Status status;
  v1::Table before;
  while (true) {
    before = server.State();
    v1::UpdateRoutesRequest request =
        Announcement(0, 1 + batch * 500 % 5000, batch + 1);
    request.set_request_id(absl::StrCat("batch ", batch));
    status = server.Update(request);
    if (!status.ok()) break;
    ASSERT_LT(++batch, 1000U) << "never full";
  }
  ASSERT_GT(batch, 0U);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ReasonOf(status), "STORE_FULL") << status.error_message();
  EXPECT_THAT(status.error_message(), HasSubstr(store));

  // The refused update changes nothing that readers see.
  const auto expect_as_before = [&] {
    const v1::Table state = server.State();
    EXPECT_EQ(state.accepted_generation(), before.accepted_generation());
    EXPECT_EQ(state.visible_generation(), before.visible_generation());
    EXPECT_EQ(state.persisted_generation(), before.persisted_generation());
    EXPECT_EQ(state.digest(), before.digest());
    EXPECT_EQ(state.writer_epoch(), before.writer_epoch());
    EXPECT_EQ(server.List().digest, before.digest());
    EXPECT_EQ(server.Lookup("2001:db8::1"), batch);
  };
  expect_as_before();
  EXPECT_GE(server.Metric("planb_store_errors_total"), 1);

  // A stream gets the error as an answer and stays open.
  grpc::ClientContext call;
  const auto stream = server.table().StreamUpdates(&call);
  v1::StreamUpdatesRequest large;
  v1::UpdateRoutesRequest updates = Announcement(0, 60'000, 1 << 20);
  large.mutable_updates()->Swap(updates.mutable_updates());
  large.set_batch_id(7);
  large.set_writer_epoch(3);
  ASSERT_TRUE(stream->Write(large));
  v1::StreamUpdatesResponse answer;
  ASSERT_TRUE(stream->Read(&answer));  // the first credits
  ASSERT_TRUE(stream->Read(&answer));
  EXPECT_EQ(answer.batch_id(), 7U);
  EXPECT_EQ(answer.error().code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(answer.error().reason(), "STORE_FULL");
  expect_as_before();

  make_room();
  ASSERT_TRUE(stream->Write(large));
  ASSERT_TRUE(stream->Read(&answer));
  EXPECT_FALSE(answer.has_error()) << answer.ShortDebugString();
  EXPECT_EQ(answer.generation(), before.accepted_generation() + 1);
  // A refused request is not remembered: a repeat is applied.
  v1::UpdateRoutesRequest again = Announcement(0, 10, batch + 1);
  again.set_writer_epoch(3);
  again.set_request_id(absl::StrCat("batch ", batch));
  v1::UpdateRoutesResponse response;
  status = server.Update(again, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.generation(), before.accepted_generation() + 2);

  const Listed full = server.List();
  server.KillNow();
  StoredServer restarted(store);
  ASSERT_TRUE(restarted.Begins()) << restarted.process().Log();
  EXPECT_EQ(restarted.List(), full);
}

TEST(FaultStore, FullDiskRefusesUpdatesUntilThereIsRoom) {
  const std::string store = NewStore("full");
  const std::string directory = DirectoryOf(store);
  if (mount("tmpfs", directory.c_str(), "tmpfs", 0, "size=1m") != 0) {
    GTEST_SKIP() << "may not mount a small tmpfs: " << std::strerror(errno);
  }
  const absl::Cleanup unmount = [&] { umount2(directory.c_str(), MNT_DETACH); };
  StoredServer server(store, {kMetrics});
  ASSERT_TRUE(server.Begins()) << server.process().Log();
  FillUp(server, store, [&] {
    ASSERT_EQ(
        mount("tmpfs", directory.c_str(), "tmpfs", MS_REMOUNT, "size=200m"), 0)
        << std::strerror(errno);
  });
}

TEST(FaultStore, FileLimitRefusesUpdatesUntilItIsRaised) {
  const std::string store = NewStore("limited");
  StoredServer server(store, {kMetrics});
  ASSERT_TRUE(server.Begins()) << server.process().Log();
  struct rlimit old;
  ASSERT_EQ(prlimit(server.process().pid(), RLIMIT_FSIZE, nullptr, &old), 0);
  struct rlimit small = old;
  small.rlim_cur = 600'000;
  ASSERT_EQ(prlimit(server.process().pid(), RLIMIT_FSIZE, &small, nullptr), 0);
  FillUp(server, store, [&] {
    ASSERT_EQ(prlimit(server.process().pid(), RLIMIT_FSIZE, &old, nullptr), 0);
  });
}

// The disk of the store hangs in fsync. Lookups go on, and the server goes down
// in time, after 5 s.
TEST(FaultStore, HungDiskDoesNotHoldUpTheEnd) {
  auto opened = SqliteStore::Open(
      {.path = NewStorePath("hung"), .vfs = FaultyDisk::Vfs()});
  ASSERT_TRUE(opened.ok()) << opened.status();
  const absl::Cleanup answer = [] { FaultyDisk::Answer(); };
  auto running = [&] {
    ServerOptions options;
    options.store = *std::move(opened);
    return std::make_unique<RunningServer>(std::move(options));
  }();
  running->Announce({{"2001:db8::/32", 7}});
  FaultyDisk::Hang();
  const auto in_thread = [](auto call) {
    return std::async(std::launch::async, call);
  };
  auto update = in_thread([&] {
    v1::UpdateRoutesRequest request = Announcement(0, 1, 8);
    v1::UpdateRoutesResponse response;
    grpc::ClientContext call;
    return running->table().UpdateRoutes(&call, request, &response);
  });
  FaultyDisk::AwaitHang();
  auto creation = in_thread([&] {
    v1::CreateTableRequest request;
    request.set_table("red");
    v1::Table response;
    grpc::ClientContext call;
    return running->table().CreateTable(&call, request, &response);
  });
  v1::LookupRequest lookup;
  lookup.add_addresses()->set_text("2001:db8::1");
  v1::LookupResponse found;
  grpc::ClientContext call;
  ASSERT_TRUE(running->lookup().Lookup(&call, lookup, &found).ok());
  EXPECT_EQ(found.results(0).next_hop_id(), 7U);

  const absl::Time start = absl::Now();
  running->server().Drain(absl::Seconds(1));
  EXPECT_LT(absl::Now() - start, absl::Seconds(10));
  const grpc::Status updated = update.get();
  EXPECT_EQ(updated.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(ReasonOf(updated), "STORE_FAILED") << updated.error_message();
  EXPECT_EQ(creation.get().error_code(), grpc::StatusCode::UNAVAILABLE);
  // Also the destructors, which main() runs.
  running.reset();
  EXPECT_LT(absl::Now() - start, absl::Seconds(20));
}

TEST(FaultStore, MissingDirectoryIsRefused) {
  const std::string store = NewStore("missing") + ".d/planb.db";
  EXPECT_THAT(Refusal(store), HasSubstr(store));
  EXPECT_FALSE(std::filesystem::exists(DirectoryOf(store)));
}

TEST(FaultStore, SecondServerIsRefusedAndTheFirstGoesOn) {
  const std::string store = NewStore("shared");
  StoredServer first(store);
  ASSERT_TRUE(first.Begins());
  ASSERT_TRUE(first.Update(Announcement(0, 10, 1)).ok());
  const std::string line = Refusal(store);
  EXPECT_THAT(line, HasSubstr(store));
  EXPECT_THAT(line, HasSubstr("another"));
  ASSERT_TRUE(first.Update(Announcement(0, 10, 2)).ok());
  EXPECT_EQ(first.Lookup("2001:db8::1"), 2U);
  const Listed listed = first.List();
  first.KillNow();
  StoredServer third(store);
  ASSERT_TRUE(third.Begins()) << third.process().Log();
  EXPECT_EQ(third.List(), listed);
}

}  // namespace
}  // namespace planb::server
