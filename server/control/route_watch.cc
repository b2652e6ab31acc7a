// SPDX-License-Identifier: Apache-2.0

// WatchRoutes: a table's changes, generation by generation, as they become
// visible.

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/monotonic_time.h"
#include "follow/convert.h"
#include "server/base/error.h"
#include "server/control/table_service.h"

namespace planb::server {
namespace {

// Entries in one message. Messages of routes stay below 64 KiB, those of next
// hops without attributes and of groups below 350 KiB.
constexpr int kRoutesPerMessage = 2000;
constexpr int kObjectsPerMessage = 1000;
// How often an idle watch checks whether its client is still there.
constexpr absl::Duration kCancelPollInterval = absl::Milliseconds(500);
// How often a watch that needs the whole table asks for its turn.
constexpr absl::Duration kTurnPause = absl::Milliseconds(10);

using Writer = grpc::ServerWriter<grpc::ByteBuffer>;

// These write a message, and return false if the client is gone.
bool Write(const v1::WatchRoutesResponse& message, Writer& out) {
  grpc::ByteBuffer bytes;
  bool own = false;
  return grpc::SerializationTraits<v1::WatchRoutesResponse>::Serialize(
             message, &bytes, &own)
             .ok() &&
         out.Write(bytes);
}
// Does not copy it: gRPC keeps `message` until it is sent.
bool Write(const std::shared_ptr<const std::string>& message, Writer& out) {
  using Owner = std::shared_ptr<const std::string>;
  const grpc::Slice slice(
      const_cast<char*>(message->data()), message->size(),
      [](void* owner) { delete static_cast<Owner*>(owner); },
      new Owner(message));
  return out.Write(grpc::ByteBuffer(&slice, 1));
}

// Makes the messages of one generation, as many as needed.
class GenerationEncoder {
 public:
  using Output = absl::FunctionRef<bool(const v1::WatchRoutesResponse&)>;

  // `reset` says that the generation is sent whole.
  GenerationEncoder(uint64_t generation, bool reset, Output out)
      : generation_(generation), reset_(reset), out_(out) {}

  // These append entries, and return false once the output did.
  template <typename NextHops>
  bool AddNextHops(const NextHops& next_hops) {
    return Each(next_hops, kObjectsPerMessage,
                [](const NextHop& next_hop, v1::WatchRoutesResponse& message) {
                  *message.add_next_hops() = ToProto(next_hop);
                });
  }
  template <typename Groups>
  bool AddGroups(const Groups& groups) {
    return Each(
        groups, kObjectsPerMessage / 10,
        [](const NextHopGroup& group, v1::WatchRoutesResponse& message) {
          *message.add_groups() = ToProto(group);
        });
  }
  template <typename Routes>
  bool AddRoutes(const Routes& routes) {
    return Each(routes, kRoutesPerMessage,
                [](const Route& route, v1::WatchRoutesResponse& message) {
                  ToProto(route, *message.add_updates());
                });
  }
  bool AddDeleted(const Delta& delta) {
    return Each(delta.deleted_next_hops, kRoutesPerMessage,
                [](NextHopId id, v1::WatchRoutesResponse& message) {
                  message.add_deleted_next_hop_ids(id);
                }) &&
           Each(delta.deleted_groups, kRoutesPerMessage,
                [](NextHopId id, v1::WatchRoutesResponse& message) {
                  message.add_deleted_group_ids(id);
                });
  }

  // Completes the generation.
  bool Finish(const std::string& digest, uint64_t complete_since) {
    message_.set_generation_complete(true);
    message_.set_digest(digest);
    message_.set_complete_since_unix_nanos(complete_since);
    return Write();
  }

 private:
  template <typename Entries, typename Add>
  bool Each(const Entries& entries, int limit, Add add) {
    int count = 0;
    for (const auto& entry : entries) {
      if (count >= limit) {
        if (!Write()) return false;
        count = 0;
      }
      add(entry, message_);
      count += PlacesOf(entry);
    }
    return true;
  }

