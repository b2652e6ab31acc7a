// SPDX-License-Identifier: Apache-2.0

#include "server/control/table_service.h"

#include <google/protobuf/arena.h>
#include <grpcpp/impl/rpc_service_method.h>
#include <grpcpp/support/method_handler.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "follow/convert.h"
#include "server/base/decoded_size.h"
#include "server/base/error.h"
#include "server/control/decode_update.h"

namespace planb::server {
using google::protobuf::Arena;
using grpc::internal::RpcMethod;
using grpc::internal::RpcServiceMethod;

template <typename Request>
struct TableService::Received {
  // Parses `bytes`, which are freed. gRPC hands them over as constant, but does
  // not use them again. Errors: those of DecodedSize, TakeMemory and
  // ParseAndFree.
  absl::Status Parse(ControlContext& context, const Bytes* bytes,
                     const DecodedLimits& limits) {
    auto& mutable_bytes = const_cast<Bytes&>(*bytes);
    const auto size = DecodedSize<Request>(mutable_bytes, limits);
    if (!size.ok()) return size.status();
    const absl::Status taken = TakeMemory(context, *size, share);
    if (!taken.ok()) return taken;
    message = Arena::CreateMessage<Request>(&arena);
    return ParseAndFree(mutable_bytes, *message);
  }
  void FreeMessage() {
    arena.Reset();
    message = nullptr;
  }

