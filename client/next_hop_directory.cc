// SPDX-License-Identifier: Apache-2.0

#include "client/next_hop_directory.h"

#include <new>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/table_client.h"

namespace planb::client {
namespace {

constexpr absl::Duration kCallTime = absl::Seconds(30);

// True if another attempt may pass without a change at the server.
bool Passes(const absl::Status& why) {
  return MayWatchAgain(why) || absl::IsDeadlineExceeded(why);
}

}  // namespace

NextHopDirectory::NextHopDirectory(std::shared_ptr<grpc::Channel> channel,
                                   NextHopDirectoryOptions options)
    : channel_(std::move(channel)),
      options_(std::move(options)),
      snapshot_(std::make_unique<Snapshot>(
          Snapshot{.objects = std::make_shared<NextHopObjects>()})),
      trouble_(absl::UnavailableError("the server was not heard yet")) {}

NextHopDirectory::~NextHopDirectory() {
  {
    const MutexLock lock(mutex_);
    closing_ = true;
    if (watcher_ != nullptr) watcher_->Cancel();
    changed_.notify_all();
  }
  if (follower_.joinable()) follower_.join();
}

absl::StatusOr<std::unique_ptr<NextHopDirectory>> NextHopDirectory::Follow(
    std::shared_ptr<grpc::Channel> channel, NextHopDirectoryOptions options,
    Deadline deadline) {
  std::unique_ptr<NextHopDirectory> directory(
      new NextHopDirectory(std::move(channel), std::move(options)));
  NextHopDirectory& it = *directory;
  try {
    it.follower_ = std::thread([&it] { it.Run(); });
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no thread can be started: ", error.what()));
  }
  MutexLock lock(it.mutex_);
  it.changed_.wait_until(lock, ToSteady(deadline.time()),
                         [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(it.mutex_) {
                           return it.ready_ || !Passes(it.trouble_);
                         });
  if (!it.ready_) {
    if (!Passes(it.trouble_)) return it.trouble_;
    return absl::DeadlineExceededError(absl::StrCat(
        "the next hops were not there in time: ", it.trouble_.message()));
  }
  lock.unlock();
  return directory;
}

absl::Status NextHopDirectory::state() const {
  const MutexLock lock(mutex_);
  return trouble_;
}

absl::Status NextHopDirectory::WaitFor(uint64_t generation,
                                       Deadline deadline) const {
  MutexLock lock(mutex_);
  if (changed_.wait_until(lock, ToSteady(deadline.time()), [&] {
        return snapshot_.Read()->generation >= generation;
      })) {
    return absl::OkStatus();
  }
  return absl::DeadlineExceededError(absl::StrCat(
      "generation ", snapshot_.Read()->generation, " is the newest here, ",
      generation, " is wanted", trouble_.ok() ? "" : ": ", trouble_.message()));
}

void NextHopDirectory::Run() {
  RetryPolicy retry(options_.backoff, absl::InfiniteDuration());
  for (;;) {
    absl::Status why;
    try {
      why = FollowOnce(retry);
    } catch (const std::bad_alloc&) {
      why = absl::ResourceExhaustedError("not enough memory for the objects");
    }
    MutexLock lock(mutex_);
    watcher_.reset();
    retry.Failed(why, MonotonicNow());
    trouble_ = std::move(why);
    changed_.notify_all();
    changed_.wait_until(
        lock, ToSteady(retry.next_attempt()),
        [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return closing_; });
    if (closing_) return;
  }
}

absl::Status NextHopDirectory::FollowOnce(RetryPolicy& retry) {
  const TableClient client(channel_);
  const auto table =
      client.GetTable(options_.table, Deadline::After(kCallTime));
  if (!table.ok()) return table.status();
  const uint64_t start = table->visible_generation();
  RouteWatcher* watcher = nullptr;
  {
    const MutexLock lock(mutex_);
    if (closing_) return absl::CancelledError();
    watcher_ = std::make_unique<RouteWatcher>(
        channel_, WatchOptions{.table = options_.table,
                               .start_generation = start,
                               .resync = false,
                               .give_up_after = absl::ZeroDuration()});
    watcher = watcher_.get();
  }
  // The watch is open before the list is made, so that a server that restarts
  // in between, perhaps with another table, ends it.
  auto changes = watcher->Next();
  if (!changes.ok()) return changes.status();
  const auto list = client.ListNextHops(
      options_.table, Deadline::After(kCallTime), options_.max_objects);
  if (!list.ok()) return list.status();
  if (list->generation < start) {
    return absl::UnavailableError(absl::StrCat(
        "the server that lists is at generation ", list->generation,
        ", before ", start, " of the one that is watched"));
  }
  auto objects = std::make_shared<NextHopObjects>();
  objects->SetAll(*list);
  absl::Status status = Publish(list->generation, std::move(objects));
  // A watch that fails soon after its start, each time, is not opened at once
  // again.
  const SteadyInstant since = SteadyNow();
  while (status.ok()) {
    if (changes->generation > snapshot_.Read()->generation) {
      status = Apply(*changes);
      if (!status.ok()) break;
    }
    if (ElapsedSince(since) >= options_.backoff.max) retry.Succeeded();
    changes = watcher->Next();
    status = changes.status();
  }
  return status;
}

absl::Status NextHopDirectory::Apply(const GenerationChanges& changes) {
  std::shared_ptr<const NextHopObjects> objects = Read().objects;
  if (ChangesObjects(changes)) {
    auto next = std::make_shared<NextHopObjects>(*objects);
    for (const NextHopId id : changes.deleted_next_hops) next->EraseNextHop(id);
    for (const NextHopId id : changes.deleted_groups) next->EraseGroup(id);
    next->SetAll(changes);
    objects = std::move(next);
  }
  return Publish(changes.generation, std::move(objects));
}

absl::Status NextHopDirectory::Publish(
    uint64_t generation, std::shared_ptr<const NextHopObjects> objects) {
  if (objects->size() > options_.max_objects) {
    return absl::FailedPreconditionError(
        absl::StrCat("the table has more than ", options_.max_objects,
                     " next hops and groups"));
  }
  const Snapshot last = Read();
  snapshot_.Publish(std::make_unique<Snapshot>(
      Snapshot{.generation = generation,
               .objects_version =
                   last.objects_version + (objects != last.objects ? 1 : 0),
               .objects = std::move(objects)}));
  const MutexLock lock(mutex_);
  ready_ = true;
  trouble_ = absl::OkStatus();
  changed_.notify_all();
  return absl::OkStatus();
}

}  // namespace planb::client
