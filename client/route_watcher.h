// SPDX-License-Identifier: Apache-2.0

// Follows a table: returns every change after a generation, in order, a whole
// generation at a time. Reconnects when the stream breaks.
//
//   RouteWatcher watcher(channel, {.start_generation = listed});
//   while (true) {
//     absl::StatusOr<GenerationChanges> changes = watcher.Next();
//     if (!changes.ok()) return changes.status();
//     if (changes->reset) Clear();  // the whole table follows
//     Apply(*changes);
//   }

#ifndef PLANB_CLIENT_ROUTE_WATCHER_H_
#define PLANB_CLIENT_ROUTE_WATCHER_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/sync_stream.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "client/call.h"
#include "follow/generation_assembler.h"
#include "planb/v1/route_table.grpc.pb.h"

namespace planb::client {

using planb::GenerationChanges;

struct WatchOptions {
  // Empty means "default".
  std::string table = {};
  // Watch the changes after this generation: that of a list, or the last one of
  // an earlier watcher.
  uint64_t start_generation = 0;
  // Table.digest at that generation; empty: unknown. It lets the server detect
  // that its history differs from the caller's.
  std::string start_digest = {};
  // Where the server no longer has the next generation, it sends the whole
  // table and the watch continues (GenerationChanges::reset). If false, the
  // watch ends with an error.
  bool resync = true;
  // A whole table may be older than what was handed out, as that of a server
  // that lost its table, or of a replica that lags. If false, the watch ends
  // with an error when such a table begins.
  bool go_back = true;
  // A generation with more ends the watch with an error.
  GenerationLimits limits = {};
  // After the stream breaks (IsRetryable): the pauses between attempts, and the
  // time after which failing attempts end the watch.
  BackoffOptions backoff = {};
  absl::Duration give_up_after = absl::InfiniteDuration();
};

// Next is for one thread at a time, Cancel for any thread. Starts no thread. A
// new stream continues after the last whole generation and sends its digest.
class RouteWatcher {
 public:
  RouteWatcher(std::shared_ptr<grpc::Channel> channel, WatchOptions options);
  // Cancels.
  ~RouteWatcher();
  RouteWatcher(const RouteWatcher&) = delete;
  RouteWatcher& operator=(const RouteWatcher&) = delete;

  // Waits for the next whole generation or bookmark. Memory: one generation.
  // Errors, which all later calls return too:
  //   OUT_OF_RANGE: the server does not have the next generation, and `resync`
  //     is false or the server is older than that option: list the table again,
  //     and start another watcher from there. Or its whole table is older, and
  //     `go_back` is false.
  //   CANCELLED: by Cancel.
  //   INTERNAL: the server broke its contract.
  //   RESOURCE_EXHAUSTED: a generation has more than the limits.
  //   The stream's error, if !IsRetryable (RESOURCE_EXHAUSTED: the watcher was
  //     too slow; NOT_FOUND: the table was deleted) or after give_up_after.
  absl::StatusOr<GenerationChanges> Next();

  // Ends Next, also while it waits.
  void Cancel();

  // The last whole generation handed out, or the start.
  uint64_t last_generation() const { return assembler_.last_generation(); }
  // Streams opened after the first.
  uint64_t reconnects() const { return streams_ > 0 ? streams_ - 1 : 0; }

 private:
  // Opens a stream unless one is open or Cancel was called.
  void Open();
  // The status of the stream. REQUIRES: it has ended, or is cancelled.
  absl::Status Close();
  // False if Cancel was called before `time`, which is MonotonicNow's.
  bool SleepUntil(absl::Time time);
  bool cancelled() const;

  const std::unique_ptr<v1::RouteTable::Stub> stub_;
  const WatchOptions options_;
  GenerationAssembler assembler_;
  RetryPolicy retry_;
  uint64_t streams_ = 0;
  // All later calls return this error.
  absl::Status end_;

  mutable Mutex mutex_;
  CondVar cancelling_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  // Replaced only by Next; guarded for Cancel. Null when no stream is open.
  std::unique_ptr<grpc::ClientContext> context_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<grpc::ClientReader<v1::WatchRoutesResponse>> reader_;
};

}  // namespace planb::client

#endif  // PLANB_CLIENT_ROUTE_WATCHER_H_
