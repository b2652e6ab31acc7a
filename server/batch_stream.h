// BatchLookup's streams: one reply for each request, in order, with a bounded
// number of replies waiting for a slow client.

#ifndef PLANB_SERVER_BATCH_STREAM_H_
#define PLANB_SERVER_BATCH_STREAM_H_

#include <deque>
#include <memory>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "grpcpp/grpcpp.h"
#include "planb/v1/route_lookup.grpc.pb.h"
#include "server/in_flight.h"
#include "server/lookup_context.h"

namespace planb::server {

class BatchStreams;

// One stream. At any time at most one read, one write and one batch being
// answered (or waiting for its generation) are under way; reading stops while
// kMaxReplies wait to be written, so a client that does not read is stopped by
// flow control. The published snapshot is held only while a batch is computed,
// never across a read or a write.
//
// gRPC may call the On... methods from several threads at once. State is
// guarded by a mutex of this stream alone; gRPC is called without it. gRPC
// keeps the stream until its methods have returned; who else comes here (those
// who wait for a generation) holds a pointer of his own.
class BatchStream final
    : public grpc::ServerBidiReactor<v1::BatchLookupRequest,
                                     v1::BatchLookupResponse>,
      public std::enable_shared_from_this<BatchStream> {
 public:
  static constexpr size_t kMaxReplies = 8;

  BatchStream(LookupContext& context, BatchStreams& streams)
      : context_(context), streams_(streams) {}

  // Starts reading. Call once, after the stream is owned.
  void Start();

  // Answers what was received, then ends with UNAVAILABLE.
  void Drain();

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  // Answers request_, after waiting for its generation if it names one.
  void Handle();
  void AwaitGeneration(Table& table);
  // Waiting is over; so may the stream be.
  void Resume(Table& table, const absl::Status& status);
  void Answer(Table* table, const absl::Status& error);
  // Queues a reply and goes on.
  void Reply(std::unique_ptr<v1::BatchLookupResponse> reply);
  // Decides, under the lock, what to do next; then does it.
  void Proceed();

  LookupContext& context_;
  BatchStreams& streams_;
  v1::BatchLookupRequest request_;  // the read's, or being answered
  absl::Time received_;

  std::mutex mutex_;
  std::deque<std::unique_ptr<v1::BatchLookupResponse>> replies_
      ABSL_GUARDED_BY(mutex_);
  bool started_ ABSL_GUARDED_BY(mutex_) = false;
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  bool answering_ ABSL_GUARDED_BY(mutex_) = false;
  // While answering_: not yet, a generation is waited for. Nobody waits for a
  // client that is gone.
  bool waiting_ ABSL_GUARDED_BY(mutex_) = false;
  // Threads that have decided to start an operation and not yet done so; the
  // call must not end under their feet.
  int starting_ ABSL_GUARDED_BY(mutex_) = 0;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool no_more_requests_ ABSL_GUARDED_BY(mutex_) = false;
  bool malformed_ ABSL_GUARDED_BY(mutex_) = false;  // the last message read
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;     // the client is gone
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

// All open streams of a service. Thread-safe.
class BatchStreams {
 public:
  explicit BatchStreams(LookupContext& context) : context_(context) {}

  // A reactor for a new call: a stream, or one that refuses with
  // RESOURCE_EXHAUSTED (TOO_MANY_STREAMS) or UNAVAILABLE (DRAINING).
  grpc::ServerBidiReactor<v1::BatchLookupRequest, v1::BatchLookupResponse>*
  Open();

  // Ends all streams as BatchStream::Drain does; waits until the deadline.
  void Drain(absl::Time deadline);

 private:
  friend class BatchStream;
  void Remove(const BatchStream* stream);

  LookupContext& context_;
  InFlight in_flight_;
  std::mutex mutex_;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  absl::flat_hash_map<const BatchStream*, std::shared_ptr<BatchStream>> open_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace planb::server

#endif  // PLANB_SERVER_BATCH_STREAM_H_
