// SPDX-License-Identifier: Apache-2.0

// ListRoutes, ListNextHops and ExportSnapshot. Each answer is of one
// generation, however slowly its reader takes it: the generation is pinned, and
// one chunk at a time is in memory.

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "follow/convert.h"
#include "lpm/io/table_file.h"
#include "server/base/error.h"
#include "server/control/table_service.h"

namespace planb::server {
namespace {

// Routes in one message: at most about 30 bytes each, 64 KiB.
constexpr int kRoutesPerChunk = 2000;
// Next hops: at most about 350 bytes each, besides attributes. Groups: 3.5 KiB.
constexpr int kNextHopsPerChunk = 128;
constexpr int kGroupsPerChunk = 16;

// Writes chunks of one generation. An answer has at least one chunk, which says
// the generation.
template <typename Chunk>
class ChunkWriter {
 public:
  ChunkWriter(uint64_t generation, grpc::ServerWriter<Chunk>& out)
      : generation_(generation), out_(out) {}

  Chunk& chunk() { return chunk_; }

  // False if the client is gone.
  bool Write() {
    chunk_.set_generation(generation_);
    const bool written = out_.Write(chunk_);
    chunk_.Clear();
    wrote_ = true;
    return written;
  }

  absl::Status Finish(bool empty) {
    return (empty && wrote_) || Write() ? absl::OkStatus() : ClientGone();
  }

