// SPDX-License-Identifier: Apache-2.0

// Applies many batches of changes, several in flight at once, over one
// StreamUpdates call.
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

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "planb/v1/route_table.grpc.pb.h"

namespace planb::client {

struct UpdateStreamOptions {
  // Empty means "default".
  std::string table = {};
  // What each batch waits for before it is answered.
  v1::Ack ack = v1::ACK_VISIBLE;
  uint64_t writer_epoch = 0;
};

// What became of one batch.
struct UpdateReply {
  uint64_t batch_id = 0;
  // Why the server refused the batch, which then changed nothing; or, if the
  // stream ended before the answer, what it ended with: then the batch may have
  // been accepted all the same. Repeat it with its `request_id`.
  absl::Status status;
  // The server's answer, if there was one.
  v1::StreamUpdatesResponse response;
};

// One stream, to its end; opening another one is the caller's to decide.
// Starts one thread, which receives. Send and Finish are for one thread at a
// time.
class UpdateStream {
 public:
  using OnReply = std::function<void(const UpdateReply&)>;

  // `on_reply` is called for every batch that Send took, exactly once, in their
  // order, in the receiving thread: it has to be quick, and must not call this.
  UpdateStream(const std::shared_ptr<grpc::Channel>& channel,
               const UpdateStreamOptions& options, OnReply on_reply);
  // Without Finish: cancels. What is unanswered then is answered so.
  ~UpdateStream();
  UpdateStream(const UpdateStream&) = delete;
  UpdateStream& operator=(const UpdateStream&) = delete;

  // Sends `batch` as soon as the server's credits allow, which is waited for,
  // and returns its id: 1, 2, 3, ... Fields that belong to the first message,
  // and the id, are set here.
  // Errors: what the stream ended with; DEADLINE_EXCEEDED if there is no credit
  // by `deadline`: the batch was not sent, and another try is allowed;
  // INVALID_ARGUMENT if it needs more credits than the server gives.
  absl::StatusOr<uint64_t> Send(v1::StreamUpdatesRequest batch,
                                absl::Time deadline = absl::InfiniteFuture());

  // Half-closes and waits until everything is answered. Cancels the stream if
  // that has not happened by `deadline`. Call once, last.
  // Errors: what the stream ended with. Refused batches are none.
  absl::Status Finish(absl::Time deadline = absl::InfiniteFuture());

  // Batches sent and not yet answered.
  uint64_t in_flight() const;

 private:
  // The receiving thread.
  void Receive(const v1::StreamUpdatesRequest& hello);
  // Books a reply. Errors: INTERNAL if it is not the one that is due.
  absl::Status Accept(v1::StreamUpdatesResponse response);
  // True once the receiving thread, which writes the hello, writes no more.
  // This and AwaitEnd: until `deadline`, which is of MonotonicNow's clock.
  bool AwaitGreeting(absl::Time deadline);
  absl::Status AwaitEnd(absl::Time deadline);
  void CancelAndJoin();

  const OnReply on_reply_;
  const std::unique_ptr<v1::RouteTable::Stub> stub_;
  grpc::ClientContext context_;
  const std::unique_ptr<grpc::ClientReaderWriter<v1::StreamUpdatesRequest,
                                                 v1::StreamUpdatesResponse>>
      stream_;

  // Held while writing, and for the end of the stream, which gRPC wants to see
  // after the last write. Before mutex_.
  //
  // std::mutex: absl's waits go by the wall clock, which may jump.
  std::mutex write_mutex_;

  mutable std::mutex mutex_;
  // Told when anything below changes.
  std::condition_variable changed_;
  uint64_t credits_ ABSL_GUARDED_BY(mutex_) = 0;
  // The server has answered the hello: its credits have come.
  bool greeted_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<uint64_t> in_flight_ ABSL_GUARDED_BY(mutex_);
  // No reply will come any more.
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  // What the stream ended with, once everything was told to on_reply_.
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);

  std::thread receiver_;
};

}  // namespace planb::client

#endif  // PLANB_CLIENT_UPDATE_STREAM_H_
