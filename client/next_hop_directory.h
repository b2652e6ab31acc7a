// SPDX-License-Identifier: Apache-2.0

// What the ids of next hops mean, without a call for each.

#ifndef PLANB_CLIENT_NEXT_HOP_DIRECTORY_H_
#define PLANB_CLIENT_NEXT_HOP_DIRECTORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/monotonic_time.h"
#include "base/mutex.h"
#include "base/published.h"
#include "client/call.h"
#include "client/route_watcher.h"
#include "lpm/prefix.h"
#include "lpm/routes/next_hop_map.h"

namespace planb::client {

// The next-hop objects and groups of a table. A copy takes O(1) and shares what
// neither changes. Thread-compatible.
class NextHopObjects {
 public:
  NextHopObjects() = default;
  NextHopObjects(const NextHopObjects& other)
      : next_hops_(other.next_hops_.Share()), groups_(other.groups_.Share()) {}
  NextHopObjects(NextHopObjects&&) noexcept = default;
  NextHopObjects& operator=(const NextHopObjects& other) {
    return *this = NextHopObjects(other);
  }
  NextHopObjects& operator=(NextHopObjects&&) noexcept = default;

  // Null without such an object. Valid until this is changed.
  const NextHop* FindNextHop(NextHopId id) const { return next_hops_.Find(id); }
  const NextHopGroup* FindGroup(NextHopId id) const { return groups_.Find(id); }
  size_t size() const { return next_hops_.size() + groups_.size(); }
  // All groups, by their ids.
  std::vector<NextHopGroup> groups() const {
    return {groups_.begin(), groups_.end()};
  }

  void Set(const NextHop& next_hop) { next_hops_.InsertOrAssign(next_hop); }
  void Set(const NextHopGroup& group) { groups_.InsertOrAssign(group); }
  // The next hops and groups of `from`, such as a NextHopList.
  template <typename From>
  void SetAll(const From& from) {
    for (const NextHop& next_hop : from.next_hops) Set(next_hop);
    for (const NextHopGroup& group : from.groups) Set(group);
  }
  void EraseNextHop(NextHopId id) { next_hops_.Erase(id); }
  void EraseGroup(NextHopId id) { groups_.Erase(id); }

 private:
  NextHopMap next_hops_;
  NextHopGroupMap groups_;
};

// True if the objects of a table differ after `changes`.
inline bool ChangesObjects(const GenerationChanges& changes) {
  return changes.reset || !changes.next_hops.empty() ||
         !changes.groups.empty() || !changes.deleted_next_hops.empty() ||
         !changes.deleted_groups.empty();
}

struct NextHopDirectoryOptions {
  // Empty means "default".
  std::string table = {};
  // A table of more objects and groups is an error. A server has at most
  // 1,000,000 of each, unless told otherwise.
  size_t max_objects = 2'000'000;
  // The pauses before the server is asked again.
  BackoffOptions backoff = {};
};

// Follows the next hops and groups of a table, which the server must allow the
// caller (GetTable, ListNextHops, WatchRoutes). Owns a thread. Thread-safe.
//
// While the server is away the last objects stay, and state() says so. Then
// they are what the server says: none, if it lost its table. A generation takes
// O(its changes * log objects) time here.
class NextHopDirectory {
 public:
  // Of one generation as a whole. Lives as long as its owner wants.
  struct Snapshot {
    uint64_t generation = 0;
    // Grows with each change of `objects`, also where generations go back.
    uint64_t objects_version = 0;
    std::shared_ptr<const NextHopObjects> objects;
  };

  // Returns when the objects are there. Errors: the server's, if they do not
  // pass; DEADLINE_EXCEEDED, with the last error; FAILED_PRECONDITION for more
  // than `max_objects`; RESOURCE_EXHAUSTED without a thread.
  static absl::StatusOr<std::unique_ptr<NextHopDirectory>> Follow(
      std::shared_ptr<grpc::Channel> channel,
      NextHopDirectoryOptions options = {}, Deadline deadline = {});
  // REQUIRES: no call is in progress. Waits for a list that is being made, for
  // 30 s at most.
  ~NextHopDirectory();
  NextHopDirectory(const NextHopDirectory&) = delete;
  NextHopDirectory& operator=(const NextHopDirectory&) = delete;

  // The newest objects. Takes no lock and never waits.
  Snapshot Read() const { return *snapshot_.Read(); }

  // OK while the table is followed; else why it is not, now: the objects may
  // be stale.
  absl::Status state() const;

  // Waits until Read returns `generation` or a later one, such as that of an
  // update's reply. Errors: DEADLINE_EXCEEDED.
  absl::Status WaitFor(uint64_t generation, Deadline deadline) const;

 private:
  NextHopDirectory(std::shared_ptr<grpc::Channel> channel,
                   NextHopDirectoryOptions options);
  // The loop of the thread.
  void Run();
  // Follows until an error.
  absl::Status FollowOnce(RetryPolicy& retry);
  // Errors: FAILED_PRECONDITION for too many objects.
  absl::Status Publish(uint64_t generation,
                       std::shared_ptr<const NextHopObjects> objects);
  absl::Status Apply(const GenerationChanges& changes);

  const std::shared_ptr<grpc::Channel> channel_;
  const NextHopDirectoryOptions options_;
  Published<Snapshot> snapshot_;

  mutable Mutex mutex_;
  mutable CondVar changed_;
  bool ready_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status trouble_ ABSL_GUARDED_BY(mutex_);  // OK while it is followed
  std::unique_ptr<RouteWatcher> watcher_ ABSL_GUARDED_BY(mutex_);
  std::thread follower_;
};

}  // namespace planb::client

#endif  // PLANB_CLIENT_NEXT_HOP_DIRECTORY_H_
