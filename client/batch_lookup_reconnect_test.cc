// SPDX-License-Identifier: Apache-2.0

// When the server breaks, every batch is answered once, correctly and in order,
// or the handle ends with the reason.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/testing/await.h"
#include "client/batch_lookup.h"
#include "client/call.h"
#include "client/testing/misbehaving_proxy.h"
#include "client/testing/real_server_fixture.h"

namespace planb::client {
namespace {

using ::testing::ElementsAre;
using testing::HopOf;
using testing::MakeError;
using testing::MisbehavingProxy;
using testing::SharedServer;
using testing::V6;

// Counts events.
class Counter : public LookupObserver {
 public:
  void OnSent(size_t addresses) override { sent += addresses; }
  void OnAnswered(size_t addresses, absl::Duration latency,
                  const absl::Status& status) override {
    EXPECT_GT(latency, absl::ZeroDuration());
    (status.ok() ? answered : failed) += addresses;
  }
  void OnDisconnect(const absl::Status& why, absl::Duration wait) override {
    EXPECT_FALSE(why.ok());
    EXPECT_LE(wait, absl::Milliseconds(50));
    ++disconnects;
  }
  void OnReconnect(size_t batches) override {
    ++reconnects;
    replayed += batches;
  }
  void OnEnd(const absl::Status& why) override { end = why.code(); }

  std::atomic<uint64_t> sent = 0, answered = 0, failed = 0, disconnects = 0,
                        reconnects = 0, replayed = 0;
  std::atomic<absl::StatusCode> end = absl::StatusCode::kOk;
};

class ReconnectTest : public ::testing::Test {
 protected:
  ReconnectTest() {
    options_.max_in_flight = 4;
    options_.backoff = {.initial = absl::Milliseconds(1),
                        .max = absl::Milliseconds(50)};
    options_.observer = &counter_;
  }

  // Looks up `batches` addresses, four in flight, and checks the answers.
  void LookUp(BatchLookup& lookup, uint64_t batches) {
    uint64_t sent = 0;
    for (uint64_t received = 0; received < batches;) {
      if (sent < batches && lookup.in_flight() < 4) {
        ASSERT_TRUE(lookup.Send({.addresses_v6 = V6(sent++)}).ok());
        continue;
      }
      const auto more = lookup.Receive(result_);
      ASSERT_TRUE(more.ok()) << more.status();
      ASSERT_TRUE(result_.status.ok()) << result_.status;
      ASSERT_THAT(result_.next_hops, ElementsAre(HopOf(received)));
      ++received;
    }
  }

  // Each of the next `streams` streams answers `replies` batches, and later
  // ones with DRAINING in band.
  void Drain(uint64_t replies, uint64_t streams) {
    const uint64_t end = proxy_.calls() + streams;
    proxy_.EditReplies<v1::BatchLookupResponse>(
        [=](uint64_t call, uint64_t number, v1::BatchLookupResponse& reply) {
          if (call < end && number >= replies) {
            reply.clear_next_hops();
            reply.mutable_error()->set_code(14);
            reply.mutable_error()->set_reason("DRAINING");
          }
          return 1;
        });
  }

