// SPDX-License-Identifier: Apache-2.0

// Streams of BatchLookup: one reply for each request, in order. A bounded
// number of replies waits for a slow client.

#ifndef PLANB_SERVER_LOOKUP_BATCH_STREAM_H_
#define PLANB_SERVER_LOOKUP_BATCH_STREAM_H_

#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "base/monotonic_time.h"
#include "base/published.h"
#include "server/lookup/lookup_worker.h"

namespace planb::server {

// One stream. At any time, at most one read and one write are in progress, and
// at most one batch waits: for its generation, or, where a table does not keep
// prefix lengths, until they are found, between other work of the thread.
// Reading stops while kMaxReplies replies, or kMaxReplyBytes of them, wait to
// be written: flow control then stops the client. The snapshot is pinned only
// while a batch is computed, never across a read or a write of this stream.
//
// Used on its worker's thread alone. Owns itself until the last event that gRPC
// has promised.
class BatchStream final : public std::enable_shared_from_this<BatchStream> {
 public:
  static constexpr size_t kMaxReplies = 8;
  static constexpr size_t kMaxReplyBytes = 1 << 20;

  // Accepts the next stream on `worker`, and after each stream one more.
  // REQUIRES: called on the worker's thread, or before it runs.
  static void Accept(LookupWorker& worker);

  explicit BatchStream(LookupWorker& worker) : worker_(worker) {}

  // Answers the requests received so far, then ends with UNAVAILABLE.
  void Drain();

 private:
  void OnAccepted(bool ok);
  void OnRead(bool ok);
  void OnWritten(bool ok);
  void OnFinished(bool ok);
  void OnCallDone(bool ok);

  // Answers request_, after waiting for its generation if it names one.
  void Handle();
  void AwaitGeneration(const TableRef& table);
  // `reader` has the batch.
  void Answer(const TableRef& table, BatchReader& reader);
  // A batch while its prefix lengths are being found.
  struct Lengths {
    TableRef table;
    std::optional<Published<Snapshot>::Reader> snapshot = {};
    BatchReply reply = {};
    size_t found = 0;
  };
  // Finds some of them, and replies after the last; false if none is left.
  bool FindLengths(Lengths& lengths);
  void Answered(const Batch& batch, BatchReply& reply);
  void Fail(const absl::Status& error, uint64_t request_id,
            uint64_t generation);
  // Takes the contents of `reply`.
  void Reply(grpc::ByteBuffer& reply);
  // Starts the next read, write or end of the call, as far as possible.
  void Proceed();
  // Counts the time for which reading is held back.
  void Hold(bool held);
  // The status that the call ends with.
  absl::Status Outcome() const;
  // One of the promised events has happened; frees the stream after the last.
  void Settle();

  LookupWorker& worker_;
  std::shared_ptr<BatchStream> self_;
  grpc::ServerContext call_;
  grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer> io_{&call_};
  EventOf<BatchStream, &BatchStream::OnAccepted> accepted_{this};
  EventOf<BatchStream, &BatchStream::OnRead> read_{this};
  EventOf<BatchStream, &BatchStream::OnWritten> written_{this};
  EventOf<BatchStream, &BatchStream::OnFinished> finished_{this};
  EventOf<BatchStream, &BatchStream::OnCallDone> call_done_{this};

  grpc::ByteBuffer request_;  // being read, waiting or being answered
  // What request_ holds while it waits: the worker's reader goes on with other
  // batches.
  BatchReader waiting_batch_;
  SteadyInstant received_;
  std::deque<grpc::ByteBuffer> replies_;  // the first is being written
  size_t reply_bytes_ = 0;

  int promised_ = 0;      // events that gRPC will still report
  bool entered_ = false;  // counted by the worker
  absl::Status refusal_;  // why not, if not
  bool reading_ = false;
  bool writing_ = false;
  bool waiting_ = false;  // for a generation or for prefix lengths
  bool held_ = false;     // not reading: too many replies wait
  bool no_more_requests_ = false;
  bool broken_ = false;  // the client is gone
  bool finishing_ = false;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_LOOKUP_BATCH_STREAM_H_
