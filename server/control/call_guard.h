// SPDX-License-Identifier: Apache-2.0

// Ends calls that hold a thread while their client does nothing.
//
// Each call of gRPC's synchronous interface has a thread, and blocks it while
// it waits for a message or for room to send one. gRPC bounds neither wait:
// keepalive only asks whether the client's machine answers.

#ifndef PLANB_SERVER_CONTROL_CALL_GUARD_H_
#define PLANB_SERVER_CONTROL_CALL_GUARD_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_interceptor.h>

#include <cstddef>
#include <memory>
#include <set>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/monotonic_time.h"
#include "base/mutex.h"
#include "server/control/control_metrics.h"

namespace planb::server {

struct CallTimeouts {
  // From the beginning of a call that sends a stream to its first message.
  absl::Duration first_message = absl::Seconds(10);
  // For a message to be taken by the client, and from one message of a stream
  // to the next. StreamUpdates may be idle between its messages.
  absl::Duration progress = absl::Seconds(60);
};

// Ends `call` with the code of `why` and its reason and message as text, also
// while other threads block in its reads and writes, which nothing else
// interrupts. The client gets no details.
void EndCall(grpc::ServerContext& call, const absl::Status& why);

// Thread-safe. Runs one thread, which sleeps until a call is late.
class CallGuard {
 public:
  // `metrics` outlives this.
  CallGuard(const CallTimeouts& timeouts, ControlMetrics& metrics);
  ~CallGuard();  // REQUIRES: the gRPC server is gone.

  // Watches the calls of a server, but for those of RouteLookup, which have no
  // thread. Errors that the calls end with: DEADLINE_EXCEEDED (STREAM_IDLE),
  // RESOURCE_EXHAUSTED (READER_STALLED). The replies of unary calls get less
  // time while many of them wait: unlike streams, these calls have no limit
  // that leaves threads to others.
  std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
  Watch();

 private:
  class Factory;
  class Watched;
  struct Timer {
    grpc::ServerContext* call;
    CallEnd why;
    bool is_reply = false;  // of a unary call
    SteadyInstant at = {};
    bool set = false;
  };

  void Set(Timer& timer, absl::Duration wait);
  void Clear(Timer& timer);
  void Erase(Timer& timer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Loop();

  const CallTimeouts timeouts_;
  ControlMetrics& metrics_;
  Mutex mutex_;
  CondVar changed_;
  std::set<std::pair<SteadyInstant, Timer*>> timers_ ABSL_GUARDED_BY(mutex_);
  size_t replies_ ABSL_GUARDED_BY(mutex_) = 0;  // among the timers
  // When the thread looks next.
  SteadyInstant looks_ ABSL_GUARDED_BY(mutex_) = SteadyInstant::max();
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace planb::server

#endif  // PLANB_SERVER_CONTROL_CALL_GUARD_H_
