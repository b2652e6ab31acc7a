// SPDX-License-Identifier: Apache-2.0

// The calls with one answer first, then the streams that read, then those that
// change a table.

#include "client/testing/fake_table_service.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/call.h"

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

namespace {

constexpr int kChunk = 3;

bool Selects(const v1::ListRoutesRequest& request, const Route& route) {
  if (request.next_hop_id() != 0 && request.next_hop_id() != route.next_hop) {
    return false;
  }
  const auto wanted = FromProto(request.prefix());
  switch (request.match()) {
    case v1::ListRoutesRequest::MATCH_EXACT:
      return route.prefix == *wanted;
    case v1::ListRoutesRequest::MATCH_COVERING:
      return route.prefix.Covers(*wanted);
    case v1::ListRoutesRequest::MATCH_SUBTREE:
      return wanted->Covers(route.prefix);
    default:
      return true;
  }
}

}  // namespace

grpc::Status FakeServer::TableService::ListRoutes(
    grpc::ServerContext*, const v1::ListRoutesRequest* request,
    grpc::ServerWriter<v1::ListRoutesResponse>* writer) {
  return WithTable(request->table(), [&](FakeTable& table) {
    v1::ListRoutesResponse chunk;
    chunk.set_generation(table.generation());
    for (const auto& [prefix, next_hop] : table.routes()) {
      if (!Selects(*request, {prefix, next_hop})) continue;
      v1::Route* route = chunk.add_routes();
      *route->mutable_prefix() = ToProto(prefix);
      route->set_next_hop_id(next_hop);
      if (chunk.routes_size() < kChunk) continue;
      writer->Write(chunk);
      chunk.clear_routes();
    }
    writer->Write(chunk);
    return grpc::Status::OK;
  });
}

grpc::Status FakeServer::TableService::WatchRoutes(
    grpc::ServerContext* context, const v1::WatchRoutesRequest* request,
    grpc::ServerWriter<v1::WatchRoutesResponse>* writer) {
  ++fake_.streams_opened_;
  const Fate fate = fake_.NextFate();
  uint64_t sent = request->start_generation();
  const auto check = [&](FakeTable& table) {
    if (sent < table.oldest() || sent > table.generation()) {
      return MakeError(
          grpc::StatusCode::OUT_OF_RANGE, "HISTORY_COMPACTED",
          absl::StrCat("the oldest generation is ", table.oldest()));
    }
    return grpc::Status::OK;
  };
  grpc::Status status = WithTable(request->table(), [&](FakeTable& table) {
    const grpc::Status checked = check(table);
    if (!checked.ok()) return checked;
    if (!request->start_digest().empty() &&
        request->start_digest() != table.DigestOf(sent)) {
      return MakeError(grpc::StatusCode::OUT_OF_RANGE, "HISTORY_DIVERGED",
                       "another digest");
    }
    return grpc::Status::OK;
  });
  if (!status.ok()) return status;
  v1::WatchRoutesResponse bookmark;
  bookmark.set_generation(sent);
  writer->Write(bookmark);
  uint64_t messages = 0;
  const auto write = [&](const v1::WatchRoutesResponse& message) {
    if (messages++ == fate.end_after) return false;
    writer->Write(message);
    return true;
  };
  while (!context->IsCancelled()) {
    std::shared_ptr<const v1::WatchRoutesResponse> next;
    status = WithTable(request->table(), [&](FakeTable& table) {
      const grpc::Status checked = check(table);
      if (checked.ok() && sent < table.generation()) {
        next = table.history()[sent - table.oldest()];
      }
      return checked;
    });
    if (!status.ok()) return status;
    if (next == nullptr) {
      absl::SleepFor(absl::Milliseconds(1));
      continue;
    }
    // Each update in its own message, then all other changes.
    v1::WatchRoutesResponse part;
    part.set_generation(next->generation());
    for (const v1::RouteUpdate& update : next->updates()) {
      *part.add_updates() = update;
      if (!write(part)) return fate.status;
      part.clear_updates();
    }
    part = *next;
    part.clear_updates();
    if (!write(part)) return fate.status;
    sent = next->generation();
  }
  return grpc::Status::CANCELLED;
}

grpc::Status FakeServer::TableService::ListNextHops(
    grpc::ServerContext*, const v1::ListNextHopsRequest* request,
    grpc::ServerWriter<v1::ListNextHopsResponse>* writer) {
  return WithTable(request->table(), [&](FakeTable& table) {
    v1::ListNextHopsResponse chunk;
    chunk.set_generation(table.generation());
    for (const auto& [id, next_hop] : table.next_hops()) {
      *chunk.add_next_hops() = next_hop;
      if (chunk.next_hops_size() < kChunk) continue;
      writer->Write(chunk);
      chunk.clear_next_hops();
    }
    for (const auto& [id, group] : table.groups()) *chunk.add_groups() = group;
    writer->Write(chunk);
    return grpc::Status::OK;
  });
}

grpc::Status FakeServer::TableService::ExportSnapshot(
    grpc::ServerContext*, const v1::ExportSnapshotRequest* request,
    grpc::ServerWriter<v1::ExportSnapshotResponse>* writer) {
  v1::ReplaceRoutesRequest contents;
  const grpc::Status status =
      WithTable(request->table(), [&](FakeTable& table) {
        for (const auto& [prefix, next_hop] : table.routes()) {
          v1::Route* route = contents.add_routes();
          *route->mutable_prefix() = ToProto(prefix);
          route->set_next_hop_id(next_hop);
        }
        return grpc::Status::OK;
      });
  if (!status.ok()) return status;
  const std::string file =
      absl::StrCat(kFakeSnapshot, contents.SerializeAsString());
  const Fate fate = fake_.NextFate();
  constexpr size_t kBytes = 16;
  for (size_t at = 0; at < file.size(); at += kBytes) {
    if (at / kBytes == fate.end_after) return fate.status;
    v1::ExportSnapshotResponse chunk;
    chunk.set_data(file.substr(at, kBytes));
    writer->Write(chunk);
  }
  return grpc::Status::OK;
}

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
