// SPDX-License-Identifier: Apache-2.0

#include "client/route_watcher.h"

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "base/monotonic_time.h"
#include "base/mutex.h"
#include "client/call.h"

namespace planb::client {

// A message out of order ends the watch, because a gap could not be detected
// later.
namespace {

absl::Status Refuse(absl::string_view how, uint64_t generation) {
  return BrokenContract(absl::StrCat(how, " in generation ", generation));
}

bool HasChanges(const v1::WatchRoutesResponse& message) {
  return message.updates_size() > 0 || message.next_hops_size() > 0 ||
         message.groups_size() > 0 || message.deleted_next_hop_ids_size() > 0 ||
         message.deleted_group_ids_size() > 0;
}

absl::StatusOr<Route> ReadUpdate(const v1::RouteUpdate& update) {
  const auto prefix = FromProto(update.prefix());
  if (!prefix.ok()) return prefix.status();
  const bool withdrawn = update.op() == v1::RouteUpdate::OP_DELETE;
  const bool announced = update.op() == v1::RouteUpdate::OP_UPSERT;
  if ((withdrawn && update.next_hop_id() != kNoRoute) ||
      (announced && !IsNextHop(update.next_hop_id())) ||
      (!withdrawn && !announced)) {
    return absl::InvalidArgumentError("op and next hop do not agree");
  }
  return Route{.prefix = *prefix, .next_hop = update.next_hop_id()};
}

// Appends the changes of `message` to `to`.
absl::Status Append(const v1::WatchRoutesResponse& message,
                    GenerationChanges& to) {
  for (const v1::RouteUpdate& update : message.updates()) {
    const auto route = ReadUpdate(update);
    if (!route.ok()) {
      return Refuse(
          absl::StrCat("a malformed change (", route.status().message(), ")"),
          message.generation());
    }
    to.routes.push_back(*route);
  }
  for (const v1::NextHop& object : message.next_hops()) {
    const auto next_hop = FromProto(object);
    if (!next_hop.ok()) {
      return Refuse("a malformed next hop", message.generation());
    }
    to.next_hops.push_back(*next_hop);
  }
  for (const v1::NextHopGroup& object : message.groups()) {
    const auto group = FromProto(object);
    if (!group.ok()) return Refuse("a malformed group", message.generation());
    to.groups.push_back(*group);
  }
  to.deleted_next_hops.insert(to.deleted_next_hops.end(),
                              message.deleted_next_hop_ids().begin(),
                              message.deleted_next_hop_ids().end());
  to.deleted_groups.insert(to.deleted_groups.end(),
                           message.deleted_group_ids().begin(),
                           message.deleted_group_ids().end());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::optional<GenerationChanges>> GenerationAssembler::Add(
    const v1::WatchRoutesResponse& message) {
  const bool reset = message.reset();
  if (!partial_.has_value() && !reset && !HasChanges(message)) {
    return Bookmark(message);
  }
  if (partial_.has_value()) {
    if (message.generation() != partial_->generation ||
        reset != partial_->reset) {
      return Refuse("another generation begins before the end",
                    partial_->generation);
    }
  } else if (message.generation() <= last_ && !reset) {
    return Refuse("a generation comes twice", message.generation());
  } else if (message.generation() < last_ && !go_back_) {
    return absl::OutOfRangeError(absl::StrCat(
        "the server goes back to generation ", message.generation()));
  } else {
    partial_.emplace();
    partial_->generation = message.generation();
    partial_->reset = reset;
  }
  absl::Status status = Append(message, *partial_);
  if (!status.ok()) return status;
  if (!message.generation_complete()) return std::nullopt;
  partial_->digest = message.digest();
  last_ = partial_->generation;
  return std::exchange(partial_, std::nullopt);
}

absl::StatusOr<std::optional<GenerationChanges>> GenerationAssembler::Bookmark(
    const v1::WatchRoutesResponse& message) {
  if (message.generation() < last_) {
    return Refuse("a bookmark goes back", message.generation());
  }
  last_ = message.generation();
  GenerationChanges bookmark;
  bookmark.generation = message.generation();
  bookmark.bookmark = true;
  bookmark.digest = message.digest();
  return bookmark;
}

RouteWatcher::RouteWatcher(std::shared_ptr<grpc::Channel> channel,
                           WatchOptions options)
    : stub_(v1::RouteTable::NewStub(std::move(channel))),
      options_(std::move(options)),
      assembler_(options_.start_generation, options_.go_back),
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
        // A bookmark of the same generation may have no digest.
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
  const MutexLock lock(mutex_);
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
