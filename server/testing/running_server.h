// SPDX-License-Identifier: Apache-2.0

// A server within the test's process, and channels to it.

#ifndef PLANB_SERVER_TESTING_RUNNING_SERVER_H_
#define PLANB_SERVER_TESTING_RUNNING_SERVER_H_

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "planb/v1/route_lookup.grpc.pb.h"
#include "planb/v1/route_table.grpc.pb.h"
#include "server/server.h"

namespace planb::server {

// Listens on a free loopback port and on a Unix socket. Not thread-safe.
class RunningServer {
 public:
  explicit RunningServer(ServerOptions options = {}) {
    // Not in TEST_TMPDIR: the path of a socket has at most 107 bytes.
    static int servers = 0;
    socket_ = absl::StrCat("/tmp/planb_", getpid(), "_", servers++, ".sock");
    options.listen = {"127.0.0.1:0", absl::StrCat("unix://", socket_)};
    auto started = Server::Start(std::move(options));
    EXPECT_TRUE(started.ok()) << started.status();
    server_ = *std::move(started);
    tcp_ = Connect(absl::StrCat("127.0.0.1:", server_->port(0)));
    unix_ = Connect(absl::StrCat("unix://", socket_));
    lookup_ = v1::RouteLookup::NewStub(unix_);
    table_ = v1::RouteTable::NewStub(tcp_);
  }

  Server& server() { return *server_; }
  const std::string& socket() const { return socket_; }
  const std::shared_ptr<grpc::Channel>& tcp() const { return tcp_; }
  const std::shared_ptr<grpc::Channel>& unix_socket() const { return unix_; }
  v1::RouteLookup::Stub& lookup() { return *lookup_; }
  v1::RouteTable::Stub& table() { return *table_; }

  void Stop() { server_.reset(); }

  // Announces pairs of prefix and next hop with ACK_VISIBLE; returns the
  // generation.
  uint64_t Announce(
      std::initializer_list<std::pair<const char*, uint32_t>> routes) {
    v1::UpdateRoutesRequest request;
    for (const auto& [prefix, next_hop] : routes) {
      v1::RouteUpdate& update = *request.add_updates();
      update.set_op(v1::RouteUpdate::OP_UPSERT);
      update.mutable_prefix()->set_text(prefix);
      update.set_next_hop_id(next_hop);
    }
    grpc::ClientContext context;
    v1::UpdateRoutesResponse response;
    const grpc::Status status =
        table_->UpdateRoutes(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.generation();
  }

  static std::shared_ptr<grpc::Channel> Connect(const std::string& target) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(64 << 20);
    return grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(),
                                     arguments);
  }

 private:
  std::string socket_;
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> tcp_;
  std::shared_ptr<grpc::Channel> unix_;
  std::unique_ptr<v1::RouteLookup::Stub> lookup_;
  std::unique_ptr<v1::RouteTable::Stub> table_;
};

// The first detail of the wanted type, or an empty one.
template <typename Message>
Message DetailOf(const grpc::Status& status) {
  google::rpc::Status rich;
  rich.ParseFromString(status.error_details());
  Message message;
  for (const auto& detail : rich.details()) {
    if (detail.UnpackTo(&message)) break;
  }
  return message;
}

inline std::string ReasonOf(const grpc::Status& status) {
  return DetailOf<google::rpc::ErrorInfo>(status).reason();
}

inline std::string FieldOf(const grpc::Status& status) {
  const auto bad = DetailOf<google::rpc::BadRequest>(status);
  return bad.field_violations_size() == 0 ? ""
                                          : bad.field_violations(0).field();
}

}  // namespace planb::server

#endif  // PLANB_SERVER_TESTING_RUNNING_SERVER_H_
