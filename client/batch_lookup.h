// SPDX-License-Identifier: Apache-2.0

// Batches of lookups that survive the server: several in flight, and when the
// stream breaks, another stream and all unanswered batches once more (lookups
// change nothing, so asking twice is harmless).
//
//   BatchLookup lookup(*ChannelsTo("unix:///run/planb/planb.sock"), {});
//   lookup.Send({.addresses_v6 = packed_addresses});
//   lookup.Receive(result);
//
// Starts no threads: everything happens within the calls. Reconnecting is done
// by Receive, so a program that sends must also receive.
//
// Generations never go back while one server lives. A server that restarted
// may begin anew (a volatile one does): what it says is passed on as it is, and
// reconnects() tells that this may have happened.

#ifndef PLANB_CLIENT_BATCH_LOOKUP_H_
#define PLANB_CLIENT_BATCH_LOOKUP_H_

#include <grpcpp/channel.h>
#include <grpcpp/support/byte_buffer.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/batch_call.h"
#include "client/batch_codec.h"
#include "client/call.h"
#include "client/channel.h"

namespace planb::client {

// What a BatchLookup tells of itself, for metrics. Override what is of
// interest. The handle calls from within its own calls, on any of the caller's
// threads, one at a time for each handle, and with its lock held: be quick, and
// do not call the handle. An observer outlives its handles; one that has
// several is called by them at the same time.
class LookupObserver {
 public:
  virtual ~LookupObserver() = default;

  // A batch was accepted.
  virtual void OnSent(size_t /*addresses*/) {}

  // Its result was handed out, `latency` after it was accepted. `status` is OK,
  // the batch's own error, CANCELLED or DEADLINE_EXCEEDED.
  virtual void OnAnswered(size_t /*addresses*/, absl::Duration /*latency*/,
                          const absl::Status& /*status*/) {}

  // The connection was lost, or an attempt to get one failed, or the server
  // said that it is draining. The next attempt comes after `wait`.
  virtual void OnDisconnect(const absl::Status& /*why*/,
                            absl::Duration /*wait*/) {}

  // A new stream follows the lost one, and `batches` go out a second time.
  virtual void OnReconnect(size_t /*batches*/) {}

  // The handle has come to its end, for this reason.
  virtual void OnEnd(const absl::Status& /*why*/) {}
};

// How a BatchLookup connects, and when it gives up.
struct BatchLookupOptions {
  // Batches accepted and not yet handed out by Receive, at most; at least 1.
  size_t max_in_flight = 8;
  // Between attempts to connect.
  BackoffOptions backoff = {};
  // Give up when attempts have failed for so long, with no answer in between.
  // Zero: never try again.
  absl::Duration give_up_after = absl::Minutes(1);
  // A stream that has replies outstanding and receives nothing for so long is
  // treated as broken.
  absl::Duration stall_timeout = absl::InfiniteDuration();
  // Not owned; may be null.
  LookupObserver* observer = nullptr;
};

// Makes a channel for each attempt, but those that follow a refusal by a server
// itself. gRPC keeps a backoff of its own for each channel; with a new one the
// options above are what counts.
using OpenChannel = std::function<std::shared_ptr<grpc::Channel>()>;

// Channels to `target`, each with its own connection, as by MakeChannel. Each
// reads the files of TLS anew; those that cannot be used then are passed over
// for what was there before. Thread-safe.
// Errors: as there.
absl::StatusOr<OpenChannel> ChannelsTo(absl::string_view target,
                                       const ChannelOptions& options = {});

struct BatchInFlight {
  ExpectedReply expected;
  // References to what gRPC sends; may be sent again.
  grpc::ByteBuffer message;
  grpc::ByteBuffer reply;
  absl::Time accepted;  // these two by MonotonicNow's clock
  absl::Time deadline;
  bool cancelled = false;
  bool was_written = false;  // on this call or an earlier one
};

// The batches in flight, and what has to be done for each: to be written, to
// be answered, to be written again on another call.
//
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

// Invariants: results come in the order of Send, exactly one for each batch,
// until the handle ends. A batch's bytes are kept, as gRPC's own slices, until
// it is answered (at most max_in_flight of them, each up to kMaxMessageBytes).
// Thread-safe. Meant for one thread that does everything, or for one that sends
// and one that receives.
class BatchLookup {
 public:
  // Does not connect yet: the first Send does.
  BatchLookup(OpenChannel open, const BatchLookupOptions& options);
  // Cancels what is still in flight. REQUIRES: no call is running.
  ~BatchLookup();

