// SPDX-License-Identifier: Apache-2.0

#include "server/lookup/lookup_worker.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/base/log.h"
#include "server/lookup/batch_stream.h"
#include "server/lookup/lookup_call.h"

namespace planb::server {
namespace {

// Calls of each method that can begin before the thread accepts further ones. A
// call that finds no free place at its worker goes to another worker's queue.
constexpr int kAccepting = 16;

}  // namespace

absl::Status LookupWorker::Start() {
  for (int i = 0; i < kAccepting; ++i) {
    BatchStream::Accept(*this);
    LookupCall::Accept(*this);
  }
  return queue_.Start();
}

void LookupWorker::Drain() {
  queue_.Post([this] {
    draining_ = true;
    const std::vector<BatchStream*> streams(streams_.begin(), streams_.end());
    for (BatchStream* const stream : streams) stream->Drain();
  });
}

void LookupWorker::Note(const grpc::ServerContextBase& call,
                        absl::string_view table, uint64_t request_id,
                        SteadyInstant::duration elapsed, size_t addresses,
                        size_t misses) {
  const bool turn = until_traced_ == 0;
  if (turn) until_traced_ = BatchesPerSpan();
  table = table.empty() ? "default" : table;
  std::optional<uint64_t> left_out;
  if (context_.slow_batches.IsSlow(elapsed)) {
    counters_.Add(LookupCount::kSlow, 1);
    left_out = context_.slow_batches.Admit();
  }
  std::optional<Span> span;
  if (turn || (left_out.has_value() && BatchesPerSpan() > 0)) {
    span = Tracer::Begin("planb.v1.RouteLookup/batch", TraceParentOf(call));
  }
  if (left_out.has_value()) {
    Log(LogLevel::kWarning, "slow batch",
        {{"table", table},
         {"addresses", addresses},
         {"microseconds", absl::ToInt64Microseconds(absl::FromChrono(elapsed))},
         {"request_id", request_id},
         {"peer", call.peer()},
         {IfTraced(span, "trace_id"), TraceIdText(span)},
         {IfTraced(span, "span_id"), SpanIdText(span)},
         {"not_logged", *left_out}});
  }
  if (!span.has_value()) return;
  span->end = span->start;
  span->start -= absl::FromChrono(elapsed);
  span->attributes = {{"rpc.system", "grpc"},
                      {"rpc.service", "planb.v1.RouteLookup"},
                      {"planb.table", std::string(table)},
                      {"planb.addresses", static_cast<int64_t>(addresses)},
                      {"planb.misses", static_cast<int64_t>(misses)}};
  if (request_id != 0) {
    span->attributes.emplace_back("planb.request_id", absl::StrCat(request_id));
  }
  context_.metrics.SetExample(*span);
  context_.tracer->Add(*std::move(span));
}

absl::Status LookupWorker::Enter(BatchStream* stream) {
  if (draining_) return DrainingError();
  if (!in_flight_.TryBegin(context_.limits.max_streams)) {
    return QuotaError(
        "TOO_MANY_STREAMS", "streams",
        absl::StrCat("the limit is ", context_.limits.max_streams),
        absl::Seconds(1));
  }
  streams_.insert(stream);
  counters_.Add(LookupCount::kStreams, 1);
  return absl::OkStatus();
}

void LookupWorker::Leave(BatchStream* stream) {
  streams_.erase(stream);
  counters_.Subtract(LookupCount::kStreams, 1);
  in_flight_.End();
}

}  // namespace planb::server
