// SPDX-License-Identifier: Apache-2.0

// The callback style: gRPC's threads call a reactor for each call.

#include <grpcpp/grpcpp.h>

#include <deque>
#include <mutex>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "benchmarks/serving/rpc/bare_server.h"
#include "planb/v1/route_lookup.grpc.pb.h"

namespace planb::rpc {
namespace {

using grpc::ByteBuffer;
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
      const std::lock_guard<std::mutex> lock(mutex_);
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
    // Only grows at its end meanwhile.
    if (write) StartWrite(&replies_.front());
    if (read) StartRead(&request_);
  }

  void OnWriteDone(bool ok) override {
    ByteBuffer* next = nullptr;
    bool read, end;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
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
  std::mutex mutex_;
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

class CallbackStyle final : public Style {
 public:
  explicit CallbackStyle(Handler handler) : service_(std::move(handler)) {}
  grpc::Service& service() override { return service_; }

 private:
  Service service_;
};

}  // namespace

std::unique_ptr<Style> MakeCallbackStyle(Handler handler) {
  return std::make_unique<CallbackStyle>(std::move(handler));
}

}  // namespace planb::rpc
