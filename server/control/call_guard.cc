// SPDX-License-Identifier: Apache-2.0

#include "server/control/call_guard.h"

#include <grpc/grpc.h>
#include <pthread.h>

#include <algorithm>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "server/base/error.h"

namespace planb::server {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::ServerRpcInfo;

// Controllers keep these streams open, and write when there is something.
constexpr absl::string_view kMayIdle = "/planb.v1.RouteTable/StreamUpdates";

// So many replies may wait for as long as any message, others as long as this.
constexpr size_t kPatientReplies = 16;
constexpr absl::Duration kImpatience = absl::Seconds(1);

absl::Status Why(CallEnd end) {
  return end == CallEnd::kIdle
             ? Error(absl::StatusCode::kDeadlineExceeded, "STREAM_IDLE",
                     "the next message did not come in time")
             : Error(absl::StatusCode::kResourceExhausted, "READER_STALLED",
                     "the client does not take what it is sent");
}

}  // namespace

void EndCall(grpc::ServerContext& call, const absl::Status& why) {
  const std::string message =
      absl::StrCat(ErrorReason(why), ": ", why.message());
  grpc_call_cancel_with_status(call.c_call(),
                               static_cast<grpc_status_code>(why.code()),
                               message.c_str(), nullptr);
}

// Sets timers around the reads and writes of one call. gRPC destroys it before
// the call.
class CallGuard::Watched final : public grpc::experimental::Interceptor {
 public:
  Watched(CallGuard& guard, ServerRpcInfo& info)
      : guard_(guard),
        may_idle_(info.method() == kMayIdle),
        // All calls but those of the callback interface have this class.
        receiving_{
            .call = static_cast<grpc::ServerContext*>(info.server_context()),
            .why = CallEnd::kIdle},
        sending_{.call = receiving_.call,
                 .why = CallEnd::kStalled,
                 .is_reply = info.type() == ServerRpcInfo::Type::UNARY} {
    // Other calls have their message before they get a thread.
    if (info.type() == ServerRpcInfo::Type::CLIENT_STREAMING ||
        info.type() == ServerRpcInfo::Type::BIDI_STREAMING) {
      streams_ = true;
      guard_.Set(receiving_, guard_.timeouts_.first_message);
    }
  }

  ~Watched() override {
    guard_.Clear(receiving_);
    guard_.Clear(sending_);
  }

  void Intercept(
      grpc::experimental::InterceptorBatchMethods* methods) override {
    const auto at = [methods](InterceptionHookPoints point) {
      return methods->QueryInterceptionHookPoint(point);
    };
    if (at(InterceptionHookPoints::PRE_SEND_MESSAGE)) {
      guard_.Set(sending_, guard_.timeouts_.progress);
    }
    if (at(InterceptionHookPoints::POST_SEND_MESSAGE)) guard_.Clear(sending_);
    if (at(InterceptionHookPoints::POST_RECV_MESSAGE)) {
      guard_.Clear(receiving_);
      const bool last = methods->GetRecvMessage() == nullptr;
      if (streams_ && !may_idle_ && !last) {
        guard_.Set(receiving_, guard_.timeouts_.progress);
      }
    }
    methods->Proceed();
  }

 private:
  CallGuard& guard_;
  const bool may_idle_;
  bool streams_ = false;
  Timer receiving_;
  Timer sending_;
};

class CallGuard::Factory final
    : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit Factory(CallGuard& guard) : guard_(guard) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(
      ServerRpcInfo* info) override {
    return absl::StartsWith(info->method(), "/planb.v1.RouteLookup/")
               ? nullptr
               : new Watched(guard_, *info);
  }

 private:
  CallGuard& guard_;
};

CallGuard::CallGuard(const CallTimeouts& timeouts, ControlMetrics& metrics)
    : timeouts_(timeouts), metrics_(metrics), thread_([this] { Loop(); }) {}

CallGuard::~CallGuard() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_one();
  }
  thread_.join();
}

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
CallGuard::Watch() {
  return std::make_unique<Factory>(*this);
}

void CallGuard::Set(Timer& timer, absl::Duration wait) {
  const MutexLock lock(mutex_);
  if (timer.is_reply && ++replies_ > kPatientReplies) {
    wait = std::min(wait, kImpatience);
  }
  timer.at = SteadyAfter(wait);
  timer.set = true;
  timers_.emplace(timer.at, &timer);
  if (timer.at < looks_) changed_.notify_one();
}

void CallGuard::Clear(Timer& timer) {
  const MutexLock lock(mutex_);
  if (timer.set) Erase(timer);
}

void CallGuard::Erase(Timer& timer) {
  timer.set = false;
  timers_.erase({timer.at, &timer});
  if (timer.is_reply) --replies_;
}

void CallGuard::Loop() {
  pthread_setname_np(pthread_self(), "planb_guard");
  MutexLock lock(mutex_);
  while (!stopping_) {
    if (timers_.empty()) {
      looks_ = SteadyInstant::max();
      changed_.wait(lock);
    } else if (timers_.begin()->first > SteadyNow()) {
      looks_ = timers_.begin()->first;
      changed_.wait_until(lock, looks_);
    } else {
      // The call cannot be destroyed meanwhile: its timers are cleared before.
      Timer& late = *timers_.begin()->second;
      Erase(late);
      metrics_.Ended(late.why);
      EndCall(*late.call, Why(late.why));
    }
  }
}

}  // namespace planb::server
