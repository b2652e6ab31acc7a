// SPDX-License-Identifier: Apache-2.0

// Looks up many addresses in batches, with several batches in flight on one
// stream. When the stream breaks, opens another one and sends all unanswered
// batches again. Lookups change nothing, so sending twice is harmless.
//
//   BatchLookup lookup(*ChannelsTo("unix:///run/planb/planb.sock"), {});
//   lookup.Send({.addresses_v6 = packed_addresses});
//   lookup.Receive(result);
//
// Starts no threads: all work is done within the calls. Receive does the
// reconnecting, so a program that sends must also receive.

#ifndef PLANB_CLIENT_BATCH_LOOKUP_H_
#define PLANB_CLIENT_BATCH_LOOKUP_H_

#include <grpcpp/channel.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/monotonic_time.h"
#include "base/mutex.h"
#include "client/batch_codec.h"
#include "client/call.h"
#include "client/channel.h"

namespace planb::client {

// Receives the events of a BatchLookup, for metrics. Outlives its handles. The
// handle calls within its own calls, with its lock held: the functions must
// return quickly and must not call the handle. Handles that share an observer
// call it at the same time.
class LookupObserver {
 public:
  virtual ~LookupObserver() = default;

  // A batch was accepted.
  virtual void OnSent(size_t /*addresses*/) {}

  // The result of a batch was handed out, `latency` after it was accepted.
  // `status` is OK, the batch's own error, CANCELLED or DEADLINE_EXCEEDED.
  virtual void OnAnswered(size_t /*addresses*/, absl::Duration /*latency*/,
                          const absl::Status& /*status*/) {}

  // The connection was lost, an attempt to connect failed, or the server is
  // draining. The next attempt comes after `wait`.
  virtual void OnDisconnect(const absl::Status& /*why*/,
                            absl::Duration /*wait*/) {}

  // A new stream follows the lost one. `batches` are sent a second time.
  virtual void OnReconnect(size_t /*batches*/) {}

  // The handle has ended, for this reason.
  virtual void OnEnd(const absl::Status& /*why*/) {}
};

struct BatchLookupOptions {
  // Maximum of batches accepted and not yet handed out by Receive; at least 1.
  // With 16,384 addresses in a batch, 2 or 3 batches fill a connection; with
  // 1,024 addresses, 8 to 64 do.
  size_t max_in_flight = 8;
  // Between attempts to connect.
  BackoffOptions backoff = {};
  // The handle ends after attempts have failed for this long without an answer
  // in between. Zero: never try again.
  absl::Duration give_up_after = absl::Minutes(1);
  // A stream with replies outstanding that receives nothing for this long is
  // broken.
  absl::Duration stall_timeout = absl::InfiniteDuration();
  // Waiting calls poll without a pause: faster, at the price of a core.
  bool spin = false;
  // Not owned; may be null.
  LookupObserver* observer = nullptr;
};

// Invariants: results come in the order of Send, exactly one for each batch,
// until the handle ends. The bytes of a batch are kept until it is answered.
// Thread-safe. Meant for one thread that sends and receives, or one for each.
class BatchLookup {
 public:
  // Does not connect yet: the first Send does.
  BatchLookup(OpenChannel open, const BatchLookupOptions& options);
  // One stream on `channel`, without a retry: the handle ends when the stream
  // ends. options.give_up_after is ignored.
  BatchLookup(std::shared_ptr<grpc::Channel> channel,
              const BatchLookupOptions& options);
  // Cancels all batches in flight. REQUIRES: no call is running.
  ~BatchLookup();

  BatchLookup(const BatchLookup&) = delete;
  BatchLookup& operator=(const BatchLookup&) = delete;

  // Accepts `batch` and returns its id: 1, 2, ... It is answered by `deadline`,
  // or fails by itself with DEADLINE_EXCEEDED. Its bytes may be reused when
  // Send returns. Blocks while max_in_flight batches are in flight, and while
  // the connection takes no more bytes, but not without a connection.
  // Errors: INVALID_ARGUMENT if the batch cannot be a message (the handle
  // remains usable); FAILED_PRECONDITION after CloseSend; else the error that
  // ended the handle.
  absl::StatusOr<uint64_t> Send(const Batch& batch, Deadline deadline = {});

  // Announces that no batch follows.
  void CloseSend();

  // Waits for the next result, and reconnects as needed. True: `result` holds
  // it; result.status says if the batch failed. False: after CloseSend, every
  // result was handed out.
  // Errors, after the results that came before: CANCELLED after Cancel; the
  // error of the last attempt after give_up_after; an error that a retry does
  // not repair, such as INTERNAL for a broken contract.
  absl::StatusOr<bool> Receive(BatchResult& result);

  // Takes in at most one event, without waiting. True: a result has arrived or
  // the handle has ended.
  bool Ready();

  // Makes the batch `id` fail with CANCELLED, in its turn, unless its result
  // has arrived. False if its result was handed out.
  bool CancelBatch(uint64_t id);

  // Ends the handle with CANCELLED, and so every call that waits.
  void Cancel();

  // Number of batches accepted and not yet handed out by Receive.
  size_t in_flight() const;

  // Number of streams that followed a lost one. Generations never go back while
  // this is the same: a restarted server without a store begins again.
  uint64_t reconnects() const;

 private:
  class Call;
  class ReplayQueue;
  struct Event;

  absl::StatusOr<bool> ReceiveAlone(BatchResult& result)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Hands out the oldest batch, which was answered. False if the reply is no
  // answer.
  bool HandOut(BatchResult& result) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Hands out the oldest batch unanswered, with the error `status`.
  void HandOut(absl::Status status, BatchResult& result)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Pop(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Open() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Starts to write the next batch, if one waits and the call can. True if it
  // released the lock for a while.
  bool Write() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes in one event, or waits for another thread to do so.
  void Advance(absl::Time until) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Take(Event event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends the call. The unanswered batches are sent again on the next one.
  void Break(const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void End(absl::Status why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const OpenChannel open_;
  const BatchLookupOptions options_;
  LookupObserver& observer_;

  mutable Mutex mutex_;
  // Signalled when a field below changes.
  CondVar changed_;
  RetryPolicy retry_ ABSL_GUARDED_BY(mutex_);
  bool send_closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  bool encoding_ ABSL_GUARDED_BY(mutex_) = false;   // a thread is in Send
  bool receiving_ ABSL_GUARDED_BY(mutex_) = false;  // a thread is in Receive

  const std::unique_ptr<ReplayQueue> queue_ ABSL_PT_GUARDED_BY(mutex_);

  // The channel of the next call. Null: a new channel.
  std::shared_ptr<grpc::Channel> channel_ ABSL_GUARDED_BY(mutex_);
  // The current call, or null, and the state of that call.
  std::shared_ptr<Call> call_ ABSL_GUARDED_BY(mutex_);
  bool polling_ ABSL_GUARDED_BY(mutex_) = false;       // a thread polls a call
  bool starting_ ABSL_GUARDED_BY(mutex_) = false;      // not connected yet
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;       // a write is in progress
  bool write_broken_ ABSL_GUARDED_BY(mutex_) = false;  // its end will follow
  absl::Time last_event_ ABSL_GUARDED_BY(mutex_);      // MonotonicNow

  bool connected_once_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t reconnects_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace planb::client

#endif  // PLANB_CLIENT_BATCH_LOOKUP_H_
