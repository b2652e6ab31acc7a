// SPDX-License-Identifier: Apache-2.0

// planb.v1.RouteTable: the control path over gRPC. The methods that stream are
// in update_stream.cc, replace_stream.cc, route_list.cc and route_watch.cc, all
// others in table_service.cc.

#ifndef PLANB_SERVER_CONTROL_TABLE_SERVICE_H_
#define PLANB_SERVER_CONTROL_TABLE_SERVICE_H_

#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/sync_stream.h>

#include "base/monotonic_time.h"
#include "planb/v1/route_table.pb.h"
#include "server/control/control_context.h"

namespace planb::server {

// How much of a message an object takes, as a multiple of the 350 bytes that a
// next hop without attributes has at most.
inline int PlacesOf(const NextHop& next_hop) {
  return 1 + static_cast<int>(next_hop.attributes.encoded().size() / 350);
}
template <typename Other>
int PlacesOf(const Other&) {
  return 1;
}

// Uses gRPC's synchronous interface. Each call has a thread, and
// TransportOptions::max_control_calls bounds their number. Beside the
// completion queues of lookups these threads poll no connections (gRPC calls
// that a hybrid server). Threads of the callback interface would poll, and
// would take a quarter of the lookups' throughput.
//
// Each method gets its request as bytes, which are measured before they are
// parsed. The generated service would parse them first, so this one adds its
// methods itself. Clients and reflection see no difference.
//
// Thread-safe. The context outlives it.
class TableService final : public grpc::Service {
 public:
  explicit TableService(ControlContext& context);

  // What ListTables answers.
  v1::ListTablesResponse Tables() const;

  // Waits for the streams that are being sent. An unfinished replacement has
  // no effect, and does not hold up the end.
  void AwaitIdle(SteadyInstant deadline) {
    context_.lists.AwaitIdle(deadline);
    context_.watchers.AwaitIdle(deadline);
    context_.update_streams.AwaitIdle(deadline);
  }

 private:
  template <typename Response>
  using Writer = grpc::ServerWriter<Response>;
  using Bytes = grpc::ByteBuffer;

  // A request that was parsed within the limits.
  template <typename Request>
  struct Received;

  // Adds a method with a list as request, which counts as an update, a method
  // with a small request, one of these that is traced as updates are, and one
  // that answers with a stream.
  template <typename Request, typename Response>
  void AddUpdate(const char* path,
                 grpc::Status (TableService::*method)(grpc::ServerContext&,
                                                      Received<Request>&,
                                                      Response&));
  template <typename Request, typename Response>
  void AddUnary(const char* path,
                grpc::Status (TableService::*method)(const Request&,
                                                     Response&));
  template <typename Request, typename Response>
  void AddTraced(const char* path,
                 absl::Status (TableService::*method)(const Request&,
                                                      Response&));
  template <typename Request, typename Response>
  void AddList(const char* path,
               grpc::Status (TableService::*method)(grpc::ServerContext&,
                                                    const Request&,
                                                    Writer<Response>&));

  grpc::Status UpdateRoutes(grpc::ServerContext& call,
                            Received<v1::UpdateRoutesRequest>& request,
                            v1::UpdateRoutesResponse& response);
  grpc::Status UpdateNextHops(grpc::ServerContext& call,
                              Received<v1::UpdateNextHopsRequest>& request,
                              v1::UpdateNextHopsResponse& response);
  grpc::Status StreamUpdates(
      grpc::ServerContext* call,
      grpc::ServerReaderWriter<v1::StreamUpdatesResponse, Bytes>* stream);
  grpc::Status ReplaceRoutes(grpc::ServerContext* call,
                             grpc::ServerReader<Bytes>* requests,
                             v1::ReplaceRoutesResponse* response);
  grpc::Status ImportSnapshot(grpc::ServerContext* call,
                              grpc::ServerReader<Bytes>* requests,
                              v1::ReplaceRoutesResponse* response);
  grpc::Status ListRoutes(grpc::ServerContext& call,
                          const v1::ListRoutesRequest& request,
                          Writer<v1::ListRoutesResponse>& out);
  grpc::Status ListNextHops(grpc::ServerContext& call,
                            const v1::ListNextHopsRequest& request,
                            Writer<v1::ListNextHopsResponse>& out);
  grpc::Status ExportSnapshot(grpc::ServerContext& call,
                              const v1::ExportSnapshotRequest& request,
                              Writer<v1::ExportSnapshotResponse>& out);
  grpc::Status WatchRoutes(grpc::ServerContext& call,
                           const v1::WatchRoutesRequest& request,
                           Writer<Bytes>& out);
  grpc::Status GetRoute(const v1::GetRouteRequest& request,
                        v1::Route& response);
  grpc::Status ExplainLookup(const v1::ExplainLookupRequest& request,
                             v1::ExplainLookupResponse& response);
  grpc::Status GetTable(const v1::GetTableRequest& request,
                        v1::Table& response);
  grpc::Status ListTables(const v1::ListTablesRequest& request,
                          v1::ListTablesResponse& response);
  grpc::Status ListReplicas(const v1::ListReplicasRequest& request,
                            v1::ListReplicasResponse& response);
  absl::Status CreateTable(const v1::CreateTableRequest& request,
                           v1::Table& response);
  absl::Status DeleteTable(const v1::DeleteTableRequest& request,
                           v1::DeleteTableResponse& response);
  grpc::Status Reload(const v1::ReloadRequest& request,
                      v1::ReloadResponse& response);

  void Describe(const Table& table, v1::Table& out) const;

  ControlContext& context_;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_CONTROL_TABLE_SERVICE_H_
