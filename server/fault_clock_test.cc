// SPDX-License-Identifier: Apache-2.0

// The wall clock of a server jumps an hour forward and back while updates and
// lookups wait: no call hangs, none is refused early, generations only rise.

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/testing/test_clock.h"
#include "server/testing/store_place.h"
#include "server/testing/stored_server.h"

namespace planb::server {
namespace {

constexpr absl::Duration kHour = TestClock::kHour;

std::unique_ptr<StoredServer> Start(const TestClock& clock,
                                    const std::string& store,
                                    std::vector<std::string> flags) {
  std::unique_ptr<StoredServer> server;
  {
    const TestClock::Affecting affecting(clock);
    server = std::make_unique<StoredServer>(store, std::move(flags));
  }
  EXPECT_TRUE(server->Begins()) << server->process().Log();
  return server;
}

class FaultClock : public testing::Test {
 protected:
  void SetUp() override {
    server_ = Start(
        clock_,
        NewStorePath(
            testing::UnitTest::GetInstance()->current_test_info()->name()),
        {"--max_generation_wait=50s", kMetrics});
    ASSERT_TRUE(server_->Update(Announcement(0, 10, 1)).ok());
  }

  void TearDown() override {
    if (HasFailure()) std::cout << server_->process().Log();
  }

  // Repeats `body` in a thread until FinishWhen() ends it, at least once.
  void Repeat(const std::function<void()>& body) {
    threads_.emplace_back([this, body] {
      do {
        body();
      } while (!stop_.load() && !HasFailure());
    });
  }

  // Waits until `enough` has happened, then ends all that is repeated.
  void FinishWhen(const std::function<bool()>& enough) {
    ASSERT_TRUE(Await([&] { return enough() || HasFailure(); }, 2 * kPatience));
    stop_.store(true);
    for (std::thread& thread : threads_) thread.join();
  }

  static void SetDeadline(grpc::ClientContext& call) {
    call.set_deadline(absl::ToChronoTime(absl::Now() + 3 * kPatience));
  }

