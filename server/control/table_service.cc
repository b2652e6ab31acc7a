// SPDX-License-Identifier: Apache-2.0

#include "server/control/table_service.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/control/decode_update.h"
#include "server/table/convert.h"

namespace planb::server {
namespace {

// Decodes and applies one unary update. `outcome` is valid once the update is
// accepted, even if the wait for visibility then fails.
template <typename Request>
absl::Status Update(ControlContext& context, const grpc::ServerContext& call,
                    const Request& request, size_t entries, TableRef& table,
                    UpdateOutcome& outcome) {
  const auto refuse = [&](absl::Status why) {
    context.metrics.Updated("refused");
    context.metrics.Operated(RefusedOperations(request));
    return why;
  };
  const absl::StatusOr<TableRef> found = context.tables.Find(request.table());
  if (!found.ok()) return refuse(found.status());
  table = *found;
  const absl::Status ack = CheckAck(request.ack(), *table);
  if (!ack.ok()) return refuse(ack);
  const auto share = context.update_limit.Take(entries + 1);
  if (!share.granted()) {
    return refuse(QuotaError("TOO_MANY_PENDING", "pending requests",
                             "too many changes wait for their turn",
                             absl::Milliseconds(100)));
  }
  absl::StatusOr<UpdateBatch> batch =
      DecodeUpdate(request, context.limits.max_update_routes);
  if (!batch.ok()) return refuse(batch.status());
  return ApplyAndAwait(context, call, request.ack(), *table, *std::move(batch),
                       outcome);
}

// Calls Update and logs the result.
template <typename Request>
absl::Status LoggedUpdate(ControlContext& context, absl::string_view method,
                          const grpc::ServerContext& call,
                          const Request& request, size_t entries,
                          TableRef& table, UpdateOutcome& outcome) {
  const absl::Status status =
      Update(context, call, request, entries, table, outcome);
  const UpdateName update = {method, request.table(), request.request_id()};
  if (status.ok()) {
    context.update_log.Accepted(update, outcome.generation);
  } else {
    context.update_log.Refused(update, call, status);
  }
  return status;
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
  const RouteSet& routes = *snapshot.routes(address->family());
  for (std::optional<Route> match = routes.Match(*address); match.has_value();
       match = routes.Cover(match->prefix)) {
    Encode(*match, *response.add_matches());
  }
  // From the FIB, not from the list: a difference between them would show here.
  const NextHopId id = snapshot.fib(address->family()).Lookup(*address, kernel);
  response.set_next_hop_id(id);
  const NextHopSet& next_hops = snapshot.next_hops();
  if (const NextHop* const next_hop = next_hops.Find(id)) {
    Encode(*next_hop, *response.mutable_next_hop());
  }
  const NextHopGroup* const group = next_hops.FindGroup(id);
  if (group == nullptr) return absl::OkStatus();
  Encode(*group, *response.mutable_group());
  if (!request.has_flow_hash()) return absl::OkStatus();
  const NextHopId member = snapshot.groups().Choose(id, request.flow_hash());
  response.set_member_id(member);
  if (const NextHop* const next_hop = next_hops.Find(member)) {
    Encode(*next_hop, *response.mutable_member());
  }
  return absl::OkStatus();
}

}  // namespace

grpc::Status TableService::UpdateRoutes(grpc::ServerContext* call,
                                        const v1::UpdateRoutesRequest* request,
                                        v1::UpdateRoutesResponse* response) {
  TableRef table;
  UpdateOutcome outcome;
  const size_t entries = static_cast<size_t>(request->updates_size()) +
                         static_cast<size_t>(request->next_hops_size()) +
                         static_cast<size_t>(request->groups_size());
  const absl::Status status = LoggedUpdate(context_, "UpdateRoutes", *call,
                                           *request, entries, table, outcome);
  if (!status.ok()) return ToGrpc(status);
  FillOutcome(outcome, *table, *response);
  FillCounts(outcome, *response);
  response->set_digest(outcome.digest);
  response->set_visible_unix_nanos(
      UnixNanos(table->PublishedAt(outcome.generation)));
  return grpc::Status::OK;
}

grpc::Status TableService::UpdateNextHops(
    grpc::ServerContext* call, const v1::UpdateNextHopsRequest* request,
    v1::UpdateNextHopsResponse* response) {
  TableRef table;
  UpdateOutcome outcome;
  const size_t entries = static_cast<size_t>(request->upserts_size()) +
                         static_cast<size_t>(request->group_upserts_size());
  const absl::Status status = LoggedUpdate(context_, "UpdateNextHops", *call,
                                           *request, entries, table, outcome);
  if (!status.ok()) return ToGrpc(status);
  FillOutcome(outcome, *table, *response);
  response->set_added(outcome.counts.next_hops_added);
  response->set_changed(outcome.counts.next_hops_changed);
  response->set_removed(outcome.counts.next_hops_removed);
  return grpc::Status::OK;
}

grpc::Status TableService::GetRoute(grpc::ServerContext*,
                                    const v1::GetRouteRequest* request,
                                    v1::Route* response) {
  const absl::StatusOr<TableRef> table = context_.tables.Find(request->table());
  if (!table.ok()) return ToGrpc(table.status());
  const absl::StatusOr<Prefix> prefix = DecodePrefix(request->prefix());
  if (!prefix.ok()) {
    return ToGrpc(FieldError(absl::StatusCode::kInvalidArgument,
                             "PREFIX_INVALID", "prefix",
                             prefix.status().message()));
  }
  const NextHopId next_hop =
      (*table)->Read()->routes(prefix->family())->Find(*prefix);
  if (next_hop == kNoRoute) {
    return ToGrpc(
        FieldError(absl::StatusCode::kNotFound, "ROUTE_NOT_FOUND", "prefix",
                   absl::StrCat(prefix->ToString(), " has no route")));
  }
  Encode(Route{*prefix, next_hop}, *response);
  return grpc::Status::OK;
}

grpc::Status TableService::ExplainLookup(
    grpc::ServerContext*, const v1::ExplainLookupRequest* request,
    v1::ExplainLookupResponse* response) {
  const absl::StatusOr<TableRef> table = context_.tables.Find(request->table());
  if (!table.ok()) return ToGrpc(table.status());
  return ToGrpc(
      Explain(*(*table)->Read(), context_.kernel, *request, *response));
}

void TableService::Describe(const Table& table, v1::Table& out) const {
  Encode(table.state(), out);
  const absl::string_view kernel = KernelName(context_.kernel);
  out.set_kernel(kernel.data(), kernel.size());
  for (const Kernel* available : AvailableKernels()) {
    const absl::string_view name = KernelName(*available);
    out.add_available_kernels(name.data(), name.size());
  }
}

grpc::Status TableService::GetTable(grpc::ServerContext*,
                                    const v1::GetTableRequest* request,
                                    v1::Table* response) {
  const absl::StatusOr<TableRef> table = context_.tables.Find(request->table());
  if (!table.ok()) return ToGrpc(table.status());
  Describe(**table, *response);
  return grpc::Status::OK;
}

grpc::Status TableService::ListTables(grpc::ServerContext*,
                                      const v1::ListTablesRequest*,
                                      v1::ListTablesResponse* response) {
  *response = Tables();
  return grpc::Status::OK;
}

v1::ListTablesResponse TableService::Tables() const {
  v1::ListTablesResponse tables;
  for (const TableRef& table : context_.tables.All()) {
    Describe(*table, *tables.add_tables());
  }
  return tables;
}

grpc::Status TableService::CreateTable(grpc::ServerContext*,
                                       const v1::CreateTableRequest* request,
                                       v1::Table* response) {
  const absl::StatusOr<TableRef> table =
      context_.tables.Create(request->table());
  if (!table.ok()) return ToGrpc(table.status());
  Describe(**table, *response);
  return grpc::Status::OK;
}

grpc::Status TableService::DeleteTable(grpc::ServerContext*,
                                       const v1::DeleteTableRequest* request,
                                       v1::DeleteTableResponse*) {
  return ToGrpc(context_.tables.Delete(request->table()));
}

}  // namespace planb::server
