// SPDX-License-Identifier: Apache-2.0

// Whole tables: announced chunk by chunk, or replaced at once.

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
#include "client/table_client.h"
#include "lpm/prefix.h"
#include "planb/v1/route_table.grpc.pb.h"

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

// Announces a whole table through UpdateRoutes, chunk by chunk, in bounded
// memory: chunks are acknowledged when accepted, the last as asked for.
//
//   RouteLoader loader(table_client, {});
//   for (const Route& route : routes) {
//     if (absl::Status s = loader.Add(route); !s.ok()) return s;
//   }
//   absl::StatusOr<LoadReport> report = loader.Finish();
//
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

// Makes a table consist of exactly the routes that are given: what differs is
// changed, in one generation, and what is not given is withdrawn.
//
//   v1::ReplaceRoutesRequest conditions;  // table, ack, ...
//   RouteReplacer replacer(channel, conditions);
//   for (const Route& route : routes) {
//     if (absl::Status s = replacer.Add(route); !s.ok()) return s;
//   }
//   absl::StatusOr<v1::ReplaceRoutesResponse> response = replacer.Finish();
//
// One ReplaceRoutes call. Nothing changes before Finish, nor ever without it:
// not when this is destroyed, the connection breaks, or the process dies.
// Sends in messages of about 64 KiB and keeps no more than one of them.
// Thread-compatible.
class RouteReplacer {
 public:
  // `first` says what the contract's first message does: table, ack,
  // conditions. The whole call has to end by `deadline`.
  explicit RouteReplacer(const std::shared_ptr<grpc::Channel>& channel,
                         v1::ReplaceRoutesRequest first = {},
                         absl::Time deadline = absl::InfiniteFuture());
  ~RouteReplacer();
  RouteReplacer(const RouteReplacer&) = delete;
  RouteReplacer& operator=(const RouteReplacer&) = delete;

  // In any order. The server refuses a prefix or an id that comes twice.
  // Errors: what the server ended the call with, then and from then on.
  absl::Status Add(const Route& route);
  absl::Status Add(const NextHop& next_hop);
  absl::Status Add(const NextHopGroup& group);

  // Commits, and waits for the answer. Call once, last.
  // Errors: the server's, by FromGrpc. After DEADLINE_EXCEEDED or UNAVAILABLE
  // the table may have been replaced all the same.
  absl::StatusOr<v1::ReplaceRoutesResponse> Finish();

 private:
  // Counts `bytes` more, and sends what has gathered once that is enough.
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

// Table files from and to a server. What is in them is the server's affair.

// Writes a file so that its name leads to all of it or to what was there
// before: under another name first, and renamed once it is on the disk. Or, for
// a pipe to take, writes to the standard output.
//
// The file can be read by its owner only. Thread-compatible.
class AtomicFile {
 public:
  // Opens a new file beside `path`, or beside what that links to. What is there
  // must be a regular file, if anything. "-" is the standard output, of which
  // nothing can be taken back.
  explicit AtomicFile(std::string path);
  // Without Commit: leaves nothing behind.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // The first thing that went wrong, with the path and the system's words;
  // nothing more is written then.
  const absl::Status& status() const { return status_; }

  // Both return status().
  absl::Status Append(absl::string_view bytes);
  // Brings everything to the disk, and the file to its name. Call once, last.
  absl::Status Commit();

 private:
  // Notes that `what` failed, as errno says.
  absl::Status Failed(absl::string_view what);

  std::string path_;
  // Of the file being written; empty if there is none, or it has no name.
  std::string temporary_;
  int descriptor_ = -1;
  absl::Status status_;
};

// Thread-safe.
class SnapshotTransfer {
 public:
  explicit SnapshotTransfer(const std::shared_ptr<grpc::Channel>& channel);

  // Writes the visible generation of `table` to `file` and commits it. Returns
  // its number of bytes. Memory: one message.
  // Errors: the server's, by FromGrpc; file.status() if that is not OK. Then
  // nothing is committed.
  absl::StatusOr<uint64_t> Export(
      const std::string& table, AtomicFile& file,
      absl::Time deadline = absl::InfiniteFuture()) const;

  // Replaces all of a table by the bytes of `file`, to its end. `first` says
  // what the contract's first message does: table, ack, conditions.
  // Errors: the server's, by FromGrpc, DATA_LOSS for a damaged file among them;
  // ABORTED, with nothing changed, if `file` cannot be read: file.bad().
  absl::StatusOr<v1::ReplaceRoutesResponse> Import(
      v1::ImportSnapshotRequest first, std::istream& file,
      absl::Time deadline = absl::InfiniteFuture()) const;

 private:
  const std::unique_ptr<v1::RouteTable::Stub> stub_;
};

}  // namespace planb::client

#endif  // PLANB_CLIENT_WHOLE_TABLE_H_
