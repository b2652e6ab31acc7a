// SPDX-License-Identifier: Apache-2.0

// The caller's thread writes and a thread of this object reads, as gRPC's
// synchronous streams allow. The reader passes credits to the writer.

#include "client/update_stream.h"

#include <algorithm>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "base/monotonic_time.h"
#include "base/mutex.h"
#include "client/call.h"

namespace planb::client {
namespace {

// What a request_id costs, by the contract. The server does not grant these
// credits: they come back with the answer, and this side counts them.
constexpr uint64_t kRequestIdCredits = 255;

// The number of credits that a batch costs else.
uint64_t CostOf(const v1::StreamUpdatesRequest& batch) {
  return CountEntries(batch) + 1;
}

v1::StreamUpdatesRequest Hello(const UpdateStreamOptions& options) {
  v1::StreamUpdatesRequest hello;
  hello.set_table(options.table);
  hello.set_ack(options.ack);
  hello.set_ack_replicas(options.ack_replicas);
  hello.set_writer_epoch(options.writer_epoch);
  return hello;
}

}  // namespace

UpdateStream::UpdateStream(const std::shared_ptr<grpc::Channel>& channel,
                           const UpdateStreamOptions& options, OnReply on_reply)
    : on_reply_(std::move(on_reply)),
      stub_(v1::RouteTable::NewStub(channel)),
      stream_(stub_->StreamUpdates(&context_)),
      receiver_([this, hello = Hello(options)] { Receive(hello); }) {}

UpdateStream::~UpdateStream() { CancelAndJoin(); }

absl::StatusOr<uint64_t> UpdateStream::Send(v1::StreamUpdatesRequest batch,
                                            Deadline deadline) {
  const uint64_t cost = CostOf(batch);
  uint64_t id_cost = batch.request_id().empty() ? 0 : kRequestIdCredits;
  batch.clear_table();
  batch.clear_ack();
  batch.clear_ack_replicas();
  batch.clear_writer_epoch();
  batch.clear_batch_id();
  {
    const MutexLock write_lock(write_mutex_);
    {
      MutexLock lock(mutex_);
      // While no batch is in flight, no further credits come. Then a batch
      // needs none for its id.
      if (!changed_.wait_until(lock, ToSteady(deadline.time()),
                               [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                                 return over_ || credits_ >= cost + id_cost ||
                                        (greeted_ && in_flight_.empty());
                               })) {
        return absl::DeadlineExceededError(
            "the server grants no credits for another batch");
      }
      if (!over_ && credits_ < cost) {
        return absl::InvalidArgumentError(
            absl::StrCat("a batch that needs ", cost,
                         " credits, where the server gives ", credits_));
      }
      if (!over_) {
        id_cost = std::min(id_cost, credits_ - cost);
        credits_ -= cost + id_cost;
        batch.set_batch_id(++last_id_);
        in_flight_.push_back({last_id_, id_cost});
      }
    }
    // Whether it arrived or not, the reply will say.
    if (batch.batch_id() != 0) stream_->Write(batch);
  }
  if (batch.batch_id() != 0) return batch.batch_id();
  const absl::Status end = AwaitEnd(absl::InfiniteFuture());
  return end.ok() ? BrokenContract("it ended the stream") : end;
}

absl::Status UpdateStream::Finish(Deadline when) {
  const absl::Time deadline = when.time();
  {
    const MutexLock write_lock(write_mutex_);
    if (AwaitGreeting(deadline)) stream_->WritesDone();
  }
  const absl::Status end = AwaitEnd(deadline);
  CancelAndJoin();
  return end;
}

uint64_t UpdateStream::in_flight() const {
  const MutexLock lock(mutex_);
  return in_flight_.size();
}

void UpdateStream::Receive(const v1::StreamUpdatesRequest& hello) {
  absl::Status ours;
  v1::StreamUpdatesResponse response;
  if (stream_->Write(hello)) {
    while (ours.ok() && stream_->Read(&response)) {
      ours = Accept(std::exchange(response, {}));
    }
  }
  if (!ours.ok()) context_.TryCancel();
  {
    const MutexLock lock(mutex_);
    over_ = true;
    changed_.notify_all();
  }
  absl::Status end;
  {
    const MutexLock write_lock(write_mutex_);
    end = FromGrpc(stream_->Finish());
  }
  if (!ours.ok()) end = ours;
  std::deque<InFlight> unanswered;
  {
    const MutexLock lock(mutex_);
    if (cancelled_ && !end.ok()) {
      end = absl::CancelledError("the stream was cancelled");
    }
    unanswered.swap(in_flight_);
  }
  if (end.ok() && !unanswered.empty()) {
    end = BrokenContract("it ended the stream without an answer");
  }
  for (const InFlight& batch : unanswered) {
    on_reply_({.batch_id = batch.id, .status = end});
  }
  const MutexLock lock(mutex_);
  end_ = end;
  changed_.notify_all();
}

absl::Status UpdateStream::Accept(v1::StreamUpdatesResponse response) {
  {
    const MutexLock lock(mutex_);
    credits_ += response.credits();
    changed_.notify_all();
    if (!std::exchange(greeted_, true)) return absl::OkStatus();
    if (in_flight_.empty() || in_flight_.front().id != response.batch_id()) {
      return BrokenContract(absl::StrCat("batch ", response.batch_id(),
                                         " was answered out of turn"));
    }
    credits_ += in_flight_.front().id_cost;
    in_flight_.pop_front();
  }
  UpdateReply reply = {.batch_id = response.batch_id()};
  if (response.has_error()) reply.status = FromUpdateError(response.error());
  reply.response = std::move(response);
  on_reply_(reply);
  return absl::OkStatus();
}

bool UpdateStream::AwaitGreeting(absl::Time deadline) {
  MutexLock lock(mutex_);
  return changed_.wait_until(lock, ToSteady(deadline),
                             [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                               return greeted_ || over_;
                             });
}

absl::Status UpdateStream::AwaitEnd(absl::Time deadline) {
  MutexLock lock(mutex_);
  if (!changed_.wait_until(lock, ToSteady(deadline),
                           [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                             return end_.has_value();
                           })) {
    return absl::DeadlineExceededError(
        absl::StrCat(in_flight_.size(), " batches were not answered in time"));
  }
  return *end_;
}

void UpdateStream::CancelAndJoin() {
  {
    const MutexLock lock(mutex_);
    cancelled_ = true;
  }
  context_.TryCancel();
  if (receiver_.joinable()) receiver_.join();
}

}  // namespace planb::client
