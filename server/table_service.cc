#include "server/table_service.h"

#include <algorithm>
#include <future>
#include <memory>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "server/convert.h"
#include "server/error.h"

namespace planb::server {
namespace {

// Routes in one ListRoutes message: at most about 30 octets each, 64 KiB.
constexpr size_t kRoutesPerChunk = 2000;
constexpr size_t kNextHopsPerChunk = 128;

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
absl::Status TooManyLists(size_t limit) {
  return QuotaError("TOO_MANY_STREAMS", "lists",
                    absl::StrCat("the limit is ", limit), absl::Seconds(1));
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

grpc::Status TableService::UpdateRoutes(grpc::ServerContext* call,
                                        const v1::UpdateRoutesRequest* request,
                                        v1::UpdateRoutesResponse* response) {
  const auto outcome = Update(*request);
  if (!outcome.ok()) {
    metrics_.Updated("refused");
    return ToGrpc(outcome.status());
  }
  metrics_.Updated(request->validate_only() ? "validated"
                   : outcome->counts.Any()  ? "accepted"
                                            : "unchanged");
  Table& table = **tables_.Find(request->table());
  absl::Status status;
  if (!request->validate_only() && request->ack() != v1::ACK_ACCEPTED) {
    status = AwaitVisible(*call, table, outcome->generation);
  }
  FillResponse(*outcome, table, *response);
  return ToGrpc(status);
}

absl::StatusOr<UpdateOutcome> TableService::Update(
    const v1::UpdateRoutesRequest& request) {
  const absl::StatusOr<Table*> table = tables_.Find(request.table());
  if (!table.ok()) return table.status();
  if (!v1::Ack_IsValid(request.ack())) {
    return FieldError(absl::StatusCode::kInvalidArgument, "ACK_INVALID", "ack",
                      "is none of the defined values");
  }
  if (request.ack() == v1::ACK_PERSISTED) {
    return FieldError(absl::StatusCode::kFailedPrecondition, "STORE_VOLATILE",
                      "ack", "this server keeps its tables in memory only");
  }
  const auto share =
      update_limit_.Take(static_cast<size_t>(request.updates_size()) +
                         static_cast<size_t>(request.next_hops_size()) + 1);
  if (!share.granted()) {
    return QuotaError("TOO_MANY_PENDING", "pending requests",
                      "too many changes wait for their turn",
                      absl::Milliseconds(100));
  }
  const absl::StatusOr<UpdateBatch> batch =
      DecodeUpdate(request, max_update_routes_);
  if (!batch.ok()) return batch.status();
  return (*table)->Apply(*batch);
}

absl::Status TableService::AwaitVisible(const grpc::ServerContext& call,
                                        Table& table, uint64_t generation) {
  // Shared: the callback may still be on its way out when the wait is over.
  const auto visible = std::make_shared<std::promise<absl::Status>>();
  table.WhenAcknowledged(
      generation, absl::FromChrono(call.deadline()),
      [visible](const absl::Status& status) { visible->set_value(status); });
  return visible->get_future().get();
}

grpc::Status TableService::GetRoute(grpc::ServerContext*,
                                    const v1::GetRouteRequest* request,
                                    v1::Route* response) {
  const absl::StatusOr<Table*> table = tables_.Find(request->table());
  if (!table.ok()) return ToGrpc(table.status());
  const absl::StatusOr<Prefix> prefix = RequiredPrefix(request->prefix());
  if (!prefix.ok()) return ToGrpc(prefix.status());
  const auto routes = (*table)->Read()->routes();
  const auto it = std::lower_bound(
      routes->begin(), routes->end(), *prefix,
      [](const Route& r, const Prefix& wanted) { return r.prefix < wanted; });
  if (it == routes->end() || it->prefix != *prefix) {
    return ToGrpc(
        FieldError(absl::StatusCode::kNotFound, "ROUTE_NOT_FOUND", "prefix",
                   absl::StrCat(prefix->ToString(), " has no route")));
  }
  Encode(*it, *response);
  return grpc::Status::OK;
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

grpc::Status TableService::GetTable(grpc::ServerContext*,
                                    const v1::GetTableRequest* request,
                                    v1::Table* response) {
  const absl::StatusOr<Table*> table = tables_.Find(request->table());
  if (!table.ok()) return ToGrpc(table.status());
  Describe(*response);
  return grpc::Status::OK;
}

grpc::Status TableService::ListTables(grpc::ServerContext*,
                                      const v1::ListTablesRequest*,
                                      v1::ListTablesResponse* response) {
  Describe(*response->add_tables());
  return grpc::Status::OK;
}

template <typename Chunk, typename Next>
grpc::Status TableService::Send(grpc::ServerWriter<Chunk>& out, Next next) {
  if (!in_flight_.TryBegin(max_lists_)) {
    return ToGrpc(TooManyLists(max_lists_));
  }
  const absl::Cleanup end = [this] { in_flight_.End(); };
  Chunk chunk;
  // Even an empty answer says which generation it speaks of.
  for (bool first = true; next(chunk) || first; first = false) {
    if (!out.Write(chunk)) return grpc::Status::CANCELLED;
    chunk.Clear();
  }
  return grpc::Status::OK;
}

grpc::Status TableService::ListRoutes(
    grpc::ServerContext*, const v1::ListRoutesRequest* request,
    grpc::ServerWriter<v1::ListRoutesResponse>* out) {
  const absl::StatusOr<Table*> table = tables_.Find(request->table());
  if (!table.ok()) return ToGrpc(table.status());
  const absl::StatusOr<RouteFilter> filter = DecodeFilter(*request);
  if (!filter.ok()) return ToGrpc(filter.status());
  const auto [routes, generation] = [&] {
    const auto snapshot = (*table)->Read();
    return std::pair(snapshot->routes(), snapshot->generation());
  }();
  auto it = routes->begin();
  return Send(*out, [&, &all = routes,
                     number = generation](v1::ListRoutesResponse& chunk) {
    chunk.set_generation(number);
    for (; it != all->end() &&
           static_cast<size_t>(chunk.routes_size()) < kRoutesPerChunk;
         ++it) {
      if (filter->Selects(*it)) Encode(*it, *chunk.add_routes());
    }
    return chunk.routes_size() > 0;
  });
}

grpc::Status TableService::ListNextHops(
    grpc::ServerContext*, const v1::ListNextHopsRequest* request,
    grpc::ServerWriter<v1::ListNextHopsResponse>* out) {
  const absl::StatusOr<Table*> table = tables_.Find(request->table());
  if (!table.ok()) return ToGrpc(table.status());
  const auto [next_hops, generation] = [&] {
    const auto snapshot = (*table)->Read();
    return std::pair(snapshot->next_hops(), snapshot->generation());
  }();
  auto it = next_hops->begin();
  return Send(*out, [&, &all = next_hops,
                     number = generation](v1::ListNextHopsResponse& chunk) {
    chunk.set_generation(number);
    for (; it != all->end() &&
           static_cast<size_t>(chunk.next_hops_size()) < kNextHopsPerChunk;
         ++it) {
      Encode(it->second, *chunk.add_next_hops());
    }
    return chunk.next_hops_size() > 0;
  });
}

}  // namespace planb::server
