// SPDX-License-Identifier: Apache-2.0

// Reads and changes routing tables, one call at a time. RouteLoader and
// RouteReplacer handle whole tables, UpdateStream and RouteWatcher streams of
// changes.

#ifndef PLANB_CLIENT_TABLE_CLIENT_H_
#define PLANB_CLIENT_TABLE_CLIENT_H_

#include <grpcpp/channel.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/monotonic_time.h"
#include "lpm/prefix.h"
#include "planb/v1/route_table.grpc.pb.h"

namespace planb::client {

// The next-hop objects and groups of a table, by ascending id.
struct NextHopList {
  // The generation of the list.
  uint64_t generation = 0;
  std::vector<NextHop> next_hops;
  std::vector<NextHopGroup> groups;
};

// Requests and replies are protobuf messages, which route_table.proto
// documents. Thread-safe. Errors of all calls: the server's, by FromGrpc.
class TableClient {
 public:
  explicit TableClient(const std::shared_ptr<grpc::Channel>& channel);

  absl::StatusOr<v1::UpdateRoutesResponse> UpdateRoutes(
      const v1::UpdateRoutesRequest& request, Deadline deadline = {}) const;

  // The state of `table`; empty means "default".
  absl::StatusOr<v1::Table> GetTable(const std::string& table,
                                     Deadline deadline = {}) const;

  // Passes every route that `request` selects to `on_route`, in the server's
  // order: (family, address, length), IPv4 first. Returns the generation of the
  // list. An error of `on_route` ends the call and is returned.
  // Errors: also INTERNAL if the server sends a malformed route or changes the
  // generation.
  absl::StatusOr<uint64_t> ListRoutes(
      const v1::ListRoutesRequest& request,
      absl::FunctionRef<absl::Status(const Route&)> on_route,
      Deadline deadline = {}) const;

  // Errors: also INTERNAL, as ListRoutes; FAILED_PRECONDITION for more than
  // `max_objects`.
  absl::StatusOr<NextHopList> ListNextHops(
      const std::string& table, Deadline deadline = {},
      size_t max_objects = std::numeric_limits<size_t>::max()) const;

  absl::StatusOr<v1::UpdateNextHopsResponse> UpdateNextHops(
      const v1::UpdateNextHopsRequest& request, Deadline deadline = {}) const;

  // The route of exactly this prefix.
  // Errors: also INTERNAL if the server's route is malformed.
  absl::StatusOr<Route> GetRoute(const std::string& table, const Prefix& prefix,
                                 Deadline deadline = {}) const;

  absl::StatusOr<v1::ExplainLookupResponse> ExplainLookup(
      const v1::ExplainLookupRequest& request, Deadline deadline = {}) const;

  // All tables, by name.
  absl::StatusOr<std::vector<v1::Table>> ListTables(
      Deadline deadline = {}) const;

  // All servers that share the server's store, by name.
  absl::StatusOr<std::vector<v1::Replica>> ListReplicas(
      Deadline deadline = {}) const;

  absl::StatusOr<v1::Table> CreateTable(const std::string& table,
                                        Deadline deadline = {}) const;
  absl::StatusOr<v1::Table> CreateTable(const v1::CreateTableRequest& request,
                                        Deadline deadline = {}) const;

  absl::Status DeleteTable(const std::string& table,
                           Deadline deadline = {}) const;

  // Lets the server read its configuration again.
  absl::StatusOr<v1::ReloadResponse> Reload(Deadline deadline = {}) const;

 private:
  const std::unique_ptr<v1::RouteTable::Stub> stub_;
};

}  // namespace planb::client

#endif  // PLANB_CLIENT_TABLE_CLIENT_H_
