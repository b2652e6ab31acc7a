// planb.v1.RouteTable: the control path over gRPC. What is not overridden here
// answers UNIMPLEMENTED.

#ifndef PLANB_SERVER_TABLE_SERVICE_H_
#define PLANB_SERVER_TABLE_SERVICE_H_

#include <cstddef>

#include "grpcpp/grpcpp.h"
#include "lpm/kernel.h"
#include "planb/v1/route_table.grpc.pb.h"
#include "server/control_metrics.h"
#include "server/in_flight.h"
#include "server/tables.h"

namespace planb::server {

// Thread-safe. What it refers to outlives it.
class TableService final : public v1::RouteTable::CallbackService {
 public:
  TableService(Tables& tables, const Kernel& kernel, size_t max_update_routes,
               ControlMetrics& metrics)
      : tables_(tables),
        kernel_(kernel),
        max_update_routes_(max_update_routes),
        metrics_(metrics) {}

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
  void Describe(v1::Table& out);

  Tables& tables_;
  const Kernel& kernel_;
  const size_t max_update_routes_;
  ControlMetrics& metrics_;
  InFlight in_flight_;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_TABLE_SERVICE_H_
