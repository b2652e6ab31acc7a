// SPDX-License-Identifier: Apache-2.0

// The caller's threads share one completion queue by roles: at any time at most
// one thread polls the call, one has a write in progress, one encodes and one
// receives. A thread that has to wait polls, if no other thread does; else it
// waits for a signal. gRPC operations are started without the mutex, because
// gRPC may send and receive within them.

#include "client/batch_lookup.h"

#include <grpcpp/alarm.h>
#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "base/monotonic_time.h"
#include "base/mutex.h"
#include "client/call.h"
#include "planb/v1/route_lookup.grpc.pb.h"

namespace planb::client {

// The result of one Poll.
struct BatchLookup::Event {
  enum class Kind {
    kNothing,  // the time is up, or Wake was called, or nothing to report
    kWritten,  // a write, or the start of the call, is done; `ok`: successfully
    kReply,    // `message` arrived
    kEnded,    // the last event: `status` is the status of the call
  };
  Kind kind = Kind::kNothing;
  bool ok = false;
  grpc::ByteBuffer message;
  grpc::Status status;
};

// The transport: one BatchLookup call of gRPC on a completion queue, as a
// sequence of events. The generic stub sends and receives messages as bytes.
// Starts no thread.
//
// Invariant: a read is outstanding until the call ends, so replies do not pile
// up in gRPC. Safe for one thread that polls, one that writes and any number
// that cancel or wake, all at the same time.
class BatchLookup::Call {
 public:
  // Starts the call. kWritten reports that it started; until then there is no
  // connection.
  explicit Call(const std::shared_ptr<grpc::Channel>& channel);
  // Cancels the call and waits for its end.
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // REQUIRES: kWritten has come for the start and for the write before. Keeps
  // references to the bytes of `message`.
  void Write(const grpc::ByteBuffer& message) {
    stream_->Write(message, kWriteTag);
  }

  // Waits for the next event until `until`, which is of MonotonicNow's clock.
  // Does not wait at all if that has passed.
  Event Poll(absl::Time until);

  // Ends the call soon.
  void Cancel() { context_.TryCancel(); }

  // Makes a Poll, this one or the next, return at once.
  void Wake();

 private:
  // The start of the call and each Write are one operation at a time.
  static inline void* const kWriteTag = reinterpret_cast<void*>(1);
  static inline void* const kReadTag = reinterpret_cast<void*>(2);
  static inline void* const kFinishTag = reinterpret_cast<void*>(3);
  static inline void* const kWakeTag = reinterpret_cast<void*>(4);

  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  // Used only by the thread that polls.
  grpc::ByteBuffer incoming_;
  grpc::Status status_;
  bool ended_ = false;
  // True while the alarm is on its way to the queue; it can be set only once.
  std::atomic<bool> alarm_set_ = false;
  grpc::Alarm alarm_;
};

BatchLookup::Call::Call(const std::shared_ptr<grpc::Channel>& channel) {
  const std::string method =
      absl::StrCat("/", v1::RouteLookup::service_full_name(), "/BatchLookup");
  stream_ = grpc::GenericStub(channel).PrepareCall(&context_, method, &queue_);
  stream_->StartCall(kWriteTag);
  stream_->Read(&incoming_, kReadTag);
}

BatchLookup::Call::~Call() {
  if (!ended_) Cancel();
  while (!ended_) Poll(absl::InfiniteFuture());
  queue_.Shutdown();
  void* tag;
  bool ok;
  while (queue_.Next(&tag, &ok)) continue;
}

BatchLookup::Event BatchLookup::Call::Poll(absl::Time until) {
  void* tag = nullptr;
  bool ok = false;
  if (until == absl::InfiniteFuture()) {
    queue_.Next(&tag, &ok);
  } else if (queue_.AsyncNext(&tag, &ok, ToGrpc(until)) !=
             grpc::CompletionQueue::GOT_EVENT) {
    return {};
  }
  Event event;
  if (tag == kWriteTag) {
    event.kind = Event::Kind::kWritten;
    event.ok = ok;
  } else if (tag == kReadTag && ok) {
    event.kind = Event::Kind::kReply;
    event.message.Swap(&incoming_);
    stream_->Read(&incoming_, kReadTag);
  } else if (tag == kReadTag) {
    stream_->Finish(&status_, kFinishTag);
  } else if (tag == kFinishTag) {
    ended_ = true;
    event.kind = Event::Kind::kEnded;
    event.status = status_;
  } else if (tag == kWakeTag) {
    alarm_set_ = false;
  }
  return event;
}

void BatchLookup::Call::Wake() {
  if (alarm_set_.exchange(true)) return;
  alarm_.Set(&queue_, ToGrpc(MonotonicNow()), kWakeTag);
}

// The batches in flight. Thread-compatible.
//
// Invariant: oldest first, there are batches with replies, then written ones
// without a reply, then unwritten ones: replies come in the order of writes.
// Two counters divide these parts. Ids ascend one by one.
class BatchLookup::ReplayQueue {
 public:
  struct InFlight {
    ExpectedReply expected;
    // References to the bytes that gRPC sends; may be sent again.
    grpc::ByteBuffer message;
    grpc::ByteBuffer reply;
    absl::Time accepted;  // these two by MonotonicNow's clock
    absl::Time deadline;
    bool cancelled = false;
    bool was_written = false;  // on this call or an earlier one
  };

