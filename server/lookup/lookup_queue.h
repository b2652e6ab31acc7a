// SPDX-License-Identifier: Apache-2.0

// A completion queue and the one thread that serves it. An operation that is
// started on a queue is reported on its thread, so calls need no lock.

#ifndef PLANB_SERVER_LOOKUP_LOOKUP_QUEUE_H_
#define PLANB_SERVER_LOOKUP_LOOKUP_QUEUE_H_

#include <grpcpp/completion_queue.h>

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/mutex.h"

namespace planb::server {

// An event that a queue will report. Its address is the "tag" in gRPC.
class QueueEvent {
 public:
  // `ok`: the operation succeeded.
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
  // The core to run on. -1: any.
  int cpu = -1;
  // How long the thread polls for events after the last one before it sleeps. A
  // wake-up that is saved is 10 to 40 us of latency; polling keeps a core busy.
  absl::Duration spin = absl::ZeroDuration();
};

// Owns queue and thread. Start, Shutdown and the destructor are for one thread,
// Post for any.
class LookupQueue {
 public:
  LookupQueue(std::unique_ptr<grpc::ServerCompletionQueue> queue,
              const QueueOptions& options);
  ~LookupQueue();  // Calls Shutdown().

  // Starts the thread. Errors: INVALID_ARGUMENT if it cannot run on its core.
  absl::Status Start();

  // The queue to start operations on, unless it has ended. Their tags are
  // QueueEvents that live until they have happened.
  grpc::ServerCompletionQueue* get() { return queue_.get(); }

  // True once no operation may be started. Events that are left in the queue
  // still happen. REQUIRES: called on the queue's thread, or there is none.
  bool ended() const { return ended_; }

  // Runs `action` on the queue's thread. False after Shutdown().
  bool Post(std::function<void()> action) ABSL_LOCKS_EXCLUDED(mutex_);

  // Runs `step` on the queue's thread until it returns false, which it does at
  // once when the queue has ended. After each kSlice of steps the thread serves
  // the events that have happened. What is begun first is run to its end first:
  // a thread holds the means of one such work at a time.
  // REQUIRES: called on the queue's thread; a step takes microseconds.
  void RunInSlices(std::function<bool()> step) {
    sliced_.push_back(std::move(step));
  }

  // Waits until all operations have ended, then ends the thread.
  // REQUIRES: the gRPC server is shut down.
  void Shutdown() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // How long an event waits for work that is done in slices.
  static constexpr auto kSlice = std::chrono::microseconds(200);

  void Run();
  void End();
  // Serves some events, as far as there are any, then runs one slice. False if
  // the queue has ended.
  bool Slice();
  // Polls for events until options_.spin after the last one. False if the queue
  // has ended.
  bool Spin();

  const std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  const QueueOptions options_;
  Mutex mutex_;
  bool shut_down_ ABSL_GUARDED_BY(mutex_) = false;
  // Of the queue's thread, as is the next.
  bool ended_ = false;
  std::deque<std::function<bool()>> sliced_;
  std::thread thread_;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_LOOKUP_LOOKUP_QUEUE_H_
