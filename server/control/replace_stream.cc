// SPDX-License-Identifier: Apache-2.0

// ReplaceRoutes and ImportSnapshot: a whole table is received message by
// message and applied at once, as the difference to the table that is there.
// Until everything is received and checked, nothing of it has an effect.

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lpm/io/table_file.h"
#include "server/base/error.h"
#include "server/base/malloc_trim.h"
#include "server/control/decode_update.h"
#include "server/control/table_service.h"
#include "server/table/convert.h"
#include "server/table/table_digest.h"

namespace planb::server {
namespace {

// From this size on, freed memory is returned to the kernel.
constexpr size_t kManyRoutes = 50'000;

// Collects one replacement. The first message says for which table and how.
class Replacement {
 public:
  explicit Replacement(ControlContext& context) : context_(context) {
    batch_.replacement.emplace();
  }

  UpdateBatch& batch() { return batch_; }

  template <typename Request>
  absl::Status Begin(const Request& first) {
    absl::StatusOr<TableRef> table = context_.tables.Find(first.table());
    if (!table.ok()) return table.status();
    table_ = *std::move(table);
    ack_ = first.ack();
    batch_.validate_only = first.validate_only();
    batch_.writer_epoch = first.writer_epoch();
    if (first.has_expected_generation()) {
      batch_.expected_generation = first.expected_generation();
    }
    return CheckAck(ack_, *table_);
  }

  // Checks what was collected so far against the limits.
  absl::Status Account() {
    const RibLimits& limits = table_->options().limits;
    const size_t routes = batch_.replacement->size();
    if (routes > limits.max_routes) {
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
    // One share that grows: a replacement that is alone may be as large as a
    // table, beyond the limit of a batch.
    share_.reset();
    share_.emplace(context_.update_limit.Take(routes + objects));
    if (share_->granted()) return absl::OkStatus();
    return QuotaError("TOO_MANY_PENDING", "pending requests",
                      "too many changes wait for their turn",
                      absl::Milliseconds(100));
  }

  absl::Status Commit(const grpc::ServerContext& call,
                      v1::ReplaceRoutesResponse& response) {
    std::vector<Route>& routes = *batch_.replacement;
    if (!std::is_sorted(routes.begin(), routes.end())) {
      std::sort(routes.begin(), routes.end());
    }
    const bool large = routes.size() >= kManyRoutes;
    UpdateOutcome outcome;
    const absl::Status status = ApplyAndAwait(context_, call, ack_, *table_,
                                              std::move(batch_), outcome);
    // The batch is freed by now.
    if (large) TrimHeap();
    if (!status.ok()) return status;
    FillOutcome(outcome, *table_, response);
    FillCounts(outcome, response);
    response.set_digest(outcome.digest);
    response.set_visible_unix_nanos(
        UnixNanos(table_->PublishedAt(outcome.generation)));
    return absl::OkStatus();
  }

 private:
  ControlContext& context_;
  TableRef table_;
  v1::Ack ack_ = v1::ACK_UNSPECIFIED;
  UpdateBatch batch_;
  std::optional<WeightLimit::Share> share_;
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
    // The same rules hold as for a next hop in a message.
    v1::NextHop message;
    Encode(next_hop, message);
    const absl::StatusOr<NextHop> valid = DecodeNextHop(message);
    if (valid.ok()) to_.batch().next_hops.push_back(*valid);
    return valid.status();
  }
  absl::Status OnGroup(const NextHopGroup& group) override {
    v1::NextHopGroup message;
    Encode(group, message);
    const absl::StatusOr<NextHopGroup> valid = DecodeGroup(message);
    if (valid.ok()) to_.batch().groups.push_back(*valid);
    return valid.status();
  }
  absl::Status OnRoute(const Route& route) override {
    actual_.Add(route);
    to_.batch().replacement->push_back(route);
    return absl::OkStatus();
  }
  absl::Status OnEnd(const TableFileCounts&) override {
    ended_ = true;
    if (actual_.ToString() == digest_) return absl::OkStatus();
    return absl::DataLossError(
        "the routes do not have the digest of the header");
  }
  bool ended() const { return ended_; }

