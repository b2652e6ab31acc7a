// planb.v1.RouteTable: the control path over gRPC. What is not overridden here
// answers UNIMPLEMENTED.

#ifndef PLANB_SERVER_TABLE_SERVICE_H_
#define PLANB_SERVER_TABLE_SERVICE_H_

#include <cstddef>
#include <cstdint>

#include "grpcpp/grpcpp.h"
#include "lpm/fib.h"
#include "planb/v1/route_table.grpc.pb.h"
#include "server/control_metrics.h"
#include "server/in_flight.h"
#include "server/tables.h"
#include "server/weight_limit.h"

namespace planb::server {

// By gRPC's synchronous interface: each call has a thread, of which there are
// so many as ServerOptions::max_control_calls says. Beside the lookups' queues
// these threads poll no connections (gRPC calls that a hybrid server); those of
// the callback interface would, and take a third of the lookups' throughput.
//
// Thread-safe. What it refers to outlives it.
class TableService final : public v1::RouteTable::Service {
 public:
  TableService(Tables& tables, const Kernel& kernel, size_t max_update_routes,
               size_t max_lists, ControlMetrics& metrics)
      : tables_(tables),
        kernel_(kernel),
        max_update_routes_(max_update_routes),
        max_lists_(max_lists),
        metrics_(metrics),
        update_limit_(kPendingUpdates * max_update_routes + 1) {}

  grpc::Status UpdateRoutes(grpc::ServerContext* call,
                            const v1::UpdateRoutesRequest* request,
                            v1::UpdateRoutesResponse* response) override;

  grpc::Status GetRoute(grpc::ServerContext* call,
                        const v1::GetRouteRequest* request,
                        v1::Route* response) override;

  grpc::Status GetTable(grpc::ServerContext* call,
                        const v1::GetTableRequest* request,
                        v1::Table* response) override;

  grpc::Status ListTables(grpc::ServerContext* call,
                          const v1::ListTablesRequest* request,
                          v1::ListTablesResponse* response) override;

  grpc::Status ListRoutes(
      grpc::ServerContext* call, const v1::ListRoutesRequest* request,
      grpc::ServerWriter<v1::ListRoutesResponse>* out) override;

  grpc::Status ListNextHops(
      grpc::ServerContext* call, const v1::ListNextHopsRequest* request,
      grpc::ServerWriter<v1::ListNextHopsResponse>* out) override;

  // Waits for the lists that are being sent.
  void AwaitIdle(absl::Time deadline) { in_flight_.AwaitIdle(deadline); }

 private:
  // So many of the largest updates may be under way at once.
  static constexpr size_t kPendingUpdates = 4;

  void Describe(v1::Table& out);
  absl::StatusOr<UpdateOutcome> Update(const v1::UpdateRoutesRequest& request);
  // Waits until `generation` is visible, at most until the call's deadline.
  static absl::Status AwaitVisible(const grpc::ServerContext& call,
                                   Table& table, uint64_t generation);
  // Writes what `next` puts into each chunk until it puts nothing there. One
  // chunk at a time: a slow reader costs that, and the list it pins.
  template <typename Chunk, typename Next>
  grpc::Status Send(grpc::ServerWriter<Chunk>& out, Next next);

  Tables& tables_;
  const Kernel& kernel_;
  const size_t max_update_routes_;
  const size_t max_lists_;
  ControlMetrics& metrics_;
  InFlight in_flight_;
  WeightLimit update_limit_;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_TABLE_SERVICE_H_
