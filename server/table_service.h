// planb.v1.RouteTable: the control path over gRPC. What is not overridden here
// answers UNIMPLEMENTED.

#ifndef PLANB_SERVER_TABLE_SERVICE_H_
#define PLANB_SERVER_TABLE_SERVICE_H_

#include <cstddef>
#include <functional>

#include "grpcpp/grpcpp.h"
#include "lpm/fib.h"
#include "planb/v1/route_table.grpc.pb.h"
#include "server/control_metrics.h"
#include "server/in_flight.h"
#include "server/tables.h"
#include "server/worker.h"

namespace planb::server {

// Thread-safe. What it refers to outlives it. What takes a table's lock is done
// by a thread of its own: gRPC's are the lookups'.
class TableService final : public v1::RouteTable::CallbackService {
 public:
  TableService(Tables& tables, const Kernel& kernel, size_t max_update_routes,
               size_t max_lists, ControlMetrics& metrics)
      : tables_(tables),
        kernel_(kernel),
        max_update_routes_(max_update_routes),
        max_lists_(max_lists),
        metrics_(metrics),
        worker_(kQueuedUpdates * max_update_routes + 1) {}

  grpc::ServerUnaryReactor* UpdateRoutes(
      grpc::CallbackServerContext* call, const v1::UpdateRoutesRequest* request,
      v1::UpdateRoutesResponse* response) override;

  grpc::ServerUnaryReactor* GetRoute(grpc::CallbackServerContext* call,
                                     const v1::GetRouteRequest* request,
                                     v1::Route* response) override;

  grpc::ServerUnaryReactor* GetTable(grpc::CallbackServerContext* call,
                                     const v1::GetTableRequest* request,
                                     v1::Table* response) override;

  grpc::ServerUnaryReactor* ListTables(
      grpc::CallbackServerContext* call, const v1::ListTablesRequest* request,
      v1::ListTablesResponse* response) override;

  grpc::ServerWriteReactor<v1::ListRoutesResponse>* ListRoutes(
      grpc::CallbackServerContext* call,
      const v1::ListRoutesRequest* request) override;

  grpc::ServerWriteReactor<v1::ListNextHopsResponse>* ListNextHops(
      grpc::CallbackServerContext* call,
      const v1::ListNextHopsRequest* request) override;

  // Waits for the lists that are being sent.
  void AwaitIdle(absl::Time deadline) { in_flight_.AwaitIdle(deadline); }

 private:
  // So many of the largest updates may wait for their turn.
  static constexpr size_t kQueuedUpdates = 4;

  void Describe(v1::Table& out);
  // What UpdateRoutes does, on the worker's thread.
  void Update(const grpc::CallbackServerContext& call,
              const v1::UpdateRoutesRequest& request,
              v1::UpdateRoutesResponse& response,
              grpc::ServerUnaryReactor* reactor);
  // Posts `job`, which ends the call; or refuses it.
  grpc::ServerUnaryReactor* Post(
      grpc::CallbackServerContext* call, size_t weight,
      std::function<void(grpc::ServerUnaryReactor*)> job);

  Tables& tables_;
  const Kernel& kernel_;
  const size_t max_update_routes_;
  const size_t max_lists_;
  ControlMetrics& metrics_;
  InFlight in_flight_;
  Worker worker_;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_TABLE_SERVICE_H_
