// SPDX-License-Identifier: Apache-2.0

// Follows a table: every change after a generation, whole generations at a
// time, in order, across restarts of the connection.
//
//   RouteWatcher watcher(channel, {.start_generation = listed});
//   while (true) {
//     absl::StatusOr<GenerationChanges> changes = watcher.Next();
//     if (absl::IsOutOfRange(changes.status())) ...  // list again, start anew
//     if (!changes.ok()) return changes.status();
//     Apply(*changes);
//   }

#ifndef PLANB_CLIENT_ROUTE_WATCHER_H_
#define PLANB_CLIENT_ROUTE_WATCHER_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/sync_stream.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/call.h"
#include "lpm/prefix.h"
#include "planb/v1/route_table.grpc.pb.h"
#include "planb/v1/route_table.pb.h"

namespace planb::client {

// What one generation changed.
struct GenerationChanges {
  uint64_t generation = 0;
  // Nothing changed: all up to `generation` has been handed out.
  bool bookmark = false;
  // Each prefix once; a route that was withdrawn has the next hop kNoRoute.
  std::vector<Route> routes;
  // Objects added or changed, and ids deleted.
  std::vector<NextHop> next_hops;
  std::vector<NextHopGroup> groups;
  std::vector<NextHopId> deleted_next_hops;
  std::vector<NextHopId> deleted_groups;
  // The digest of the table's routes at `generation`: Table.digest. A bookmark
  // may have none.
  std::string digest;
};

// Puts the messages of a watch together to whole generations, so that no caller
// sees a part of one. Thread-compatible.
class GenerationAssembler {
 public:
  // Generations have to be above `start`.
  explicit GenerationAssembler(uint64_t start) : last_(start) {}

  // Takes the next message of the stream. Returns a generation if it is
  // complete with it, or a bookmark.
  // Errors: INTERNAL if the message breaks the contract; then stop.
  absl::StatusOr<std::optional<GenerationChanges>> Add(
      const v1::WatchRoutesResponse& message);

  // Forgets the generation that is incomplete: it will be sent again.
  void DropPartial() { partial_.reset(); }

  // The last one complete, or the start.
  uint64_t last_generation() const { return last_; }

 private:
  absl::StatusOr<std::optional<GenerationChanges>> Bookmark(
      const v1::WatchRoutesResponse& message);

  uint64_t last_;
  std::optional<GenerationChanges> partial_;
};

struct WatchOptions {
  // Empty means "default".
  std::string table = {};
  // Changes of later generations are wanted: that of a list, or the last one
  // an earlier watcher handed out.
  uint64_t start_generation = 0;
  // Table.digest at that generation; empty: unknown. With it the server can
  // tell that it never had what the caller holds.
  std::string start_digest = {};
  // After the stream breaks (IsRetryable): pauses between attempts, and when to
  // give up if none succeeds.
  BackoffOptions backoff = {};
  absl::Duration give_up_after = absl::InfiniteDuration();
};

// Next is for one thread at a time, Cancel for any. Starts no thread. A watch
// that breaks goes on after the last whole generation, whose digest makes sure
// that the server is still at the same history.
class RouteWatcher {
 public:
  RouteWatcher(std::shared_ptr<grpc::Channel> channel, WatchOptions options);
  // Cancels.
  ~RouteWatcher();
  RouteWatcher(const RouteWatcher&) = delete;
  RouteWatcher& operator=(const RouteWatcher&) = delete;

  // Waits for the next whole generation, or bookmark, and returns it. Holds
  // that one generation in memory.
  // Errors, which also all later calls return:
  //   OUT_OF_RANGE: the server no longer has, or never had, what comes next:
  //     list the table again, and start another watcher from there.
  //   CANCELLED: by Cancel.
  //   INTERNAL: the server broke its contract.
  //   The stream's own, if it is not one to try again after (RESOURCE_EXHAUSTED
  //   for a watcher that was too slow, NOT_FOUND for a table that is gone), or
  //   if attempts failed for give_up_after.
  absl::StatusOr<GenerationChanges> Next();

  // Ends Next, also one that waits.
  void Cancel();

  // The last whole generation handed out, or the start.
  uint64_t last_generation() const { return assembler_.last_generation(); }
  // Streams opened after the first.
  uint64_t reconnects() const { return streams_ > 0 ? streams_ - 1 : 0; }

 private:
  // Opens a stream unless one is open or Cancel was called.
  void Open();
  // What the stream ended with. REQUIRES: it has ended, or is cancelled.
  absl::Status Close();
  // False if Cancel was called before `time`, which is MonotonicNow's.
  bool SleepUntil(absl::Time time);
  bool cancelled() const;

  const std::unique_ptr<v1::RouteTable::Stub> stub_;
  const WatchOptions options_;
  GenerationAssembler assembler_;
  // That of assembler_.last_generation(); empty if unknown.
  std::string digest_;
  RetryPolicy retry_;
  uint64_t streams_ = 0;
  // What all further calls return, once it is an error.
  absl::Status end_;

  // std::mutex: absl's waits go by the wall clock, which may jump.
  mutable std::mutex mutex_;
  std::condition_variable cancelling_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  // Replaced only by Next; guarded for Cancel. Null when no stream is open.
  std::unique_ptr<grpc::ClientContext> context_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<grpc::ClientReader<v1::WatchRoutesResponse>> reader_;
};

}  // namespace planb::client

#endif  // PLANB_CLIENT_ROUTE_WATCHER_H_
