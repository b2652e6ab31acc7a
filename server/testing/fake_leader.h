// SPDX-License-Identifier: Apache-2.0

// A server that others follow and that answers what a test wants.

#ifndef PLANB_SERVER_TESTING_FAKE_LEADER_H_
#define PLANB_SERVER_TESTING_FAKE_LEADER_H_

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "follow/convert.h"
#include "lpm/routes/table_digest.h"
#include "planb/v1/route_table.grpc.pb.h"

namespace planb::server {

class FakeLeader final : public v1::RouteTable::Service {
 public:
  using Writer = grpc::ServerWriter<v1::WatchRoutesResponse>;
  FakeLeader(const std::string& socket,
             std::function<void(v1::ListTablesResponse&)> tables,
             std::function<void(const v1::WatchRoutesRequest&, Writer&)> watch)
      : tables_(std::move(tables)), watch_(std::move(watch)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("unix:" + socket,
                             grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~FakeLeader() override {
    server_->Shutdown(std::chrono::system_clock::now());
  }

  grpc::Status ListTables(grpc::ServerContext*, const v1::ListTablesRequest*,
                          v1::ListTablesResponse* response) override {
    tables_(*response);
    return grpc::Status::OK;
  }
  grpc::Status WatchRoutes(grpc::ServerContext* call,
                           const v1::WatchRoutesRequest* request,
                           Writer* writer) override {
    watch_(*request, *writer);
    while (!call->IsCancelled()) absl::SleepFor(absl::Milliseconds(5));
    return grpc::Status::OK;
  }

  // A whole message, with the digest of a table of these routes alone.
  static v1::WatchRoutesResponse Generation(uint64_t generation, bool reset,
                                            const std::vector<Route>& routes) {
    v1::WatchRoutesResponse message;
    TableDigest digest;
    for (const Route& route : routes) {
      ToProto(route, *message.add_updates());
      digest.Add(route);
    }
    message.set_reset(reset);
    message.set_generation(generation);
    message.set_generation_complete(true);
    message.set_digest(digest.ToString());
    return message;
  }

 private:
  const std::function<void(v1::ListTablesResponse&)> tables_;
  const std::function<void(const v1::WatchRoutesRequest&, Writer&)> watch_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_TESTING_FAKE_LEADER_H_
