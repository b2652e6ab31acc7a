#include "server/table_service.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/convert.h"
#include "server/error.h"
#include "server/list_stream.h"

namespace planb::server {
namespace {

// Routes in one ListRoutes message: at most about 30 octets each, 64 KiB.
constexpr size_t kRoutesPerChunk = 2000;
constexpr size_t kNextHopsPerChunk = 128;

grpc::ServerUnaryReactor* Finished(grpc::CallbackServerContext* call,
                                   const absl::Status& status) {
  grpc::ServerUnaryReactor* const reactor = call->DefaultReactor();
  reactor->Finish(ToGrpc(status));
  return reactor;
}

void FillResponse(const UpdateOutcome& outcome, Table& table,
                  v1::UpdateRoutesResponse& response) {
  response.set_generation(outcome.generation);
  response.set_added(outcome.counts.added);
  response.set_changed(outcome.counts.changed);
  response.set_removed(outcome.counts.removed);
  response.set_unchanged(outcome.counts.unchanged);
  response.set_digest(outcome.digest);
  response.set_accepted_unix_nanos(
      static_cast<uint64_t>(absl::ToUnixNanos(outcome.accepted)));
  const uint64_t visible = table.Read()->generation();
  response.set_visible_generation(visible);
  if (visible >= outcome.generation) {
    response.set_visible_unix_nanos(
        static_cast<uint64_t>(absl::GetCurrentTimeNanos()));
  }
}

absl::StatusOr<Prefix> RequiredPrefix(const v1::Prefix& prefix) {
  absl::StatusOr<Prefix> decoded = DecodePrefix(prefix);
  if (decoded.ok()) return decoded;
  return FieldError(absl::StatusCode::kInvalidArgument, "PREFIX_INVALID",
                    "prefix", decoded.status().message());
}

// A list pins the routes it shows, so there must not be many.
grpc::Status TooManyLists(size_t limit) {
  return ToGrpc(QuotaError("TOO_MANY_STREAMS", "lists",
                           absl::StrCat("the limit is ", limit),
                           absl::Seconds(1)));
}

// What ListRoutes selects.
struct RouteFilter {
  v1::ListRoutesRequest::Match match;
  Prefix prefix;
  NextHopId next_hop;

