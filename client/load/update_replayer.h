// SPDX-License-Identifier: Apache-2.0

// Sends a recorded trace of changes to a table, with the gaps it was recorded
// with, shorter or longer ones, or none.

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
  // How much faster than recorded; 0: no gaps.
  double speed = 1;
  // Changes in a batch, at most; at least 1.
  size_t batch = 10'000;
  // How long to wait for credits, and in the end for the last answers.
  absl::Duration timeout = absl::InfiniteDuration();
};

struct ReplayReport {
  // Sent: routes announced or withdrawn, next-hop objects, and in how many
  // batches.
  uint64_t changes = 0;
  uint64_t next_hops = 0;
  uint64_t batches = 0;
  // Batches that the server refused, and why the first was.
  uint64_t refused = 0;
  absl::Status first_refusal;
  // How long the trace is, and how long its replay took, to the last answer.
  absl::Duration recorded;
  absl::Duration took;
  // Of each batch: from when its first change was due (speed 0: sent) to when
  // the batch was sent, and to when it was answered.
  LatencyHistogram send_lag;
  LatencyHistogram answer_lag;
  // Of the last answer that was no refusal.
  uint64_t generation = 0;
  uint64_t visible_generation = 0;
};

// Changes that are due go together in one batch, so that a replay that has
// fallen behind catches up; but each change is made: where a prefix changes
// again, another batch begins. Thread-compatible.
class UpdateReplayer : public TraceSink {
 public:
  UpdateReplayer(const std::shared_ptr<grpc::Channel>& channel,
                 const ReplayOptions& options);

  // Errors of both: the stream's, by UpdateStream::Send.
  absl::Status OnNextHop(const NextHop& next_hop) override;
  // Waits until the changes are due. Times that go back are due at once.
  absl::Status OnChanges(const std::vector<TraceChange>& changes) override;

  // Sends the rest and waits for all answers. Call once, last.
  absl::StatusOr<ReplayReport> Finish();

 private:
  // When what was recorded at `at` is to be sent.
  absl::Time DueTime(absl::Time at);
  absl::Status AddChange(const Route& route, absl::Time due);
  absl::Status SendBatch();
  void OnReply(const UpdateReply& reply);

  const ReplayOptions options_;
  const absl::Time start_;
  std::optional<absl::Time> recorded_first_;
  absl::Time recorded_last_;

  // The batch being filled, and when its first change was due.
  std::map<Prefix, NextHopId> routes_;
  std::map<NextHopId, NextHop> next_hops_;
  absl::Time due_ = absl::InfiniteFuture();

  absl::Mutex mutex_;
  // Due times of the batches in flight.
  std::deque<absl::Time> in_flight_ ABSL_GUARDED_BY(mutex_);
  ReplayReport report_ ABSL_GUARDED_BY(mutex_);

  // Last: its thread uses what is above.
  UpdateStream stream_;
};

}  // namespace planb::client

#endif  // PLANB_CLIENT_LOAD_UPDATE_REPLAYER_H_
