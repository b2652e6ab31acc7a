// SPDX-License-Identifier: Apache-2.0

// The asynchronous style: one completion queue, one thread, and for each call a
// state machine that only this thread touches.

#include <grpcpp/grpcpp.h>

#include <deque>
#include <thread>
#include <utility>

#include "benchmarks/serving/rpc/bare_server.h"
#include "planb/v1/route_lookup.grpc.pb.h"

namespace planb::rpc {
namespace {

using grpc::ByteBuffer;
using Service = v1::RouteLookup::WithRawMethod_BatchLookup<
    v1::RouteLookup::WithRawMethod_Lookup<v1::RouteLookup::Service>>;

// What a tag of the queue points to.
class Event {
 public:
  virtual ~Event() = default;
  virtual void Done(bool ok) = 0;
};

// A member function of `Owner`, as a tag.
template <typename Owner, void (Owner::*kMethod)(bool)>
class EventOf final : public Event {
 public:
  explicit EventOf(Owner* owner) : owner_(owner) {}
  void Done(bool ok) override { (owner_->*kMethod)(ok); }

 private:
  Owner* const owner_;
};

struct Shared {
  Service service;
  Handler handler;
  grpc::ServerCompletionQueue* queue = nullptr;
};

// One BatchLookup call. Reading and writing overlap. Deletes itself: when it
// is not started, or when it has ended and nothing is under way.
class StreamCall {
 public:
  explicit StreamCall(Shared& shared) : shared_(shared) {
    shared.service.RequestBatchLookup(&context_, &stream_, shared.queue,
                                      shared.queue, &started_);
  }

 private:
  void OnStarted(bool ok) {
    if (!ok) {
      delete this;
      return;
    }
    new StreamCall(shared_);
    stream_.Read(&request_, &read_);
  }

  void OnRead(bool ok) {
    ByteBuffer reply;
    if (ok && !shared_.handler(request_, reply)) {
      status_ = grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "malformed");
      ok = false;
    }
    if (!ok) {
      ended_ = true;
      if (!writing_) stream_.Finish(status_, &finished_);
      return;
    }
    replies_.push_back(std::move(reply));
    if (!writing_) Write();
    paused_ = replies_.size() >= kMaxReplies;
    if (!paused_) stream_.Read(&request_, &read_);
  }

  void OnWritten(bool ok) {
    writing_ = false;
    replies_.pop_front();
    if (!ok) replies_.clear();
    if (!replies_.empty()) {
      Write();
    } else if (ended_) {
      stream_.Finish(status_, &finished_);
      return;
    }
    if (std::exchange(paused_, false)) stream_.Read(&request_, &read_);
  }

  void OnFinished(bool) { delete this; }

  void Write() {
    writing_ = true;
    stream_.Write(replies_.front(), &written_);
  }

  Shared& shared_;
  grpc::ServerContext context_;
  grpc::ServerAsyncReaderWriter<ByteBuffer, ByteBuffer> stream_{&context_};
  ByteBuffer request_;
  std::deque<ByteBuffer> replies_;  // the first is being written
  grpc::Status status_;
  bool writing_ = false, paused_ = false, ended_ = false;
  EventOf<StreamCall, &StreamCall::OnStarted> started_{this};
  EventOf<StreamCall, &StreamCall::OnRead> read_{this};
  EventOf<StreamCall, &StreamCall::OnWritten> written_{this};
  EventOf<StreamCall, &StreamCall::OnFinished> finished_{this};
};

// One Lookup call, answered with itself. Deletes itself likewise.
class UnaryCall {
 public:
  explicit UnaryCall(Shared& shared) : shared_(shared) {
    shared.service.RequestLookup(&context_, &request_, &writer_, shared.queue,
                                 shared.queue, &started_);
  }

 private:
  void OnStarted(bool ok) {
    if (!ok) {
      delete this;
      return;
    }
    new UnaryCall(shared_);
    writer_.Finish(request_, grpc::Status::OK, &finished_);
  }
  void OnFinished(bool) { delete this; }

  Shared& shared_;
  grpc::ServerContext context_;
  ByteBuffer request_;
  grpc::ServerAsyncResponseWriter<ByteBuffer> writer_{&context_};
  EventOf<UnaryCall, &UnaryCall::OnStarted> started_{this};
  EventOf<UnaryCall, &UnaryCall::OnFinished> finished_{this};
};

class AsyncStyle final : public Style {
 public:
  AsyncStyle(Handler handler, bool spin) : spin_(spin) {
    shared_.handler = std::move(handler);
  }

  grpc::Service& service() override { return shared_.service; }

  void Prepare(grpc::ServerBuilder& builder) override {
    queue_ = builder.AddCompletionQueue();
    shared_.queue = queue_.get();
  }

  void Start() override {
    new StreamCall(shared_);
    new UnaryCall(shared_);
    thread_ = std::thread([this] { Loop(); });
  }

  void Stop() override {
    queue_->Shutdown();
    if (!thread_.joinable()) {
      Loop();  // never started: only empty it
      return;
    }
    thread_.join();
  }

 private:
  void Loop() {
    void* tag;
    bool ok;
    for (;;) {
      if (spin_) {
        const auto next =
            queue_->AsyncNext(&tag, &ok, gpr_inf_past(GPR_CLOCK_MONOTONIC));
        if (next == grpc::CompletionQueue::TIMEOUT) continue;
        if (next == grpc::CompletionQueue::SHUTDOWN) return;
      } else if (!queue_->Next(&tag, &ok)) {
        return;
      }
      static_cast<Event*>(tag)->Done(ok);
    }
  }

  const bool spin_;
  Shared shared_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Style> MakeAsyncStyle(Handler handler, bool spin) {
  return std::make_unique<AsyncStyle>(std::move(handler), spin);
}

}  // namespace planb::rpc