  BatchLookup(const BatchLookup&) = delete;
  BatchLookup& operator=(const BatchLookup&) = delete;

  // Accepts `batch`, to be answered by `deadline` or to fail by itself with
  // DEADLINE_EXCEEDED. Returns its id: 1, then 2, and so on. Its bytes may be
  // reused at once, as in BatchStream. Blocks while max_in_flight batches are
  // in flight (until another thread calls Receive) and while the connection
  // takes no more; not while there is none.
  // Errors: INVALID_ARGUMENT (nothing sent, the handle goes on) if the batch
  // cannot be a message; FAILED_PRECONDITION after CloseSend; else what ended
  // the handle.
  absl::StatusOr<uint64_t> Send(const Batch& batch,
                                absl::Time deadline = absl::InfiniteFuture());

  // Says that no batch follows.
  void CloseSend();

  // Waits for the next result, in the order of Send, and reconnects as needed.
  // True: `result` holds it (perhaps that its batch failed: see result.status).
  // False: after CloseSend, when every result was handed out.
  // Errors: what ended the handle, after the results that came before. The
  // other batches in flight are lost. CANCELLED; UNAVAILABLE or what else
  // the last attempt failed with, when it was time to give up; an error that
  // trying again does not mend, such as INTERNAL for a broken contract.
  absl::StatusOr<bool> Receive(BatchResult& result);

  // Lets the batch `id` fail with CANCELLED, in its turn, unless its result is
  // there already. False if it was handed out.
  bool CancelBatch(uint64_t id);

  // Ends the handle, with CANCELLED, and so every call that waits.
  void Cancel();

  // Batches accepted and not yet handed out.
  size_t in_flight() const;
  // Streams that followed a lost one. While Receive is not running: those up to
  // the last result handed out.
  uint64_t reconnects() const;

 private:
  absl::StatusOr<bool> ReceiveAlone(BatchResult& result)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Hands out the oldest batch, which was answered; false if that was no
  // answer.
  bool HandOut(BatchResult& result) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Hands it out unanswered, for the reason `status`.
  void HandOut(absl::Status status, BatchResult& result)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Pop(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Open() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Starts to write the next batch, if one waits and the call can. True if it
  // let go of the lock.
  bool Write() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes in one event, or waits for another thread to do so.
  void Advance(absl::Time until) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Take(BatchCall::Event event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Gives up the call: the unanswered batches go out on the next one.
  void Break(const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void End(absl::Status why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const OpenChannel open_;
  const BatchLookupOptions options_;
  LookupObserver& observer_;

  // std::mutex: absl's waits go by the wall clock, which may jump.
  mutable std::mutex mutex_;
  // Told when anything below changes. Waits with the mutex itself, which
  // functions here let go of for a while.
  std::condition_variable_any changed_;
  RetryPolicy retry_ ABSL_GUARDED_BY(mutex_);
  bool send_closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  bool encoding_ ABSL_GUARDED_BY(mutex_) = false;   // a thread is in Send
  bool receiving_ ABSL_GUARDED_BY(mutex_) = false;  // a thread is in Receive

  ReplayQueue queue_ ABSL_GUARDED_BY(mutex_);

  // What the next call is made on; null: a new channel.
  std::shared_ptr<grpc::Channel> channel_ ABSL_GUARDED_BY(mutex_);
  // The call, if there is one, and what holds for it alone.
  std::shared_ptr<BatchCall> call_ ABSL_GUARDED_BY(mutex_);
  bool polling_ ABSL_GUARDED_BY(mutex_) = false;   // a thread polls a call
  bool starting_ ABSL_GUARDED_BY(mutex_) = false;  // it is not yet connected
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;   // a write is under way
  bool write_broken_ ABSL_GUARDED_BY(mutex_) = false;  // its end will follow
  absl::Time last_event_ ABSL_GUARDED_BY(mutex_);      // MonotonicNow

  bool connected_once_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t reconnects_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace planb::client

#endif  // PLANB_CLIENT_BATCH_LOOKUP_H_
