// A thin layer over the generated stub.

#include "client/table_client.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "client/call.h"
#include "client/convert.h"
#include "client/status.h"

namespace planb::client {
namespace {

// Hands the routes of one chunk on.
absl::Status ReadChunk(const v1::ListRoutesResponse& chunk,
                       absl::FunctionRef<absl::Status(const Route&)> on_route) {
  for (const v1::Route& message : chunk.routes()) {
    const auto prefix = FromProto(message.prefix());
    if (!prefix.ok() || message.next_hop_id() == kNoRoute) {
      return absl::InternalError(
          absl::StrCat("the server broke its contract: a malformed route: ",
                       prefix.ok() ? "next hop 0" : prefix.status().message()));
    }
    absl::Status status =
        on_route({.prefix = *prefix, .next_hop = message.next_hop_id()});
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

TableClient::TableClient(const std::shared_ptr<grpc::Channel>& channel)
    : stub_(v1::RouteTable::NewStub(channel)) {}

absl::StatusOr<v1::UpdateRoutesResponse> TableClient::UpdateRoutes(
    const v1::UpdateRoutesRequest& request, absl::Time deadline) const {
  grpc::ClientContext context;
  SetDeadline(context, deadline);
  v1::UpdateRoutesResponse response;
  absl::Status status =
      FromGrpc(stub_->UpdateRoutes(&context, request, &response));
  if (!status.ok()) return status;
  return response;
}

absl::StatusOr<v1::Table> TableClient::GetTable(const std::string& table,
                                                absl::Time deadline) const {
  v1::GetTableRequest request;
  request.set_table(table);
  grpc::ClientContext context;
  SetDeadline(context, deadline);
  v1::Table response;
  absl::Status status = FromGrpc(stub_->GetTable(&context, request, &response));
  if (!status.ok()) return status;
  return response;
}

absl::StatusOr<uint64_t> TableClient::ListRoutes(
    const v1::ListRoutesRequest& request,
    absl::FunctionRef<absl::Status(const Route&)> on_route,
    absl::Time deadline) const {
  grpc::ClientContext context;
  SetDeadline(context, deadline);
  const auto reader = stub_->ListRoutes(&context, request);
  v1::ListRoutesResponse chunk;
  std::optional<uint64_t> generation;
  absl::Status ours;
  while (ours.ok() && reader->Read(&chunk)) {
    if (generation.value_or(chunk.generation()) != chunk.generation()) {
      ours = absl::InternalError(
          "the server broke its contract: the generation changed in a list");
      break;
    }
    generation = chunk.generation();
    ours = ReadChunk(chunk, on_route);
  }
  if (!ours.ok()) context.TryCancel();
  absl::Status status = FromGrpc(reader->Finish());
  if (!ours.ok()) return ours;
  if (!status.ok()) return status;
  return generation.value_or(0);
}

}  // namespace planb::client
