// SPDX-License-Identifier: Apache-2.0

// Sends a recorded trace of changes to a table, with the recorded gaps, scaled
// ones, or none.

#ifndef PLANB_CLIENT_LOAD_UPDATE_REPLAYER_H_
#define PLANB_CLIENT_LOAD_UPDATE_REPLAYER_H_

#include <grpcpp/channel.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/load/latency_histogram.h"
#include "client/update_stream.h"
#include "lpm/io/bgp_updates.h"
#include "lpm/prefix.h"

namespace planb::client {

struct ReplayOptions {
  UpdateStreamOptions stream = {};
  // Speed relative to the recording; 0: no gaps.
  double speed = 1;
  // Maximum of changes in a batch; at least 1.
  size_t batch = 10'000;
  // The server refuses a batch that names a next hop without an object.
  bool require_next_hops = false;
  // Timeout of each wait for credits, and of the wait for the last answers.
  absl::Duration timeout = absl::InfiniteDuration();
};

struct ReplayReport {
  // Numbers of routes announced or withdrawn, of next-hop objects, and of
  // batches sent.
  uint64_t changes = 0;
  uint64_t next_hops = 0;
  uint64_t batches = 0;
  // Number of batches that the server refused, and the first refusal.
  uint64_t refused = 0;
  absl::Status first_refusal;
  // Length of the trace, and of its replay until the last answer.
  absl::Duration recorded;
  absl::Duration took;
  // For each batch, the time from when its first change was due (speed 0: from
  // the sending) until it was sent, and until it was answered.
  LatencyHistogram send_lag;
  LatencyHistogram answer_lag;
  // Of the last accepted batch.
  uint64_t generation = 0;
  uint64_t visible_generation = 0;
};

// Sends changes that are due together in one batch, so that a late replay
// catches up. A second change of a prefix begins another batch, so that the
// server applies each change. Thread-compatible.
class UpdateReplayer : public TraceSink {
 public:
  UpdateReplayer(const std::shared_ptr<grpc::Channel>& channel,
                 const ReplayOptions& options);

  // Errors of both: those of UpdateStream::Send.
  absl::Status OnNextHop(const NextHop& next_hop) override;
  // Waits until the changes are due. Times in the past are due at once.
  absl::Status OnChanges(const std::vector<TraceChange>& changes) override;

  // Sends the rest and waits for all answers. Call once, last.
  absl::StatusOr<ReplayReport> Finish();

 private:
  // The time to send a change recorded at `at`.
  absl::Time DueTime(absl::Time at);
  absl::Status AddChange(const Route& route, absl::Time due);
  absl::Status SendBatch();
  void OnReply(const UpdateReply& reply);

  const ReplayOptions options_;
  const absl::Time start_;
  std::optional<absl::Time> recorded_first_;
  absl::Time recorded_last_;

  // The batch being filled, and the due time of its first change.
  std::map<Prefix, NextHopId> routes_;
  std::map<NextHopId, NextHop> next_hops_;
  absl::Time due_ = absl::InfiniteFuture();

  absl::Mutex mutex_;
  // Due times of the batches in flight.
  std::deque<absl::Time> in_flight_ ABSL_GUARDED_BY(mutex_);
  ReplayReport report_ ABSL_GUARDED_BY(mutex_);

  // Last, because its thread uses the fields above.
  UpdateStream stream_;
};

}  // namespace planb::client

#endif  // PLANB_CLIENT_LOAD_UPDATE_REPLAYER_H_