 private:
  const uint64_t generation_;
  grpc::ServerWriter<Chunk>& out_;
  Chunk chunk_;
  bool wrote_ = false;
};

absl::Status CheckMatch(const v1::ListRoutesRequest& request) {
  if (v1::ListRoutesRequest::Match_IsValid(request.match())) {
    return absl::OkStatus();
  }
  return FieldError(absl::StatusCode::kInvalidArgument, "MATCH_INVALID",
                    "match", "is none of the defined values");
}

// Hands the routes that `match` and `prefix` select to `use` in order, until it
// returns false. Returns false if `use` did.
template <typename Use>
bool ForEachSelected(const Pinned& pinned, v1::ListRoutesRequest::Match match,
                     const Prefix& prefix, Use use) {
  const RouteSet& family = pinned.routes.of(prefix.family());
  switch (match) {
    case v1::ListRoutesRequest::MATCH_EXACT: {
      const NextHopId next_hop = family.Find(prefix);
      return next_hop == kNoRoute || use(Route{prefix, next_hop});
    }
    case v1::ListRoutesRequest::MATCH_COVERING: {
      std::vector<Route> covering;  // longest first
      const NextHopId next_hop = family.Find(prefix);
      if (next_hop != kNoRoute) covering.push_back({prefix, next_hop});
      for (std::optional<Route> route = family.Cover(prefix); route.has_value();
           route = family.Cover(route->prefix)) {
        covering.push_back(*route);
      }
      return std::all_of(covering.rbegin(), covering.rend(), use);
    }
    case v1::ListRoutesRequest::MATCH_SUBTREE:
      for (auto it = family.LowerBound(prefix);
           it != family.end() && prefix.Covers((*it).prefix); ++it) {
        if (!use(*it)) return false;
      }
      return true;
    default: {
      const RouteSet& v4 = pinned.routes.of(Family::kIpv4);
      const RouteSet& v6 = pinned.routes.of(Family::kIpv6);
      return std::all_of(v4.begin(), v4.end(), use) &&
             std::all_of(v6.begin(), v6.end(), use);
    }
  }
}

// The three answer one call each. Errors: NOT_FOUND (TABLE_NOT_FOUND),
// RESOURCE_EXHAUSTED (TOO_MANY_STREAMS), CANCELLED; of SendRoutes also
// INVALID_ARGUMENT (MATCH_INVALID, PREFIX_INVALID).
absl::Status SendRoutes(ControlContext& context,
                        const grpc::ServerContext& call,
                        const v1::ListRoutesRequest& request,
                        grpc::ServerWriter<v1::ListRoutesResponse>& out) {
  const auto slot = context.lists.Enter(call);
  if (!slot.ok()) return slot.status();
  const absl::StatusOr<TableRef> table = context.tables.Find(request.table());
  if (!table.ok()) return table.status();
  const absl::Status match = CheckMatch(request);
  if (!match.ok()) return match;
  Prefix prefix;
  if (request.match() != v1::ListRoutesRequest::MATCH_UNSPECIFIED) {
    const absl::StatusOr<Prefix> decoded = FromProto(request.prefix());
    if (!decoded.ok()) {
      return FieldError(absl::StatusCode::kInvalidArgument, "PREFIX_INVALID",
                        "prefix", decoded.status().message());
    }
    prefix = *decoded;
  }
  const Pinned pinned(*(*table)->Read());
  ChunkWriter writer(pinned.generation, out);
  const bool done =
      ForEachSelected(pinned, request.match(), prefix, [&](const Route& route) {
        if (request.next_hop_id() != kNoRoute &&
            route.next_hop != request.next_hop_id()) {
          return true;
        }
        ToProto(route, *writer.chunk().add_routes());
        return writer.chunk().routes_size() < kRoutesPerChunk || writer.Write();
      });
  return done ? writer.Finish(writer.chunk().routes().empty()) : ClientGone();
}

absl::Status SendNextHops(ControlContext& context,
                          const grpc::ServerContext& call,
                          const v1::ListNextHopsRequest& request,
                          grpc::ServerWriter<v1::ListNextHopsResponse>& out) {
  const auto slot = context.lists.Enter(call);
  if (!slot.ok()) return slot.status();
  const absl::StatusOr<TableRef> table = context.tables.Find(request.table());
  if (!table.ok()) return table.status();
  const Pinned pinned(*(*table)->Read());
  ChunkWriter writer(pinned.generation, out);
  int places = 0;
  for (const NextHop& next_hop : pinned.next_hops.next_hops()) {
    *writer.chunk().add_next_hops() = ToProto(next_hop);
    places += PlacesOf(next_hop);
    if (places < kNextHopsPerChunk) continue;
    places = 0;
    if (!writer.Write()) return ClientGone();
  }
  for (const NextHopGroup& group : pinned.next_hops.groups()) {
    *writer.chunk().add_groups() = ToProto(group);
    if (writer.chunk().groups_size() == kGroupsPerChunk && !writer.Write()) {
      return ClientGone();
    }
  }
  return writer.Finish(writer.chunk().next_hops().empty() &&
                       writer.chunk().groups().empty());
}

absl::Status SendSnapshot(ControlContext& context,
                          const grpc::ServerContext& call,
                          const v1::ExportSnapshotRequest& request,
                          grpc::ServerWriter<v1::ExportSnapshotResponse>& out) {
  const auto slot = context.lists.Enter(call);
  if (!slot.ok()) return slot.status();
  const absl::StatusOr<TableRef> table = context.tables.Find(request.table());
  if (!table.ok()) return table.status();
  const Pinned pinned(*(*table)->Read());
  v1::ExportSnapshotResponse chunk;
  return WriteTableFile((*table)->name(), pinned, [&](absl::string_view bytes) {
    chunk.set_data(bytes.data(), bytes.size());
    return out.Write(chunk) ? absl::OkStatus() : ClientGone();
  });
}

}  // namespace

grpc::Status TableService::ListRoutes(grpc::ServerContext& call,
                                      const v1::ListRoutesRequest& request,
                                      Writer<v1::ListRoutesResponse>& out) {
  return ToGrpc(SendRoutes(context_, call, request, out));
}

grpc::Status TableService::ListNextHops(grpc::ServerContext& call,
                                        const v1::ListNextHopsRequest& request,
                                        Writer<v1::ListNextHopsResponse>& out) {
  return ToGrpc(SendNextHops(context_, call, request, out));
}

grpc::Status TableService::ExportSnapshot(
    grpc::ServerContext& call, const v1::ExportSnapshotRequest& request,
    Writer<v1::ExportSnapshotResponse>& out) {
  return ToGrpc(SendSnapshot(context_, call, request, out));
}

}  // namespace planb::server
