// SPDX-License-Identifier: Apache-2.0

// The calls that answer at once; fake_table_reads.cc and
// fake_table_writes.cc have the streams.

#include "client/testing/fake_table_service.h"

#include "absl/strings/str_cat.h"
#include "client/convert.h"

namespace planb::client::testing {
namespace {

std::string NameOf(const std::string& table) {
  return table.empty() ? "default" : table;
}

v1::Table DescribeAs(const std::string& name, const FakeTable& table) {
  v1::Table described = table.Describe();
  described.set_name(name);
  return described;
}

v1::Route ToMessage(const Route& route) {
  v1::Route message;
  *message.mutable_prefix() = ToProto(route.prefix);
  message.set_next_hop_id(route.next_hop);
  return message;
}

}  // namespace

grpc::Status FakeServer::TableService::WithTable(
    const std::string& name, absl::FunctionRef<grpc::Status(FakeTable&)> use) {
  absl::MutexLock lock(&fake_.mutex_);
  const auto found = fake_.tables_.find(NameOf(name));
  if (found == fake_.tables_.end()) return NoTable(name);
  return use(found->second);
}

grpc::Status FakeServer::TableService::UpdateRoutes(
    grpc::ServerContext*, const v1::UpdateRoutesRequest* request,
    v1::UpdateRoutesResponse* response) {
  {
    absl::MutexLock lock(&fake_.mutex_);
    if (fake_.failing_updates_ > 0) {
      --fake_.failing_updates_;
      return fake_.update_error_;
    }
    if (fake_.tables_.contains(NameOf(request->table()))) {
      fake_.updates_.push_back(*request);
    }
  }
  return WithTable(request->table(), [&](FakeTable& table) {
    return table.Update(*request, fake_.options_.max_update_routes, *response);
  });
}

grpc::Status FakeServer::TableService::GetRoute(
    grpc::ServerContext*, const v1::GetRouteRequest* request,
    v1::Route* response) {
  return WithTable(request->table(), [&](FakeTable& table) {
    const auto prefix = FromProto(request->prefix());
    if (!prefix.ok()) {
      return MakeError(grpc::StatusCode::INVALID_ARGUMENT, "PREFIX_INVALID",
                       std::string(prefix.status().message()), "prefix");
    }
    const auto found = table.routes().find(*prefix);
    if (found == table.routes().end()) {
      return MakeError(grpc::StatusCode::NOT_FOUND, "ROUTE_NOT_FOUND",
                       absl::StrCat(prefix->ToString(), " has no route"));
    }
    *response = ToMessage({found->first, found->second});
    return grpc::Status::OK;
  });
}

grpc::Status FakeServer::TableService::ExplainLookup(
    grpc::ServerContext*, const v1::ExplainLookupRequest* request,
    v1::ExplainLookupResponse* response) {
  return WithTable(request->table(), [&](FakeTable& table) {
    const auto address = Address::FromPacked(request->address());
    if (!address.ok()) {
      return MakeError(grpc::StatusCode::INVALID_ARGUMENT, "ADDRESS_INVALID",
                       std::string(address.status().message()), "address");
    }
    response->set_generation(table.generation());
    for (int n = AddressBits(address->family()); n >= 0; --n) {
      const auto found = table.routes().find(Prefix::Truncate(*address, n));
      if (found == table.routes().end()) continue;
      *response->add_matches() = ToMessage({found->first, found->second});
    }
    if (response->matches().empty()) return grpc::Status::OK;
    const uint32_t id = response->matches(0).next_hop_id();
    response->set_next_hop_id(id);
    const auto next_hop = table.next_hops().find(id);
    if (next_hop != table.next_hops().end()) {
      *response->mutable_next_hop() = next_hop->second;
    }
    const auto group = table.groups().find(id);
    if (group == table.groups().end()) return grpc::Status::OK;
    *response->mutable_group() = group->second;
    if (request->has_flow_hash()) {
      const auto count = static_cast<uint32_t>(group->second.members_size());
      const auto& member =
          group->second.members(static_cast<int>(request->flow_hash() % count));
      response->set_member_id(member.next_hop_id());
      const auto object = table.next_hops().find(member.next_hop_id());
      if (object != table.next_hops().end()) {
        *response->mutable_member() = object->second;
      }
    }
    return grpc::Status::OK;
  });
}

grpc::Status FakeServer::TableService::GetTable(
    grpc::ServerContext*, const v1::GetTableRequest* request,
    v1::Table* response) {
  return WithTable(request->table(), [&](FakeTable& table) {
    *response = DescribeAs(NameOf(request->table()), table);
    return grpc::Status::OK;
  });
}

grpc::Status FakeServer::TableService::ListTables(
    grpc::ServerContext*, const v1::ListTablesRequest*,
    v1::ListTablesResponse* response) {
  absl::MutexLock lock(&fake_.mutex_);
  for (const auto& [name, table] : fake_.tables_) {
    *response->add_tables() = DescribeAs(name, table);
  }
  return grpc::Status::OK;
}

grpc::Status FakeServer::TableService::CreateTable(
    grpc::ServerContext*, const v1::CreateTableRequest* request,
    v1::Table* response) {
  absl::MutexLock lock(&fake_.mutex_);
  const auto [at, created] = fake_.tables_.try_emplace(
      request->table(), FakeTable({}, fake_.options_.durable));
  if (!created) {
    return MakeError(grpc::StatusCode::ALREADY_EXISTS, "TABLE_EXISTS",
                     absl::StrCat("table \"", request->table(), "\" exists"));
  }
  *response = DescribeAs(at->first, at->second);
  return grpc::Status::OK;
}

grpc::Status FakeServer::TableService::DeleteTable(
    grpc::ServerContext*, const v1::DeleteTableRequest* request,
    v1::DeleteTableResponse*) {
  if (NameOf(request->table()) == "default") {
    return MakeError(grpc::StatusCode::FAILED_PRECONDITION, "TABLE_PERMANENT",
                     "the default table stays");
  }
  absl::MutexLock lock(&fake_.mutex_);
  return fake_.tables_.erase(request->table()) == 1 ? grpc::Status::OK
                                                    : NoTable(request->table());
}

grpc::Status FakeServer::TableService::UpdateNextHops(
    grpc::ServerContext*, const v1::UpdateNextHopsRequest* request,
    v1::UpdateNextHopsResponse* response) {
  return WithTable(request->table(), [&](FakeTable& table) {
    return table.UpdateNextHops(*request, *response);
  });
}

}  // namespace planb::client::testing
