// SPDX-License-Identifier: Apache-2.0

// Applies many batches of changes over one StreamUpdates call, with several
// batches in flight.
//
//   UpdateStream stream(channel, options, [](const UpdateReply& reply) {
//     if (!reply.status.ok()) ...  // this batch changed nothing
//   });
//   for (...) {
//     if (absl::Status s = stream.Send(batch).status(); !s.ok()) return s;
//   }
//   return stream.Finish();

#ifndef PLANB_CLIENT_UPDATE_STREAM_H_
#define PLANB_CLIENT_UPDATE_STREAM_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/sync_stream.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/monotonic_time.h"
#include "base/mutex.h"
#include "planb/v1/route_table.grpc.pb.h"

namespace planb::client {

struct UpdateStreamOptions {
  // Empty means "default".
  std::string table = {};
  // The state that each batch waits for before it is answered.
  v1::Ack ack = v1::ACK_VISIBLE;
  // With ACK_REPLICATED: on how many servers; 0 means all.
  uint32_t ack_replicas = 0;
  uint64_t writer_epoch = 0;
};

// The answer to one batch.
struct UpdateReply {
  uint64_t batch_id = 0;
  // The server's refusal: the batch changed nothing. Or the status of a stream
  // that ended before the answer: the batch may have been accepted; repeat it
  // with its `request_id`.
  absl::Status status;
  // The server's answer, if there was one.
  v1::StreamUpdatesResponse response;
};

// One stream, to its end. Does not reconnect. Starts one thread, which
// receives. Send and Finish are for one thread at a time.
class UpdateStream {
 public:
  using OnReply = std::function<void(const UpdateReply&)>;

  // The receiving thread calls `on_reply` exactly once for every batch that
  // Send took, in order. It must return quickly and must not call this object.
  UpdateStream(const std::shared_ptr<grpc::Channel>& channel,
               const UpdateStreamOptions& options, OnReply on_reply);
  // Without Finish: cancels; unanswered batches are answered with CANCELLED.
  ~UpdateStream();
  UpdateStream(const UpdateStream&) = delete;
  UpdateStream& operator=(const UpdateStream&) = delete;

  // Waits for the server's credits, sends `batch` and returns its id: 1, 2, 3,
  // ... Sets the id, and clears the fields of the first message.
  // Errors: the status of an ended stream; DEADLINE_EXCEEDED if there is no
  // credit by `deadline` (the batch was not sent, Send may be called again);
  // INVALID_ARGUMENT if it needs more credits than the server grants.
  absl::StatusOr<uint64_t> Send(v1::StreamUpdatesRequest batch,
                                Deadline deadline = {});

  // Half-closes and waits until every batch is answered. Cancels the stream at
  // `deadline`. Call once, last.
  // Errors: the status of the stream. A refused batch is no error here.
  absl::Status Finish(Deadline deadline = {});

  // Batches sent and not yet answered.
  uint64_t in_flight() const;

 private:
  struct InFlight {
    uint64_t id;
    uint64_t id_cost;  // credits that the server does not give back
  };

  // The receiving thread.
  void Receive(const v1::StreamUpdatesRequest& hello);
  // Handles a reply. Errors: INTERNAL if it is out of order.
  absl::Status Accept(v1::StreamUpdatesResponse response);
  // Waits until the receiving thread, which writes the hello, writes no more.
  // False at `deadline`, which is of MonotonicNow's clock, as in AwaitEnd.
  bool AwaitGreeting(absl::Time deadline);
  absl::Status AwaitEnd(absl::Time deadline);
  void CancelAndJoin();

  const OnReply on_reply_;
  const std::unique_ptr<v1::RouteTable::Stub> stub_;
  grpc::ClientContext context_;
  const std::unique_ptr<grpc::ClientReaderWriter<v1::StreamUpdatesRequest,
                                                 v1::StreamUpdatesResponse>>
      stream_;

  // Held while writing, and during the stream's Finish, which gRPC requires to
  // come after the last write. Locked before mutex_.
  Mutex write_mutex_;

  mutable Mutex mutex_;
  // Signalled when a field below changes.
  CondVar changed_;
  uint64_t credits_ ABSL_GUARDED_BY(mutex_) = 0;
  // The server has answered the hello and granted credits.
  bool greeted_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<InFlight> in_flight_ ABSL_GUARDED_BY(mutex_);
  // No further reply will come.
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;  // by this side
  // The status of the stream, set after the last call of on_reply_.
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);

  std::thread receiver_;
};

}  // namespace planb::client

#endif  // PLANB_CLIENT_UPDATE_STREAM_H_