  void ExpectUpdate(const v1::UpdateRoutesRequest& request) {
    v1::UpdateRoutesResponse response;
    const grpc::Status status = server_->Update(request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_GE(response.visible_generation(), response.generation());
    uint64_t seen = generation_.load();
    while (seen < response.generation() &&
           !generation_.compare_exchange_weak(seen, response.generation())) {
    }
  }

  TestClock clock_;
  std::unique_ptr<StoredServer> server_;
  std::atomic<uint64_t> generation_ = 1;
  std::atomic<bool> stop_ = false;
  std::vector<std::thread> threads_;
};

// The other tests prove nothing if the server does not see this clock.
TEST_F(FaultClock, ServerSeesTheOffset) {
  for (const absl::Duration offset : {kHour, -kHour, absl::ZeroDuration()}) {
    clock_.Set(offset);
    v1::UpdateRoutesResponse response;
    const auto request = Announcement(
        1, 1, static_cast<NextHopId>(5 + absl::ToInt64Hours(offset)));
    ASSERT_TRUE(server_->Update(request, &response).ok());
    const absl::Duration off = absl::FromUnixNanos(static_cast<int64_t>(
                                   response.accepted_unix_nanos())) -
                               absl::Now();
    EXPECT_LT(absl::AbsDuration(off - offset), absl::Minutes(10)) << off;
  }
}

TEST_F(FaultClock, NothingIsRefusedOrOutOfOrder) {
  clock_.StartJumping();
  std::atomic<int> large = 0, waited = 0, batches = 0, watched = 0;
  Repeat([&] {
    // Takes long to become visible: the ack waits across jumps.
    ExpectUpdate(Announcement(0, 20'000, 100 + ++large % 2));
  });
  Repeat([&] {
    absl::SleepFor(absl::Milliseconds(30));
    const uint64_t next = generation_.load() + 1;
    server_->Lookup("2001:db8::1", next);
    ++waited;
  });
  Repeat([&] {
    grpc::ClientContext call;
    SetDeadline(call);
    const auto stream = server_->lookup().BatchLookup(&call);
    uint64_t last = 0;
    for (int i = 0; i < 20; ++i, ++batches) {
      v1::BatchLookupRequest request;
      request.set_addresses_v6(std::string(16, '\x20'));
      request.set_min_generation(generation_.load() + 1);
      request.set_max_wait_ms(50'000);
      v1::BatchLookupResponse reply;
      ASSERT_TRUE(stream->Write(request));
      ASSERT_TRUE(stream->Read(&reply));
      ASSERT_FALSE(reply.has_error()) << reply.ShortDebugString();
      ASSERT_GE(reply.generation(), request.min_generation());
      ASSERT_GE(reply.generation(), last);
      last = reply.generation();
    }
    stream->WritesDone();
    EXPECT_TRUE(stream->Finish().ok());
  });
  Repeat([&] {
    grpc::ClientContext call;
    SetDeadline(call);
    v1::WatchRoutesRequest request;
    request.set_start_generation(generation_.load());
    const auto watch = server_->table().WatchRoutes(&call, request);
    uint64_t last = request.start_generation();
    v1::WatchRoutesResponse change;
    while (last < request.start_generation() + 5) {
      ASSERT_TRUE(watch->Read(&change)) << watch->Finish().error_message();
      if (!change.generation_complete() || change.generation() == last) {
        continue;
      }
      ASSERT_EQ(change.generation(), last + 1);
      last = change.generation();
      ++watched;
    }
    call.TryCancel();
    watch->Finish();
  });
  // The last calls that wait for a next generation need one.
  std::atomic<bool> end = false;
  std::thread updates([&] {
    for (NextHopId hop = 1; !end.load() && !HasFailure(); ++hop) {
      ExpectUpdate(Announcement(30'000, 10, hop));
      absl::SleepFor(absl::Milliseconds(20));
    }
  });
  FinishWhen([&] {
    return clock_.jumps() > 200 && large > 4 && waited > 40 && batches > 100 &&
           watched > 40;
  });
  end.store(true);
  updates.join();
  std::cout << clock_.jumps() << " jumps, " << generation_.load()
            << " generations, " << large << " large updates, " << waited
            << " lookups and " << batches << " batches that waited, " << watched
            << " generations watched\n";
  // Durations are measured by another clock.
  for (const char* duration :
       {"planb_visibility_seconds", "planb_store_commit_seconds",
        "planb_lookup_batch_duration_seconds",
        "planb_rebuild_duration_seconds"}) {
    const std::string kind = absl::StartsWith(duration, "planb_rebuild")
                                 ? "{kind=\"incremental\"}"
                                 : "";
    EXPECT_GT(server_->Metric(absl::StrCat(duration, "_count", kind)), 0);
    const double sum = server_->Metric(absl::StrCat(duration, "_sum", kind));
    EXPECT_GT(sum, 0) << duration;
    EXPECT_LT(sum, absl::ToDoubleSeconds(kHour / 2)) << duration;
  }
}

// A build of so many routes takes longer than the time between two jumps.
TEST_F(FaultClock, AcksWaitForSlowBuilds) {
  server_ = Start(clock_, "none", {"--generate=1000000"});
  clock_.StartJumping();
  for (NextHopId hop = 1; hop <= 8; ++hop) {
    ExpectUpdate(Announcement(0, 60'000, hop));
  }
}

// Takes 5 s, the time between two bookmarks.
TEST_F(FaultClock, IdleWatchersGetBookmarksAfterAJumpBack) {
  grpc::ClientContext call;
  SetDeadline(call);
  v1::WatchRoutesRequest from_here;
  from_here.set_start_generation(1);
  const auto watch = server_->table().WatchRoutes(&call, from_here);
  v1::WatchRoutesResponse bookmark;
  ASSERT_TRUE(watch->Read(&bookmark));
  // The server now waits for the next bookmark; a shorter wait proves less, but
  // does not fail.
  absl::SleepFor(absl::Milliseconds(300));
  clock_.Set(-kHour);
  EXPECT_TRUE(watch->Read(&bookmark)) << watch->Finish().error_message();
  EXPECT_EQ(bookmark.generation(), 1U);
}

// A policy file is read again in time although the clock was set back an hour
// while the reloading thread slept. Certificates are reloaded in the same way.
TEST_F(FaultClock, FilesAreReloadedAfterAJumpBack) {
  const std::string path = TempPath("policy.json");
  const auto allow = [&](const char* rpc) {
    std::ofstream(path + ".new")
        << R"({"name": "p", "allow_rules": [{"name": "r", "request": )"
        << R"({"paths": ["/planb.v1.RouteTable/)" << rpc << R"("]}}]})";
    ASSERT_EQ(std::rename((path + ".new").c_str(), path.c_str()), 0);
  };
  allow("*");
  server_ = Start(clock_, "none",
                  {absl::StrCat("--authorization_policy=", path),
                   "--authorization_reload_interval=500ms"});
  const auto await = [&](grpc::StatusCode code) {
    ASSERT_TRUE(Await([&] {
      return server_->Update(Announcement(0, 1, 1)).error_code() == code;
    }));
  };
  // Once the file was read again, the thread sleeps.
  allow("GetTable");
  await(grpc::StatusCode::PERMISSION_DENIED);
  clock_.Set(-kHour);
  allow("*");
  await(grpc::StatusCode::OK);
  unlink(path.c_str());
}

// A wait for a generation that never comes takes as long as it may take.
TEST_F(FaultClock, WaitsKeepTheirTime) {
  clock_.StartJumping();
  grpc::ClientContext call;
  SetDeadline(call);
  const auto stream = server_->lookup().BatchLookup(&call);
  for (int i = 0; i < 4; ++i) {
    constexpr uint32_t kWait = 250;
    v1::BatchLookupRequest request;
    request.set_addresses_v6(std::string(16, '\x20'));
    request.set_min_generation(1000);
    request.set_max_wait_ms(kWait);
    v1::BatchLookupResponse reply;
    const absl::Time start = absl::Now();
    ASSERT_TRUE(stream->Write(request));
    ASSERT_TRUE(stream->Read(&reply)) << stream->Finish().error_message();
    EXPECT_EQ(reply.error().reason(), "GENERATION_NOT_VISIBLE");
    EXPECT_GE(absl::Now() - start, absl::Milliseconds(kWait - 1));
  }
}

TEST_F(FaultClock, DrainEnds) {
  clock_.StartJumping();
  grpc::ClientContext watch_call, lookup_call;
  SetDeadline(watch_call);
  SetDeadline(lookup_call);
  v1::WatchRoutesRequest from_here;
  from_here.set_start_generation(1);
  const auto watch = server_->table().WatchRoutes(&watch_call, from_here);
  v1::WatchRoutesResponse bookmark;
  ASSERT_TRUE(watch->Read(&bookmark));
  const auto lookups = server_->lookup().BatchLookup(&lookup_call);
  v1::BatchLookupRequest request;
  request.set_min_generation(1000);
  request.set_max_wait_ms(50'000);
  ASSERT_TRUE(lookups->Write({}));
  v1::BatchLookupResponse reply;
  ASSERT_TRUE(lookups->Read(&reply));
  ASSERT_TRUE(lookups->Write(request));
  EXPECT_EQ(server_->End(), 0);
  while (watch->Read(&bookmark)) continue;
  EXPECT_EQ(watch->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

}  // namespace
}  // namespace planb::server
