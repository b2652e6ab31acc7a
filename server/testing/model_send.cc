// SPDX-License-Identifier: Apache-2.0

#include "server/testing/model_send.h"

#include "server/table/convert.h"

namespace planb::server {
namespace {

using Kind = WriteCall::Kind;

template <typename Request>
void FillChanges(const UpdateBatch& batch, Request& request) {
  static constexpr v1::RouteUpdate::Op kOps[] = {
      v1::RouteUpdate::OP_UPSERT, v1::RouteUpdate::OP_INSERT,
      v1::RouteUpdate::OP_REPLACE, v1::RouteUpdate::OP_DELETE,
      v1::RouteUpdate::OP_DELETE_STRICT};
  for (const RouteChange& change : batch.changes) {
    v1::RouteUpdate& update = *request.add_updates();
    update.set_op(kOps[static_cast<int>(change.op)]);
    Encode(change.prefix, *update.mutable_prefix());
    update.set_next_hop_id(change.next_hop);
  }
  for (const NextHop& n : batch.next_hops) Encode(n, *request.add_next_hops());
  for (const NextHopGroup& g : batch.groups) Encode(g, *request.add_groups());
  request.set_request_id(batch.request_id);
  request.set_require_next_hops(batch.require_next_hops);
}

template <typename Request>
void FillTerms(const UpdateBatch& batch, Request& request) {
  if (batch.expected_generation.has_value()) {
    request.set_expected_generation(*batch.expected_generation);
  }
}

template <typename Request>
void FillUnaryTerms(const WriteCall& call, v1::Ack ack, Request& request) {
  FillTerms(call.batch, request);
  request.set_validate_only(call.batch.validate_only);
  request.set_writer_epoch(call.batch.writer_epoch);
  request.set_ack(ack);
}

template <typename Response>
void ReadCounts(const Response& response, WriteCall& call) {
  call.generation = response.generation();
  call.visible = response.visible_generation();
  call.counts.added = response.added();
  call.counts.changed = response.changed();
  call.counts.removed = response.removed();
}

}  // namespace

v1::StreamUpdatesRequest EncodeStreamed(const UpdateBatch& batch) {
  v1::StreamUpdatesRequest request;
  FillChanges(batch, request);
  FillTerms(batch, request);
  return request;
}

void ReadStreamed(const v1::StreamUpdatesResponse& response, WriteCall& call) {
  ReadCounts(response, call);
  call.counts.unchanged = response.unchanged();
}

grpc::Status SendWrite(v1::RouteTable::Stub& stub, grpc::ClientContext& context,
                       v1::Ack ack, WriteCall& call) {
  const UpdateBatch& batch = call.batch;
  call.acked_visible = ack == v1::ACK_VISIBLE;
  call.counts = {};
  if (call.kind == Kind::kRoutes) {
    v1::UpdateRoutesRequest request;
    FillChanges(batch, request);
    FillUnaryTerms(call, ack, request);
    v1::UpdateRoutesResponse response;
    const auto status = stub.UpdateRoutes(&context, request, &response);
    ReadCounts(response, call);
    call.counts.unchanged = response.unchanged();
    call.digest = response.digest();
    return status;
  }
  if (call.kind == Kind::kNextHops) {
    v1::UpdateNextHopsRequest request;
    for (const NextHop& n : batch.next_hops) Encode(n, *request.add_upserts());
    for (const NextHopGroup& g : batch.groups) {
      Encode(g, *request.add_group_upserts());
    }
    for (NextHopId id : batch.deleted_next_hops) request.add_delete_ids(id);
    for (NextHopId id : batch.deleted_groups) request.add_delete_group_ids(id);
    request.set_request_id(batch.request_id);
    FillUnaryTerms(call, ack, request);
    v1::UpdateNextHopsResponse response;
    const auto status = stub.UpdateNextHops(&context, request, &response);
    ReadCounts(response, call);
    return status;
  }
  v1::ReplaceRoutesResponse response;
  const auto stream = stub.ReplaceRoutes(&context, &response);
  v1::ReplaceRoutesRequest request;
  FillUnaryTerms(call, ack, request);
  size_t left = batch.replacement->size();
  for (const Route& route : *batch.replacement) {
    Encode(route, *request.add_routes());
    // In several messages.
    if (--left % 7 != 0 || left == 0) continue;
    if (!stream->Write(request)) break;
    request.Clear();
  }
  request.set_commit(true);
  stream->Write(request);
  stream->WritesDone();
  const grpc::Status status = stream->Finish();
  ReadCounts(response, call);
  call.counts.unchanged = response.unchanged();
  call.digest = response.digest();
  return status;
}

}  // namespace planb::server
