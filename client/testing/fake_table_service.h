// SPDX-License-Identifier: Apache-2.0

// The fake server's RouteTable: all calls of the contract on FakeTables.

#ifndef PLANB_CLIENT_TESTING_FAKE_TABLE_SERVICE_H_
#define PLANB_CLIENT_TESTING_FAKE_TABLE_SERVICE_H_

#include <grpcpp/server_context.h>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "client/testing/fake_server.h"

namespace planb::client::testing {

// A snapshot of the fake server is this text and a ReplaceRoutesRequest.
inline constexpr absl::string_view kFakeSnapshot = "FAKE SNAPSHOT\n";

// Thread-safe. Lists come in chunks of three, so that tests see many chunks.
class FakeServer::TableService : public v1::RouteTable::Service {
 public:
  explicit TableService(FakeServer& fake) : fake_(fake) {}

  grpc::Status UpdateRoutes(grpc::ServerContext* context,
                            const v1::UpdateRoutesRequest* request,
                            v1::UpdateRoutesResponse* response) override;
  grpc::Status StreamUpdates(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<v1::StreamUpdatesResponse,
                               v1::StreamUpdatesRequest>* stream) override;
  grpc::Status ReplaceRoutes(
      grpc::ServerContext* context,
      grpc::ServerReader<v1::ReplaceRoutesRequest>* reader,
      v1::ReplaceRoutesResponse* response) override;
  grpc::Status ListRoutes(
      grpc::ServerContext* context, const v1::ListRoutesRequest* request,
      grpc::ServerWriter<v1::ListRoutesResponse>* writer) override;
  grpc::Status WatchRoutes(
      grpc::ServerContext* context, const v1::WatchRoutesRequest* request,
      grpc::ServerWriter<v1::WatchRoutesResponse>* writer) override;
  grpc::Status GetRoute(grpc::ServerContext* context,
                        const v1::GetRouteRequest* request,
                        v1::Route* response) override;
  grpc::Status ExplainLookup(grpc::ServerContext* context,
                             const v1::ExplainLookupRequest* request,
                             v1::ExplainLookupResponse* response) override;
  grpc::Status GetTable(grpc::ServerContext* context,
                        const v1::GetTableRequest* request,
                        v1::Table* response) override;
  grpc::Status ListTables(grpc::ServerContext* context,
                          const v1::ListTablesRequest* request,
                          v1::ListTablesResponse* response) override;
  grpc::Status CreateTable(grpc::ServerContext* context,
                           const v1::CreateTableRequest* request,
                           v1::Table* response) override;
  grpc::Status DeleteTable(grpc::ServerContext* context,
                           const v1::DeleteTableRequest* request,
                           v1::DeleteTableResponse* response) override;
  grpc::Status UpdateNextHops(grpc::ServerContext* context,
                              const v1::UpdateNextHopsRequest* request,
                              v1::UpdateNextHopsResponse* response) override;
  grpc::Status ListNextHops(
      grpc::ServerContext* context, const v1::ListNextHopsRequest* request,
      grpc::ServerWriter<v1::ListNextHopsResponse>* writer) override;
  grpc::Status ExportSnapshot(
      grpc::ServerContext* context, const v1::ExportSnapshotRequest* request,
      grpc::ServerWriter<v1::ExportSnapshotResponse>* writer) override;
  grpc::Status ImportSnapshot(
      grpc::ServerContext* context,
      grpc::ServerReader<v1::ImportSnapshotRequest>* reader,
      v1::ReplaceRoutesResponse* response) override;

 private:
  // Calls `use` with the table, under the lock. Errors: TABLE_NOT_FOUND; those
  // of `use`.
  grpc::Status WithTable(const std::string& name,
                         absl::FunctionRef<grpc::Status(FakeTable&)> use);

  FakeServer& fake_;
};

}  // namespace planb::client::testing

#endif  // PLANB_CLIENT_TESTING_FAKE_TABLE_SERVICE_H_
