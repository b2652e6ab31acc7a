// SPDX-License-Identifier: Apache-2.0

#include "server/control/control_context.h"

#include <iterator>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/monotonic_time.h"
#include "server/base/error.h"

namespace planb::server {
namespace {

// How often a waiting call checks whether its client is still there. Visibility
// itself is notified. gRPC's synchronous interface has no notification of a
// cancelled call, and its callback interface costs lookups (TableService).
constexpr absl::Duration kCancelPollInterval = absl::Milliseconds(100);
// How often a call that waits for other servers reads their reports. All such
// calls share what was read within ReplicatedLog::kReplicasAge.
constexpr absl::Duration kReplicasPause = absl::Milliseconds(15);

// Waits until `generation`, which is visible here, is so on others. The batch
// is in the store: no error may mean that it is refused.
absl::Status AwaitReplicas(const grpc::ServerContext& call, uint32_t wanted,
                           const Table& table, uint64_t generation,
                           SteadyInstant until) {
  const auto not_replicated = [generation](absl::string_view why) {
    return Error(absl::StatusCode::kDeadlineExceeded, "NOT_REPLICATED",
                 absl::StrCat("accepted as generation ", generation,
                              " and visible here, but ", why));
  };
  for (;;) {
    const bool last = SteadyNow() >= until;
    const auto replicas = table.options().store->replicated()->Replicas(
        ReplicatedLog::kReplicasAge);
    size_t behind = 0;
    size_t reached = 1;  // this server, which may not have reported it yet
    if (replicas.ok()) {
      for (const StoreReplica& replica : *replicas) {
        if (replica.self) continue;
        const auto visible = replica.visible.find(table.name());
        // Another table of that name may have any generation.
        const bool reaches = visible != replica.visible.end() &&
                             (visible->second.id == table.store_id() ||
                              visible->second.id == TableLog::kAnyTable) &&
                             visible->second.generation >= generation;
        ++(reaches ? reached : behind);
      }
      if (wanted == 0 ? behind == 0 : reached >= wanted) {
        return absl::OkStatus();
      }
    }
    if (call.IsCancelled()) return ClientGone();
    if (!table.refusal().ok()) {
      return not_replicated(
          "this server or its table ends before others report it");
    }
    if (last) {
      return not_replicated(absl::StrCat(
          "at the end of --max_replication_wait known to be so on ", reached,
          " of the servers only"));
    }
    absl::SleepFor(kReplicasPause);
  }
}

}  // namespace

DeltaPins::Entries::iterator DeltaPins::Add(const void* held, size_t bytes,
                                            std::function<void()> end) {
  const MutexLock lock(mutex_);
  entries_.push_back({held, bytes, std::move(end)});
  for (Entry& oldest : entries_) {
    if (Bytes() <= limit_) break;
    if (oldest.held == held || oldest.end == nullptr) continue;
    std::exchange(oldest.end, nullptr)();
  }
  return std::prev(entries_.end());
}

void DeltaPins::Remove(Entries::iterator entry) {
  const MutexLock lock(mutex_);
  entries_.erase(entry);
}

size_t DeltaPins::Bytes() const {
  size_t bytes = 0;
  absl::flat_hash_set<const void*> counted;
  for (const Entry& entry : entries_) {
    if (entry.end == nullptr || !counted.insert(entry.held).second) continue;
    bytes += entry.bytes;
  }
  return bytes;
}

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

absl::Status CheckAck(const WantedAck& wanted, const Table& table) {
  const v1::Ack ack = wanted.level;
  if (!v1::Ack_IsValid(ack)) {
    return FieldError(absl::StatusCode::kInvalidArgument, "ACK_INVALID", "ack",
                      "is none of the defined values");
  }
  if (wanted.replicas != 0 && ack != v1::ACK_REPLICATED) {
    return FieldError(absl::StatusCode::kInvalidArgument, "ACK_INVALID",
                      "ack_replicas", "is for ACK_REPLICATED only");
  }
  if (ack == v1::ACK_REPLICATED && !table.others_write()) {
    return FieldError(absl::StatusCode::kFailedPrecondition, "STORE_NOT_SHARED",
                      "ack",
                      "this server shares its store with no other (--store)");
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

absl::Status AwaitAck(const grpc::ServerContext& call, const WantedAck& ack,
                      Table& table, uint64_t generation,
                      absl::Duration replication_wait) {
  // An accepted batch is in the store, if there is one; CheckAck has refused
  // ACK_PERSISTED if it is not synced.
  if (ack.level == v1::ACK_ACCEPTED || ack.level == v1::ACK_PERSISTED) {
    return absl::OkStatus();
  }
  for (;;) {
    // gRPC cancels the call at its deadline, by a clock that never jumps. The
    // clock of call.deadline() may jump.
    const absl::Status status =
        table.AwaitVisible(generation, SteadyAfter(kCancelPollInterval));
    if (absl::IsUnavailable(status)) {
      // Any other code would mean that the batch was refused.
      return Error(absl::StatusCode::kDeadlineExceeded,
                   "GENERATION_NOT_VISIBLE",
                   absl::StrCat("accepted as generation ", generation,
                                ", but the server goes down before it is "
                                "visible"));
    }
    if (status.ok() && ack.level == v1::ACK_REPLICATED) {
      return AwaitReplicas(call, ack.replicas, table, generation,
                           SteadyAfter(replication_wait));
    }
    if (!absl::IsDeadlineExceeded(status)) return status;
    if (call.IsCancelled()) return ClientGone();
  }
}

absl::Status ApplyAndAwait(ControlContext& context,
                           const grpc::ServerContext& call,
                           const WantedAck& ack, Table& table,
                           UpdateBatch batch, MemoryShare& share,
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
  return AwaitAck(call, ack, table, outcome.generation,
                  context.limits.max_replication_wait);
}

absl::Status ClientGone() {
  return Error(absl::StatusCode::kCancelled, "CANCELLED",
               "the client has given up");
}

}  // namespace planb::server
