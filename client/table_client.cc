// SPDX-License-Identifier: Apache-2.0

#include "client/table_client.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "client/call.h"

namespace planb::client {
namespace {

using Stub = v1::RouteTable::Stub;

absl::StatusOr<Route> ReadRoute(const v1::Route& message) {
  absl::StatusOr<Route> route = FromProto(message);
  if (route.ok()) return route;
  return BrokenContract(
      absl::StrCat("a malformed route: ", route.status().message()));
}

// Checks that all chunks of a list have one generation, and stores it in
// `list`.
absl::Status CheckGeneration(uint64_t chunk, std::optional<uint64_t>& list) {
  if (list.value_or(chunk) != chunk) {
    return BrokenContract("the generation changed in a list");
  }
  list = chunk;
  return absl::OkStatus();
}

}  // namespace

TableClient::TableClient(const std::shared_ptr<grpc::Channel>& channel)
    : stub_(v1::RouteTable::NewStub(channel)) {}

absl::StatusOr<v1::UpdateRoutesResponse> TableClient::UpdateRoutes(
    const v1::UpdateRoutesRequest& request, Deadline deadline) const {
  return CallUnary(*stub_, &Stub::UpdateRoutes, request, deadline);
}

absl::StatusOr<v1::Table> TableClient::GetTable(const std::string& table,
                                                Deadline deadline) const {
  v1::GetTableRequest request;
  request.set_table(table);
  return CallUnary(*stub_, &Stub::GetTable, request, deadline);
}

absl::StatusOr<uint64_t> TableClient::ListRoutes(
    const v1::ListRoutesRequest& request,
    absl::FunctionRef<absl::Status(const Route&)> on_route,
    Deadline deadline) const {
  std::optional<uint64_t> generation;
  const auto read = [&](const v1::ListRoutesResponse& chunk) {
    absl::Status status = CheckGeneration(chunk.generation(), generation);
    for (int i = 0; status.ok() && i < chunk.routes_size(); ++i) {
      const auto route = ReadRoute(chunk.routes(i));
      status = route.ok() ? on_route(*route) : route.status();
    }
    return status;
  };
  absl::Status status =
      CallServerStream(*stub_, &Stub::ListRoutes, request, deadline, read);
  if (!status.ok()) return status;
  return generation.value_or(0);
}

absl::StatusOr<NextHopList> TableClient::ListNextHops(
    const std::string& table, Deadline deadline, size_t max_objects) const {
  v1::ListNextHopsRequest request;
  request.set_table(table);
  NextHopList list;
  std::optional<uint64_t> generation;
  const auto read = [&](const v1::ListNextHopsResponse& chunk) {
    for (const v1::NextHop& message : chunk.next_hops()) {
      const auto next_hop = FromProto(message);
      if (!next_hop.ok()) {
        return BrokenContract(absl::StrCat("a malformed next hop: ",
                                           next_hop.status().message()));
      }
      list.next_hops.push_back(*next_hop);
    }
    for (const v1::NextHopGroup& message : chunk.groups()) {
      const auto group = FromProto(message);
      if (!group.ok()) {
        return BrokenContract(
            absl::StrCat("a malformed group: ", group.status().message()));
      }
      list.groups.push_back(*group);
    }
    if (list.next_hops.size() + list.groups.size() > max_objects) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the table has more than ", max_objects, " next hops and groups"));
    }
    return CheckGeneration(chunk.generation(), generation);
  };
  absl::Status status =
      CallServerStream(*stub_, &Stub::ListNextHops, request, deadline, read);
  if (!status.ok()) return status;
  list.generation = generation.value_or(0);
  return list;
}

absl::StatusOr<v1::UpdateNextHopsResponse> TableClient::UpdateNextHops(
    const v1::UpdateNextHopsRequest& request, Deadline deadline) const {
  return CallUnary(*stub_, &Stub::UpdateNextHops, request, deadline);
}

absl::StatusOr<Route> TableClient::GetRoute(const std::string& table,
                                            const Prefix& prefix,
                                            Deadline deadline) const {
  v1::GetRouteRequest request;
  request.set_table(table);
  *request.mutable_prefix() = ToProto(prefix);
  const auto route = CallUnary(*stub_, &Stub::GetRoute, request, deadline);
  if (!route.ok()) return route.status();
  return ReadRoute(*route);
}

absl::StatusOr<v1::ExplainLookupResponse> TableClient::ExplainLookup(
    const v1::ExplainLookupRequest& request, Deadline deadline) const {
  return CallUnary(*stub_, &Stub::ExplainLookup, request, deadline);
}

absl::StatusOr<std::vector<v1::Table>> TableClient::ListTables(
    Deadline deadline) const {
  const auto response =
      CallUnary(*stub_, &Stub::ListTables, v1::ListTablesRequest(), deadline);
  if (!response.ok()) return response.status();
  return std::vector<v1::Table>(response->tables().begin(),
                                response->tables().end());
}

absl::StatusOr<std::vector<v1::Replica>> TableClient::ListReplicas(
    Deadline deadline) const {
  const auto response = CallUnary(*stub_, &Stub::ListReplicas,
                                  v1::ListReplicasRequest(), deadline);
  if (!response.ok()) return response.status();
  return std::vector<v1::Replica>(response->replicas().begin(),
                                  response->replicas().end());
}

absl::StatusOr<v1::Table> TableClient::CreateTable(const std::string& table,
                                                   Deadline deadline) const {
  v1::CreateTableRequest request;
  request.set_table(table);
  return CreateTable(request, deadline);
}

absl::StatusOr<v1::Table> TableClient::CreateTable(
    const v1::CreateTableRequest& request, Deadline deadline) const {
  return CallUnary(*stub_, &Stub::CreateTable, request, deadline);
}

absl::Status TableClient::DeleteTable(const std::string& table,
                                      Deadline deadline) const {
  v1::DeleteTableRequest request;
  request.set_table(table);
  return CallUnary(*stub_, &Stub::DeleteTable, request, deadline).status();
}

absl::StatusOr<v1::ReloadResponse> TableClient::Reload(
    Deadline deadline) const {
  return CallUnary(*stub_, &Stub::Reload, v1::ReloadRequest(), deadline);
}

}  // namespace planb::client
