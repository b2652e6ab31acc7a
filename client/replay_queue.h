// The batches in flight, and what has to be done for each: to be written, to
// be answered, to be written again on another call.

#ifndef PLANB_CLIENT_REPLAY_QUEUE_H_
#define PLANB_CLIENT_REPLAY_QUEUE_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include "absl/time/time.h"
#include "client/batch_codec.h"

namespace planb::client {

struct BatchInFlight {
  ExpectedReply expected;
  // References to what gRPC sends; may be sent again.
  grpc::ByteBuffer message;
  grpc::ByteBuffer reply;
  absl::Time accepted;  // these two by MonotonicNow's clock
  absl::Time deadline;
  bool cancelled = false;
  bool was_written = false;  // on whatever call
};

// Invariant: oldest first, there are batches with replies, then written ones
// without, then unwritten ones: replies come in the order of writes. Ids ascend
// one by one. Thread-compatible.
class ReplayQueue {
 public:
  bool empty() const { return batches_.empty(); }
  size_t size() const { return batches_.size(); }

  void Push(std::shared_ptr<BatchInFlight> batch);

  // The oldest batch. REQUIRES: !empty().
  const std::shared_ptr<BatchInFlight>& front() const {
    return batches_.front();
  }
  bool front_answered() const { return answered_ > 0; }
  // The batch of that id; null if it is not (or no longer) here.
  BatchInFlight* Find(uint64_t id) const;

  // The next batch to write, which counts as written from here on; null if
  // there is none.
  std::shared_ptr<BatchInFlight> TakeUnwritten();
  bool IsUnwritten(uint64_t id) const;

  // Takes the next reply of the call. False if no batch is due for one.
  bool AddReply(grpc::ByteBuffer& reply);

  // Removes the oldest batch. If it was written and not answered, its reply is
  // still owed, and dropped when it comes.
  void PopFront();

  // The call is gone: what was not answered on it has to be written on the
  // next. Returns how many of these had ever been written. O(size).
  size_t Rewind();
  // As if no batch here had been answered. (To be followed by Rewind.)
  void ForgetReplies() { answered_ = 0; }

  // Replies that will come to batches no longer here, and all that will come.
  size_t owed() const { return owed_; }
  size_t outstanding() const { return owed_ + written_ - answered_; }

 private:
  std::deque<std::shared_ptr<BatchInFlight>> batches_;
  // Invariant: answered_ <= written_ <= batches_.size().
  size_t answered_ = 0;
  size_t written_ = 0;
  size_t owed_ = 0;
};

}  // namespace planb::client

#endif  // PLANB_CLIENT_REPLAY_QUEUE_H_