  bool Write() {
    message_.set_generation(generation_);
    message_.set_reset(reset_);
    const bool written = out_(message_);
    message_.Clear();
    return written;
  }

  const uint64_t generation_;
  const bool reset_;
  const Output out_;
  v1::WatchRoutesResponse message_;
};

// These make the messages of one generation. False once the output was.
bool EncodeDelta(const Delta& delta, GenerationEncoder::Output out) {
  GenerationEncoder encoder(delta.generation, /*reset=*/false, out);
  return encoder.AddNextHops(delta.next_hops) &&
         encoder.AddGroups(delta.groups) && encoder.AddRoutes(delta.routes) &&
         encoder.AddDeleted(delta) &&
         encoder.Finish(delta.digest, delta.complete_since);
}

bool EncodeWhole(const Pinned& pinned, GenerationEncoder::Output out) {
  GenerationEncoder encoder(pinned.generation, /*reset=*/true, out);
  return encoder.AddNextHops(pinned.next_hops.next_hops()) &&
         encoder.AddGroups(pinned.next_hops.groups()) &&
         encoder.AddRoutes(pinned.routes.of(Family::kIpv4)) &&
         encoder.AddRoutes(pinned.routes.of(Family::kIpv6)) &&
         encoder.Finish(pinned.digest, pinned.complete_since);
}

std::vector<std::string> Messages(const Delta& delta) {
  std::vector<std::string> messages;
  EncodeDelta(delta, [&](const v1::WatchRoutesResponse& message) {
    messages.push_back(message.SerializeAsString());
    return true;
  });
  return messages;
}

// A generation is visible a moment before the history has it. A client that saw
// it in a lookup may start its watch there, so wait for the history.
void AwaitHistory(const grpc::ServerContext& call, const Table& table,
                  uint64_t generation) {
  const History& history = table.history();
  while (
      generation > history.newest() && generation <= table.visible() &&
      !call.IsCancelled() &&
      history.AwaitNewest(generation, SteadyAfter(kCancelPollInterval)).ok()) {
    continue;
  }
}

// Waits until fewer than ControlLimits::whole_tables are on the way, for
// `whole_table_turn` at most. Errors: UNAVAILABLE (DRAINING), NOT_FOUND
// (TABLE_NOT_FOUND).
absl::Status AwaitTurn(ControlContext& context, const grpc::ServerContext& call,
                       const History& history, WeightLimit::Share& turn) {
  const SteadyInstant last = SteadyAfter(context.limits.whole_table_turn);
  for (turn = context.whole_tables.Take(1);
       !turn.granted() && !call.IsCancelled() && SteadyNow() < last;
       turn = context.whole_tables.Take(1)) {
    // Ends at once if the history is closed.
    const absl::Status open = history.AwaitNewest(
        std::numeric_limits<uint64_t>::max(), SteadyAfter(kTurnPause));
    if (!open.ok()) return open;
  }
  return absl::OkStatus();
}

// True for the errors that a resync answers.
bool NeedsWholeTable(const absl::Status& status) {
  return absl::IsOutOfRange(status) || absl::IsResourceExhausted(status);
}

// Serves one watch to its end. With a client that does not read, this blocks in
// the write of one message until CallGuard ends the call. The table's history
// keeps what the client misses meanwhile. Beyond the bound of the history the
// watch ends, or sends the whole table; the bound is then twice as high for
// ControlLimits::whole_table_grace, so that the client can catch up. A large
// change that is being sent is held besides, within
// ControlLimits::watch_memory_bytes.
// Errors: NOT_FOUND (TABLE_NOT_FOUND), RESOURCE_EXHAUSTED (TOO_MANY_STREAMS,
// WATCHER_TOO_SLOW), OUT_OF_RANGE (HISTORY_COMPACTED, HISTORY_DIVERGED),
// UNAVAILABLE (DRAINING), CANCELLED.
absl::Status SendChanges(ControlContext& context,
                         const grpc::ServerContext& call,
                         const v1::WatchRoutesRequest& request, Writer& out) {
  const auto write = [&out](const v1::WatchRoutesResponse& message) {
    return Write(message, out);
  };
  const auto slot = context.watchers.Enter(call);
  if (!slot.ok()) return slot.status();
  const absl::StatusOr<TableRef> table = context.tables.Find(request.table());
  if (!table.ok()) return table.status();
  History& history = (*table)->history();
  uint64_t generation = request.start_generation();
  AwaitHistory(call, **table, generation);
  std::string digest;
  std::optional<History::Hold> hold;
  SteadyInstant hold_end;
  // Sends the whole table if the client wants that instead of `why`.
  const auto resync = [&](absl::Status why) -> absl::Status {
    if (!request.resync() || !NeedsWholeTable(why)) return why;
    WeightLimit::Share turn = context.whole_tables.Take(0);
    const absl::Status open = AwaitTurn(context, call, history, turn);
    if (!open.ok()) return open;
    hold.reset();
    hold.emplace(history.KeepWhatFollows());
    const Pinned pinned(*(*table)->Read());
    if (!EncodeWhole(pinned, write)) return ClientGone();
    hold_end = SteadyAfter(context.limits.whole_table_grace);
    generation = pinned.generation;
    digest = pinned.digest;
    return absl::OkStatus();
  };
  absl::Status status = history.CheckStart(generation, request.start_digest());
  if (!status.ok()) status = resync(std::move(status));
  if (!status.ok()) return status;

  SteadyInstant next_bookmark = SteadyNow();
  if (digest.empty()) digest = history.DigestOf(generation);
  while (!call.IsCancelled()) {
    if (SteadyNow() >= hold_end) hold.reset();
    if (SteadyNow() >= next_bookmark) {
      v1::WatchRoutesResponse bookmark;
      bookmark.set_generation(generation);
      bookmark.set_generation_complete(true);
      bookmark.set_digest(digest);
      {
        const auto visible = (*table)->Read();
        if (visible->generation() == generation) {
          bookmark.set_complete_since_unix_nanos(visible->complete_since());
        }
      }
      if (!write(bookmark)) return ClientGone();
      next_bookmark = SteadyAfter(context.limits.bookmark_interval);
    }
    absl::StatusOr<History::DeltaPtr> next = history.Next(
        generation, std::min(next_bookmark, SteadyAfter(kCancelPollInterval)));
    if (!next.ok()) {
      status = resync(next.status());
      if (!status.ok()) return status;
      continue;
    }
    History::DeltaPtr delta = *std::move(next);
    if (delta == nullptr) continue;
    generation = delta->generation;
    digest = delta->digest;
    const auto shared = history.Encode(*delta, Messages);
    const void* held = delta.get();
    size_t bytes = delta->bytes();
    if (shared != nullptr) {
      held = shared.get();
      bytes = shared->bytes;
      delta = nullptr;
    }
    // While few bytes are held, by as many watches as may be open, they are
    // not counted.
    std::optional<DeltaPins::Pin> pin;
    if (bytes > kSmallRequestBytes) {
      pin.emplace(context.watch_memory, held, bytes, [&] {
        context.metrics.Ended(CallEnd::kStalled);
        call.TryCancel();
      });
    }
    const bool sent =
        shared == nullptr
            ? EncodeDelta(*delta, write)
            : std::all_of(
                  shared->messages.begin(), shared->messages.end(),
                  [&](const auto& message) { return Write(message, out); });
    if (!sent) return ClientGone();
  }
  return ClientGone();
}

}  // namespace

grpc::Status TableService::WatchRoutes(grpc::ServerContext& call,
                                       const v1::WatchRoutesRequest& request,
                                       Writer<Bytes>& out) {
  return ToGrpc(SendChanges(context_, call, request, out));
}

}  // namespace planb::server