  MisbehavingProxy proxy_{SharedServer()};
  const OpenChannel open_ = *ChannelsTo(proxy_.target());
  Counter counter_;
  BatchLookupOptions options_;
  BatchResult result_;
};

TEST_F(ReconnectTest, StreamsThatBreakAfterAFewReplies) {
  for (const auto& status :
       {MakeError(grpc::StatusCode::UNAVAILABLE, "DRAINING"),
        grpc::Status(grpc::StatusCode::UNAVAILABLE, "reset"),
        grpc::Status(grpc::StatusCode::CANCELLED, "")}) {
    for (const uint64_t replies : {0, 1, 3, 4, 5}) {
      proxy_.EndCalls(replies, status, 3);
      BatchLookup lookup(open_, options_);
      LookUp(lookup, 30);
      EXPECT_EQ(lookup.reconnects(), 3U);
    }
  }
  EXPECT_EQ(counter_.sent, 15U * 30);
  EXPECT_EQ(counter_.answered, 15U * 30);
  EXPECT_EQ(counter_.failed, 0U);
  EXPECT_EQ(counter_.disconnects, 15U * 3);
  EXPECT_EQ(counter_.reconnects, 15U * 3);
  EXPECT_GE(counter_.replayed, 15U * 3) << "one at least was unanswered";
  EXPECT_LE(counter_.replayed, 15U * 3 * 4) << "at most four are in flight";
  EXPECT_EQ(counter_.end, absl::StatusCode::kOk);
}

TEST_F(ReconnectTest, DrainingInBandIsNoAnswer) {
  for (const uint64_t replies : {0, 2, 7}) {
    Drain(replies, 2);
    BatchLookup lookup(open_, options_);
    LookUp(lookup, 30);
    EXPECT_EQ(lookup.reconnects(), 2U);
  }
  EXPECT_EQ(counter_.answered, 3U * 30);
  EXPECT_EQ(counter_.failed, 0U);
}

// A draining server still accepts connections, and its address comes first.
TEST_F(ReconnectTest, ADrainingServerIsLeftForAnother) {
  MisbehavingProxy another(SharedServer());
  const OpenChannel both = *ChannelsTo(absl::StrCat(
      proxy_.target(), ",", absl::StripPrefix(another.target(), "unix://")));
  for (const bool in_band : {true, false}) {
    if (in_band) {
      Drain(0, 1000);
    } else {
      proxy_.EndCalls(0, MakeError(grpc::StatusCode::UNAVAILABLE, "DRAINING"));
    }
    BatchLookup lookup(both, options_);
    LookUp(lookup, 30);
  }
  EXPECT_EQ(counter_.failed, 0U);
  EXPECT_EQ(another.requests(), 60U);
}

TEST_F(ReconnectTest, AServerThatDiesAndComesBack) {
  BatchLookup lookup(open_, options_);
  LookUp(lookup, 10);
  for (int round = 0; round < 3; ++round) {
    proxy_.Hold();
    std::vector<NextHopId> answers(4);
    for (uint64_t i = 0; i < 4; ++i) {
      ASSERT_TRUE(lookup
                      .Send({.addresses_v6 = V6(i),
                             .next_hops = absl::MakeSpan(&answers[i], 1)})
                      .ok());
    }
    std::thread operation([this] {
      const uint64_t before = counter_.disconnects;
      proxy_.Die();
      // It breaks off, and an attempt finds no server.
      EXPECT_TRUE(Await([&] { return counter_.disconnects >= before + 2; }));
      proxy_.Release();
      proxy_.Restart();
    });
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(*lookup.Receive(result_));
    operation.join();
    EXPECT_THAT(answers, ElementsAre(HopOf(0), HopOf(1), HopOf(2), HopOf(3)));
  }
  EXPECT_EQ(lookup.reconnects(), 3U);
  EXPECT_GT(counter_.disconnects, 3U) << "some attempts found no server";
  // It died while no batch was in flight: the next batch reconnects.
  proxy_.Die();
  proxy_.Restart();
  LookUp(lookup, 10);
  EXPECT_EQ(lookup.reconnects(), 4U);
}

TEST_F(ReconnectTest, UnderLoadFromTwoThreads) {
  constexpr uint64_t kBatches = 2000;
  proxy_.EndCalls(50, grpc::Status(grpc::StatusCode::UNAVAILABLE, ""));
  BatchLookup lookup(open_, options_);
  std::thread sender([&lookup] {
    for (uint64_t i = 0; i < kBatches; ++i) {
      EXPECT_TRUE(lookup.Send({.addresses_v6 = V6(i)}).ok());
    }
    lookup.CloseSend();
  });
  uint64_t received = 0;
  while (*lookup.Receive(result_)) {
    EXPECT_THAT(result_.next_hops, ElementsAre(HopOf(received)));
    ++received;
  }
  sender.join();
  EXPECT_EQ(received, kBatches);
  EXPECT_GE(lookup.reconnects(), kBatches / 50 - 1);
}

TEST_F(ReconnectTest, DeadlinesHoldWhileThereIsNoServer) {
  proxy_.Die();
  BatchLookup lookup(open_, options_);
  ASSERT_TRUE(
      lookup
          .Send({.addresses_v6 = V6(1)}, absl::Now() + absl::Milliseconds(200))
          .ok());
  ASSERT_TRUE(lookup.Send({.addresses_v6 = V6(2)}).ok());
  ASSERT_TRUE(*lookup.Receive(result_));
  EXPECT_TRUE(absl::IsDeadlineExceeded(result_.status)) << result_.status;
  proxy_.Restart();
  ASSERT_TRUE(*lookup.Receive(result_));
  EXPECT_THAT(result_.next_hops, ElementsAre(HopOf(2)));
  EXPECT_EQ(lookup.reconnects(), 0U) << "there was no stream before";
}

TEST_F(ReconnectTest, GivesUpInTheEnd) {
  options_.give_up_after = absl::Milliseconds(200);
  BatchLookup lookup(open_, options_);
  LookUp(lookup, 3);
  proxy_.Die();
  ASSERT_TRUE(lookup.Send({.addresses_v6 = V6(1)}).ok());
  EXPECT_TRUE(absl::IsUnavailable(lookup.Receive(result_).status()));
  EXPECT_TRUE(absl::IsUnavailable(lookup.Receive(result_).status()));
  EXPECT_TRUE(absl::IsUnavailable(lookup.Send({}).status()));
  EXPECT_EQ(counter_.end, absl::StatusCode::kUnavailable);
  EXPECT_GE(counter_.disconnects, 2U);
}

// Of a handle on one channel, also an error that could be retried.
TEST_F(ReconnectTest, OtherErrorsEndItAfterTheResultsBefore) {
  for (const bool one_stream : {false, true}) {
    const uint64_t streams = proxy_.calls();
    proxy_.EndCalls(2,
                    MakeError(one_stream ? grpc::StatusCode::UNAVAILABLE
                                         : grpc::StatusCode::INVALID_ARGUMENT,
                              "SOME_REASON"));
    const auto lookup =
        one_stream ? std::make_unique<BatchLookup>(proxy_.Channel(), options_)
                   : std::make_unique<BatchLookup>(open_, options_);
    for (uint64_t i = 0; i < 4; ++i) {
      ASSERT_TRUE(lookup->Send({.addresses_v6 = V6(i)}).ok());
    }
    for (uint64_t i = 0; i < 2; ++i) {
      ASSERT_TRUE(*lookup->Receive(result_));
      EXPECT_THAT(result_.next_hops, ElementsAre(HopOf(i)));
    }
    const absl::Status end = lookup->Receive(result_).status();
    EXPECT_EQ(ErrorReason(end), "SOME_REASON");
    EXPECT_EQ(lookup->Send({.addresses_v6 = V6(1)}).status(), end);
    EXPECT_EQ(lookup->Receive(result_).status(), end);
    EXPECT_EQ(proxy_.calls(), streams + 1);
  }
}

TEST_F(ReconnectTest, ABrokenContractEndsIt) {
  using Reply = v1::BatchLookupResponse;
  using Edit = MisbehavingProxy::Edit<Reply>;
  proxy_.EndCalls(0, grpc::Status::OK, 1);
  BatchLookup ended(open_, options_);
  ASSERT_TRUE(ended.Send({.addresses_v6 = V6(1)}).ok());
  EXPECT_EQ(ended.Receive(result_).status().code(),
            absl::StatusCode::kInternal);
  for (const Edit& edit :
       {Edit([](uint64_t, uint64_t, Reply& reply) {
          reply.set_request_id(reply.request_id() + 1);
          return 1;
        }),
        Edit([](uint64_t, uint64_t, Reply& reply) {
          reply.mutable_next_hops()->resize(reply.next_hops().size() - 4);
          return 1;
        }),
        Edit([](uint64_t, uint64_t, Reply&) { return 2; })}) {
    proxy_.EditReplies(edit);
    BatchLookup lookup(open_, options_);
    absl::Status status;
    for (int i = 0; i < 10 && status.ok(); ++i) {
      status = lookup.Send({.addresses_v6 = V6(1)}).status();
      if (status.ok()) status = lookup.Receive(result_).status();
    }
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  }
}

TEST_F(ReconnectTest, ReconnectsAfterStallTimeout) {
  options_.stall_timeout = absl::Milliseconds(300);
  proxy_.Hold();
  BatchLookup lookup(open_, options_);
  ASSERT_TRUE(lookup.Send({.addresses_v6 = V6(1)}).ok());
  std::thread operation([this] {
    while (proxy_.calls() < 2) absl::SleepFor(absl::Milliseconds(5));
    proxy_.Release();
  });
  ASSERT_TRUE(*lookup.Receive(result_));
  operation.join();
  EXPECT_THAT(result_.next_hops, ElementsAre(HopOf(1)));
  // Idle is not stalled. What the machine holds up for that long is, and then
  // an attempt proves nothing.
  EXPECT_TRUE(SucceedsInThree([&] {
    const uint64_t streams = proxy_.calls();
    absl::SleepFor(absl::Milliseconds(400));
    EXPECT_TRUE(lookup.Send({.addresses_v6 = V6(2)}).ok());
    EXPECT_TRUE(*lookup.Receive(result_));
    return proxy_.calls() == streams;
  }));
}

}  // namespace
}  // namespace planb::client
