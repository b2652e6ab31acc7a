// A stream comes to the right end whatever the server does.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "client/batch_stream.h"
#include "client/channel.h"
#include "client/status.h"
#include "client/testing/fake_server.h"
#include "client/testing/many_routes.h"

namespace planb::client {
namespace {

using ::testing::ElementsAre;
using testing::FakeServer;
using ::testing::HasSubstr;
using testing::HopOf;
using testing::ManyRoutes;
using testing::Spoil;
using testing::V6;

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

// A sender that waits for a receiver who never comes must hear of it, too.
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
