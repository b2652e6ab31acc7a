// SPDX-License-Identifier: Apache-2.0

// ReplaceRoutes and ImportSnapshot: a whole table is received message by
// message and applied at once, as the difference to the table that is there.
// Until everything is received and checked, nothing of it has an effect.

#include <google/protobuf/arena.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "follow/convert.h"
#include "lpm/io/table_file.h"
#include "lpm/routes/table_digest.h"
#include "server/base/decoded_size.h"
#include "server/base/error.h"
#include "server/base/malloc_trim.h"
#include "server/control/decode_update.h"
#include "server/control/table_service.h"

namespace planb::server {
namespace {

// From this size on, freed memory is returned to the kernel.
constexpr size_t kManyRoutes = 50'000;

// What a call is called in logs, and what it came to.
struct Replaced {
  UpdateName update;
  TableRef table = nullptr;
  UpdateOutcome outcome = {.accepted = absl::InfinitePast()};
};

// Collects one replacement. The first message says for which table and how.
class Replacement {
 public:
  Replacement(ControlContext& context, Replaced& result)
      : context_(context), result_(result) {
    batch_.replacement.emplace();
  }

  UpdateBatch& batch() { return batch_; }

  template <typename Request>
  absl::Status Begin(const Request& first) {
    UpdateLog::Name(first.table(), first.request_id(), result_.update);
    absl::StatusOr<TableRef> table =
        context_.tables.FindToUpdate(first.table());
    if (!table.ok()) return table.status();
    result_.table = *std::move(table);
    ack_ = WantedBy(first);
    const absl::Status valid = DecodeConditions(first, batch_);
    return valid.ok() ? CheckAck(ack_, *result_.table) : valid;
  }

  uint64_t RoutesNow() const {
    const v1::Table now = result_.table->state();
    return now.routes_v4() + now.routes_v6();
  }

  // Checks what was collected so far against the table's limits.
  absl::Status Check() const {
    const RibLimits& limits = result_.table->options().limits;
    const size_t routes = batch_.replacement->size();
    // A table with more routes, of a time with a higher limit, may keep them.
    if (routes > limits.max_routes && routes > RoutesNow()) {
      return QuotaError(
          "TABLE_FULL", "routes",
          absl::StrCat("more than the table's limit of ", limits.max_routes));
    }
    const size_t objects = batch_.next_hops.size() + batch_.groups.size();
    if (objects > limits.max_next_hops) {
      return QuotaError("NEXT_HOPS_FULL", "next_hops",
                        absl::StrCat("more than the table's limit of ",
                                     limits.max_next_hops));
    }
    return absl::OkStatus();
  }

  // Takes memory for what was collected and for one more message of `bytes`.
  // One share that grows: a replacement that is alone may be as large as a
  // table, beyond the limit of a batch.
  absl::Status Reserve(size_t bytes) {
    return TakeMemory(context_, CollectedBytes() + bytes, share_);
  }
  // Returns the memory of the message.
  void Shrink() {
    if (share_.has_value()) share_->Shrink(CollectedBytes());
  }

  absl::Status Commit(const grpc::ServerContext& call) {
    std::vector<Route>& routes = *batch_.replacement;
    if (!std::is_sorted(routes.begin(), routes.end())) {
      std::sort(routes.begin(), routes.end());
    }
    if (!batch_.request_id.empty()) {
      batch_.fingerprint = ReplacementFingerprint(batch_);
    }
    const bool large = routes.size() >= kManyRoutes;
    const absl::Status status =
        ApplyAndAwait(context_, call, ack_, *result_.table, std::move(batch_),
                      share_, result_.outcome);
    // The batch is freed by now.
    if (large) TrimHeap();
    return status;
  }

 private:
  size_t CollectedBytes() {
    for (; counted_next_hops_ < batch_.next_hops.size(); ++counted_next_hops_) {
      const NextHop& next_hop = batch_.next_hops[counted_next_hops_];
      object_bytes_ += 2 * sizeof(next_hop) + next_hop.text_bytes();
    }
    for (; counted_groups_ < batch_.groups.size(); ++counted_groups_) {
      const NextHopGroup& group = batch_.groups[counted_groups_];
      object_bytes_ += 2 * sizeof(group) + group.label.capacity() +
                       group.members.capacity() * sizeof(group.members[0]);
    }
    return batch_.replacement->capacity() * sizeof(Route) + object_bytes_;
  }

