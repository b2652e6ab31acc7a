// SPDX-License-Identifier: Apache-2.0

// A completion queue and the one thread that serves it: what is started on a
// queue happens on its thread, so that who lives there needs no lock.

#ifndef PLANB_SERVER_LOOKUP_LOOKUP_QUEUE_H_
#define PLANB_SERVER_LOOKUP_LOOKUP_QUEUE_H_

#include <grpcpp/completion_queue.h>

#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"

namespace planb::server {

// Something that a queue will report. Its address is gRPC's "tag".
class QueueEvent {
 public:
  // `ok` is gRPC's word for: it worked.
  virtual void Happened(bool ok) = 0;

 protected:
  ~QueueEvent() = default;
};

// An event that calls a method of its owner.
template <typename Owner, void (Owner::*method)(bool)>
class EventOf final : public QueueEvent {
 public:
  explicit EventOf(Owner* owner) : owner_(owner) {}
  void Happened(bool ok) override { (owner_->*method)(ok); }

 private:
  Owner* const owner_;
};

struct QueueOptions {
  // The core to run on; -1 leaves that to the scheduler.
  int cpu = -1;
  // How long the thread looks for events without sleeping after it had one: a
  // wake-up saved is 10 to 40 us of latency, and costs a core meanwhile.
  absl::Duration spin = absl::ZeroDuration();
};

// Start, Shutdown and the destructor are for one thread; Post for any.
class LookupQueue {
 public:
  LookupQueue(std::unique_ptr<grpc::ServerCompletionQueue> queue,
              const QueueOptions& options);
  ~LookupQueue();  // Calls Shutdown().

  // Starts the thread. Errors: INVALID_ARGUMENT if it cannot run on its core.
  absl::Status Start();

  // The queue, to start operations on, unless it has ended. Their tags are
  // QueueEvents, which live until they happened.
  grpc::ServerCompletionQueue* get() { return queue_.get(); }

  // True once no operation may be started any more: what is left in the queue
  // still happens. On the queue's thread only, or where there is none.
  bool ended() const { return ended_; }

  // Runs `action` on the queue's thread. False if there is none any more.
  bool Post(std::function<void()> action) ABSL_LOCKS_EXCLUDED(mutex_);

  // Lets what was started come to its end, then ends the thread.
  // REQUIRES: the gRPC server is shut down.
  void Shutdown() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Run();
  void End();
  // Looks for events for as long as options_.spin after the last. False if
  // the queue has ended.
  bool Spin();

  const std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  const QueueOptions options_;
  std::mutex mutex_;
  bool shut_down_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ = false;  // the queue's thread's
  std::thread thread_;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_LOOKUP_LOOKUP_QUEUE_H_
