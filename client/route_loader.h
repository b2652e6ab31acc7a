// Announces a whole table through UpdateRoutes, chunk by chunk, in bounded
// memory: chunks are acknowledged when accepted, the last as asked for.
//
//   RouteLoader loader(table_client, {});
//   for (const Route& route : routes) {
//     if (absl::Status s = loader.Add(route); !s.ok()) return s;
//   }
//   absl::StatusOr<LoadReport> report = loader.Finish();

#ifndef PLANB_CLIENT_ROUTE_LOADER_H_
#define PLANB_CLIENT_ROUTE_LOADER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/table_client.h"
#include "lpm/prefix.h"

namespace planb::client {

// What was sent and acknowledged so far.
struct LoadReport {
  uint64_t chunks = 0;
  // Routes, next-hop objects and groups sent; of one repeated within a chunk,
  // the last.
  uint64_t routes = 0;
  uint64_t next_hops = 0;
  uint64_t groups = 0;
  // What the server made of the routes.
  uint64_t added = 0;
  uint64_t changed = 0;
  uint64_t unchanged = 0;
  // Of the last reply.
  uint64_t generation = 0;
  uint64_t visible_generation = 0;
};

struct LoadOptions {
  // Empty means "default".
  std::string table = {};
  // Routes a call, next-hop objects a call, and groups a call, at most; at
  // least 1.
  size_t chunk = 10'000;
  // What the last chunk waits for. With ACK_PERSISTED every chunk does, so that
  // a server without a store refuses the first.
  v1::Ack ack = v1::ACK_VISIBLE;
  // See UpdateRoutesRequest.
  uint64_t writer_epoch = 0;
  // If not empty: chunk number N (from 1) has the request id "ID/N", so that a
  // load which is repeated changes nothing that it has changed before.
  std::string request_id = {};
  // How long one call may take.
  absl::Duration timeout = absl::InfiniteDuration();
  // How long to go on trying a chunk that the server refuses for now
  // (RESOURCE_EXHAUSTED with RetryInfo).
  absl::Duration patience = absl::Seconds(60);
  // Called after each chunk.
  std::function<void(const LoadReport&)> on_chunk = nullptr;
};

// Each chunk is atomic; the table as a whole is not, and a load that fails in
// the middle leaves the chunks before. A prefix given twice ends with the next
// hop given last. Thread-compatible.
class RouteLoader {
 public:
  // `client` must outlive this.
  RouteLoader(const TableClient& client, LoadOptions options);

  // Errors: those of UpdateRoutes, for the chunk before. Then stop.
  absl::Status Add(const Route& route);
  absl::Status Add(const NextHop& next_hop);
  absl::Status Add(const NextHopGroup& group);

  // Sends the last chunk and waits for its ack. Sends an empty one if nothing
  // was added, which still finds the server and the table.
  absl::StatusOr<LoadReport> Finish();

 private:
  // Puts `value` into the part of the chunk that is `map`; sends the chunk
  // before, if it does not fit.
  template <typename Map, typename Value>
  absl::Status Put(Map& map, const typename Map::key_type& key,
                   const Value& value);
  absl::Status SendChunk(v1::Ack ack);
  absl::StatusOr<v1::UpdateRoutesResponse> SendPatiently(
      const v1::UpdateRoutesRequest& request) const;

  const TableClient& client_;
  const LoadOptions options_;
  // The chunk being filled. It is sent when another route comes that does not
  // fit, so that Finish knows the last one.
  std::map<Prefix, NextHopId> routes_;
  std::map<NextHopId, NextHop> next_hops_;
  std::map<NextHopId, NextHopGroup> groups_;
  LoadReport report_;
};

}  // namespace planb::client

#endif  // PLANB_CLIENT_ROUTE_LOADER_H_