  ControlContext& context_;
  Replaced& result_;
  WantedAck ack_;
  UpdateBatch batch_;
  // The objects that object_bytes_ counts.
  size_t counted_next_hops_ = 0, counted_groups_ = 0;
  size_t object_bytes_ = 0;
  MemoryShare share_;
};

// Parses the messages of one replacement, one at a time.
template <typename Request>
class Requests {
 public:
  Requests(ControlContext& context, grpc::ServerReader<grpc::ByteBuffer>& from)
      : context_(context), from_(from) {}

  // Reads the next message, for which `to` takes memory. False after the last,
  // and after an error, which is status().
  bool Read(Replacement& to) {
    arena_.Reset();
    to.Shrink();
    grpc::ByteBuffer bytes;
    if (!from_.Read(&bytes)) return false;
    const auto size = DecodedSize<Request>(
        bytes, {.bytes = context_.limits.update_memory_bytes});
    status_ = size.status();
    if (status_.ok()) status_ = to.Reserve(*size);
    if (!status_.ok()) return false;
    message_ = google::protobuf::Arena::CreateMessage<Request>(&arena_);
    status_ = ParseAndFree(bytes, *message_);
    return status_.ok();
  }

  // Valid until the next Read().
  const Request& message() const { return *message_; }
  const absl::Status& status() const { return status_; }

 private:
  ControlContext& context_;
  grpc::ServerReader<grpc::ByteBuffer>& from_;
  google::protobuf::Arena arena_;
  Request* message_ = nullptr;
  absl::Status status_;
};

// Counts what was collected as refused.
absl::Status Refuse(ControlContext& context, Replacement& replacement,
                    absl::Status why) {
  context.metrics.Updated("refused");
  context.metrics.Operated(RefusedOperations(replacement.batch()));
  return why;
}

absl::Status CommitMissing() {
  return FieldError(absl::StatusCode::kInvalidArgument, "COMMIT_MISSING",
                    "commit",
                    "the stream ended without a commit; nothing was changed");
}

// Turns a table file into a replacement.
class SnapshotSink final : public TableFileSink {
 public:
  explicit SnapshotSink(Replacement& replacement) : to_(replacement) {}

  absl::Status OnHeader(const TableFileHeader& header) override {
    digest_ = header.digest;
    return absl::OkStatus();
  }
  absl::Status OnNextHop(const NextHop& next_hop) override {
    objects_.Add(next_hop);
    // The same rules hold as for a next hop in a message.
    const absl::StatusOr<NextHop> valid = FromProto(ToProto(next_hop));
    if (!valid.ok()) return valid.status();
    if (valid->attributes != next_hop.attributes) {
      return absl::InvalidArgumentError(
          absl::StrCat("next hop ", next_hop.id,
                       " has attributes that no server writes so"));
    }
    to_.batch().next_hops.push_back(*valid);
    return absl::OkStatus();
  }
  absl::Status OnGroup(const NextHopGroup& group) override {
    objects_.Add(group);
    const absl::StatusOr<NextHopGroup> valid = FromProto(ToProto(group));
    if (valid.ok()) to_.batch().groups.push_back(*valid);
    return valid.status();
  }
  absl::Status OnRoute(const Route& route) override {
    routes_.Add(route);
    to_.batch().replacement->push_back(route);
    return absl::OkStatus();
  }
  absl::Status OnEnd(const TableFileCounts&) override {
    ended_ = true;
    if (IsStoredDigest(digest_, routes_, objects_)) return absl::OkStatus();
    return absl::DataLossError(
        "the contents do not have the digest of the header");
  }
  bool ended() const { return ended_; }

