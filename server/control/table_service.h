// SPDX-License-Identifier: Apache-2.0

// planb.v1.RouteTable: the control path over gRPC. The methods that stream are
// in update_stream.cc, replace_stream.cc, route_list.cc and route_watch.cc, all
// others in table_service.cc.

#ifndef PLANB_SERVER_CONTROL_TABLE_SERVICE_H_
#define PLANB_SERVER_CONTROL_TABLE_SERVICE_H_

#include "absl/time/time.h"
#include "base/monotonic_time.h"
#include "grpcpp/grpcpp.h"
#include "planb/v1/route_table.grpc.pb.h"
#include "server/control/control_context.h"

namespace planb::server {

// Uses gRPC's synchronous interface. Each call has a thread, and
// TransportOptions::max_control_calls bounds their number. Beside the
// completion queues of lookups these threads poll no connections (gRPC calls
// that a hybrid server). Threads of the callback interface would poll, and
// would take a quarter of the lookups' throughput.
//
// Thread-safe. The context outlives it.
class TableService final : public v1::RouteTable::Service {
 public:
  explicit TableService(ControlContext& context) : context_(context) {}

  grpc::Status UpdateRoutes(grpc::ServerContext* call,
                            const v1::UpdateRoutesRequest* request,
                            v1::UpdateRoutesResponse* response) override;

  grpc::Status UpdateNextHops(grpc::ServerContext* call,
                              const v1::UpdateNextHopsRequest* request,
                              v1::UpdateNextHopsResponse* response) override;

  grpc::Status StreamUpdates(
      grpc::ServerContext* call,
      grpc::ServerReaderWriter<v1::StreamUpdatesResponse,
                               v1::StreamUpdatesRequest>* stream) override;

  grpc::Status ReplaceRoutes(
      grpc::ServerContext* call,
      grpc::ServerReader<v1::ReplaceRoutesRequest>* requests,
      v1::ReplaceRoutesResponse* response) override;

  grpc::Status ImportSnapshot(
      grpc::ServerContext* call,
      grpc::ServerReader<v1::ImportSnapshotRequest>* requests,
      v1::ReplaceRoutesResponse* response) override;

  grpc::Status ListRoutes(
      grpc::ServerContext* call, const v1::ListRoutesRequest* request,
      grpc::ServerWriter<v1::ListRoutesResponse>* out) override;

  grpc::Status ListNextHops(
      grpc::ServerContext* call, const v1::ListNextHopsRequest* request,
      grpc::ServerWriter<v1::ListNextHopsResponse>* out) override;

  grpc::Status ExportSnapshot(
      grpc::ServerContext* call, const v1::ExportSnapshotRequest* request,
      grpc::ServerWriter<v1::ExportSnapshotResponse>* out) override;

  grpc::Status WatchRoutes(
      grpc::ServerContext* call, const v1::WatchRoutesRequest* request,
      grpc::ServerWriter<v1::WatchRoutesResponse>* out) override;

  grpc::Status GetRoute(grpc::ServerContext* call,
                        const v1::GetRouteRequest* request,
                        v1::Route* response) override;

  grpc::Status ExplainLookup(grpc::ServerContext* call,
                             const v1::ExplainLookupRequest* request,
                             v1::ExplainLookupResponse* response) override;

  grpc::Status GetTable(grpc::ServerContext* call,
                        const v1::GetTableRequest* request,
                        v1::Table* response) override;

  grpc::Status ListTables(grpc::ServerContext* call,
                          const v1::ListTablesRequest* request,
                          v1::ListTablesResponse* response) override;

  grpc::Status CreateTable(grpc::ServerContext* call,
                           const v1::CreateTableRequest* request,
                           v1::Table* response) override;

  grpc::Status DeleteTable(grpc::ServerContext* call,
                           const v1::DeleteTableRequest* request,
                           v1::DeleteTableResponse* response) override;

  // What ListTables answers.
  v1::ListTablesResponse Tables() const;

  // Waits for the streams that are being sent.
  void AwaitIdle(SteadyInstant deadline) {
    context_.lists.AwaitIdle(deadline);
    context_.watchers.AwaitIdle(deadline);
    context_.update_streams.AwaitIdle(deadline);
  }

 private:
  void Describe(const Table& table, v1::Table& out) const;

  ControlContext& context_;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_CONTROL_TABLE_SERVICE_H_
