// SPDX-License-Identifier: Apache-2.0

// One thread of the read path: its queue, its calls, and the buffers and
// counters that the calls share.

#ifndef PLANB_SERVER_LOOKUP_LOOKUP_WORKER_H_
#define PLANB_SERVER_LOOKUP_LOOKUP_WORKER_H_

#include <grpcpp/completion_queue.h>
#include <grpcpp/server_context.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/monotonic_time.h"
#include "planb/v1/route_lookup.grpc.pb.h"
#include "server/base/error.h"
#include "server/base/in_flight.h"
#include "server/lookup/batch.h"
#include "server/lookup/lookup_context.h"
#include "server/lookup/lookup_metrics.h"
#include "server/lookup/lookup_queue.h"

namespace planb::server {

// RouteLookup with messages as bytes and both methods on completion queues.
// Clients and reflection see no difference.
using RawRouteLookup = v1::RouteLookup::WithRawMethod_BatchLookup<
    v1::RouteLookup::WithRawMethod_Lookup<v1::RouteLookup::Service>>;

class BatchStream;  // a call of BatchLookup, in lookup_worker.cc

// Owns queue and thread. Methods are for the queue's thread alone unless they
// say otherwise.
class LookupWorker {
 public:
  // `in_flight` counts the streams of all workers.
  LookupWorker(LookupContext& context, RawRouteLookup& service,
               InFlight& in_flight,
               std::unique_ptr<grpc::ServerCompletionQueue> queue,
               const QueueOptions& options)
      : context_(context),
        service_(service),
        in_flight_(in_flight),
        queue_(std::move(queue), options),
        counters_(context.metrics.AddThread()),
        until_traced_(BatchesPerSpan()) {}

  // Starts the thread and accepts calls. From any thread, once. REQUIRES: the
  // gRPC server has started. Errors: those of LookupQueue::Start.
  absl::Status Start();

  // Lets each stream answer the requests it has received and then end; refuses
  // new streams. From any thread. Returns at once.
  void Drain();

  // From any thread. Returns after the last call has ended. REQUIRES: the gRPC
  // server is shut down.
  void Shutdown() { queue_.Shutdown(); }

  LookupContext& context() { return context_; }
  RawRouteLookup& service() { return service_; }
  LookupQueue& queue() { return queue_; }
  LookupCounters& counters() { return counters_; }

  // Counts a batch or Lookup of `addresses` that was answered, traces some, and
  // logs slow ones. `request_id` is 0 if it has none.
  void Answered(const grpc::ServerContextBase& call, absl::string_view table,
                uint64_t request_id, SteadyInstant received, size_t addresses,
                size_t misses) {
    const auto elapsed = SteadyNow() - received;
    counters_.Answered(addresses, misses, elapsed);
    if (--until_traced_ == 0 || context_.slow_batches.IsSlow(elapsed)) {
      Note(call, table, request_id, elapsed, addresses, misses);
    }
  }
  // Counts one that was refused, by the reason of `error`.
  void Refused(const absl::Status& error) {
    counters_.Failed(ErrorReason(error));
  }

 private:
  friend class BatchStream;

  // Counts an open stream. Errors, after which it is not counted: UNAVAILABLE
  // (DRAINING), RESOURCE_EXHAUSTED (TOO_MANY_STREAMS).
  absl::Status Enter(BatchStream* stream);
  void Leave(BatchStream* stream);

  // 0: none, as a counter at 0 does not get there again.
  uint64_t BatchesPerSpan() const {
    return context_.tracer == nullptr ? 0 : context_.tracer->batches_per_span();
  }
  // Of a batch that has its turn to be traced, or was slow: adds a span, as an
  // example of its duration, and logs it if it was slow.
  void Note(const grpc::ServerContextBase& call, absl::string_view table,
            uint64_t request_id, SteadyInstant::duration elapsed,
            size_t addresses, size_t misses);

  LookupContext& context_;
  RawRouteLookup& service_;
  InFlight& in_flight_;
  LookupQueue queue_;
  LookupCounters& counters_;
  uint64_t until_traced_;
  BatchReader reader_;  // of the batch that is being read or answered
  bool draining_ = false;
  absl::flat_hash_set<BatchStream*> streams_;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_LOOKUP_LOOKUP_WORKER_H_
