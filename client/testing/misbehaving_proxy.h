// SPDX-License-Identifier: Apache-2.0

// A proxy in the test's process, between its clients and a real server. It
// counts calls, and misbehaves on demand.

#ifndef PLANB_CLIENT_TESTING_MISBEHAVING_PROXY_H_
#define PLANB_CLIENT_TESTING_MISBEHAVING_PROXY_H_

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "base/testing/server_process.h"
#include "client/channel.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace planb::client::testing {

// An error as a PlanB server sends it: with this detail, such as ErrorInfo.
template <typename Detail>
grpc::Status ErrorWith(grpc::StatusCode code, const Detail& detail) {
  google::rpc::Status rich;
  rich.add_details()->PackFrom(detail);
  return {code, "an error", rich.SerializeAsString()};
}

inline grpc::Status MakeError(grpc::StatusCode code,
                              const std::string& reason) {
  google::rpc::ErrorInfo info;
  info.set_reason(reason);
  info.set_domain("planb");
  return ErrorWith(code, info);
}

inline grpc::Status RetryLater(absl::Duration delay) {
  google::rpc::RetryInfo retry;
  const int64_t nanos = absl::ToInt64Nanoseconds(delay);
  retry.mutable_retry_delay()->set_seconds(nanos / 1'000'000'000);
  retry.mutable_retry_delay()->set_nanos(
      static_cast<int32_t>(nanos % 1'000'000'000));
  return ErrorWith(grpc::StatusCode::RESOURCE_EXHAUSTED, retry);
}

// Thread-safe. Forwards every call to the server from construction to
// destruction, on its own Unix socket. A method is named without its service.
class MisbehavingProxy {
 public:
  // `server` is a target.
  explicit MisbehavingProxy(const std::string& server)
      : upstream_(*MakeChannel(server, {.own_connection = true})) {
    Restart();
  }
  ~MisbehavingProxy() { Die(); }

  // "unix:///..."
  const std::string& target() const { return target_; }
  std::shared_ptr<grpc::Channel> Channel() const {
    return *MakeChannel(target_, {.own_connection = true});
  }

  // Requests of a method wait from Hold until Release, but for the first
  // `after` of each call.
  void Hold(const std::string& method = "BatchLookup", uint64_t after = 0) {
    MutexLock lock(mutex_);
    methods_[method].hold_after = after;
  }
  void Release() {
    MutexLock lock(mutex_);
    for (auto& [name, method] : methods_) method.hold_after = UINT64_MAX;
    for (Call* call : held_) call->Forward();
    held_.clear();
  }
  // Each of the next `calls` calls ends with `status` instead of forwarding its
  // request or its reply number `messages`, both counted from 0. It passes on
  // the answers to the requests before.
  void EndCalls(uint64_t messages, const grpc::Status& status,
                uint64_t calls = UINT64_MAX,
                const std::string& name = "BatchLookup") {
    MutexLock lock(mutex_);
    Method& method = methods_[name];
    method.calls_to_end = calls;
    method.end_after = messages;
    method.end_status = status;
  }
  // Changes reply `number` of call `call` of a method, both counted from 0.
  // Returns how many times it is sent.
  template <typename Reply>
  using Edit = std::function<int(uint64_t call, uint64_t number, Reply& reply)>;
  template <typename Reply>
  void EditReplies(const Edit<Reply>& edit,
                   const std::string& method = "BatchLookup") {
    MutexLock lock(mutex_);
    methods_[method].edit = [edit](uint64_t call, uint64_t number,
                                   grpc::ByteBuffer& bytes) {
      Reply reply = Parse<Reply>(bytes);
      const int times = edit(call, number, reply);
      bool own;
      bytes.Clear();
      grpc::SerializationTraits<Reply>::Serialize(reply, &bytes, &own);
      return times;
    };
  }
  // Breaks every connection and stops, until Restart at the same target.
  void Die() {
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
  }
  void Restart() {
    server_.reset();
    service_ = std::make_unique<Service>(*this);
    server_ = grpc::ServerBuilder()
                  .AddListeningPort(target_, grpc::InsecureServerCredentials())
                  .SetMaxReceiveMessageSize(kMaxMessageBytes)
                  .RegisterCallbackGenericService(service_.get())
                  .BuildAndStart();
    ASSERT_NE(server_, nullptr);
  }

  // The calls of a method so far, and their requests.
  uint64_t calls(const std::string& method = "BatchLookup") const {
    MutexLock lock(mutex_);
    return methods_[method].calls;
  }
  uint64_t requests(const std::string& method = "BatchLookup") const {
    MutexLock lock(mutex_);
    return methods_[method].requests.size();
  }
  template <typename Request>
  std::vector<Request> Requests(const std::string& method) const {
    MutexLock lock(mutex_);
    std::vector<Request> parsed;
    for (const grpc::ByteBuffer& bytes : methods_[method].requests) {
      parsed.push_back(Parse<Request>(bytes));
    }
    return parsed;
  }

 private:
  struct Method {
    uint64_t calls = 0;
    std::vector<grpc::ByteBuffer> requests = {};
    uint64_t hold_after = UINT64_MAX;
    uint64_t calls_to_end = 0;
    uint64_t end_after = UINT64_MAX;
    grpc::Status end_status = {};
    Edit<grpc::ByteBuffer> edit = nullptr;
  };

  // A call: the client's side is the base, the server's side a member. Reads a
  // message of one side, writes it to the other, and reads the next. gRPC runs
  // callbacks on its own threads, not within the functions that start work, so
  // that these may be called with the mutex held. Deletes itself at its end.
  class Call final : public grpc::ServerGenericBidiReactor {
   public:
    Call(MisbehavingProxy& proxy, const std::string& path)
        : proxy_(proxy), method_(proxy.Find(path)), upstream_(*this) {
      MutexLock lock(proxy_.mutex_);
      number_ = method_.calls++;
      if (method_.calls_to_end > 0) {
        --method_.calls_to_end;
        end_after_ = method_.end_after;
        end_status_ = method_.end_status;
      }
      grpc::GenericStub(proxy_.upstream_)
          .PrepareBidiStreamingCall(&context_, path, {}, &upstream_);
      upstream_.AddHold();  // until the last read, because of writes
      upstream_.StartRead(&reply_);
      upstream_.StartCall();
      StartRead(&request_);
    }

    void Forward() {
      if (!upstream_ended_) upstream_.StartWrite(&request_);
    }

   private:
    struct Upstream final
        : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
      explicit Upstream(Call& of) : call(of) {}
      void OnReadDone(bool ok) override { call.OnReply(ok); }
      void OnWriteDone(bool ok) override {
        if (ok) call.StartRead(&call.request_);
      }
      void OnDone(const grpc::Status& status) override { call.OnEnd(status); }

      Call& call;
    };

    void OnReadDone(bool ok) override {
      MutexLock lock(proxy_.mutex_);
      if (upstream_ended_) return;
      if (ok) method_.requests.push_back(request_);
      if (ok && requests_ >= end_after_) ends_ = true;
      if (!ok || ends_) {
        upstream_.StartWritesDone();
      } else if (requests_++ >= method_.hold_after) {
        proxy_.held_.insert(this);
      } else {
        Forward();
      }
    }

    void OnReply(bool ok) {
      const bool ends = replies_ >= end_after_;
      Edit<grpc::ByteBuffer> edit;
      {
        MutexLock lock(proxy_.mutex_);
        if (!ok) {
          upstream_ended_ = true;
          upstream_.RemoveHold();
          return;
        }
        if (ends) ends_ = true;
        edit = method_.edit;
      }
      if (ends) context_.TryCancel();
      times_ = ends ? 0 : edit ? edit(number_, replies_, reply_) : 1;
      ++replies_;
      OnWriteDone(true);
    }

    // Sends the reply again, or reads the next one.
    void OnWriteDone(bool ok) override {
      if (ok && times_-- > 0) {
        StartWrite(&reply_);
      } else {
        upstream_.StartRead(&reply_);
      }
    }

    void OnCancel() override { context_.TryCancel(); }

    void OnEnd(const grpc::Status& status) {
      bool ends;
      {
        MutexLock lock(proxy_.mutex_);
        proxy_.held_.erase(this);
        ends = ends_;
      }
      Finish(ends ? end_status_ : status);
    }

    void OnDone() override { delete this; }

    MisbehavingProxy& proxy_;
    Method& method_;
    uint64_t number_;  // of the calls of its method
    uint64_t end_after_ = UINT64_MAX;
    grpc::Status end_status_;
    grpc::ClientContext context_;
    Upstream upstream_;
    grpc::ByteBuffer request_;
    grpc::ByteBuffer reply_;
    uint64_t requests_ = 0;
    uint64_t replies_ = 0;
    int times_ = 0;  // that the reply is still to be sent
    // Guarded by the proxy's mutex.
    bool ends_ = false;  // with end_status_
    bool upstream_ended_ = false;
  };

  struct Service : public grpc::CallbackGenericService {
    explicit Service(MisbehavingProxy& of) : proxy(of) {}
    grpc::ServerGenericBidiReactor* CreateReactor(
        grpc::GenericCallbackServerContext* context) override {
      return new Call(proxy, context->method());
    }

    MisbehavingProxy& proxy;
  };

  template <typename Message>
  static Message Parse(grpc::ByteBuffer bytes) {
    Message message;
    grpc::SerializationTraits<Message>::Deserialize(&bytes, &message);
    return message;
  }

  Method& Find(const std::string& path) {
    MutexLock lock(mutex_);
    return methods_[path.substr(path.rfind('/') + 1)];
  }

  static inline std::atomic<int> count_ = 0;
  const std::string target_ =
      absl::StrCat("unix://", TempPath(absl::StrCat("proxy", ++count_)));
  const std::shared_ptr<grpc::Channel> upstream_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;

  mutable Mutex mutex_;
  mutable std::map<std::string, Method> methods_ ABSL_GUARDED_BY(mutex_);
  std::set<Call*> held_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace planb::client::testing

#endif  // PLANB_CLIENT_TESTING_MISBEHAVING_PROXY_H_