  MemoryShare share;
  Arena arena;
  Request* message = nullptr;
};

namespace {

constexpr DecodedLimits kSmallRequest = {.bytes = kSmallRequestBytes};

// Decodes and applies one unary update. `outcome` is valid once the update is
// accepted, even if the wait for visibility then fails.
template <typename Received>
absl::Status Update(ControlContext& context, const grpc::ServerContext& call,
                    Received& received, TableRef& table,
                    UpdateOutcome& outcome) {
  const auto& request = *received.message;
  const auto refuse = [&](absl::Status why) {
    context.metrics.Updated("refused");
    context.metrics.Operated(RefusedOperations(request));
    return why;
  };
  const absl::StatusOr<TableRef> found =
      context.tables.FindToUpdate(request.table());
  if (!found.ok()) return refuse(found.status());
  table = *found;
  const WantedAck ack = WantedBy(request);
  const absl::Status valid = CheckAck(ack, *table);
  if (!valid.ok()) return refuse(valid);
  // Until it is answered. Streams have slots of their kinds.
  std::optional<StreamSlots::Slot> slot;
  if (ack.level == v1::ACK_REPLICATED) {
    auto entered = context.replicated_calls.Enter(call);
    if (!entered.ok()) return refuse(entered.status());
    slot.emplace(*std::move(entered));
  }
  absl::StatusOr<UpdateBatch> batch =
      DecodeUpdate(request, context.limits.max_update_routes);
  if (!batch.ok()) return refuse(batch.status());
  received.FreeMessage();
  return ApplyAndAwait(context, call, ack, *table, *std::move(batch),
                       received.share, outcome);
}

// Calls Update and logs the result.
template <typename Received>
absl::Status LoggedUpdate(ControlContext& context, absl::string_view method,
                          const grpc::ServerContext& call, Received& received,
                          TableRef& table, UpdateOutcome& outcome) {
  UpdateName update = context.update_log.Begin(method, call);
  UpdateLog::Name(received.message->table(), received.message->request_id(),
                  update);
  outcome.accepted = absl::InfinitePast();
  const absl::Status status = Update(context, call, received, table, outcome);
  const bool accepted = outcome.accepted != absl::InfinitePast();
  context.update_log.Ended(
      std::move(update), call, status, accepted ? &outcome : nullptr,
      accepted ? table->PublishedAt(outcome.generation) : absl::InfinitePast());
  return status;
}

absl::string_view MethodOf(absl::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

absl::StatusOr<Address> DecodeAddress(const v1::ExplainLookupRequest& request) {
  if (request.text().empty()) return Address::FromPacked(request.address());
  if (request.address().empty()) return Address::Parse(request.text());
  return absl::InvalidArgumentError("give `address` or `text`, not both");
}

// Answers ExplainLookup from one snapshot. Errors: INVALID_ARGUMENT
// (ADDRESS_INVALID).
absl::Status Explain(const Snapshot& snapshot, const Kernel& kernel,
                     const v1::ExplainLookupRequest& request,
                     v1::ExplainLookupResponse& response) {
  const absl::StatusOr<Address> address = DecodeAddress(request);
  if (!address.ok()) {
    return FieldError(absl::StatusCode::kInvalidArgument, "ADDRESS_INVALID",
                      request.text().empty() ? "address" : "text",
                      address.status().message());
  }
  response.set_generation(snapshot.generation());
  const RouteSet& routes = snapshot.routes().of(address->family());
  for (std::optional<Route> match = routes.Match(*address); match.has_value();
       match = routes.Cover(match->prefix)) {
    ToProto(*match, *response.add_matches());
  }
  // From the FIB, not from the list: a difference between them would show here.
  const NextHopId id = snapshot.fib(address->family()).Lookup(*address, kernel);
  response.set_next_hop_id(id);
  const NextHopSet& next_hops = snapshot.next_hops();
  if (const NextHop* const next_hop = next_hops.Find(id)) {
    *response.mutable_next_hop() = ToProto(*next_hop);
  }
  const NextHopGroup* const group = next_hops.FindGroup(id);
  if (group == nullptr) return absl::OkStatus();
  *response.mutable_group() = ToProto(*group);
  if (!request.has_flow_hash()) return absl::OkStatus();
  const NextHopId member = snapshot.groups().Choose(id, request.flow_hash());
  response.set_member_id(member);
  if (const NextHop* const next_hop = next_hops.Find(member)) {
    *response.mutable_member() = ToProto(*next_hop);
  }
  return absl::OkStatus();
}

}  // namespace

template <typename Request, typename Response>
void TableService::AddUpdate(
    const char* path,
    grpc::Status (TableService::*method)(grpc::ServerContext&,
                                         Received<Request>&, Response&)) {
  const auto handle = [path, method](TableService* self,
                                     grpc::ServerContext* call,
                                     const Bytes* bytes, Response* response) {
    const ControlLimits& limits = self->context_.limits;
    Received<Request> request;
    const absl::Status parsed =
        request.Parse(self->context_, bytes,
                      {.entries = limits.max_update_routes,
                       .bytes = limits.update_memory_bytes,
                       .unpacked = kUnpackedBytes});
    if (parsed.ok()) return (self->*method)(*call, request, *response);
    self->context_.metrics.Updated("refused");
    UpdateLog& log = self->context_.update_log;
    log.Ended(log.Begin(MethodOf(path), *call), *call, parsed, nullptr,
              absl::InfinitePast());
    return ToGrpc(parsed);
  };
  AddMethod(new RpcServiceMethod(
      path, RpcMethod::NORMAL_RPC,
      new grpc::internal::RpcMethodHandler<TableService, Bytes, Response>(
          handle, this)));
}

template <typename Request, typename Response>
void TableService::AddUnary(const char* path,
                            grpc::Status (TableService::*method)(const Request&,
                                                                 Response&)) {
  const auto handle = [method](TableService* self, grpc::ServerContext*,
                               const Bytes* bytes, Response* response) {
    Received<Request> request;
    const absl::Status parsed =
        request.Parse(self->context_, bytes, kSmallRequest);
    return parsed.ok() ? (self->*method)(*request.message, *response)
                       : ToGrpc(parsed);
  };
  AddMethod(new RpcServiceMethod(
      path, RpcMethod::NORMAL_RPC,
      new grpc::internal::RpcMethodHandler<TableService, Bytes, Response>(
          handle, this)));
}

template <typename Request, typename Response>
void TableService::AddTraced(
    const char* path,
    absl::Status (TableService::*method)(const Request&, Response&)) {
  const auto handle = [path, method](TableService* self,
                                     grpc::ServerContext* call,
                                     const Bytes* bytes, Response* response) {
    const UpdateLog& log = self->context_.update_log;
    UpdateName update = log.Begin(MethodOf(path), *call);
    Received<Request> request;
    absl::Status status = request.Parse(self->context_, bytes, kSmallRequest);
    if (status.ok()) {
      UpdateLog::Name(request.message->table(), "", update);
      status = (self->*method)(*request.message, *response);
    }
    log.Trace(std::move(update), status, nullptr, absl::InfinitePast());
    return ToGrpc(status);
  };
  AddMethod(new RpcServiceMethod(
      path, RpcMethod::NORMAL_RPC,
      new grpc::internal::RpcMethodHandler<TableService, Bytes, Response>(
          handle, this)));
}

template <typename Request, typename Response>
void TableService::AddList(
    const char* path,
    grpc::Status (TableService::*method)(grpc::ServerContext&, const Request&,
                                         Writer<Response>&)) {
  const auto handle = [method](TableService* self, grpc::ServerContext* call,
                               const Bytes* bytes, Writer<Response>* out) {
    Received<Request> request;
    const absl::Status parsed =
        request.Parse(self->context_, bytes, kSmallRequest);
    return parsed.ok() ? (self->*method)(*call, *request.message, *out)
                       : ToGrpc(parsed);
  };
  AddMethod(new RpcServiceMethod(
      path, RpcMethod::SERVER_STREAMING,
      new grpc::internal::ServerStreamingHandler<TableService, Bytes, Response>(
          handle, this)));
}

TableService::TableService(ControlContext& context) : context_(context) {
  using Self = TableService;
  AddUpdate("/planb.v1.RouteTable/UpdateRoutes", &Self::UpdateRoutes);
  AddUpdate("/planb.v1.RouteTable/UpdateNextHops", &Self::UpdateNextHops);
  AddUnary("/planb.v1.RouteTable/GetRoute", &Self::GetRoute);
  AddUnary("/planb.v1.RouteTable/ExplainLookup", &Self::ExplainLookup);
  AddUnary("/planb.v1.RouteTable/GetTable", &Self::GetTable);
  AddUnary("/planb.v1.RouteTable/ListTables", &Self::ListTables);
  AddUnary("/planb.v1.RouteTable/ListReplicas", &Self::ListReplicas);
  AddTraced("/planb.v1.RouteTable/CreateTable", &Self::CreateTable);
  AddTraced("/planb.v1.RouteTable/DeleteTable", &Self::DeleteTable);
  AddUnary("/planb.v1.RouteTable/Reload", &Self::Reload);
  AddList("/planb.v1.RouteTable/ListRoutes", &Self::ListRoutes);
  AddList("/planb.v1.RouteTable/ListNextHops", &Self::ListNextHops);
  AddList("/planb.v1.RouteTable/ExportSnapshot", &Self::ExportSnapshot);
  AddList("/planb.v1.RouteTable/WatchRoutes", &Self::WatchRoutes);
  using grpc::internal::ClientStreamingHandler;
  AddMethod(new RpcServiceMethod(
      "/planb.v1.RouteTable/ReplaceRoutes", RpcMethod::CLIENT_STREAMING,
      new ClientStreamingHandler<Self, Bytes, v1::ReplaceRoutesResponse>(
          std::mem_fn(&Self::ReplaceRoutes), this)));
  AddMethod(new RpcServiceMethod(
      "/planb.v1.RouteTable/ImportSnapshot", RpcMethod::CLIENT_STREAMING,
      new ClientStreamingHandler<Self, Bytes, v1::ReplaceRoutesResponse>(
          std::mem_fn(&Self::ImportSnapshot), this)));
  AddMethod(new RpcServiceMethod(
      "/planb.v1.RouteTable/StreamUpdates", RpcMethod::BIDI_STREAMING,
      new grpc::internal::BidiStreamingHandler<Self, Bytes,
                                               v1::StreamUpdatesResponse>(
          std::mem_fn(&Self::StreamUpdates), this)));
}

grpc::Status TableService::UpdateRoutes(
    grpc::ServerContext& call, Received<v1::UpdateRoutesRequest>& request,
    v1::UpdateRoutesResponse& response) {
  TableRef table;
  UpdateOutcome outcome;
  const absl::Status status =
      LoggedUpdate(context_, "UpdateRoutes", call, request, table, outcome);
  if (!status.ok()) return ToGrpc(status);
  FillOutcome(outcome, *table, response);
  FillCounts(outcome, response);
  response.set_digest(outcome.digest);
  response.set_visible_unix_nanos(
      UnixNanos(table->PublishedAt(outcome.generation)));
  return grpc::Status::OK;
}

grpc::Status TableService::UpdateNextHops(
    grpc::ServerContext& call, Received<v1::UpdateNextHopsRequest>& request,
    v1::UpdateNextHopsResponse& response) {
  TableRef table;
  UpdateOutcome outcome;
  const absl::Status status =
      LoggedUpdate(context_, "UpdateNextHops", call, request, table, outcome);
  if (!status.ok()) return ToGrpc(status);
  FillOutcome(outcome, *table, response);
  response.set_added(outcome.counts.next_hops_added);
  response.set_changed(outcome.counts.next_hops_changed);
  response.set_removed(outcome.counts.next_hops_removed);
  return grpc::Status::OK;
}

grpc::Status TableService::GetRoute(const v1::GetRouteRequest& request,
                                    v1::Route& response) {
  const absl::StatusOr<TableRef> table = context_.tables.Find(request.table());
  if (!table.ok()) return ToGrpc(table.status());
  const absl::StatusOr<Prefix> prefix = FromProto(request.prefix());
  if (!prefix.ok()) {
    return ToGrpc(FieldError(absl::StatusCode::kInvalidArgument,
                             "PREFIX_INVALID", "prefix",
                             prefix.status().message()));
  }
  const NextHopId next_hop =
      (*table)->Read()->routes().of(prefix->family()).Find(*prefix);
  if (next_hop == kNoRoute) {
    return ToGrpc(
        FieldError(absl::StatusCode::kNotFound, "ROUTE_NOT_FOUND", "prefix",
                   absl::StrCat(prefix->ToString(), " has no route")));
  }
  ToProto(Route{*prefix, next_hop}, response);
  return grpc::Status::OK;
}

grpc::Status TableService::ExplainLookup(
    const v1::ExplainLookupRequest& request,
    v1::ExplainLookupResponse& response) {
  const absl::StatusOr<TableRef> table = context_.tables.Find(request.table());
  if (!table.ok()) return ToGrpc(table.status());
  return ToGrpc(Explain(*(*table)->Read(), context_.kernel, request, response));
}

void TableService::Describe(const Table& table, v1::Table& out) const {
  out = table.state();
  const absl::string_view kernel = KernelName(context_.kernel);
  out.set_kernel(kernel.data(), kernel.size());
  for (const Kernel* available : AvailableKernels()) {
    const absl::string_view name = KernelName(*available);
    out.add_available_kernels(name.data(), name.size());
  }
}

grpc::Status TableService::GetTable(const v1::GetTableRequest& request,
                                    v1::Table& response) {
  const absl::StatusOr<TableRef> table = context_.tables.Find(request.table());
  if (!table.ok()) return ToGrpc(table.status());
  Describe(**table, response);
  return grpc::Status::OK;
}

grpc::Status TableService::ListTables(const v1::ListTablesRequest&,
                                      v1::ListTablesResponse& response) {
  response = Tables();
  return grpc::Status::OK;
}

v1::ListTablesResponse TableService::Tables() const {
  v1::ListTablesResponse tables;
  for (const TableRef& table : context_.tables.All()) {
    Describe(*table, *tables.add_tables());
  }
  return tables;
}

grpc::Status TableService::ListReplicas(const v1::ListReplicasRequest&,
                                        v1::ListReplicasResponse& response) {
  const auto replicas = context_.tables.Replicas();
  if (!replicas.ok()) return ToGrpc(replicas.status());
  for (const StoreReplica& replica : *replicas) {
    v1::Replica& out = *response.add_replicas();
    out.set_name(replica.name);
    out.set_version(replica.version);
    out.set_self(replica.self);
    out.set_reported_unix_nanos(UnixNanos(replica.reported));
    for (const auto& [name, table] : replica.visible) {
      v1::Replica::Visible& visible = *out.add_tables();
      visible.set_table(name);
      visible.set_generation(table.generation);
    }
  }
  return grpc::Status::OK;
}

absl::Status TableService::CreateTable(const v1::CreateTableRequest& request,
                                       v1::Table& response) {
  const absl::StatusOr<TableRef> table = context_.tables.Create(
      request.table(), {.prefix_lengths = request.prefix_lengths()});
  if (!table.ok()) return table.status();
  Describe(**table, response);
  return absl::OkStatus();
}

absl::Status TableService::DeleteTable(const v1::DeleteTableRequest& request,
                                       v1::DeleteTableResponse&) {
  return context_.tables.Delete(request.table());
}

grpc::Status TableService::Reload(const v1::ReloadRequest&,
                                  v1::ReloadResponse& response) {
  if (context_.reload == nullptr) {
    return ToGrpc(Error(absl::StatusCode::kFailedPrecondition, "NOT_RELOADABLE",
                        "this server reads no files again"));
  }
  const auto need_restart = context_.reload();
  if (!need_restart.ok()) {
    return ToGrpc(Error(absl::StatusCode::kInvalidArgument, "CONFIG_INVALID",
                        need_restart.status().message()));
  }
  response.mutable_need_restart()->Assign(need_restart->begin(),
                                          need_restart->end());
  return grpc::Status::OK;
}

}  // namespace planb::server
