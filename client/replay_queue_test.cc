// Whatever is lost is written again, and no reply goes to another's batch.

#include "client/replay_queue.h"

#include <grpcpp/support/slice.h>
#include <gtest/gtest.h>

#include <string>

namespace planb::client {
namespace {

class ReplayQueueTest : public ::testing::Test {
 protected:
  void Push(uint64_t id) {
    auto batch = std::make_shared<BatchInFlight>();
    batch->expected.request_id = id;
    queue_.Push(batch);
  }
  // The id of the batch that is to be written; 0 if none is.
  uint64_t Write() {
    const auto batch = queue_.TakeUnwritten();
    return batch == nullptr ? 0 : batch->expected.request_id;
  }
  bool Reply(const std::string& text) {
    const grpc::Slice slice(text);
    grpc::ByteBuffer reply(&slice, 1);
    return queue_.AddReply(reply);
  }
  // The text that answered the oldest batch.
  std::string Pop() {
    grpc::Slice slice;
    EXPECT_TRUE(queue_.front_answered());
    EXPECT_TRUE(queue_.front()->reply.DumpToSingleSlice(&slice).ok());
    queue_.PopFront();
    return std::string(reinterpret_cast<const char*>(slice.begin()),
                       slice.size());
  }

  ReplayQueue queue_;
};

TEST_F(ReplayQueueTest, InOrderAndOnce) {
  EXPECT_EQ(Write(), 0U);
  for (uint64_t id = 1; id <= 3; ++id) Push(id);
  EXPECT_TRUE(queue_.IsUnwritten(1));
  EXPECT_EQ(Write(), 1U);
  EXPECT_FALSE(queue_.IsUnwritten(1));
  EXPECT_TRUE(queue_.IsUnwritten(2));
  EXPECT_EQ(Write(), 2U);
  EXPECT_FALSE(queue_.front_answered());
  EXPECT_EQ(queue_.outstanding(), 2U);
  EXPECT_TRUE(Reply("a"));
  EXPECT_TRUE(Reply("b"));
  EXPECT_FALSE(Reply("c")) << "the third was not written";
  EXPECT_EQ(Pop(), "a");
  EXPECT_EQ(Pop(), "b");
  EXPECT_FALSE(queue_.front_answered());
  EXPECT_EQ(Write(), 3U);
  EXPECT_EQ(Write(), 0U);
  EXPECT_TRUE(Reply("c"));
  EXPECT_EQ(Pop(), "c");
  EXPECT_TRUE(queue_.empty());
}

TEST_F(ReplayQueueTest, RewindKeepsWhatWasAnswered) {
  for (uint64_t id = 1; id <= 4; ++id) Push(id);
  for (int i = 0; i < 3; ++i) Write();
  EXPECT_TRUE(Reply("a"));
  EXPECT_EQ(queue_.Rewind(), 2U) << "the fourth was never written";
  EXPECT_EQ(queue_.outstanding(), 0U);
  EXPECT_FALSE(Reply("x"));
  EXPECT_EQ(Write(), 2U);
  EXPECT_EQ(queue_.Rewind(), 2U);
  for (uint64_t id = 2; id <= 4; ++id) EXPECT_EQ(Write(), id);
  EXPECT_TRUE(Reply("b"));
  EXPECT_EQ(Pop(), "a");
  EXPECT_EQ(Pop(), "b");
}

TEST_F(ReplayQueueTest, RepliesThatWereNoneAreAskedForAgain) {
  for (uint64_t id = 1; id <= 2; ++id) Push(id);
  Write();
  Write();
  EXPECT_TRUE(Reply("draining"));
  EXPECT_TRUE(Reply("draining"));
  queue_.ForgetReplies();
  EXPECT_EQ(queue_.Rewind(), 2U);
  EXPECT_FALSE(queue_.front_answered());
  EXPECT_EQ(Write(), 1U);
  EXPECT_EQ(Write(), 2U);
  EXPECT_TRUE(Reply("a"));
  EXPECT_EQ(Pop(), "a");
}

TEST_F(ReplayQueueTest, TheReplyOfABatchThatLeftIsDropped) {
  for (uint64_t id = 1; id <= 4; ++id) Push(id);
  for (int i = 0; i < 3; ++i) Write();
  queue_.PopFront();
  queue_.PopFront();
  EXPECT_EQ(queue_.owed(), 2U);
  EXPECT_EQ(queue_.outstanding(), 3U);
  EXPECT_EQ(Write(), 4U);
  for (const char* text : {"late", "late", "c", "d"}) EXPECT_TRUE(Reply(text));
  EXPECT_EQ(queue_.owed(), 0U);
  EXPECT_EQ(Pop(), "c");
  EXPECT_EQ(Pop(), "d");
  // A batch that left before it was written is owed nothing.
  Push(5);
  queue_.PopFront();
  EXPECT_EQ(queue_.owed(), 0U);
  // And another call owes nothing to batches of the former one.
  Push(6);
  Write();
  queue_.PopFront();
  EXPECT_EQ(queue_.Rewind(), 0U);
  EXPECT_EQ(queue_.owed(), 0U);
}

TEST_F(ReplayQueueTest, FindsById) {
  for (uint64_t id = 5; id <= 7; ++id) Push(id);
  EXPECT_EQ(queue_.Find(4), nullptr);
  EXPECT_EQ(queue_.Find(6)->expected.request_id, 6U);
  EXPECT_EQ(queue_.Find(8), nullptr);
  queue_.PopFront();
  EXPECT_EQ(queue_.Find(5), nullptr);
  EXPECT_EQ(queue_.Find(7)->expected.request_id, 7U);
}

}  // namespace
}  // namespace planb::client
