// SPDX-License-Identifier: Apache-2.0

#include "server/control/control_context.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/monotonic_time.h"
#include "server/base/error.h"

namespace planb::server {
namespace {

// How often a waiting call checks whether its client is still there. Visibility
// itself is notified. gRPC's synchronous interface has no notification of a
// cancelled call, and its callback interface costs lookups (TableService).
constexpr absl::Duration kLookAround = absl::Milliseconds(100);

}  // namespace

absl::Status TakeMemory(ControlContext& context, size_t bytes,
                        MemoryShare& share) {
  share.reset();
  if (bytes <= kSmallRequestBytes) return absl::OkStatus();
  share.emplace(context.update_memory.Take(bytes));
  if (share->granted()) return absl::OkStatus();
  share.reset();
  return QuotaError("TOO_MANY_PENDING", "pending requests",
                    "too many changes wait for their turn",
                    absl::Milliseconds(100));
}

absl::Status CheckAck(v1::Ack ack, const Table& table) {
  if (!v1::Ack_IsValid(ack)) {
    return FieldError(absl::StatusCode::kInvalidArgument, "ACK_INVALID", "ack",
                      "is none of the defined values");
  }
  if (ack == v1::ACK_PERSISTED && !table.has_store()) {
    return FieldError(absl::StatusCode::kFailedPrecondition, "STORE_VOLATILE",
                      "ack", "this server keeps its tables in memory only");
  }
  if (ack == v1::ACK_PERSISTED && !table.durable()) {
    return FieldError(absl::StatusCode::kFailedPrecondition, "STORE_NOT_SYNCED",
                      "ack",
                      "this server does not sync its store with each update"
                      " (--store_sync)");
  }
  return absl::OkStatus();
}

absl::Status AwaitAck(const grpc::ServerContext& call, v1::Ack ack,
                      Table& table, uint64_t generation) {
  // An accepted batch is in the store, if there is one; CheckAck has refused
  // ACK_PERSISTED if it is not synced.
  if (ack == v1::ACK_ACCEPTED || ack == v1::ACK_PERSISTED) {
    return absl::OkStatus();
  }
  for (;;) {
    // gRPC cancels the call at its deadline, by a clock that never jumps. The
    // clock of call.deadline() may jump.
    const absl::Status status =
        table.AwaitVisible(generation, SteadyAfter(kLookAround));
    if (absl::IsUnavailable(status)) {
      // Any other code would mean that the batch was refused.
      return Error(absl::StatusCode::kDeadlineExceeded,
                   "GENERATION_NOT_VISIBLE",
                   absl::StrCat("accepted as generation ", generation,
                                ", but the server goes down before it is "
                                "visible"));
    }
    if (!absl::IsDeadlineExceeded(status)) return status;
    if (call.IsCancelled()) return ClientGone();
  }
}

absl::Status ApplyAndAwait(ControlContext& context,
                           const grpc::ServerContext& call, v1::Ack ack,
                           Table& table, UpdateBatch batch, MemoryShare& share,
                           UpdateOutcome& outcome) {
  const bool validate_only = batch.validate_only;
  // The table may hold the batch until it is stored.
  const Table::Outcome applied = table.Apply(std::move(batch));
  share.reset();
  if (!applied.ok()) {
    context.metrics.Updated("refused");
    return applied.status();
  }
  outcome = *applied;
  context.metrics.Updated(validate_only          ? "validated"
                          : outcome.counts.Any() ? "accepted"
                                                 : "unchanged");
  if (validate_only) return absl::OkStatus();
  return AwaitAck(call, ack, table, outcome.generation);
}

absl::Status ClientGone() {
  return Error(absl::StatusCode::kCancelled, "CANCELLED",
               "the client has given up");
}

}  // namespace planb::server
