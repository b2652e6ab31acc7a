// SPDX-License-Identifier: Apache-2.0

// One BatchLookup call on a completion queue, as a row of events: what gRPC
// reports, without a word on what it means. Starts no thread.

#ifndef PLANB_CLIENT_BATCH_CALL_H_
#define PLANB_CLIENT_BATCH_CALL_H_

#include <grpcpp/alarm.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>

#include <atomic>
#include <memory>

#include "absl/time/time.h"

namespace planb::client {

// Invariant: a read is outstanding until the call ends, so replies do not pile
// up in the transport. Safe for one thread that polls, one that writes and any
// number that cancel or wake, all at the same time.
class BatchCall {
 public:
  struct Event {
    enum class Kind {
      kNothing,  // the time is up, Wake was called, or nothing to tell
      kWritten,  // a write (or the start of the call) is done, if `ok`
      kReply,    // `message` came
      kEnded,    // the last event: `status` says how
    };
    Kind kind = Kind::kNothing;
    bool ok = false;
    grpc::ByteBuffer message;
    grpc::Status status;
  };

  // Starts the call, to end at `deadline`. That it started comes as kWritten;
  // an error in doing so as kEnded.
  BatchCall(const std::shared_ptr<grpc::Channel>& channel, absl::Time deadline);
  // Cancels the call unless it has ended. REQUIRES: nothing else is running.
  ~BatchCall();

  BatchCall(const BatchCall&) = delete;
  BatchCall& operator=(const BatchCall&) = delete;

  // Both are answered by kWritten. REQUIRES: so was the one before. Of
  // `message` only references are kept.
  void Write(const grpc::ByteBuffer& message);
  void WritesDone();

  // Waits for the next event, at most until `until`, which is of MonotonicNow's
  // clock; does not wait at all if that has passed.
  Event Poll(absl::Time until);

  // Ends the call soon.
  void Cancel();

  // Makes a Poll, this one or the next, return at once.
  void Wake();

 private:
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  // Touched only by the thread that polls.
  grpc::ByteBuffer incoming_;
  grpc::Status status_;
  bool ended_ = false;
  // Set while the alarm is on its way to the queue: it can be once only.
  std::atomic<bool> alarm_set_ = false;
  grpc::Alarm alarm_;
};

}  // namespace planb::client

#endif  // PLANB_CLIENT_BATCH_CALL_H_
