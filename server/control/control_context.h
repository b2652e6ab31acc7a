// SPDX-License-Identifier: Apache-2.0

// What the methods of the control path share: the tables, limits and counters
// that they work on, and how an update is acknowledged.

#ifndef PLANB_SERVER_CONTROL_CONTROL_CONTEXT_H_
#define PLANB_SERVER_CONTROL_CONTROL_CONTEXT_H_

#include <grpcpp/server_context.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "lpm/fib/fib.h"
#include "planb/v1/types.pb.h"
#include "server/base/weight_limit.h"
#include "server/control/call_guard.h"
#include "server/control/control_metrics.h"
#include "server/control/log_update.h"
#include "server/control/stream_slots.h"
#include "server/table/tables.h"

namespace planb::server {

// What a batch of StreamUpdates with a request_id costs beside what all cost.
inline constexpr size_t kRequestIdCredits = 255;

struct ControlLimits {
  // Entries in each list of one update.
  size_t max_update_routes = 1'000'000;
  // Bytes of all updates that are being parsed and applied, of which one may
  // take all.
  size_t update_memory_bytes = size_t{256} << 20;
  // ListRoutes, ListNextHops and ExportSnapshot calls open at once. Each pins a
  // generation.
  size_t max_lists = 64;
  size_t max_watchers = 64;
  // Watches that are sent the whole table at once. Others wait for their turn,
  // `whole_table_turn` at most: a client that reads slowly delays no other for
  // longer.
  size_t whole_tables = 8;
  absl::Duration whole_table_turn = absl::Seconds(5);
  // How long the history then keeps up to twice its bound for each of them.
  absl::Duration whole_table_grace = absl::Seconds(30);
  // Bytes of large changes that watches are sending, each change counted once,
  // of which one may take all. The watches that began first end where there are
  // more.
  size_t watch_memory_bytes = size_t{256} << 20;
  // ReplaceRoutes and ImportSnapshot calls open at once.
  size_t max_replacements = 16;
  // StreamUpdates calls open at once, and the unanswered changes that each may
  // have.
  size_t max_update_streams = 16;
  size_t update_credits = 200'000;
  // Calls of UpdateRoutes and UpdateNextHops with ACK_REPLICATED open at once,
  // and how long any batch waits for other servers: longer than they are known
  // after their end.
  size_t max_replicated_calls = 32;
  absl::Duration max_replication_wait = absl::Seconds(30);
  // Batches with a request_id that all these calls may have on the way.
  size_t requests_on_the_way() const {
    return max_update_streams *
           std::max<size_t>(update_credits / (1 + kRequestIdCredits), 1);
  }
  CallTimeouts timeouts;
  // A watcher is told this often up to which generation it has seen everything.
  absl::Duration bookmark_interval = absl::Seconds(5);
};

// Bounds the memory of changes that watches are sending.
//
// A watch holds the delta that it sends, or its messages, until its client has
// read them, also after the history has dropped them. This counts each once,
// however many watches send it, and gives up those that were begun first when
// all have more bytes than the limit. What a watch begins with may have more:
// then it is the only one. Thread-safe.
class DeltaPins {
  struct Entry {
    const void* held;
    size_t bytes;
    std::function<void()> end;  // null: called
  };
  using Entries = std::list<Entry>;

 public:
  explicit DeltaPins(size_t limit) : limit_(limit) {}

  // What a watch sends, until this is destroyed.
  class Pin {
   public:
    Pin(const Pin&) = delete;
    Pin& operator=(const Pin&) = delete;
    // `end` ends the watch, on any thread and without waiting.
    Pin(DeltaPins& pins, const void* held, size_t bytes,
        std::function<void()> end)
        : pins_(pins), entry_(pins.Add(held, bytes, std::move(end))) {}
    ~Pin() { pins_.Remove(entry_); }

   private:
    DeltaPins& pins_;
    const Entries::iterator entry_;
  };

