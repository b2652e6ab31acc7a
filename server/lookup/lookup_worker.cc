// SPDX-License-Identifier: Apache-2.0

#include "server/lookup/lookup_worker.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/published.h"
#include "server/base/log.h"
#include "server/lookup/lookup_call.h"

namespace planb::server {
namespace {

// Calls of each method that can begin before the thread accepts further ones. A
// call that finds no free place at its worker goes to another worker's queue.
constexpr int kAccepting = 16;

absl::Status Malformed() {
  return Error(absl::StatusCode::kInvalidArgument, "MESSAGE_MALFORMED",
               "the message is no BatchLookupRequest");
}

}  // namespace

// A call of BatchLookup: one reply for each request, in order. At any time, at
// most one read and one write are in progress, and at most one batch waits: for
// its generation, or, where a table does not keep prefix lengths, until they
// are found, between other work of the thread. Reading stops while kMaxReplies
// replies, or kMaxReplyBytes of them, wait to be written: flow control then
// stops the client. The snapshot is pinned only while a batch is computed,
// never across a read or a write of this stream.
//
// Used on its worker's thread alone. Owns itself until the last event that gRPC
// has promised.
class BatchStream final : public std::enable_shared_from_this<BatchStream> {
 public:
  static constexpr size_t kMaxReplies = 8;
  static constexpr size_t kMaxReplyBytes = 1 << 20;

  // Accepts the next stream on `worker`, and after each stream one more.
  // REQUIRES: called on the worker's thread, or before it runs.
  static void Accept(LookupWorker& worker);

  explicit BatchStream(LookupWorker& worker) : worker_(worker) {}

  // Answers the requests received so far, then ends with UNAVAILABLE.
  void Drain();

 private:
  void OnAccepted(bool ok);
  void OnRead(bool ok);
  void OnWritten(bool ok);
  void OnFinished(bool ok);
  void OnCallDone(bool ok);

  // Answers request_, after waiting for its generation if it names one.
  void Handle();
  void AwaitGeneration(const TableRef& table);
  // `reader` has the batch.
  void Answer(const TableRef& table, BatchReader& reader);
  // A batch while its prefix lengths are being found.
  struct Lengths {
    TableRef table;
    std::optional<Published<Snapshot>::Reader> snapshot = {};
    BatchReply reply = {};
    size_t found = 0;
  };
  // Finds some of them, and replies after the last; false if none is left.
  bool FindLengths(Lengths& lengths);
  void Answered(const Batch& batch, BatchReply& reply);
  void Fail(const absl::Status& error, uint64_t request_id,
            uint64_t generation);
  // Takes the contents of `reply`.
  void Reply(grpc::ByteBuffer& reply);
  // Starts the next read, write or end of the call, as far as possible.
  void Proceed();
  // Counts the time for which reading is held back.
  void Hold(bool held);
  // The status that the call ends with.
  absl::Status Outcome() const;
  // One of the promised events has happened; frees the stream after the last.
  void Settle();

  LookupWorker& worker_;
  std::shared_ptr<BatchStream> self_;
  grpc::ServerContext call_;
  grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer> io_{&call_};
  EventOf<BatchStream, &BatchStream::OnAccepted> accepted_{this};
  EventOf<BatchStream, &BatchStream::OnRead> read_{this};
  EventOf<BatchStream, &BatchStream::OnWritten> written_{this};
  EventOf<BatchStream, &BatchStream::OnFinished> finished_{this};
  EventOf<BatchStream, &BatchStream::OnCallDone> call_done_{this};

  grpc::ByteBuffer request_;  // being read, waiting or being answered
  // What request_ holds while it waits: the worker's reader goes on with other
  // batches.
  BatchReader waiting_batch_;
  SteadyInstant received_;
  std::deque<grpc::ByteBuffer> replies_;  // the first is being written
  size_t reply_bytes_ = 0;

  int promised_ = 0;      // events that gRPC will still report
  bool entered_ = false;  // counted by the worker
  absl::Status refusal_;  // why not, if not
  bool reading_ = false;
  bool writing_ = false;
  bool waiting_ = false;  // for a generation or for prefix lengths
  bool held_ = false;     // not reading: too many replies wait
  bool no_more_requests_ = false;
  bool broken_ = false;  // the client is gone
  bool finishing_ = false;
};

absl::Status LookupWorker::Start() {
  for (int i = 0; i < kAccepting; ++i) {
    BatchStream::Accept(*this);
    LookupCall::Accept(*this);
  }
  return queue_.Start();
}

void LookupWorker::Drain() {
  queue_.Post([this] {
    draining_ = true;
    const std::vector<BatchStream*> streams(streams_.begin(), streams_.end());
    for (BatchStream* const stream : streams) stream->Drain();
  });
}

void LookupWorker::Note(const grpc::ServerContextBase& call,
                        absl::string_view table, uint64_t request_id,
                        SteadyInstant::duration elapsed, size_t addresses,
                        size_t misses) {
  const bool turn = until_traced_ == 0;
  if (turn) until_traced_ = BatchesPerSpan();
  table = table.empty() ? "default" : table;
  std::optional<uint64_t> left_out;
  if (context_.slow_batches.IsSlow(elapsed)) {
    counters_.Add(LookupCount::kSlow, 1);
    left_out = context_.slow_batches.Admit();
  }
  std::optional<Span> span;
  if (turn || (left_out.has_value() && BatchesPerSpan() > 0)) {
    span = Tracer::Begin("planb.v1.RouteLookup/batch", TraceParentOf(call));
  }
  if (left_out.has_value()) {
    Log(LogLevel::kWarning, "slow batch",
        {{"table", table},
         {"addresses", addresses},
         {"microseconds", absl::ToInt64Microseconds(absl::FromChrono(elapsed))},
         {"request_id", request_id},
         {"peer", call.peer()},
         {IfTraced(span, "trace_id"), TraceIdText(span)},
         {IfTraced(span, "span_id"), SpanIdText(span)},
         {"not_logged", *left_out}});
  }
  if (!span.has_value()) return;
  span->end = span->start;
  span->start -= absl::FromChrono(elapsed);
  span->attributes = {{"rpc.system", "grpc"},
                      {"rpc.service", "planb.v1.RouteLookup"},
                      {"planb.table", std::string(table)},
                      {"planb.addresses", static_cast<int64_t>(addresses)},
                      {"planb.misses", static_cast<int64_t>(misses)}};
  if (request_id != 0) {
    span->attributes.emplace_back("planb.request_id", absl::StrCat(request_id));
  }
  context_.metrics.SetExample(*span);
  context_.tracer->Add(*std::move(span));
}

absl::Status LookupWorker::Enter(BatchStream* stream) {
  if (draining_) return DrainingError();
  if (!in_flight_.TryBegin(context_.limits.max_streams)) {
    return QuotaError(
        "TOO_MANY_STREAMS", "streams",
        absl::StrCat("the limit is ", context_.limits.max_streams),
        absl::Seconds(1));
  }
  streams_.insert(stream);
  counters_.Add(LookupCount::kStreams, 1);
  return absl::OkStatus();
}

void LookupWorker::Leave(BatchStream* stream) {
  streams_.erase(stream);
  counters_.Subtract(LookupCount::kStreams, 1);
  in_flight_.End();
}

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
  BatchReader& reader = worker_.reader_;
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
  waiting_batch_ = std::move(worker_.reader_);
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
      no_more_requests_ || worker_.draining_ || broken_ || !entered_;
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