 private:
  Replacement& to_;
  std::string digest_;
  TableDigest actual_;
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

// Errors: those of an update; INVALID_ARGUMENT (COMMIT_MISSING, ROUTE_INVALID
// ...), RESOURCE_EXHAUSTED (TABLE_FULL, TOO_MANY_PENDING).
absl::Status ReceiveReplacement(
    ControlContext& context, const grpc::ServerContext& call,
    grpc::ServerReader<v1::ReplaceRoutesRequest>& requests,
    v1::ReplaceRoutesResponse& response) {
  Replacement replacement(context);
  v1::ReplaceRoutesRequest request;
  bool committed = false;
  for (bool first = true; requests.Read(&request); first = false) {
    absl::Status status;
    if (first) status = replacement.Begin(request);
    if (status.ok() && committed) {
      status = FieldError(absl::StatusCode::kInvalidArgument, "COMMIT_NOT_LAST",
                          "commit", "a message follows the one that commits");
    }
    if (status.ok()) status = AppendReplacement(request, replacement.batch());
    if (status.ok()) status = replacement.Account();
    if (!status.ok()) return Refuse(context, replacement, status);
    committed = request.commit();
  }
  // Read ends in the same way for a client that broke off and for one that
  // half-closed.
  if (!committed || call.IsCancelled()) {
    return Refuse(context, replacement, CommitMissing());
  }
  return replacement.Commit(call, response);
}

// Errors: also DATA_LOSS (SNAPSHOT_CORRUPT), INVALID_ARGUMENT
// (SNAPSHOT_INVALID).
absl::Status ReceiveSnapshot(
    ControlContext& context, const grpc::ServerContext& call,
    grpc::ServerReader<v1::ImportSnapshotRequest>& requests,
    v1::ReplaceRoutesResponse& response) {
  Replacement replacement(context);
  replacement.batch().replace_next_hops = true;
  SnapshotSink sink(replacement);
  TableFileReader reader(sink);
  v1::ImportSnapshotRequest request;
  bool first = true;
  for (; requests.Read(&request); first = false) {
    absl::Status status;
    if (first) status = replacement.Begin(request);
    if (status.ok()) {
      status = reader.Push(request.data());
      if (!status.ok()) status = SnapshotError(status);
    }
    if (status.ok()) status = replacement.Account();
    if (!status.ok()) return Refuse(context, replacement, status);
  }
  absl::Status whole = reader.Finish();
  if (!whole.ok()) whole = SnapshotError(whole);
  if (whole.ok() && (first || !sink.ended() || call.IsCancelled())) {
    whole = CommitMissing();
  }
  if (!whole.ok()) return Refuse(context, replacement, whole);
  return replacement.Commit(call, response);
}

}  // namespace

grpc::Status TableService::ReplaceRoutes(
    grpc::ServerContext* call,
    grpc::ServerReader<v1::ReplaceRoutesRequest>* requests,
    v1::ReplaceRoutesResponse* response) {
  const absl::Status status =
      ReceiveReplacement(context_, *call, *requests, *response);
  if (!status.ok()) {
    context_.update_log.Refused({"ReplaceRoutes", "?"}, *call, status);
  }
  return ToGrpc(status);
}

grpc::Status TableService::ImportSnapshot(
    grpc::ServerContext* call,
    grpc::ServerReader<v1::ImportSnapshotRequest>* requests,
    v1::ReplaceRoutesResponse* response) {
  const absl::Status status =
      ReceiveSnapshot(context_, *call, *requests, *response);
  if (!status.ok()) {
    context_.update_log.Refused({"ImportSnapshot", "?"}, *call, status);
  }
  return ToGrpc(status);
}

}  // namespace planb::server