 private:
  Entries::iterator Add(const void* held, size_t bytes,
                        std::function<void()> end);
  void Remove(Entries::iterator entry);
  // Of the watches that go on.
  size_t Bytes() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t limit_;
  Mutex mutex_;
  Entries entries_ ABSL_GUARDED_BY(mutex_);  // the oldest first
};

// Reads the configuration again. Returns the flags that take effect only at the
// next start. Thread-safe. Null: there is none.
using Reload = std::function<absl::StatusOr<std::vector<std::string>>()>;

// Thread-safe. One for a server. Refers to the tables and the metrics, which
// outlive it.
struct ControlContext {
  // `tracer` may be null.
  ControlContext(Tables& t, const Kernel& k, const ControlLimits& l,
                 ControlMetrics& m, Tracer* tracer, Reload r)
      : tables(t),
        kernel(k),
        limits(l),
        metrics(m),
        lists("lists", l.max_lists, m.streams(StreamKind::kList)),
        watchers("watchers", l.max_watchers, m.streams(StreamKind::kWatch)),
        replacements("replacements", l.max_replacements,
                     m.streams(StreamKind::kReplacement)),
        update_streams("update streams", l.max_update_streams,
                       m.streams(StreamKind::kUpdate)),
        replicated_calls("updates with ACK_REPLICATED", l.max_replicated_calls,
                         m.streams(StreamKind::kReplicated),
                         "TOO_MANY_PENDING"),
        update_memory(l.update_memory_bytes),
        whole_tables(l.whole_tables),
        watch_memory(l.watch_memory_bytes),
        update_log(tracer),
        reload(std::move(r)) {}

  Tables& tables;
  const Kernel& kernel;
  const ControlLimits limits;
  ControlMetrics& metrics;
  StreamSlots lists;
  StreamSlots watchers;
  StreamSlots replacements;
  StreamSlots update_streams;
  StreamSlots replicated_calls;
  WeightLimit update_memory;
  WeightLimit whole_tables;
  DeltaPins watch_memory;
  UpdateLog update_log;
  Reload reload;
};

using MemoryShare = std::optional<WeightLimit::Share>;

// A request of up to so many bytes, parsed, takes no share of the memory for
// updates: small changes are accepted while large ones wait. The calls are few.
inline constexpr size_t kSmallRequestBytes = size_t{64} << 10;

// Exchanges `share` for one of `bytes`, or for none if these are few. Errors:
// RESOURCE_EXHAUSTED (TOO_MANY_PENDING); `share` is then empty.
absl::Status TakeMemory(ControlContext& context, size_t bytes,
                        MemoryShare& share);

// What an update waits for before it is answered.
struct WantedAck {
  v1::Ack level = v1::ACK_UNSPECIFIED;
  uint32_t replicas = 0;  // with ACK_REPLICATED; 0: all
};
template <typename Request>
WantedAck WantedBy(const Request& request) {
  return {request.ack(), request.ack_replicas()};
}

// Errors: INVALID_ARGUMENT (ACK_INVALID), FAILED_PRECONDITION (STORE_VOLATILE,
// STORE_NOT_SYNCED, STORE_NOT_SHARED).
absl::Status CheckAck(const WantedAck& ack, const Table& table);

// Blocks until the accepted `generation` may be acknowledged, or the call ends.
// Waits for other servers for `replication_wait` at most. Errors:
// DEADLINE_EXCEEDED (NOT_REPLICATED) then, or (also GENERATION_NOT_VISIBLE) if
// the server goes down before; CANCELLED, also at the call's deadline;
// NOT_FOUND (TABLE_NOT_FOUND) if the table is deleted.
absl::Status AwaitAck(const grpc::ServerContext& call, const WantedAck& ack,
                      Table& table, uint64_t generation,
                      absl::Duration replication_wait);

// Applies one batch, gives up its share of memory, waits for its
// acknowledgement, and counts it. `outcome` is set once the batch is accepted,
// even if the wait then fails. Errors: those of Table::Submit and AwaitAck.
absl::Status ApplyAndAwait(ControlContext& context,
                           const grpc::ServerContext& call,
                           const WantedAck& ack, Table& table,
                           UpdateBatch batch, MemoryShare& share,
                           UpdateOutcome& outcome);

// CANCELLED, for a call after its client is gone. Only logs see it.
absl::Status ClientGone();

// Nanoseconds since the Unix epoch; 0 for InfinitePast.
inline uint64_t UnixNanos(absl::Time time) {
  return time == absl::InfinitePast()
             ? 0
             : static_cast<uint64_t>(absl::ToUnixNanos(time));
}

// Fills the fields that all replies to updates have.
template <typename Response>
void FillOutcome(const UpdateOutcome& outcome, const Table& table,
                 Response& response) {
  response.set_generation(outcome.generation);
  response.set_visible_generation(table.visible());
  response.set_persisted_generation(table.persisted());
}

// Fills the fields of replies that count routes.
template <typename Response>
void FillCounts(const UpdateOutcome& outcome, Response& response) {
  response.set_added(outcome.counts.added);
  response.set_changed(outcome.counts.changed);
  response.set_removed(outcome.counts.removed);
  response.set_unchanged(outcome.counts.unchanged);
  response.set_accepted_unix_nanos(UnixNanos(outcome.accepted));
}

}  // namespace planb::server

#endif  // PLANB_SERVER_CONTROL_CONTROL_CONTEXT_H_