 private:
  Replacement& to_;
  std::string digest_;
  TableDigest routes_, objects_;
  bool ended_ = false;
};

// The errors of the file format, with the reasons of the contract.
absl::Status SnapshotError(const absl::Status& status) {
  if (absl::IsDataLoss(status)) {
    return Error(absl::StatusCode::kDataLoss, "SNAPSHOT_CORRUPT",
                 status.message());
  }
  return FieldError(absl::StatusCode::kInvalidArgument, "SNAPSHOT_INVALID",
                    "data", status.message());
}

// Errors: those of an update; INVALID_ARGUMENT (MESSAGE_MALFORMED,
// COMMIT_MISSING, ROUTE_INVALID ...), RESOURCE_EXHAUSTED (TOO_MANY_STREAMS,
// REQUEST_TOO_LARGE, TABLE_FULL, TOO_MANY_PENDING).
absl::Status ReceiveReplacement(ControlContext& context,
                                const grpc::ServerContext& call,
                                grpc::ServerReader<grpc::ByteBuffer>& from,
                                Replaced& result) {
  const auto slot = context.replacements.Enter(call);
  if (!slot.ok()) return slot.status();
  Replacement replacement(context, result);
  Requests<v1::ReplaceRoutesRequest> requests(context, from);
  bool committed = false;
  absl::Status status;
  for (bool first = true; requests.Read(replacement); first = false) {
    const v1::ReplaceRoutesRequest& request = requests.message();
    if (first) status = replacement.Begin(request);
    if (status.ok() && committed) {
      status = FieldError(absl::StatusCode::kInvalidArgument, "COMMIT_NOT_LAST",
                          "commit", "a message follows the one that commits");
    }
    if (status.ok()) status = AppendReplacement(request, replacement.batch());
    if (status.ok()) status = replacement.Check();
    if (!status.ok()) return Refuse(context, replacement, status);
    committed = request.commit();
  }
  status = requests.status();
  // Read ends in the same way for a client that broke off and for one that
  // half-closed.
  if (status.ok() && (!committed || call.IsCancelled())) {
    status = CommitMissing();
  }
  if (!status.ok()) return Refuse(context, replacement, status);
  return replacement.Commit(call);
}

// Errors: also DATA_LOSS (SNAPSHOT_CORRUPT), INVALID_ARGUMENT
// (SNAPSHOT_INVALID).
absl::Status ReceiveSnapshot(ControlContext& context,
                             const grpc::ServerContext& call,
                             grpc::ServerReader<grpc::ByteBuffer>& from,
                             Replaced& result) {
  const auto slot = context.replacements.Enter(call);
  if (!slot.ok()) return slot.status();
  Replacement replacement(context, result);
  replacement.batch().replace_next_hops = true;
  SnapshotSink sink(replacement);
  TableFileReader reader(sink);
  Requests<v1::ImportSnapshotRequest> requests(context, from);
  bool first = true;
  for (; requests.Read(replacement); first = false) {
    absl::Status status;
    if (first) status = replacement.Begin(requests.message());
    if (status.ok()) {
      status = reader.Push(requests.message().data());
      if (!status.ok()) status = SnapshotError(status);
    }
    if (status.ok()) status = replacement.Check();
    if (!status.ok()) return Refuse(context, replacement, status);
  }
  absl::Status whole = requests.status();
  if (whole.ok()) {
    whole = reader.Finish();
    if (!whole.ok()) whole = SnapshotError(whole);
  }
  if (whole.ok() && (first || !sink.ended() || call.IsCancelled())) {
    whole = CommitMissing();
  }
  if (!whole.ok()) return Refuse(context, replacement, whole);
  return replacement.Commit(call);
}

// Logs and traces what `receive` does, which fills the outcome.
template <typename Receive>
grpc::Status Logged(ControlContext& context, absl::string_view method,
                    const grpc::ServerContext& call,
                    v1::ReplaceRoutesResponse& response,
                    const Receive& receive) {
  Replaced replaced = {.update = context.update_log.Begin(method, call)};
  const absl::Status status = receive(replaced);
  const UpdateOutcome& outcome = replaced.outcome;
  const bool accepted = outcome.accepted != absl::InfinitePast();
  const absl::Time visible =
      accepted ? replaced.table->PublishedAt(outcome.generation)
               : absl::InfinitePast();
  if (status.ok()) {
    FillOutcome(outcome, *replaced.table, response);
    FillCounts(outcome, response);
    response.set_digest(outcome.digest);
    response.set_visible_unix_nanos(UnixNanos(visible));
  }
  context.update_log.Ended(std::move(replaced.update), call, status,
                           accepted ? &outcome : nullptr, visible);
  return ToGrpc(status);
}

}  // namespace

grpc::Status TableService::ReplaceRoutes(grpc::ServerContext* call,
                                         grpc::ServerReader<Bytes>* requests,
                                         v1::ReplaceRoutesResponse* response) {
  return Logged(
      context_, "ReplaceRoutes", *call, *response, [&](Replaced& replaced) {
        return ReceiveReplacement(context_, *call, *requests, replaced);
      });
}

grpc::Status TableService::ImportSnapshot(grpc::ServerContext* call,
                                          grpc::ServerReader<Bytes>* requests,
                                          v1::ReplaceRoutesResponse* response) {
  return Logged(context_, "ImportSnapshot", *call, *response,
                [&](Replaced& replaced) {
                  return ReceiveSnapshot(context_, *call, *requests, replaced);
                });
}

}  // namespace planb::server
