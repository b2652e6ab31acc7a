// Makes a table consist of exactly the routes that are given: what differs is
// changed, in one generation, and what is not given is withdrawn.
//
//   v1::ReplaceRoutesRequest conditions;  // table, ack, ...
//   RouteReplacer replacer(channel, conditions);
//   for (const Route& route : routes) {
//     if (absl::Status s = replacer.Add(route); !s.ok()) return s;
//   }
//   absl::StatusOr<v1::ReplaceRoutesResponse> response = replacer.Finish();

#ifndef PLANB_CLIENT_ROUTE_REPLACER_H_
#define PLANB_CLIENT_ROUTE_REPLACER_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/sync_stream.h>

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lpm/prefix.h"
#include "planb/v1/route_table.grpc.pb.h"

namespace planb::client {

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
  // Counts `octets` more, and sends what has gathered once that is enough.
  absl::Status Grow(size_t octets);
  absl::Status SendChunk();
  absl::Status End();

  grpc::ClientContext context_;
  const std::unique_ptr<v1::RouteTable::Stub> stub_;
  v1::ReplaceRoutesResponse response_;
  std::unique_ptr<grpc::ClientWriter<v1::ReplaceRoutesRequest>> writer_;
  // The message being filled, and about how large it is.
  v1::ReplaceRoutesRequest chunk_;
  size_t octets_ = 0;
  bool ended_ = false;
  absl::Status end_;
};

}  // namespace planb::client

#endif  // PLANB_CLIENT_ROUTE_REPLACER_H_
