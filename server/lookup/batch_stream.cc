// SPDX-License-Identifier: Apache-2.0

#include "server/lookup/batch_stream.h"

#include <algorithm>
#include <utility>

#include "server/base/error.h"

namespace planb::server {
namespace {

absl::Status Malformed() {
  return Error(absl::StatusCode::kInvalidArgument, "MESSAGE_MALFORMED",
               "the message is no BatchLookupRequest");
}

}  // namespace

void BatchStream::Accept(LookupWorker& worker) {
  auto stream = std::make_shared<BatchStream>(worker);
  BatchStream& s = *stream;
  s.self_ = std::move(stream);
  grpc::ServerCompletionQueue* const queue = worker.queue().get();
  s.call_.AsyncNotifyWhenDone(static_cast<QueueEvent*>(&s.call_done_));
  worker.service().RequestBatchLookup(&s.call_, &s.io_, queue, queue,
                                      static_cast<QueueEvent*>(&s.accepted_));
}

void BatchStream::Drain() { Proceed(); }

void BatchStream::OnAccepted(bool ok) {
  if (!ok) {  // The server is shutting down; call_done_ will not come either.
    self_.reset();
    return;
  }
  if (!worker_.queue().ended()) Accept(worker_);
  promised_ = 1;  // call_done_
  refusal_ = worker_.Enter(this);
  entered_ = refusal_.ok();
  Proceed();
}

void BatchStream::OnRead(bool ok) {
  reading_ = false;
  no_more_requests_ |= !ok;
  if (ok && !finishing_) {
    Handle();  // even while draining: it was received
    Proceed();
  } else if (!ok) {
    Proceed();
  }
  Settle();
}

void BatchStream::OnWritten(bool ok) {
  writing_ = false;
  const size_t bytes = replies_.front().Length();
  reply_bytes_ -= bytes;
  if (ok) worker_.counters().Add(LookupCount::kSent, bytes);
  replies_.pop_front();
  broken_ |= !ok;
  Proceed();
  Settle();
}

void BatchStream::OnCallDone(bool) {
  broken_ |= call_.IsCancelled();
  Proceed();
  Settle();
}

void BatchStream::OnFinished(bool) { Settle(); }

void BatchStream::Settle() {
  if (--promised_ > 0) return;
  if (entered_) worker_.Leave(this);
  self_.reset();
}

void BatchStream::Handle() {
  received_ = SteadyNow();
  worker_.counters().Add(LookupCount::kReceived, request_.Length());
  BatchReader& reader = worker_.reader();
  const bool parsed = reader.Read(request_);
  const Batch& batch = reader.batch();
  const uint64_t request_id = batch.request.request_id;
  if (!parsed) return Fail(Malformed(), request_id, 0);
  const auto table = worker_.context().tables.Find(batch.request.table);
  if (!table.ok()) return Fail(table.status(), request_id, 0);
  const absl::Status valid =
      CheckBatch(batch, worker_.context().limits, (*table)->fib_options());
  if (!valid.ok()) {
    return Fail(valid, request_id, (*table)->Read()->generation());
  }
  if (IsVisible(**table, batch.request.min_generation)) {
    return Answer(*table, reader);
  }
  AwaitGeneration(*table);
}

void BatchStream::AwaitGeneration(const TableRef& table) {
  // Other batches are read meanwhile. The bytes stay in request_.
  waiting_batch_ = std::move(worker_.reader());
  waiting_ = true;
  const auto resume = [this, table](const absl::Status& status) {
    waiting_ = false;
    if (finishing_) return;
    BatchReader reader = std::exchange(waiting_batch_, {});
    if (status.ok()) {
      Answer(table, reader);
    } else {
      Fail(status, reader.batch().request.request_id, table->visible());
    }
    Proceed();
  };
  const wire::BatchRequest& request = waiting_batch_.batch().request;
  // A weak reference: a stream ends without its answer if the client is gone.
  WhenVisible(worker_.context(), *table, request.min_generation,
              absl::Milliseconds(request.max_wait_ms),
              [&worker = worker_, stream = weak_from_this(),
               resume](const absl::Status& status) {
                worker.queue().Post([stream, resume, status] {
                  const auto alive = stream.lock();
                  if (alive != nullptr) resume(status);
                });
              });
}

void BatchStream::Answer(const TableRef& table, BatchReader& reader) {
  const Batch& batch = reader.batch();
  const bool slowly =
      batch.request.want_prefix_lengths && !table->fib_options().prefix_lengths;
  if (!slowly || batch.addresses <= kPrefixStep) {
    const auto snapshot = table->Read();
    if (const auto complete =
            CheckComplete(*snapshot, batch.request.require_complete);
        !complete.ok()) {
      return Fail(complete, batch.request.request_id, snapshot->generation());
    }
    BatchReply reply = AnswerReply(*snapshot, worker_.context().kernel, batch);
    if (reply.lengths != nullptr) {
      AnswerLengths(*snapshot, batch, 0, batch.addresses, reply.lengths);
    }
    return Answered(batch, reply);
  }
  waiting_batch_ = std::move(reader);
  waiting_ = true;
  worker_.queue().RunInSlices(
      [stream = weak_from_this(),
       work = std::make_shared<Lengths>(Lengths{table})] {
        const auto alive = stream.lock();
        return alive != nullptr && alive->FindLengths(*work);
      });
}

bool BatchStream::FindLengths(Lengths& lengths) {
  if (finishing_ || worker_.queue().ended()) return false;
  const Batch& batch = waiting_batch_.batch();
  if (!lengths.snapshot.has_value()) {
    lengths.snapshot.emplace(lengths.table->Read());
    const Snapshot& snapshot = **lengths.snapshot;
    if (const auto complete =
            CheckComplete(snapshot, batch.request.require_complete);
        !complete.ok()) {
      waiting_ = false;
      Fail(complete, batch.request.request_id, snapshot.generation());
      waiting_batch_ = {};
      lengths.snapshot.reset();
      Proceed();
      return false;
    }
    lengths.reply =
        AnswerReply(**lengths.snapshot, worker_.context().kernel, batch);
  }
  const size_t count = std::min(kPrefixStep, batch.addresses - lengths.found);
  AnswerLengths(**lengths.snapshot, batch, lengths.found, count,
                lengths.reply.lengths);
  lengths.found += count;
  if (lengths.found < batch.addresses) return true;
  lengths.snapshot.reset();
  waiting_ = false;
  Answered(batch, lengths.reply);
  waiting_batch_ = {};
  Proceed();
  return false;
}

void BatchStream::Answered(const Batch& batch, BatchReply& reply) {
  worker_.Answered(call_, batch.request.table, batch.request.request_id,
                   received_, batch.addresses, reply.misses);
  Reply(reply.bytes);
}

void BatchStream::Fail(const absl::Status& error, uint64_t request_id,
                       uint64_t generation) {
  worker_.Refused(error);
  grpc::ByteBuffer reply = ErrorReply(error, request_id, generation);
  Reply(reply);
}

void BatchStream::Reply(grpc::ByteBuffer& reply) {
  request_.Clear();  // its memory may be large
  reply_bytes_ += reply.Length();
  // A buffer that is moved is copied.
  replies_.emplace_back().Swap(&reply);
}

void BatchStream::Proceed() {
  // A queue ends after the server has cancelled all calls: no client waits for
  // an answer any more.
  if (finishing_ || worker_.queue().ended()) return;
  if (broken_ && !writing_) {
    replies_.clear();
    reply_bytes_ = 0;
  }
  if (!writing_ && !replies_.empty()) {
    writing_ = true;
    ++promised_;
    io_.Write(replies_.front(), static_cast<QueueEvent*>(&written_));
  }
  const bool closing =
      no_more_requests_ || worker_.draining() || broken_ || !entered_;
  const bool full =
      replies_.size() >= kMaxReplies || reply_bytes_ >= kMaxReplyBytes;
  const bool wants_more = !closing && !reading_ && !waiting_;
  Hold(wants_more && full);
  if (wants_more && !full) {
    reading_ = true;
    ++promised_;
    io_.Read(&request_, static_cast<QueueEvent*>(&read_));
  }
  if (closing && !writing_ && (!waiting_ || broken_)) {
    // A read may be outstanding: the end of the call ends it as well.
    finishing_ = true;
    ++promised_;
    io_.Finish(ToGrpc(Outcome()), static_cast<QueueEvent*>(&finished_));
  }
}

void BatchStream::Hold(bool held) {
  if (held == held_) return;
  held_ = held;
  if (held) {
    worker_.counters().HoldStream();
  } else {
    worker_.counters().ReleaseStream();
  }
}

absl::Status BatchStream::Outcome() const {
  if (!entered_) return refusal_;
  return no_more_requests_ ? absl::OkStatus() : DrainingError();
}

}  // namespace planb::server