  bool empty() const { return batches_.empty(); }
  size_t size() const { return batches_.size(); }

  void Push(std::shared_ptr<InFlight> batch) {
    batches_.push_back(std::move(batch));
  }

  // The oldest batch. REQUIRES: !empty().
  const std::shared_ptr<InFlight>& front() const { return batches_.front(); }
  bool front_answered() const { return answered_ > 0; }

  // The batch with this id; null if it is not (or no longer) in the queue.
  InFlight* Find(uint64_t id) const {
    if (batches_.empty()) return nullptr;
    const uint64_t first = batches_.front()->expected.request_id;
    if (id < first || id - first >= batches_.size()) return nullptr;
    return batches_[id - first].get();
  }

  // The next batch to write, which counts as written from now on; null if
  // there is none.
  std::shared_ptr<InFlight> TakeUnwritten() {
    if (written_ == batches_.size()) return nullptr;
    const std::shared_ptr<InFlight>& batch = batches_[written_++];
    batch->was_written = true;
    return batch;
  }

  bool IsUnwritten(uint64_t id) const {
    return Find(id) != nullptr &&
           id - batches_.front()->expected.request_id >= written_;
  }

  // Takes the next reply of the call. False if no batch is due for a reply.
  bool AddReply(grpc::ByteBuffer& reply) {
    if (owed_ > 0) {
      --owed_;
      return true;
    }
    if (answered_ == written_) return false;
    batches_[answered_++]->reply.Swap(&reply);
    return true;
  }

  // Removes the oldest batch. If its reply is still owed, drops that later.
  void PopFront() {
    if (answered_ > 0) {
      --answered_;
      --written_;
    } else if (written_ > 0) {
      --written_;
      ++owed_;
    }
    batches_.pop_front();
  }

  // The call is gone: the unanswered batches have to be written on the next
  // one. Returns how many were written before.
  size_t Rewind() {
    owed_ = 0;
    written_ = answered_;
    size_t again = 0;
    for (size_t i = answered_; i < batches_.size(); ++i) {
      if (batches_[i]->was_written) ++again;
    }
    return again;
  }
  // Drops all replies in the queue. REQUIRES: Rewind follows.
  void ForgetReplies() { answered_ = 0; }

  // Replies to come for batches that left the queue, and for all batches.
  size_t owed() const { return owed_; }
  size_t outstanding() const { return owed_ + written_ - answered_; }

