// SPDX-License-Identifier: Apache-2.0

// The calls of the fake server's RouteTable that change tables by a stream.

#include "absl/strings/match.h"
#include "client/testing/fake_table_service.h"

namespace planb::client::testing {
namespace {

v1::UpdateRoutesRequest ToUnary(const v1::StreamUpdatesRequest& first,
                                const v1::StreamUpdatesRequest& batch) {
  v1::UpdateRoutesRequest request;
  request.set_ack(first.ack());
  request.set_writer_epoch(first.writer_epoch());
  *request.mutable_updates() = batch.updates();
  *request.mutable_next_hops() = batch.next_hops();
  *request.mutable_groups() = batch.groups();
  if (batch.has_expected_generation()) {
    request.set_expected_generation(batch.expected_generation());
  }
  return request;
}

v1::StreamUpdatesResponse ToStreamed(const grpc::Status& status,
                                     const v1::UpdateRoutesResponse& answer) {
  v1::StreamUpdatesResponse reply;
  if (!status.ok()) {
    reply.mutable_error()->set_code(status.error_code());
    reply.mutable_error()->set_reason("FAKE_REFUSAL");
    reply.mutable_error()->set_field("updates[0]");
    reply.mutable_error()->set_message(status.error_message());
    return reply;
  }
  reply.set_generation(answer.generation());
  reply.set_added(answer.added());
  reply.set_changed(answer.changed());
  reply.set_removed(answer.removed());
  reply.set_unchanged(answer.unchanged());
  reply.set_visible_generation(answer.visible_generation());
  reply.set_persisted_generation(answer.persisted_generation());
  return reply;
}

}  // namespace

grpc::Status FakeServer::TableService::StreamUpdates(
    grpc::ServerContext* context,
    grpc::ServerReaderWriter<v1::StreamUpdatesResponse,
                             v1::StreamUpdatesRequest>* stream) {
  ++fake_.streams_opened_;
  const Fate fate = fake_.NextFate();
  v1::StreamUpdatesRequest first;
  if (!stream->Read(&first)) return grpc::Status::OK;
  grpc::Status status =
      WithTable(first.table(), [](FakeTable&) { return grpc::Status::OK; });
  if (!status.ok()) return status;
  uint64_t credits = fake_.options_.update_credits;
  v1::StreamUpdatesResponse hello;
  hello.set_credits(credits);
  stream->Write(hello);
  v1::StreamUpdatesRequest batch;
  for (uint64_t number = 0; stream->Read(&batch); ++number) {
    ++fake_.batches_read_;
    const auto cost =
        static_cast<uint64_t>(batch.updates_size() + batch.next_hops_size() +
                              batch.groups_size() + 1);
    if (cost > credits) {
      return MakeError(grpc::StatusCode::RESOURCE_EXHAUSTED, "CREDIT_EXCEEDED",
                       "more than was granted");
    }
    credits -= cost;
    if (!fake_.AwaitRelease(*context)) return grpc::Status::CANCELLED;
    if (number == fate.end_after) return fate.status;
    v1::UpdateRoutesResponse answer;
    status = WithTable(first.table(), [&](FakeTable& table) {
      return table.Update(ToUnary(first, batch),
                          fake_.options_.max_update_routes, answer);
    });
    v1::StreamUpdatesResponse reply = ToStreamed(status, answer);
    reply.set_batch_id(batch.batch_id() +
                       (fake_.spoil_ == Spoil::kWrongId ? 1 : 0));
    reply.set_credits(cost);
    credits += cost;
    stream->Write(reply);
  }
  return grpc::Status::OK;
}

grpc::Status FakeServer::TableService::ReplaceRoutes(
    grpc::ServerContext*, grpc::ServerReader<v1::ReplaceRoutesRequest>* reader,
    v1::ReplaceRoutesResponse* response) {
  v1::ReplaceRoutesRequest first;
  v1::ReplaceRoutesRequest all;
  v1::ReplaceRoutesRequest message;
  bool commit = false;
  for (int number = 0; reader->Read(&message); ++number) {
    ++fake_.batches_read_;
    if (number == 0) {
      first = message;
      const grpc::Status status =
          WithTable(first.table(), [](FakeTable&) { return grpc::Status::OK; });
      if (!status.ok()) return status;
    }
    all.mutable_routes()->MergeFrom(message.routes());
    all.mutable_next_hops()->MergeFrom(message.next_hops());
    all.mutable_groups()->MergeFrom(message.groups());
    commit = message.commit();
  }
  if (!commit) {
    return MakeError(grpc::StatusCode::INVALID_ARGUMENT, "COMMIT_MISSING",
                     "no commit");
  }
  return WithTable(first.table(), [&](FakeTable& table) {
    return table.Replace(first, all, *response);
  });
}

grpc::Status FakeServer::TableService::ImportSnapshot(
    grpc::ServerContext*, grpc::ServerReader<v1::ImportSnapshotRequest>* reader,
    v1::ReplaceRoutesResponse* response) {
  v1::ImportSnapshotRequest message;
  v1::ImportSnapshotRequest first;
  std::string file;
  for (int number = 0; reader->Read(&message); ++number) {
    ++fake_.batches_read_;
    if (number == 0) first = message;
    file += message.data();
  }
  v1::ReplaceRoutesRequest all;
  if (!absl::StartsWith(file, kFakeSnapshot) ||
      !all.ParseFromString(file.substr(kFakeSnapshot.size()))) {
    return MakeError(grpc::StatusCode::DATA_LOSS, "SNAPSHOT_CORRUPT",
                     "no snapshot");
  }
  v1::ReplaceRoutesRequest conditions;
  conditions.set_ack(first.ack());
  conditions.set_validate_only(first.validate_only());
  conditions.set_writer_epoch(first.writer_epoch());
  if (first.has_expected_generation()) {
    conditions.set_expected_generation(first.expected_generation());
  }
  return WithTable(first.table(), [&](FakeTable& table) {
    return table.Replace(conditions, all, *response);
  });
}

}  // namespace planb::client::testing