  bool Selects(const Route& route) const {
    if (next_hop != kNoRoute && route.next_hop != next_hop) return false;
    switch (match) {
      case v1::ListRoutesRequest::MATCH_EXACT:
        return route.prefix == prefix;
      case v1::ListRoutesRequest::MATCH_COVERING:
        return route.prefix.Covers(prefix);
      case v1::ListRoutesRequest::MATCH_SUBTREE:
        return prefix.Covers(route.prefix);
      default:
        return true;
    }
  }
};

absl::StatusOr<RouteFilter> DecodeFilter(const v1::ListRoutesRequest& request) {
  RouteFilter filter = {request.match(), Prefix(), request.next_hop_id()};
  if (!v1::ListRoutesRequest::Match_IsValid(request.match())) {
    return FieldError(absl::StatusCode::kInvalidArgument, "MATCH_INVALID",
                      "match", "is none of the defined values");
  }
  if (request.match() != v1::ListRoutesRequest::MATCH_UNSPECIFIED) {
    const absl::StatusOr<Prefix> prefix = RequiredPrefix(request.prefix());
    if (!prefix.ok()) return prefix.status();
    filter.prefix = *prefix;
  }
  return filter;
}

}  // namespace

grpc::ServerUnaryReactor* TableService::Post(
    grpc::CallbackServerContext* call, size_t weight,
    std::function<void(grpc::ServerUnaryReactor*)> job) {
  grpc::ServerUnaryReactor* const reactor = call->DefaultReactor();
  if (!worker_.Post(weight,
                    [reactor, job = std::move(job)] { job(reactor); })) {
    reactor->Finish(ToGrpc(QuotaError("TOO_MANY_PENDING", "pending requests",
                                      "too many changes wait for their turn",
                                      absl::Milliseconds(100))));
  }
  return reactor;
}

grpc::ServerUnaryReactor* TableService::UpdateRoutes(
    grpc::CallbackServerContext* call, const v1::UpdateRoutesRequest* request,
    v1::UpdateRoutesResponse* response) {
  const auto weight = static_cast<size_t>(request->updates_size()) +
                      static_cast<size_t>(request->next_hops_size()) + 1;
  return Post(call, weight, [=, this](grpc::ServerUnaryReactor* reactor) {
    Update(*call, *request, *response, reactor);
  });
}

void TableService::Update(const grpc::CallbackServerContext& call,
                          const v1::UpdateRoutesRequest& request,
                          v1::UpdateRoutesResponse& response,
                          grpc::ServerUnaryReactor* reactor) {
  const auto refuse = [&](const absl::Status& status) {
    metrics_.Updated("refused");
    reactor->Finish(ToGrpc(status));
  };
  const absl::StatusOr<Table*> table = tables_.Find(request.table());
  if (!table.ok()) return refuse(table.status());
  if (!v1::Ack_IsValid(request.ack())) {
    return refuse(FieldError(absl::StatusCode::kInvalidArgument, "ACK_INVALID",
                             "ack", "is none of the defined values"));
  }
  if (request.ack() == v1::ACK_PERSISTED) {
    return refuse(FieldError(absl::StatusCode::kFailedPrecondition,
                             "STORE_VOLATILE", "ack",
                             "this server keeps its tables in memory only"));
  }
  const absl::StatusOr<UpdateBatch> batch =
      DecodeUpdate(request, max_update_routes_);
  if (!batch.ok()) return refuse(batch.status());
  const absl::StatusOr<UpdateOutcome> outcome = (*table)->Apply(*batch);
  if (!outcome.ok()) return refuse(outcome.status());
  metrics_.Updated(batch->validate_only    ? "validated"
                   : outcome->counts.Any() ? "accepted"
                                           : "unchanged");

  const auto answer = [reactor, &response, table = *table,
                       outcome = *outcome](const absl::Status& status) {
    FillResponse(outcome, *table, response);
    reactor->Finish(ToGrpc(status));
  };
  if (batch->validate_only || request.ack() == v1::ACK_ACCEPTED) {
    return answer(absl::OkStatus());
  }
  (*table)->WhenAcknowledged(outcome->generation,
                             absl::FromChrono(call.deadline()), answer);
}

grpc::ServerUnaryReactor* TableService::GetRoute(
    grpc::CallbackServerContext* call, const v1::GetRouteRequest* request,
    v1::Route* response) {
  const absl::StatusOr<Table*> table = tables_.Find(request->table());
  if (!table.ok()) return Finished(call, table.status());
  const absl::StatusOr<Prefix> prefix = RequiredPrefix(request->prefix());
  if (!prefix.ok()) return Finished(call, prefix.status());
  const auto routes = (*table)->Read()->routes();
  const auto it = std::lower_bound(
      routes->begin(), routes->end(), *prefix,
      [](const Route& r, const Prefix& wanted) { return r.prefix < wanted; });
  if (it == routes->end() || it->prefix != *prefix) {
    return Finished(
        call,
        FieldError(absl::StatusCode::kNotFound, "ROUTE_NOT_FOUND", "prefix",
                   absl::StrCat(prefix->ToString(), " has no route")));
  }
  Encode(*it, *response);
  return Finished(call, absl::OkStatus());
}

void TableService::Describe(v1::Table& out) {
  out.set_name(Tables::kDefault);
  Encode(tables_.default_table().state(), out);
  const absl::string_view kernel = KernelName(kernel_);
  out.set_kernel(kernel.data(), kernel.size());
  for (const Kernel* available : AvailableKernels()) {
    const absl::string_view name = KernelName(*available);
    out.add_available_kernels(name.data(), name.size());
  }
}

grpc::ServerUnaryReactor* TableService::GetTable(
    grpc::CallbackServerContext* call, const v1::GetTableRequest* request,
    v1::Table* response) {
  const absl::StatusOr<Table*> table = tables_.Find(request->table());
  if (!table.ok()) return Finished(call, table.status());
  return Post(call, 1, [this, response](grpc::ServerUnaryReactor* reactor) {
    Describe(*response);
    reactor->Finish(grpc::Status::OK);
  });
}

grpc::ServerUnaryReactor* TableService::ListTables(
    grpc::CallbackServerContext* call, const v1::ListTablesRequest*,
    v1::ListTablesResponse* response) {
  return Post(call, 1, [this, response](grpc::ServerUnaryReactor* reactor) {
    Describe(*response->add_tables());
    reactor->Finish(grpc::Status::OK);
  });
}

grpc::ServerWriteReactor<v1::ListRoutesResponse>* TableService::ListRoutes(
    grpc::CallbackServerContext*, const v1::ListRoutesRequest* request) {
  using Chunk = v1::ListRoutesResponse;
  const absl::StatusOr<Table*> table = tables_.Find(request->table());
  if (!table.ok()) return new RefusedStream<Chunk>(ToGrpc(table.status()));
  const absl::StatusOr<RouteFilter> filter = DecodeFilter(*request);
  if (!filter.ok()) return new RefusedStream<Chunk>(ToGrpc(filter.status()));
  if (!in_flight_.TryBegin(max_lists_)) {
    return new RefusedStream<Chunk>(TooManyLists(max_lists_));
  }
  const auto snapshot = (*table)->Read();
  return new ListStream<Chunk>(
      in_flight_, [filter = *filter, routes = snapshot->routes(),
                   at = size_t{0}, generation = snapshot->generation(),
                   first = true](Chunk& chunk) mutable {
        chunk.set_generation(generation);
        for (; at < routes->size() &&
               static_cast<size_t>(chunk.routes_size()) < kRoutesPerChunk;
             ++at) {
          const Route& route = (*routes)[at];
          if (filter.Selects(route)) Encode(route, *chunk.add_routes());
        }
        // Even an empty answer says which generation it speaks of.
        return std::exchange(first, false) || chunk.routes_size() > 0;
      });
}

grpc::ServerWriteReactor<v1::ListNextHopsResponse>* TableService::ListNextHops(
    grpc::CallbackServerContext*, const v1::ListNextHopsRequest* request) {
  using Chunk = v1::ListNextHopsResponse;
  const absl::StatusOr<Table*> table = tables_.Find(request->table());
  if (!table.ok()) return new RefusedStream<Chunk>(ToGrpc(table.status()));
  const auto snapshot = (*table)->Read();
  const auto next_hops = snapshot->next_hops();
  return new ListStream<Chunk>(
      in_flight_,
      [next_hops, it = next_hops->begin(), generation = snapshot->generation(),
       first = true](Chunk& chunk) mutable {
        chunk.set_generation(generation);
        for (; it != next_hops->end() &&
               static_cast<size_t>(chunk.next_hops_size()) < kNextHopsPerChunk;
             ++it) {
          Encode(it->second, *chunk.add_next_hops());
        }
        return std::exchange(first, false) || chunk.next_hops_size() > 0;
      });
}

}  // namespace planb::server
