// Reads and changes routing tables. For whole tables see RouteLoader.

#ifndef PLANB_CLIENT_TABLE_CLIENT_H_
#define PLANB_CLIENT_TABLE_CLIENT_H_

#include <grpcpp/channel.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lpm/prefix.h"
#include "planb/v1/route_table.grpc.pb.h"

namespace planb::client {

// Requests and replies are the contract's own messages: route_table.proto
// documents them. Thread-safe.
// Errors of all calls: the server's, by FromGrpc.
class TableClient {
 public:
  explicit TableClient(const std::shared_ptr<grpc::Channel>& channel);

  absl::StatusOr<v1::UpdateRoutesResponse> UpdateRoutes(
      const v1::UpdateRoutesRequest& request,
      absl::Time deadline = absl::InfiniteFuture()) const;

  // The state of `table`; empty means "default".
  absl::StatusOr<v1::Table> GetTable(
      const std::string& table,
      absl::Time deadline = absl::InfiniteFuture()) const;

  // Hands every route that `request` selects to `on_route`, in the order of
  // the server: (family, address, length), IPv4 first. Returns the generation
  // they show.
  // Errors: also what `on_route` returns, which ends the call; INTERNAL if the
  // server sends a malformed route or changes the generation.
  absl::StatusOr<uint64_t> ListRoutes(
      const v1::ListRoutesRequest& request,
      absl::FunctionRef<absl::Status(const Route&)> on_route,
      absl::Time deadline = absl::InfiniteFuture()) const;

 private:
  const std::unique_ptr<v1::RouteTable::Stub> stub_;
};

}  // namespace planb::client

#endif  // PLANB_CLIENT_TABLE_CLIENT_H_
