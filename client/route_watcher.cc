// A loop of two steps: read until the stream ends, and open another one.

#include "client/route_watcher.h"

#include <utility>

#include "base/monotonic_time.h"
#include "client/status.h"

namespace planb::client {

RouteWatcher::RouteWatcher(std::shared_ptr<grpc::Channel> channel,
                           WatchOptions options)
    : stub_(v1::RouteTable::NewStub(std::move(channel))),
      options_(std::move(options)),
      assembler_(options_.start_generation),
      digest_(options_.start_digest),
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
      const uint64_t before = assembler_.last_generation();
      auto changes = assembler_.Add(message);
      if (!changes.ok()) {
        end_ = changes.status();
      } else if (changes->has_value()) {
        GenerationChanges whole = *std::move(*changes);
        // A bookmark without a digest leaves what is known.
        if (whole.generation != before || !whole.digest.empty()) {
          digest_ = whole.digest;
        }
        return whole;
      }
      continue;
    }
    const absl::Status why =
        reader_ != nullptr ? Close() : absl::CancelledError();
    assembler_.DropPartial();
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
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  cancelling_.notify_all();
  if (context_ != nullptr) context_->TryCancel();
}

void RouteWatcher::Open() {
  if (reader_ != nullptr) return;
  v1::WatchRoutesRequest request;
  request.set_table(options_.table);
  request.set_start_generation(assembler_.last_generation());
  request.set_start_digest(digest_);
  grpc::ClientContext* context = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (cancelled_) return;
    context_ = std::make_unique<grpc::ClientContext>();
    context = context_.get();
  }
  // Not under the lock: may wait for a connection, which Cancel can end.
  reader_ = stub_->WatchRoutes(context, request);
  ++streams_;
}

absl::Status RouteWatcher::Close() {
  absl::Status end = FromGrpc(reader_->Finish());
  reader_.reset();
  const std::lock_guard lock(mutex_);
  context_.reset();
  return end;
}

bool RouteWatcher::SleepUntil(absl::Time time) {
  std::unique_lock lock(mutex_);
  return !cancelling_.wait_until(lock, ToSteady(time),
                                 [this] { return cancelled_; });
}

bool RouteWatcher::cancelled() const {
  const std::lock_guard lock(mutex_);
  return cancelled_;
}

}  // namespace planb::client
