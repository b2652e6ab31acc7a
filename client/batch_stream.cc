// SPDX-License-Identifier: Apache-2.0

// How threads share the completion queue: a thread that cannot go on polls it
// if no other thread does, takes in one event, and tells the others; else it
// waits to be told. Operations are started outside of the mutex, because
// gRPC may send and receive within them. A Read is always outstanding (started
// by the thread that polls), so replies never pile up in the transport; at most
// max_in_flight of them pile up here.

#include "client/batch_stream.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/monotonic_time.h"
#include "client/call.h"

namespace planb::client {
namespace {

BatchStreamOptions Sane(BatchStreamOptions options) {
  if (options.max_in_flight == 0) options.max_in_flight = 1;
  return options;
}

}  // namespace

BatchStream::BatchStream(const std::shared_ptr<grpc::Channel>& channel,
                         const BatchStreamOptions& options)
    : options_(Sane(options)),
      call_(channel, options.deadline),
      last_progress_(MonotonicNow()) {}

BatchStream::~BatchStream() {
  Cancel();
  absl::MutexLock lock(&mutex_);
  while (!ended_) Advance();
}

absl::StatusOr<uint64_t> BatchStream::Send(const Batch& batch) {
  uint64_t id = 0;
  {
    absl::MutexLock lock(&mutex_);
    AwaitWriter(/*need_room=*/true);
    if (ended_) return status_;
    if (send_closed_) {
      return absl::FailedPreconditionError("Send after CloseSend");
    }
    writing_ = true;  // ours from here on
    id = last_id_ + 1;
  }
  const absl::StatusOr<grpc::ByteBuffer> message = EncodeBatch(id, batch);
  {
    absl::MutexLock lock(&mutex_);
    if (!message.ok()) {
      writing_ = false;
      changed_.SignalAll();
      return message.status();
    }
    last_id_ = id;
    last_progress_ = MonotonicNow();
    expected_.push_back(Expect(id, batch));
  }
  call_.Write(*message);
  return id;
}

absl::Status BatchStream::CloseSend() {
  {
    absl::MutexLock lock(&mutex_);
    AwaitWriter(/*need_room=*/false);
    if (ended_) return status_;
    if (send_closed_) return absl::OkStatus();
    send_closed_ = true;
    writing_ = true;
    last_progress_ = MonotonicNow();
    changed_.SignalAll();
  }
  call_.WritesDone();
  return absl::OkStatus();
}

absl::StatusOr<bool> BatchStream::Receive(BatchResult& result) {
  grpc::ByteBuffer reply;
  ExpectedReply expected;
  {
    absl::MutexLock lock(&mutex_);
    while (arrived_.empty() && !ended_) Advance();
    if (arrived_.empty()) {
      if (!status_.ok()) return status_;
      return false;
    }
    reply.Swap(&arrived_.front());
    arrived_.pop_front();
    expected = expected_.front();
    expected_.pop_front();
    changed_.SignalAll();  // there is room for another
  }
  if (absl::Status status = DecodeReply(reply, expected, result);
      !status.ok()) {
    absl::MutexLock lock(&mutex_);
    Fail(status);
    arrived_.clear();  // nothing after this can be trusted
    return status_;
  }
  return true;
}

bool BatchStream::Ready() {
  absl::MutexLock lock(&mutex_);
  if (arrived_.empty() && !ended_ && !polling_) TakeNext(/*wait=*/false);
  return !arrived_.empty() || ended_;
}

absl::Status BatchStream::Finish() {
  CloseSend().IgnoreError();  // comes back as status_
  absl::MutexLock lock(&mutex_);
  while (!ended_) Advance();
  arrived_.clear();
  expected_.clear();
  return status_;
}

void BatchStream::Cancel() {
  absl::MutexLock lock(&mutex_);
  if (!ended_) Fail(absl::CancelledError("the stream was cancelled"));
}

size_t BatchStream::in_flight() const {
  absl::MutexLock lock(&mutex_);
  return expected_.size();
}

void BatchStream::AwaitWriter(bool need_room) {
  while (!ended_ && !send_closed_) {
    const bool blocked = writing_ || write_broken_ || !status_.ok();
    if (!blocked &&
        !(need_room && expected_.size() >= options_.max_in_flight)) {
      return;
    }
    if (!blocked && !arrived_.empty()) {
      // Room is made by Receive, not by the server: polling the queue could
      // outlast that.
      changed_.Wait(&mutex_);
    } else {
      Advance();
    }
  }
}

void BatchStream::Advance() {
  if (polling_) {
    changed_.Wait(&mutex_);
  } else {
    TakeNext(/*wait=*/true);
  }
}

void BatchStream::TakeNext(bool wait) {
  polling_ = true;
  mutex_.Unlock();
  absl::Time until = absl::InfiniteFuture();
  if (!wait || options_.spin) {
    until = absl::InfinitePast();
  } else if (options_.stall_timeout != absl::InfiniteDuration()) {
    until = MonotonicNow() + options_.stall_timeout;
  }
  BatchCall::Event event = call_.Poll(until);
  mutex_.Lock();
  polling_ = false;
  Take(std::move(event));
  changed_.SignalAll();
}

void BatchStream::Take(BatchCall::Event event) {
  using Kind = BatchCall::Event::Kind;
  if (event.kind == Kind::kNothing) {
    CheckStall();
    return;
  }
  last_progress_ = MonotonicNow();
  if (event.kind == Kind::kWritten) {
    writing_ = false;
    write_broken_ = !event.ok;
  } else if (event.kind == Kind::kEnded) {
    ended_ = true;
    if (!status_.ok()) return;
    status_ = FromGrpc(event.status);
    if (!status_.ok()) return;
    const size_t unanswered = expected_.size() - arrived_.size();
    if (unanswered > 0 || !send_closed_) {
      status_ = absl::InternalError(
          absl::StrCat("the server broke its contract: it ended the stream "
                       "unasked, with ",
                       unanswered, " batches unanswered"));
    }
  } else if (status_.ok()) {
    if (arrived_.size() == expected_.size()) {
      Fail(absl::InternalError(
          "the server broke its contract: a reply to no batch"));
      return;
    }
    arrived_.emplace_back().Swap(&event.message);
  }
}

void BatchStream::Fail(absl::Status status) {
  if (status_.ok()) status_ = std::move(status);
  call_.Cancel();
  changed_.SignalAll();
}

void BatchStream::CheckStall() {
  const bool waiting =
      writing_ || send_closed_ || expected_.size() > arrived_.size();
  const absl::Duration idle = MonotonicNow() - last_progress_;
  if (!waiting || idle < options_.stall_timeout) return;
  Fail(absl::DeadlineExceededError(
      absl::StrCat("no sign of the server for ", absl::FormatDuration(idle),
                   " with ", expected_.size(), " batches in flight")));
}

}  // namespace planb::client