 private:
  std::deque<std::shared_ptr<InFlight>> batches_;
  // Invariant: answered_ <= written_ <= batches_.size().
  size_t answered_ = 0;
  size_t written_ = 0;
  size_t owed_ = 0;
};

namespace {

BatchLookupOptions Normalized(BatchLookupOptions options) {
  options.max_in_flight = std::max<size_t>(options.max_in_flight, 1);
  return options;
}

BatchLookupOptions WithoutRetry(BatchLookupOptions options) {
  options.give_up_after = absl::ZeroDuration();
  return options;
}

LookupObserver& ObserverOf(const BatchLookupOptions& options) {
  static LookupObserver* const kIgnoring = new LookupObserver;
  return options.observer == nullptr ? *kIgnoring : *options.observer;
}

}  // namespace

BatchLookup::BatchLookup(OpenChannel open, const BatchLookupOptions& options)
    : open_(std::move(open)),
      options_(Normalized(options)),
      observer_(ObserverOf(options)),
      retry_(options.backoff, options.give_up_after),
      queue_(std::make_unique<ReplayQueue>()) {}

BatchLookup::BatchLookup(std::shared_ptr<grpc::Channel> channel,
                         const BatchLookupOptions& options)
    : BatchLookup(
          OpenChannel([channel = std::move(channel)] { return channel; }),
          WithoutRetry(options)) {}

BatchLookup::~BatchLookup() = default;

absl::StatusOr<uint64_t> BatchLookup::Send(const Batch& batch, Deadline when) {
  const absl::Time deadline = when.time();
  const auto sent = std::make_shared<ReplayQueue::InFlight>();
  const MutexLock lock(mutex_);
  while (!ended_ && !send_closed_ &&
         (encoding_ || queue_->size() >= options_.max_in_flight)) {
    changed_.wait(mutex_);
  }
  if (ended_) return status_;
  if (send_closed_)
    return absl::FailedPreconditionError("Send after CloseSend");
  encoding_ = true;
  const uint64_t id = last_id_ + 1;
  mutex_.unlock();
  sent->accepted = MonotonicNow();
  sent->deadline = deadline;
  sent->expected = Expect(id, batch);
  absl::StatusOr<grpc::ByteBuffer> message = EncodeBatch(id, batch);
  mutex_.lock();
  encoding_ = false;
  changed_.notify_all();
  if (!message.ok()) return message.status();
  if (ended_) return status_;
  sent->message.Swap(&*message);
  last_id_ = id;
  queue_->Push(sent);
  observer_.OnSent(sent->expected.addresses);
  if (call_ == nullptr && MonotonicNow() >= retry_.next_attempt()) Open();
  while (call_ != nullptr && !starting_ && !write_broken_ &&
         queue_->IsUnwritten(id) && MonotonicNow() < deadline) {
    if (!Write()) Advance(deadline);
  }
  return id;
}

void BatchLookup::CloseSend() {
  const MutexLock lock(mutex_);
  send_closed_ = true;
  changed_.notify_all();
}

absl::StatusOr<bool> BatchLookup::Receive(BatchResult& result) {
  const MutexLock lock(mutex_);
  while (receiving_) changed_.wait(mutex_);
  receiving_ = true;
  absl::StatusOr<bool> received = ReceiveAlone(result);
  receiving_ = false;
  changed_.notify_all();
  return received;
}

absl::StatusOr<bool> BatchLookup::ReceiveAlone(BatchResult& result) {
  while (true) {
    if (queue_->front_answered()) {
      if (HandOut(result)) return true;
      continue;
    }
    if (ended_) return status_;
    if (queue_->empty()) {
      if (send_closed_) return false;
      changed_.wait(mutex_);
      continue;
    }
    const absl::Time now = MonotonicNow();
    const absl::Time deadline = queue_->front()->deadline;
    if (queue_->front()->cancelled || now >= deadline) {
      HandOut(now >= deadline ? absl::DeadlineExceededError("no answer in time")
                              : absl::CancelledError("the batch was cancelled"),
              result);
      return true;
    }
    if (call_ == nullptr) {
      if (now >= retry_.next_attempt()) {
        Open();
      } else {
        changed_.wait_until(
            mutex_, ToSteady(std::min(retry_.next_attempt(), deadline)));
      }
      continue;
    }
    if (Write()) continue;
    const absl::Time stall = writing_ || queue_->outstanding() > 0
                                 ? last_event_ + options_.stall_timeout
                                 : absl::InfiniteFuture();
    if (now < stall) {
      Advance(std::min(deadline, stall));
      continue;
    }
    // A reply may have come while no thread polled: that is no stall.
    const std::shared_ptr<Call> call = call_;
    const absl::Time last_event = last_event_;
    Advance(absl::InfinitePast());
    if (call == call_ && last_event == last_event_) {
      Break(absl::DeadlineExceededError(
          absl::StrCat("no sign of the server for ",
                       absl::FormatDuration(options_.stall_timeout))));
    }
  }
}

bool BatchLookup::HandOut(BatchResult& result) {
  const std::shared_ptr<ReplayQueue::InFlight> batch = queue_->front();
  mutex_.unlock();
  absl::Status decoded = DecodeReply(batch->reply, batch->expected, result);
  mutex_.lock();
  if (!decoded.ok()) {
    *queue_ = ReplayQueue();  // nothing after this can be trusted
    End(std::move(decoded));
    return false;
  }
  if (absl::IsUnavailable(result.status)) {
    queue_->ForgetReplies();  // the replies behind it say the same
    Break(result.status);
    return false;
  }
  retry_.Succeeded();
  Pop(result.status);
  return true;
}

void BatchLookup::HandOut(absl::Status status, BatchResult& result) {
  result.request_id = queue_->front()->expected.request_id;
  result.generation = 0;
  result.next_hops.clear();
  result.prefix_lengths.clear();
  result.status = std::move(status);
  Pop(result.status);
}

void BatchLookup::Pop(const absl::Status& status) {
  const ReplayQueue::InFlight& batch = *queue_->front();
  observer_.OnAnswered(batch.expected.addresses,
                       MonotonicNow() - batch.accepted, status);
  queue_->PopFront();
  // An idle handle does not fail.
  if (queue_->empty()) retry_.Succeeded();
  changed_.notify_all();
}

bool BatchLookup::Ready() {
  const MutexLock lock(mutex_);
  if (!queue_->front_answered() && !ended_ && !queue_->empty()) {
    if (call_ == nullptr && MonotonicNow() >= retry_.next_attempt()) Open();
    if (!Write() && call_ != nullptr && !polling_) {
      Advance(absl::InfinitePast());
    }
  }
  return queue_->front_answered() || ended_;
}

bool BatchLookup::CancelBatch(uint64_t id) {
  const MutexLock lock(mutex_);
  ReplayQueue::InFlight* const batch = queue_->Find(id);
  if (batch == nullptr) return false;
  batch->cancelled = true;
  if (call_ != nullptr && polling_) call_->Wake();
  changed_.notify_all();
  return true;
}

void BatchLookup::Cancel() {
  const MutexLock lock(mutex_);
  End(absl::CancelledError("the handle was cancelled"));
}

size_t BatchLookup::in_flight() const {
  const MutexLock lock(mutex_);
  return queue_->size();
}

uint64_t BatchLookup::reconnects() const {
  const MutexLock lock(mutex_);
  return reconnects_;
}

void BatchLookup::Open() {
  if (channel_ == nullptr) channel_ = open_();
  call_ = std::make_shared<Call>(channel_);
  starting_ = true;
  writing_ = true;
  write_broken_ = false;
  last_event_ = MonotonicNow();
  changed_.notify_all();
}

bool BatchLookup::Write() {
  if (call_ == nullptr || writing_ || write_broken_) return false;
  if (queue_->owed() >= options_.max_in_flight) {
    Break(absl::DeadlineExceededError(absl::StrCat(
        "the server owes replies to ", queue_->owed(), " batches given up")));
    return true;
  }
  const std::shared_ptr<ReplayQueue::InFlight> batch = queue_->TakeUnwritten();
  if (batch == nullptr) return false;
  if (queue_->outstanding() == 1) last_event_ = MonotonicNow();
  writing_ = true;
  const std::shared_ptr<Call> call = call_;
  mutex_.unlock();
  call->Write(batch->message);
  mutex_.lock();
  return true;
}

void BatchLookup::Advance(absl::Time until) {
  if (polling_ || call_ == nullptr) {
    changed_.wait_until(mutex_, ToSteady(until));
    return;
  }
  polling_ = true;
  const std::shared_ptr<Call> call = call_;
  mutex_.unlock();
  Event event = call->Poll(options_.spin ? absl::InfinitePast() : until);
  mutex_.lock();
  polling_ = false;
  if (call == call_) Take(std::move(event));  // else of an earlier call
  changed_.notify_all();
}

void BatchLookup::Take(Event event) {
  using Kind = Event::Kind;
  if (event.kind == Kind::kNothing) return;
  last_event_ = MonotonicNow();
  if (event.kind == Kind::kWritten) {
    writing_ = false;
    write_broken_ = !event.ok;
    if (!std::exchange(starting_, false) || !event.ok) return;
    if (!std::exchange(connected_once_, true)) return;
    ++reconnects_;
    observer_.OnReconnect(queue_->Rewind());
  } else if (event.kind == Kind::kReply) {
    if (queue_->AddReply(event.message)) return;
    End(absl::InternalError(
        "the server broke its contract: a reply to no batch"));
  } else if (event.status.ok()) {
    End(absl::InternalError(
        "the server broke its contract: it ended the stream unasked"));
  } else if (absl::Status status = FromGrpc(event.status);
             IsRetryable(status)) {
    Break(status);
  } else {
    End(std::move(status));
  }
}

void BatchLookup::Break(const absl::Status& why) {
  if (ended_) return;
  queue_->Rewind();
  if (call_ != nullptr) std::exchange(call_, nullptr)->Cancel();
  // A server that answers, even with "draining", has a working connection: the
  // next call on this channel goes to the next of several servers. A new
  // channel would begin with the same server again.
  if (ErrorReason(why).empty()) channel_ = nullptr;
  writing_ = false;
  const absl::Time now = MonotonicNow();
  if (!retry_.Failed(why, now)) {
    End(why);
    return;
  }
  observer_.OnDisconnect(why, retry_.next_attempt() - now);
  changed_.notify_all();
}

void BatchLookup::End(absl::Status why) {
  if (ended_) return;
  ended_ = true;
  status_ = std::move(why);
  if (call_ != nullptr) std::exchange(call_, nullptr)->Cancel();
  channel_ = nullptr;
  observer_.OnEnd(status_);
  changed_.notify_all();
}

}  // namespace planb::client
