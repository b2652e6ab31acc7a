// SPDX-License-Identifier: Apache-2.0

// Every batch sent gets one answer, in order, within the server's credits.

#include "client/update_stream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "absl/time/clock.h"
#include "base/testing/await.h"
#include "client/call.h"
#include "client/testing/misbehaving_proxy.h"
#include "client/testing/real_server_fixture.h"

namespace planb::client {
namespace {

v1::StreamUpdatesRequest Announce(uint32_t first, uint32_t count) {
  v1::StreamUpdatesRequest batch;
  for (uint32_t i = first; i < first + count; ++i) {
    *batch.add_updates() =
        ToUpdate({*Prefix::Create(Address::V4(i << 8), 24), 7});
  }
  return batch;
}

class UpdateStreamTest : public testing::RealServerFixture {
 protected:
  void SetUp() override { Start("none", "", {"--update_credits=10"}); }

  UpdateStream::OnReply Note() {
    return [this](const UpdateReply& reply) {
      replies_.push_back(reply);
      ++answered_;
    };
  }

  // Batches wait, and the message before them goes on.
  void Hold() { proxy_.Hold("StreamUpdates", 1); }

  testing::MisbehavingProxy proxy_{target_};
  // Of the receiving thread until the stream is finished.
  std::vector<UpdateReply> replies_;
  std::atomic<size_t> answered_ = 0;
};

TEST_F(UpdateStreamTest, AnswersEveryBatchInOrder) {
  UpdateStream stream(proxy_.Channel(), {}, Note());
  for (uint64_t i = 0; i < 100; ++i) {  // far more than the credits
    const auto id = stream.Send(Announce(static_cast<uint32_t>(3 * i), 3));
    ASSERT_TRUE(id.ok()) << id.status();
    EXPECT_EQ(*id, i + 1);
  }
  ASSERT_TRUE(stream.Finish().ok());
  ASSERT_EQ(replies_.size(), 100U);
  for (uint64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(replies_[i].batch_id, i + 1);
    EXPECT_TRUE(replies_[i].status.ok()) << replies_[i].status;
    EXPECT_EQ(replies_[i].response.generation(), i + 1);
    EXPECT_EQ(replies_[i].response.added(), 3U);
  }
  EXPECT_EQ(ServedRoutes().size(), 300U);
  EXPECT_EQ(proxy_.calls("StreamUpdates"), 1U);
}

TEST_F(UpdateStreamTest, ManyAreInFlightButNoMoreThanTheCreditsAllow) {
  Hold();
  UpdateStream stream(proxy_.Channel(), {}, Note());
  ASSERT_TRUE(stream.Send(Announce(0, 4)).ok());
  ASSERT_TRUE(stream.Send(Announce(4, 4)).ok());  // 10 credits are used
  EXPECT_EQ(stream.in_flight(), 2U);
  const auto third =
      stream.Send(Announce(8, 1), absl::Now() + absl::Milliseconds(50));
  EXPECT_EQ(third.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(answered_, 0U);
  proxy_.Release();
  const auto again = stream.Send(Announce(8, 1));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, 3U);  // the refused one took no id
  ASSERT_TRUE(stream.Finish().ok());
  EXPECT_EQ(replies_.size(), 3U);
  EXPECT_EQ(ServedRoutes().size(), 9U);
}

// So that the server remembers the ids of all that may have to be repeated.
TEST_F(UpdateStreamTest, FewerBatchesWithARequestIdAreInFlight) {
  Start("none", "", {"--update_credits=600"});
  Hold();
  UpdateStream stream(proxy_.Channel(), {}, Note());
  const auto named = [](int i, int count) {
    v1::StreamUpdatesRequest batch = Announce(i, count);
    batch.set_request_id(absl::StrCat(i));
    return batch;
  };
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(stream.Send(named(i, 1)).ok());
  EXPECT_EQ(stream.Send(named(2, 1), absl::Now() + absl::Milliseconds(50))
                .status()
                .code(),
            absl::StatusCode::kDeadlineExceeded);
  ASSERT_TRUE(stream.Send(Announce(2, 1)).ok());
  proxy_.Release();
  // Alone on the way, a batch may take all credits for its changes.
  for (int i = 3; i < 20; ++i) {
    const auto sent = stream.Send(named(i, i % 2 == 0 ? 599 : 1));
    ASSERT_TRUE(sent.ok()) << sent.status();
  }
  ASSERT_TRUE(stream.Finish().ok());
  EXPECT_EQ(replies_.size(), 20U);
}

TEST_F(UpdateStreamTest, ABatchAboveTheWindowIsRefusedHere) {
  UpdateStream stream(proxy_.Channel(), {}, Note());
  ASSERT_TRUE(stream.Send(Announce(0, 9)).ok());
  EXPECT_EQ(stream.Send(Announce(0, 10)).status().code(),
            absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(stream.Send(Announce(0, 9)).ok());
  EXPECT_TRUE(stream.Finish().ok());
}

TEST_F(UpdateStreamTest, ARefusedBatchDoesNotEndTheStream) {
  UpdateStream stream(proxy_.Channel(), {}, Note());
  v1::StreamUpdatesRequest conditional = Announce(0, 1);
  conditional.set_expected_generation(9);
  ASSERT_TRUE(stream.Send(conditional).ok());
  ASSERT_TRUE(stream.Send(Announce(1, 1)).ok());
  ASSERT_TRUE(stream.Finish().ok());
  ASSERT_EQ(replies_.size(), 2U);
  EXPECT_EQ(replies_[0].status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(ErrorReason(replies_[0].status), "GENERATION_MISMATCH");
  EXPECT_TRUE(replies_[1].status.ok());
  EXPECT_EQ(ServedRoutes().size(), 1U);
}

TEST_F(UpdateStreamTest, OptionsGoWithTheFirstMessage) {
  UpdateStream volatile_store(proxy_.Channel(), {.ack = v1::ACK_PERSISTED},
                              Note());
  EXPECT_EQ(ErrorReason(volatile_store.Send(Announce(0, 1)).status()),
            "STORE_VOLATILE");
  UpdateStream lost(proxy_.Channel(), {.table = "none"}, Note());
  EXPECT_EQ(ErrorReason(lost.Send(Announce(0, 1)).status()), "TABLE_NOT_FOUND");
  EXPECT_EQ(ErrorReason(lost.Finish()), "TABLE_NOT_FOUND");
  EXPECT_TRUE(replies_.empty());
}

TEST_F(UpdateStreamTest, UnansweredBatchesGetTheEndOfTheStream) {
  // Of the server's messages, the first comes before the answers.
  proxy_.EndCalls(2, grpc::Status(grpc::StatusCode::UNAVAILABLE, "away"), 1,
                  "StreamUpdates");
  UpdateStream stream(proxy_.Channel(), {}, Note());
  ASSERT_TRUE(stream.Send(Announce(0, 1)).ok());
  ASSERT_TRUE(Await([&] { return answered_ == 1; }));
  ASSERT_TRUE(stream.Send(Announce(1, 1)).ok());
  ASSERT_TRUE(Await([&] { return answered_ == 2; }));
  EXPECT_TRUE(absl::IsUnavailable(stream.Send(Announce(2, 1)).status()));
  EXPECT_TRUE(absl::IsUnavailable(stream.Finish()));
  ASSERT_EQ(replies_.size(), 2U);
  EXPECT_TRUE(replies_[0].status.ok());
  EXPECT_TRUE(absl::IsUnavailable(replies_[1].status)) << replies_[1].status;
}

TEST_F(UpdateStreamTest, AReplyOutOfOrderEndsIt) {
  proxy_.EditReplies<v1::StreamUpdatesResponse>(
      [](uint64_t, uint64_t, v1::StreamUpdatesResponse& reply) {
        if (reply.batch_id() > 0) reply.set_batch_id(reply.batch_id() + 1);
        return 1;
      },
      "StreamUpdates");
  UpdateStream stream(proxy_.Channel(), {}, Note());
  ASSERT_TRUE(stream.Send(Announce(0, 1)).ok());
  EXPECT_EQ(stream.Finish().code(), absl::StatusCode::kInternal);
  ASSERT_EQ(replies_.size(), 1U);
  EXPECT_EQ(replies_[0].status.code(), absl::StatusCode::kInternal);
}

TEST_F(UpdateStreamTest, AnEmptyStreamStillReachesTheServer) {
  EXPECT_TRUE(UpdateStream(proxy_.Channel(), {}, Note()).Finish().ok());
  EXPECT_EQ(
      ErrorReason(
          UpdateStream(proxy_.Channel(), {.table = "none"}, Note()).Finish()),
      "TABLE_NOT_FOUND");
  EXPECT_EQ(proxy_.calls("StreamUpdates"), 2U);
}

TEST_F(UpdateStreamTest, FinishGivesUp) {
  Hold();
  UpdateStream stream(proxy_.Channel(), {}, Note());
  ASSERT_TRUE(stream.Send(Announce(0, 1)).ok());
  EXPECT_EQ(stream.Finish(absl::Now() + absl::Milliseconds(50)).code(),
            absl::StatusCode::kDeadlineExceeded);
  ASSERT_EQ(replies_.size(), 1U);
  EXPECT_TRUE(absl::IsCancelled(replies_[0].status)) << replies_[0].status;
}

TEST_F(UpdateStreamTest, DroppingItCancels) {
  Hold();
  {
    UpdateStream stream(proxy_.Channel(), {}, Note());
    ASSERT_TRUE(stream.Send(Announce(0, 1)).ok());
  }
  EXPECT_EQ(replies_.size(), 1U);
  EXPECT_TRUE(ServedRoutes().empty());
}

}  // namespace
}  // namespace planb::client
