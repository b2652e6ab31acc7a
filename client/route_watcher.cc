// SPDX-License-Identifier: Apache-2.0

#include "client/route_watcher.h"

#include <utility>

#include "absl/base/thread_annotations.h"
#include "base/monotonic_time.h"
#include "base/mutex.h"
#include "client/call.h"

namespace planb::client {

RouteWatcher::RouteWatcher(std::shared_ptr<grpc::Channel> channel,
                           WatchOptions options)
    : stub_(v1::RouteTable::NewStub(std::move(channel))),
      options_(std::move(options)),
      assembler_(options_.start_generation, options_.start_digest,
                 options_.go_back ? Replacement::kAny : Replacement::kNotOlder,
                 options_.limits),
      retry_(options_.backoff, options_.give_up_after) {}

RouteWatcher::~RouteWatcher() {
  Cancel();
  if (reader_ != nullptr) Close().IgnoreError();
}

absl::StatusOr<GenerationChanges> RouteWatcher::Next() {
  while (end_.ok()) {
    Open();
    v1::WatchRoutesResponse message;
    if (reader_ != nullptr && reader_->Read(&message)) {
      retry_.Succeeded();
      auto changes = assembler_.Add(message);
      if (!changes.ok()) {
        end_ = changes.status();
      } else if (changes->has_value()) {
        return **std::move(changes);
      }
      continue;
    }
    const absl::Status why =
        reader_ != nullptr ? Close() : absl::CancelledError();
    if (cancelled()) {
      end_ = absl::CancelledError("the watch was cancelled");
    } else if (why.ok()) {
      end_ = BrokenContract("it ended a watch");
    } else if (!IsRetryable(why) || !retry_.Failed(why, MonotonicNow())) {
      end_ = why;
    } else if (!SleepUntil(retry_.next_attempt())) {
      end_ = absl::CancelledError("the watch was cancelled");
    }
  }
  return end_;
}

void RouteWatcher::Cancel() {
  const MutexLock lock(mutex_);
  cancelled_ = true;
  cancelling_.notify_all();
  if (context_ != nullptr) context_->TryCancel();
}

void RouteWatcher::Open() {
  if (reader_ != nullptr) return;
  v1::WatchRoutesRequest request = assembler_.NextWatch();
  request.set_table(options_.table);
  request.set_resync(options_.resync);
  grpc::ClientContext* context = nullptr;
  {
    const MutexLock lock(mutex_);
    if (cancelled_) return;
    context_ = std::make_unique<grpc::ClientContext>();
    context = context_.get();
  }
  // Without the lock: may wait for a connection, and Cancel must end that.
  reader_ = stub_->WatchRoutes(context, request);
  ++streams_;
}

absl::Status RouteWatcher::Close() {
  absl::Status end = FromGrpc(reader_->Finish());
  reader_.reset();
  const MutexLock lock(mutex_);
  context_.reset();
  return end;
}

bool RouteWatcher::SleepUntil(absl::Time time) {
  MutexLock lock(mutex_);
  return !cancelling_.wait_until(
      lock, ToSteady(time),
      [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return cancelled_; });
}

bool RouteWatcher::cancelled() const {
  const MutexLock lock(mutex_);
  return cancelled_;
}

}  // namespace planb::client
