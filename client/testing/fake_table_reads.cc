// SPDX-License-Identifier: Apache-2.0

// The calls of the fake server's RouteTable that answer with a stream.

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/convert.h"
#include "client/testing/fake_table_service.h"

namespace planb::client::testing {
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
    // Each update in a message of its own, then all else.
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

}  // namespace planb::client::testing
