// SPDX-License-Identifier: Apache-2.0

// A stream keeps its order and its bounds, with one thread or with several.

#include "client/batch_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "client/call.h"
#include "client/channel.h"
#include "client/testing/fake_server.h"

namespace planb::client {
namespace {

using ::testing::ElementsAre;
using testing::FakeServer;
using testing::HopOf;
using ::testing::IsEmpty;
using testing::ManyRoutes;
using testing::V4;
using testing::V6;

class BatchStreamTest : public ::testing::Test {
 protected:
  FakeServer server_{ManyRoutes()};
};

TEST_F(BatchStreamTest, OneBatchOfBothFamilies) {
  BatchStream stream(server_.Channel(), {});
  const std::string v6 = V6(3) + std::string(16, '\0') + V6(7);
  const std::string v4 = V4(9) + std::string(4, '\xff');
  ASSERT_EQ(*stream.Send({.addresses_v6 = v6,
                          .addresses_v4 = v4,
                          .want_prefix_lengths = true}),
            1U);
  BatchResult result;
  ASSERT_TRUE(*stream.Receive(result));
  EXPECT_TRUE(result.status.ok());
  EXPECT_EQ(result.request_id, 1U);
  EXPECT_EQ(result.generation, 1U);
  EXPECT_THAT(result.next_hops, ElementsAre(4, kNoRoute, 8, 10, kNoRoute));
  EXPECT_THAT(result.prefix_lengths,
              ElementsAre(48, kNoPrefixLength, 48, 24, kNoPrefixLength));
  EXPECT_TRUE(stream.Finish().ok());
}

TEST(BatchStreamGroups, FlowsTakeMembers) {
  FakeServer server{{.routes = {{*Prefix::Parse("::/0"), testing::kFirstGroup},
                                {*Prefix::Parse("0.0.0.0/0"), 5}}}};
  BatchStream stream(server.Channel(), {});
  const std::string v6 = V6(3) + V6(4);
  const std::string v4 = V4(9);
  std::vector<uint32_t> hashes = {7, 0x01020304, 9, 11};
  const auto send = [&] {
    return stream.Send({.addresses_v6 = v6,
                        .addresses_v4 = v4,
                        .upper_halves_v6 = absl::string_view(v6).substr(0, 8),
                        .flow_hashes = hashes});
  };
  ASSERT_TRUE(send().ok());
  hashes.assign(4, 0);  // a batch's buffers may be reused at once
  ASSERT_TRUE(send().ok());
  BatchResult result;
  ASSERT_TRUE(*stream.Receive(result));
  EXPECT_THAT(result.next_hops, ElementsAre(8, 0x01020304 % 100 + 1, 5, 12));
  ASSERT_TRUE(*stream.Receive(result));
  EXPECT_THAT(result.next_hops, ElementsAre(1, 1, 5, 1));
  hashes.pop_back();
  EXPECT_EQ(send().status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(stream.Finish().ok());
}

// The closed loop of the class comment, one thread, for many batches.
TEST_F(BatchStreamTest, ManyInFlightStayInOrder) {
  constexpr uint64_t kBatches = 3000;
  constexpr size_t kDepth = 32;
  BatchStream stream(server_.Channel(), {.max_in_flight = kDepth});
  uint64_t sent = 0;
  uint64_t received = 0;
  BatchResult result;
  while (received < kBatches) {
    if (sent < kBatches && stream.in_flight() < kDepth) {
      ASSERT_EQ(*stream.Send({.addresses_v6 = V6(sent)}), sent + 1);
      ++sent;
      continue;
    }
    ASSERT_TRUE(*stream.Receive(result));
    ++received;
    ASSERT_EQ(result.request_id, received);
    ASSERT_THAT(result.next_hops, ElementsAre(HopOf(received - 1)));
  }
  ASSERT_TRUE(stream.CloseSend().ok());
  EXPECT_FALSE(*stream.Receive(result));
  EXPECT_FALSE(*stream.Receive(result));  // stays so
  EXPECT_TRUE(stream.Finish().ok());
}

TEST_F(BatchStreamTest, ReadyDoesNotWait) {
  for (bool spin : {false, true}) {
    server_.Hold();
    BatchStream stream(server_.Channel(), {.spin = spin});
    ASSERT_TRUE(stream.Send({.addresses_v6 = V6(3)}).ok());
    for (int i = 0; i < 1000; ++i) ASSERT_FALSE(stream.Ready());
    server_.Release();
    while (!stream.Ready()) continue;
    EXPECT_TRUE(stream.Ready());  // stays so until it is received
    BatchResult result;
    ASSERT_TRUE(*stream.Receive(result));
    EXPECT_THAT(result.next_hops, ElementsAre(4));
    EXPECT_FALSE(stream.Ready());
    EXPECT_TRUE(stream.Finish().ok());
    EXPECT_TRUE(stream.Ready());  // to say how it ended
  }
}

TEST_F(BatchStreamTest, SpinningIsOnlyAnotherWayToWait) {
  constexpr uint64_t kBatches = 300;
  BatchStream stream(server_.Channel(), {.max_in_flight = 4, .spin = true});
  BatchResult result;
  for (uint64_t sent = 0, received = 0; received < kBatches;) {
    if (sent < kBatches && stream.in_flight() < 4) {
      ASSERT_TRUE(stream.Send({.addresses_v6 = V6(sent++)}).ok());
    } else {
      ASSERT_TRUE(*stream.Receive(result));
      ASSERT_THAT(result.next_hops, ElementsAre(HopOf(received++)));
    }
  }
  EXPECT_TRUE(stream.Finish().ok());
}

TEST_F(BatchStreamTest, OneThreadSendsWhileAnotherReceives) {
  constexpr uint64_t kBatches = 3000;
  BatchStream stream(server_.Channel(), {.max_in_flight = 5});
  std::thread sender([&stream] {
    for (uint64_t i = 0; i < kBatches; ++i) {
      EXPECT_TRUE(stream.Send({.addresses_v4 = V4(i)}).ok());
    }
    EXPECT_TRUE(stream.CloseSend().ok());
  });
  BatchResult result;
  uint64_t received = 0;
  while (*stream.Receive(result)) {
    EXPECT_THAT(result.next_hops, ElementsAre(HopOf(received)));
    ++received;
  }
  sender.join();
  EXPECT_EQ(received, kBatches);
  EXPECT_TRUE(stream.Finish().ok());
}

TEST_F(BatchStreamTest, SendersAndReceiversMayBeMany) {
  constexpr uint64_t kEach = 500;
  constexpr int kSenders = 3;
  BatchStream stream(server_.Channel(), {.max_in_flight = 4});
  std::vector<std::thread> threads;
  for (int i = 0; i < kSenders; ++i) {
    threads.emplace_back([&stream] {
      for (uint64_t j = 0; j < kEach; ++j) {
        EXPECT_TRUE(stream.Send({.addresses_v6 = V6(1)}).ok());
      }
    });
  }
  std::atomic<uint64_t> received = 0;
  std::vector<std::thread> receivers;
  for (int i = 0; i < 2; ++i) {
    receivers.emplace_back([&stream, &received] {
      BatchResult result;
      while (*stream.Receive(result)) {
        EXPECT_THAT(result.next_hops, ElementsAre(2));
        ++received;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(stream.CloseSend().ok());
  for (std::thread& thread : receivers) thread.join();
  EXPECT_EQ(received, kEach * kSenders);
}

TEST_F(BatchStreamTest, BigBatchesOneThreadDeep) {
  // More than any flow-control window, both ways, and deeper than the server
  // reads ahead: a client that did not read while it writes would be stuck.
  constexpr uint64_t kAddresses = 20'000;
  constexpr size_t kDepth = 10;
  std::string bytes;
  for (uint64_t i = 0; i < kAddresses; ++i) bytes += V6(i);
  BatchStream stream(server_.Channel(), {.max_in_flight = kDepth});
  for (size_t i = 0; i < kDepth; ++i) {
    ASSERT_TRUE(stream.Send({.addresses_v6 = bytes}).ok());
  }
  EXPECT_EQ(stream.in_flight(), kDepth);
  BatchResult result;
  for (size_t i = 0; i < kDepth; ++i) {
    ASSERT_TRUE(*stream.Receive(result));
    ASSERT_EQ(result.next_hops.size(), kAddresses);
    for (uint64_t j = 0; j < kAddresses; ++j) {
      ASSERT_EQ(result.next_hops[j], HopOf(j));
    }
  }
  EXPECT_TRUE(stream.Finish().ok());
}

TEST_F(BatchStreamTest, ABatchTooLongIsRefusedAndTheStreamGoesOn) {
  BatchStream stream(server_.Channel(), {.max_in_flight = 1});
  const std::string bytes(17 << 20, '\0');
  EXPECT_EQ(stream.Send({.addresses_v6 = bytes}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(stream.in_flight(), 0U);
  EXPECT_EQ(*stream.Send({.addresses_v6 = V6(0)}), 1U);
  BatchResult result;
  EXPECT_TRUE(*stream.Receive(result));
  EXPECT_TRUE(stream.Finish().ok());
}

TEST_F(BatchStreamTest, AnErrorInBandConcernsItsBatchOnly) {
  BatchStream stream(server_.Channel(), {});
  ASSERT_TRUE(stream.Send({.addresses_v6 = V6(1)}).ok());
  ASSERT_TRUE(stream.Send({.addresses_v6 = V6(1) + "x"}).ok());
  ASSERT_TRUE(stream.Send({.addresses_v6 = V6(1), .table = "none"}).ok());
  ASSERT_TRUE(stream.Send({.addresses_v6 = V6(1), .min_generation = 2}).ok());
  ASSERT_TRUE(stream.Send({.addresses_v6 = V6(2)}).ok());
  BatchResult result;
  ASSERT_TRUE(*stream.Receive(result));
  EXPECT_THAT(result.next_hops, ElementsAre(2));
  for (const char* reason :
       {"ADDRESSES_LENGTH", "TABLE_NOT_FOUND", "GENERATION_NOT_VISIBLE"}) {
    ASSERT_TRUE(*stream.Receive(result));
    EXPECT_EQ(ErrorReason(result.status), reason);
    EXPECT_EQ(result.generation, 1U);
    EXPECT_THAT(result.next_hops, IsEmpty());
  }
  ASSERT_TRUE(*stream.Receive(result));
  EXPECT_TRUE(result.status.ok());
  EXPECT_THAT(result.next_hops, ElementsAre(3));
  EXPECT_TRUE(stream.Finish().ok());
}

TEST_F(BatchStreamTest, SendBlocksWhileFull) {
  server_.Hold();
  BatchStream stream(server_.Channel(), {.max_in_flight = 3});
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(stream.Send({.addresses_v6 = V6(1)}).ok());
  }
  absl::Notification sent;
  std::thread sender([&] {
    EXPECT_TRUE(stream.Send({.addresses_v6 = V6(2)}).ok());
    sent.Notify();
  });
  EXPECT_FALSE(sent.WaitForNotificationWithTimeout(absl::Milliseconds(300)));
  EXPECT_EQ(stream.in_flight(), 3U);
  server_.Release();
  // The answers alone make no room: they have to be received.
  EXPECT_FALSE(sent.WaitForNotificationWithTimeout(absl::Milliseconds(300)));
  BatchResult result;
  ASSERT_TRUE(*stream.Receive(result));
  EXPECT_TRUE(sent.WaitForNotificationWithTimeout(absl::Seconds(60)));
  sender.join();
  EXPECT_TRUE(stream.Finish().ok());
}

TEST_F(BatchStreamTest, FinishDropsWhatNobodyReceived) {
  BatchStream stream(server_.Channel(), {});
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(stream.Send({.addresses_v6 = V6(1)}).ok());
  }
  EXPECT_TRUE(stream.Finish().ok());
  EXPECT_EQ(server_.batches_read(), 5U);
  EXPECT_EQ(stream.in_flight(), 0U);
  BatchResult result;
  EXPECT_FALSE(*stream.Receive(result));
}

TEST_F(BatchStreamTest, NothingIsSentAfterCloseSend) {
  BatchStream stream(server_.Channel(), {});
  ASSERT_TRUE(stream.CloseSend().ok());
  ASSERT_TRUE(stream.CloseSend().ok());
  const auto sent = stream.Send({.addresses_v6 = V6(1)});
  EXPECT_FALSE(sent.ok());
  EXPECT_TRUE(stream.Finish().ok());
  EXPECT_EQ(server_.batches_read(), 0U);
}

// A stream comes to the right end, also when the server misbehaves.

using ::testing::HasSubstr;
using testing::Spoil;

class BatchStreamEndTest : public ::testing::Test {
 protected:
  FakeServer server_{ManyRoutes()};
};

TEST_F(BatchStreamEndTest, ADrainingServerEndsTheStreamAfterItsResults) {
  server_.EndStreams(2, testing::MakeError(grpc::StatusCode::UNAVAILABLE,
                                           "DRAINING", "going down"));
  BatchStream stream(server_.Channel(), {});
  for (uint64_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(stream.Send({.addresses_v6 = V6(i)}).ok());
  }
  BatchResult result;
  for (uint64_t i = 0; i < 2; ++i) {
    ASSERT_TRUE(*stream.Receive(result));
    EXPECT_THAT(result.next_hops, ElementsAre(HopOf(i)));
  }
  const auto third = stream.Receive(result);
  EXPECT_EQ(third.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ErrorReason(third.status()), "DRAINING");
  EXPECT_EQ(stream.Send({.addresses_v6 = V6(1)}).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(stream.CloseSend().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(stream.Finish().code(), absl::StatusCode::kUnavailable);
}

TEST_F(BatchStreamEndTest, AServerThatDiesEndsEveryCall) {
  server_.Hold();
  BatchStream stream(server_.Channel(), {.max_in_flight = 2});
  ASSERT_TRUE(stream.Send({.addresses_v6 = V6(1)}).ok());
  ASSERT_TRUE(stream.Send({.addresses_v6 = V6(1)}).ok());
  std::thread sender(
      [&stream] { EXPECT_FALSE(stream.Send({.addresses_v6 = V6(1)}).ok()); });
  std::thread killer([this] {
    absl::SleepFor(absl::Milliseconds(100));
    server_.Die();
  });
  BatchResult result;
  EXPECT_FALSE(stream.Receive(result).ok());
  sender.join();
  killer.join();
  EXPECT_FALSE(stream.Finish().ok());
}

TEST_F(BatchStreamEndTest, EndingWellWithoutAnswersIsAnError) {
  server_.EndStreams(1, grpc::Status::OK);
  BatchStream stream(server_.Channel(), {});
  ASSERT_TRUE(stream.Send({.addresses_v6 = V6(1)}).ok());
  ASSERT_TRUE(stream.Send({.addresses_v6 = V6(1)}).ok());
  BatchResult result;
  EXPECT_TRUE(*stream.Receive(result));
  const absl::Status status = stream.Receive(result).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("1 batches unanswered"));
}

TEST_F(BatchStreamEndTest, ABrokenContractEndsTheStream) {
  for (const Spoil spoil : {Spoil::kWrongId, Spoil::kShort}) {
    server_.SpoilReplies(spoil);
    BatchStream stream(server_.Channel(), {});
    ASSERT_TRUE(stream.Send({.addresses_v6 = V6(1)}).ok());
    ASSERT_TRUE(stream.Send({.addresses_v6 = V6(1)}).ok());
    BatchResult result;
    EXPECT_EQ(stream.Receive(result).status().code(),
              absl::StatusCode::kInternal);
    EXPECT_EQ(stream.Receive(result).status().code(),
              absl::StatusCode::kInternal);
    EXPECT_EQ(stream.Finish().code(), absl::StatusCode::kInternal);
  }
}

TEST_F(BatchStreamEndTest, AReplyTooManyEndsTheStream) {
  server_.SpoilReplies(Spoil::kTwice);
  BatchStream stream(server_.Channel(), {.max_in_flight = 1});
  ASSERT_TRUE(stream.Send({.addresses_v6 = V6(1)}).ok());
  const absl::Status status = stream.Finish();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("a reply to no batch"));
}

TEST_F(BatchStreamEndTest, CancelEndsEveryCall) {
  server_.Hold();
  BatchStream stream(server_.Channel(), {.max_in_flight = 1});
  ASSERT_TRUE(stream.Send({.addresses_v6 = V6(1)}).ok());
  std::thread sender([&stream] {
    EXPECT_EQ(stream.Send({.addresses_v6 = V6(1)}).status().code(),
              absl::StatusCode::kCancelled);
  });
  std::thread canceller([&stream] {
    absl::SleepFor(absl::Milliseconds(100));
    stream.Cancel();
  });
  BatchResult result;
  EXPECT_EQ(stream.Receive(result).status().code(),
            absl::StatusCode::kCancelled);
  sender.join();
  canceller.join();
  EXPECT_EQ(stream.Finish().code(), absl::StatusCode::kCancelled);
}

// A sender that waits for a receiver that never comes must hear of it, too.
TEST_F(BatchStreamEndTest, CancelEndsASendThatWaitsForRoom) {
  BatchStream stream(server_.Channel(), {.max_in_flight = 1});
  ASSERT_TRUE(stream.Send({.addresses_v6 = V6(1)}).ok());
  std::thread sender([&stream] {
    EXPECT_EQ(stream.Send({.addresses_v6 = V6(1)}).status().code(),
              absl::StatusCode::kCancelled);
  });
  absl::SleepFor(absl::Milliseconds(200));
  stream.Cancel();
  sender.join();
}

TEST_F(BatchStreamEndTest, TheDeadlineEndsTheStream) {
  server_.Hold();
  BatchStream stream(server_.Channel(),
                     {.deadline = absl::Now() + absl::Seconds(1)});
  ASSERT_TRUE(stream.Send({.addresses_v6 = V6(1)}).ok());
  BatchResult result;
  EXPECT_EQ(stream.Receive(result).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(stream.Finish().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(BatchStreamEndTest, AStalledServerIsGivenUp) {
  BatchStream stream(server_.Channel(), {.stall_timeout = absl::Seconds(1)});
  BatchResult result;
  ASSERT_TRUE(stream.Send({.addresses_v6 = V6(1)}).ok());
  ASSERT_TRUE(*stream.Receive(result));
  std::thread receiver([&stream] {
    BatchResult late;
    EXPECT_TRUE(*stream.Receive(late));
  });
  absl::SleepFor(absl::Milliseconds(1300));  // idle, not stalled
  ASSERT_TRUE(stream.Send({.addresses_v6 = V6(1)}).ok());
  receiver.join();
  ASSERT_TRUE(stream.Send({.addresses_v6 = V6(1)}).ok());
  absl::SleepFor(absl::Milliseconds(1300));  // slow to receive, not stalled
  ASSERT_TRUE(*stream.Receive(result));
  server_.Hold();
  ASSERT_TRUE(stream.Send({.addresses_v6 = V6(1)}).ok());
  const absl::Status status = stream.Receive(result).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no sign"));
}

TEST_F(BatchStreamEndTest, DestructionCancels) {
  server_.Hold();
  {
    BatchStream untouched(server_.Channel(), {});
    BatchStream waiting(server_.Channel(), {});
    ASSERT_TRUE(waiting.Send({.addresses_v6 = V6(1)}).ok());
  }
  server_.Die();  // returns only when the server's side has ended as well
}

TEST(BatchStreamWithoutServer, FailsQuickly) {
  const auto channel = *MakeChannel("unix:///nonexistent/planb.sock");
  BatchStream stream(channel, {});
  EXPECT_EQ(stream.Finish().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace planb::client
