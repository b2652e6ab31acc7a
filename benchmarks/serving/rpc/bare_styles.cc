// SPDX-License-Identifier: Apache-2.0

// The styles in which gRPC lets a server be written.

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/rpc_method.h>
#include <grpcpp/impl/rpc_service_method.h>
#include <grpcpp/support/method_handler.h>

#include <deque>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "benchmarks/serving/rpc/bare_server.h"
#include "planb/v1/route_lookup.grpc.pb.h"

namespace planb::rpc {
namespace {

using grpc::ByteBuffer;

// A style without threads of its own.
template <typename Service>
class StyleOf final : public Style {
 public:
  explicit StyleOf(Handler handler) : service_(std::move(handler)) {}
  grpc::Service& service() override { return service_; }

 private:
  Service service_;
};

// The synchronous style: a thread of gRPC's pool serves each call. The
// generated code has no raw form of it; what it is made of takes bytes too.
namespace sync {

using grpc::internal::BidiStreamingHandler;
using grpc::internal::RpcMethod;
using grpc::internal::RpcMethodHandler;
using grpc::internal::RpcServiceMethod;

class Service final : public grpc::Service {
 public:
  explicit Service(Handler handler) : handler_(std::move(handler)) {
    AddMethod(new RpcServiceMethod(
        "/planb.v1.RouteLookup/Lookup", RpcMethod::NORMAL_RPC,
        new RpcMethodHandler<Service, ByteBuffer, ByteBuffer>(
            [](Service*, grpc::ServerContext*, const ByteBuffer* request,
               ByteBuffer* reply) {
              *reply = *request;
              return grpc::Status::OK;
            },
            this)));
    AddMethod(new RpcServiceMethod(
        "/planb.v1.RouteLookup/BatchLookup", RpcMethod::BIDI_STREAMING,
        new BidiStreamingHandler<Service, ByteBuffer, ByteBuffer>(
            [](Service* self, grpc::ServerContext*,
               grpc::ServerReaderWriter<ByteBuffer, ByteBuffer>* stream) {
              return self->Serve(*stream);
            },
            this)));
  }

 private:
  grpc::Status Serve(grpc::ServerReaderWriter<ByteBuffer, ByteBuffer>& stream) {
    ByteBuffer request;
    while (stream.Read(&request)) {
      ByteBuffer reply;
      if (!handler_(request, reply)) {
        return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "malformed");
      }
      if (!stream.Write(reply)) break;
    }
    return grpc::Status::OK;
  }

  const Handler handler_;
};

}  // namespace sync

// The callback style: gRPC's threads call a reactor for each call.
namespace callback {

using Base = v1::RouteLookup::WithRawCallbackMethod_BatchLookup<
    v1::RouteLookup::WithRawCallbackMethod_Lookup<v1::RouteLookup::Service>>;

// One BatchLookup call. Reading and writing overlap, so OnReadDone and
// OnWriteDone may come at once from two threads; each is alone of its kind.
// Invariant: only the call that finds the stream ended and nothing being
// written finishes it.
class Stream final : public grpc::ServerBidiReactor<ByteBuffer, ByteBuffer> {
 public:
  explicit Stream(const Handler& handler) : handler_(handler) {
    StartRead(&request_);
  }

  void OnReadDone(bool ok) override {
    ByteBuffer reply;
    const bool answered = ok && handler_(request_, reply);
    bool write, read;
    {
      const MutexLock lock(mutex_);
      write = answered && !writing_;
      if (answered) {
        replies_.push_back(std::move(reply));
        writing_ = true;
      } else {
        ended_ = true;
        malformed_ = ok;
      }
      paused_ = answered && replies_.size() >= kMaxReplies;
      read = answered && !paused_;
      if (!answered && writing_) return;
    }
    if (!answered) {
      End();
      return;
    }
    // Meanwhile it grows only at its end.
    if (write) StartWrite(&replies_.front());
    if (read) StartRead(&request_);
  }

  void OnWriteDone(bool ok) override {
    ByteBuffer* next = nullptr;
    bool read, end;
    {
      const MutexLock lock(mutex_);
      replies_.pop_front();
      if (!ok) replies_.clear();
      if (!replies_.empty()) next = &replies_.front();
      writing_ = next != nullptr;
      read = std::exchange(paused_, false);
      end = ended_ && !writing_;
    }
    if (end) {
      End();
      return;
    }
    if (next != nullptr) StartWrite(next);
    if (read) StartRead(&request_);
  }

  void OnDone() override { delete this; }

 private:
  void End() {
    Finish(malformed_
               ? grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "malformed")
               : grpc::Status::OK);
  }

  const Handler& handler_;
  ByteBuffer request_;
  bool malformed_ = false;  // written before, and read after, ended_ is set
  Mutex mutex_;
  // The first is being written: only that end is read without the mutex.
  std::deque<ByteBuffer> replies_;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool paused_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

class Service final : public Base {
 public:
  explicit Service(Handler handler) : handler_(std::move(handler)) {}

  grpc::ServerUnaryReactor* Lookup(grpc::CallbackServerContext* context,
                                   const ByteBuffer* request,
                                   ByteBuffer* reply) override {
    *reply = *request;
    auto* const reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  grpc::ServerBidiReactor<ByteBuffer, ByteBuffer>* BatchLookup(
      grpc::CallbackServerContext*) override {
    return new Stream(handler_);
  }

 private:
  const Handler handler_;
};

}  // namespace callback

// The asynchronous style: one completion queue, one thread, and for each call a
// state machine that only this thread touches.
namespace async {

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
  // Streams that have started and not ended.
  std::atomic<int> streams = 0;
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
    ++shared_.streams;
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

  void OnFinished(bool) {
    --shared_.streams;
    delete this;
  }

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
    // The server has cancelled all streams. Each of them still has to finish,
    // which a queue that is shut down does not allow.
    while (shared_.streams > 0) std::this_thread::yield();
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

}  // namespace async

}  // namespace

std::unique_ptr<Style> MakeSyncStyle(Handler handler) {
  return std::make_unique<StyleOf<sync::Service>>(std::move(handler));
}

std::unique_ptr<Style> MakeCallbackStyle(Handler handler) {
  return std::make_unique<StyleOf<callback::Service>>(std::move(handler));
}

std::unique_ptr<Style> MakeAsyncStyle(Handler handler, bool spin) {
  return std::make_unique<async::AsyncStyle>(std::move(handler), spin);
}

}  // namespace planb::rpc
