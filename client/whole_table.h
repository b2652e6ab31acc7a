// SPDX-License-Identifier: Apache-2.0

// Whole tables: announced in chunks, replaced at once, or as snapshot files.

#ifndef PLANB_CLIENT_WHOLE_TABLE_H_
#define PLANB_CLIENT_WHOLE_TABLE_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/sync_stream.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <istream>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/monotonic_time.h"
#include "base/regular_file.h"
#include "client/table_client.h"
#include "lpm/prefix.h"
#include "planb/v1/route_table.grpc.pb.h"

namespace planb::client {

// The progress of a load.
struct LoadReport {
  uint64_t chunks = 0;
  // Routes, next-hop objects and groups sent. Of repetitions within a chunk
  // only the last is sent.
  uint64_t routes = 0;
  uint64_t next_hops = 0;
  uint64_t groups = 0;
  // The server's counts of the routes.
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
  // Maximum of routes, of next-hop objects and of groups in a call; at least 1.
  size_t chunk = 10'000;
  // The state that the last chunk waits for; the others wait for ACK_ACCEPTED.
  // With ACK_PERSISTED every chunk waits for it, so that a server without a
  // store refuses the first one.
  v1::Ack ack = v1::ACK_VISIBLE;
  uint32_t ack_replicas = 0;
  // See UpdateRoutesRequest.
  uint64_t writer_epoch = 0;
  // If not empty: chunk number N (from 1) has the request id "ID/N".
  std::string request_id = {};
  // Timeout of one call.
  absl::Duration timeout = absl::InfiniteDuration();
  // The load fails after a chunk was refused for this long with
  // RESOURCE_EXHAUSTED and RetryInfo.
  absl::Duration patience = absl::Seconds(60);
  // Called before each attempt to send a chunk, which it may change: to give it
  // the table's ids of next hops, for example. A chunk that is then refused
  // because of its `expected_generation`, or because a next hop that it
  // requires is gone, is prepared again and repeated, for `patience`. An error
  // ends the load.
  std::function<absl::Status(v1::UpdateRoutesRequest&)> prepare = nullptr;
  // Called after each chunk.
  std::function<void(const LoadReport&)> on_chunk = nullptr;
};

// Announces a whole table through UpdateRoutes, in chunks.
//
//   RouteLoader loader(table_client, {});
//   for (const Route& route : routes) {
//     if (absl::Status s = loader.Add(route); !s.ok()) return s;
//   }
//   absl::StatusOr<LoadReport> report = loader.Finish();
//
// Each chunk is atomic, the whole load is not. Of a prefix added twice, the
// last next hop counts. Thread-compatible.
class RouteLoader {
 public:
  // `client` must outlive this.
  RouteLoader(const TableClient& client, LoadOptions options);

  // Errors: those of UpdateRoutes, for the chunk before. Then do not go on.
  absl::Status Add(const Route& route);
  absl::Status Add(const NextHop& next_hop);
  absl::Status Add(const NextHopGroup& group);

  // Sends the last chunk and waits for its ack. If no route was added, sends an
  // empty chunk, which still checks the server and the table.
  absl::StatusOr<LoadReport> Finish();

 private:
  // Adds `value` to `map`, a part of the chunk. Sends the chunk first if it is
  // full.
  template <typename Map, typename Value>
  absl::Status Put(Map& map, const typename Map::key_type& key,
                   const Value& value);
  absl::Status SendChunk(v1::Ack ack);
  absl::StatusOr<v1::UpdateRoutesResponse> SendPatiently(
      const v1::UpdateRoutesRequest& request) const;

  const TableClient& client_;
  const LoadOptions options_;
  // The chunk being filled. It is sent when another route does not fit, so that
  // Finish has the last chunk.
  std::map<Prefix, NextHopId> routes_;
  std::map<NextHopId, NextHop> next_hops_;
  std::map<NextHopId, NextHopGroup> groups_;
  LoadReport report_;
};

// Replaces a table by exactly the given routes, in one generation.
//
//   v1::ReplaceRoutesRequest conditions;  // table, ack, ...
//   RouteReplacer replacer(channel, conditions);
//   for (const Route& route : routes) {
//     if (absl::Status s = replacer.Add(route); !s.ok()) return s;
//   }
//   absl::StatusOr<v1::ReplaceRoutesResponse> response = replacer.Finish();
//
// One ReplaceRoutes call. The table changes only by Finish. Memory: one message
// of about 64 KiB. Thread-compatible.
class RouteReplacer {
 public:
  // `first` has the fields of the first message: table, ack, conditions. The
  // whole call must end by `deadline`.
  explicit RouteReplacer(const std::shared_ptr<grpc::Channel>& channel,
                         v1::ReplaceRoutesRequest first = {},
                         Deadline deadline = {});
  ~RouteReplacer();
  RouteReplacer(const RouteReplacer&) = delete;
  RouteReplacer& operator=(const RouteReplacer&) = delete;

  // In any order. The server refuses a repeated prefix or id.
  // Errors: the status of the call if the server has ended it, now and later.
  absl::Status Add(const Route& route);
  absl::Status Add(const NextHop& next_hop);
  absl::Status Add(const NextHopGroup& group);

  // Commits, and waits for the answer. Call once, last.
  // Errors: the server's, by FromGrpc. After DEADLINE_EXCEEDED or UNAVAILABLE
  // the table may have been replaced: repeat the call with the same
  // `request_id`, which the caller chooses in the first message.
  absl::StatusOr<v1::ReplaceRoutesResponse> Finish();

 private:
  // Adds `bytes` to the message's size, and sends the message when it is full.
  absl::Status Grow(size_t bytes);
  absl::Status SendChunk();
  absl::Status End();

  grpc::ClientContext context_;
  const std::unique_ptr<v1::RouteTable::Stub> stub_;
  v1::ReplaceRoutesResponse response_;
  std::unique_ptr<grpc::ClientWriter<v1::ReplaceRoutesRequest>> writer_;
  // The message being filled, and about how large it is.
  v1::ReplaceRoutesRequest chunk_;
  size_t bytes_ = 0;
  bool ended_ = false;
  absl::Status end_;
};

// Thread-safe.
class SnapshotTransfer {
 public:
  explicit SnapshotTransfer(const std::shared_ptr<grpc::Channel>& channel);

  // Writes the visible generation of `table` to `file` and commits it. Returns
  // its number of bytes. Memory: one message.
  // Errors: the server's, by FromGrpc; file.status(). Then the file is not
  // committed.
  absl::StatusOr<uint64_t> Export(const std::string& table, AtomicFile& file,
                                  Deadline deadline = {}) const;

  // Replaces a table by the snapshot in `file`, read to its end. `first` has
  // the fields of the first message: table, ack, conditions. Errors: the
  // server's, by FromGrpc, such as DATA_LOSS for a damaged file; ABORTED, with
  // the table unchanged, if reading `file` fails: file.bad(). A call without an
  // answer may be repeated as for RouteReplacer.
  absl::StatusOr<v1::ReplaceRoutesResponse> Import(
      v1::ImportSnapshotRequest first, std::istream& file,
      Deadline deadline = {}) const;

 private:
  const std::unique_ptr<v1::RouteTable::Stub> stub_;
};

}  // namespace planb::client

#endif  // PLANB_CLIENT_WHOLE_TABLE_H_
