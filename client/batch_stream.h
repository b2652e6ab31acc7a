// SPDX-License-Identifier: Apache-2.0

// A BatchLookup stream with several batches in flight: the way to look up many
// addresses.
//
//   BatchStream stream(channel, {.max_in_flight = 4});
//   while (more to ask or stream.in_flight() > 0) {
//     if (more to ask and stream.in_flight() < 4) {
//       stream.Send({.addresses_v6 = packed_addresses});
//     } else {
//       stream.Receive(result);
//     }
//   }
//   absl::Status status = stream.Finish();
//
// Built on a completion queue that is polled by whichever of the caller's
// threads has to wait: the library starts no threads, and no reply changes
// threads on its way when one thread both sends and receives. Unlike with
// gRPC's synchronous streams, that one thread cannot get stuck, because a
// waiting Send also takes in replies. In return nothing moves outside of calls
// to this class.

#ifndef PLANB_CLIENT_BATCH_STREAM_H_
#define PLANB_CLIENT_BATCH_STREAM_H_

#include <grpcpp/channel.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/batch_call.h"
#include "client/batch_codec.h"

namespace planb::client {

struct BatchStreamOptions {
  // Batches sent and not yet handed out by Receive, at most; at least 1. Of
  // 16,384 addresses 2 or 3 fill a connection, of 1,024 some 8 to 64.
  size_t max_in_flight = 8;
  // When the whole stream ends, with DEADLINE_EXCEEDED.
  absl::Time deadline = absl::InfiniteFuture();
  // Give up, with DEADLINE_EXCEEDED, when batches are in flight and a call has
  // waited this long (at most twice this long) without a sign of the server.
  absl::Duration stall_timeout = absl::InfiniteDuration();
  // Calls that wait poll without a pause instead of sleeping: a quicker answer
  // for a whole core.
  bool spin = false;
};

// Invariant: results are handed out in the order of Send, one for each.
// Thread-safe. Meant for one thread that does everything, or for one that
// sends and one that receives; more gain nothing.
class BatchStream {
 public:
  // Opens the stream. Errors in doing so show at the first call that waits.
  BatchStream(const std::shared_ptr<grpc::Channel>& channel,
              const BatchStreamOptions& options);
  // Cancels what is still in flight. REQUIRES: no call is running.
  ~BatchStream();

  BatchStream(const BatchStream&) = delete;
  BatchStream& operator=(const BatchStream&) = delete;

  // Sends `batch`, whose bytes may be reused at once. Returns its id: 1 for
  // the first batch, then 2, and so on. Blocks while max_in_flight batches are
  // in flight: until another thread calls Receive, so a thread that does both
  // asks in_flight() first.
  // Errors: INVALID_ARGUMENT (nothing sent, the stream goes on) if the batch
  // cannot be a message (see EncodeBatch); FAILED_PRECONDITION after CloseSend;
  // else the error that ended the stream.
  absl::StatusOr<uint64_t> Send(const Batch& batch);

  // Says that no batch follows. Does nothing the second time.
  // Errors: the error that ended the stream.
  absl::Status CloseSend();

  // Waits for the next result, in the order of Send. True: `result` holds it
  // (perhaps that its batch failed: see result.status). False: after CloseSend,
  // every batch was answered and the stream ended well.
  // Errors: what ended the stream, after the results that came before it. Then
  // the batches still in flight are lost. INTERNAL if the server broke the
  // contract.
  absl::StatusOr<bool> Receive(BatchResult& result);

  // Takes in one thing that has come, if any, without waiting. True: Receive
  // would not wait. For a thread that has other things to do meanwhile.
  bool Ready();

  // CloseSend, drops the results that were not received, and returns how the
  // stream ended: OK if every batch was answered.
  absl::Status Finish();

  // Ends the stream, with CANCELLED, and so every call that waits.
  void Cancel();

  // Number of batches sent and not yet handed out by Receive.
  size_t in_flight() const;

 private:
  // Takes in one event, or waits for another thread to do so.
  void Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Polls, without `wait` only looks, and takes in what comes. REQUIRES: no
  // thread polls.
  void TakeNext(bool wait) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Take(BatchCall::Event event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends the stream for a reason of our own.
  void Fail(absl::Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CheckStall() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Waits until a write may start, for a batch if `need_room`, or none ever
  // will: ended_ or send_closed_.
  void AwaitWriter(bool need_room) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const BatchStreamOptions options_;
  BatchCall call_;

  mutable absl::Mutex mutex_;
  // Signalled when anything below changes.
  absl::CondVar changed_;
  // A thread polls the call.
  bool polling_ ABSL_GUARDED_BY(mutex_) = false;
  // A write (or the start of the call) is under way; gRPC takes one at a time.
  bool writing_ ABSL_GUARDED_BY(mutex_) = true;
  // A write failed: the end of the stream is on its way.
  bool write_broken_ ABSL_GUARDED_BY(mutex_) = false;
  bool send_closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  // How the stream ended, or why we end it.
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  // The batches in flight, oldest first, and the replies to the oldest ones.
  // Invariant: arrived_.size() <= expected_.size() <= max_in_flight.
  std::deque<ExpectedReply> expected_ ABSL_GUARDED_BY(mutex_);
  std::deque<grpc::ByteBuffer> arrived_ ABSL_GUARDED_BY(mutex_);
  absl::Time last_progress_ ABSL_GUARDED_BY(mutex_);  // MonotonicNow
};

}  // namespace planb::client

#endif  // PLANB_CLIENT_BATCH_STREAM_H_
