// SPDX-License-Identifier: Apache-2.0

#include "server/lookup/lookup_queue.h"

#include <grpcpp/alarm.h>
#include <pthread.h>
#include <sched.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/monotonic_time.h"
#include "base/mutex.h"

namespace planb::server {
namespace {

// Carries an action to a queue's thread: an alarm that is due at once. Deletes
// itself.
class Posted final : public QueueEvent {
 public:
  explicit Posted(std::function<void()> action) : action_(std::move(action)) {}

  void Send(grpc::CompletionQueue* queue) {
    alarm_.Set(queue, gpr_inf_past(GPR_CLOCK_REALTIME),
               static_cast<QueueEvent*>(this));
  }

  void Happened(bool) override {
    const std::unique_ptr<Posted> self(this);
    action_();
  }

 private:
  const std::function<void()> action_;
  grpc::Alarm alarm_;
};

// Between two slices: a thread that always has an event serves these first.
constexpr int kEventsBetweenSlices = 16;

void Report(void* tag, bool ok) { static_cast<QueueEvent*>(tag)->Happened(ok); }

}  // namespace

LookupQueue::LookupQueue(std::unique_ptr<grpc::ServerCompletionQueue> queue,
                         const QueueOptions& options)
    : queue_(std::move(queue)), options_(options) {}

LookupQueue::~LookupQueue() { Shutdown(); }

absl::Status LookupQueue::Start() {
  thread_ = std::thread([this] { Run(); });
  if (options_.cpu < 0) return absl::OkStatus();
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (options_.cpu < CPU_SETSIZE) CPU_SET(options_.cpu, &cpus);
  if (pthread_setaffinity_np(thread_.native_handle(), sizeof(cpus), &cpus) ==
      0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("cannot run on core ", options_.cpu));
}

bool LookupQueue::Post(std::function<void()> action) {
  auto posted = std::make_unique<Posted>(std::move(action));
  const MutexLock lock(mutex_);
  if (shut_down_) return false;
  posted.release()->Send(queue_.get());  // deletes itself
  return true;
}

void LookupQueue::Shutdown() {
  {
    const MutexLock lock(mutex_);
    if (std::exchange(shut_down_, true)) return;
    // On the queue's own thread, which starts all operations: gRPC aborts if
    // one is started while the queue shuts down.
    auto posted = std::make_unique<Posted>([this] { End(); });
    if (thread_.joinable()) posted.release()->Send(queue_.get());
  }
  if (thread_.joinable()) {
    thread_.join();
  } else {
    End();
    Run();  // until all operations have ended
  }
}

void LookupQueue::End() {
  ended_ = true;
  queue_->Shutdown();
}

void LookupQueue::Run() {
  for (;;) {
    if (!sliced_.empty()) {
      if (!Slice()) return;
      continue;
    }
    void* tag;
    bool ok;
    if (!queue_->Next(&tag, &ok)) return;
    Report(tag, ok);
    if (options_.spin > absl::ZeroDuration() && !Spin()) return;
  }
}

bool LookupQueue::Slice() {
  // Not an alarm for each slice: while a queue holds an event, Next() takes it
  // and does not look at sockets.
  bool ended = false;
  for (int events = 0; events < kEventsBetweenSlices; ++events) {
    void* tag;
    bool ok;
    const auto next =
        queue_->AsyncNext(&tag, &ok, gpr_inf_past(GPR_CLOCK_REALTIME));
    if (next == grpc::CompletionQueue::GOT_EVENT) {
      Report(tag, ok);
      continue;
    }
    ended = next == grpc::CompletionQueue::SHUTDOWN;
    break;
  }
  const SteadyInstant end = SteadyNow() + kSlice;
  while (!sliced_.empty() && (ended || SteadyNow() < end)) {
    if (!sliced_.front()()) sliced_.pop_front();
  }
  return !ended;
}

bool LookupQueue::Spin() {
  const auto spin = absl::ToChronoNanoseconds(options_.spin);
  auto end = std::chrono::steady_clock::now() + spin;
  do {
    void* tag;
    bool ok;
    switch (queue_->AsyncNext(&tag, &ok, gpr_inf_past(GPR_CLOCK_REALTIME))) {
      case grpc::CompletionQueue::SHUTDOWN:
        return false;
      case grpc::CompletionQueue::GOT_EVENT:
        Report(tag, ok);
        end = std::chrono::steady_clock::now() + spin;
        break;
      case grpc::CompletionQueue::TIMEOUT:
        break;
    }
  } while (sliced_.empty() && std::chrono::steady_clock::now() < end);
  return true;
}

}  // namespace planb::server
