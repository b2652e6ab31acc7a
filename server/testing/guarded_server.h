// SPDX-License-Identifier: Apache-2.0

// A server under an authorization policy, and what calls to it come to.

#ifndef PLANB_SERVER_TESTING_GUARDED_SERVER_H_
#define PLANB_SERVER_TESTING_GUARDED_SERVER_H_

#include <arpa/inet.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "planb/v1/route_lookup.grpc.pb.h"
#include "planb/v1/route_table.grpc.pb.h"
#include "server/server.h"

namespace planb::server {

// A policy of deploy/kubernetes/policy, which must be among the test's data.
inline std::string Shipped(const std::string& name) {
  std::ifstream in("deploy/kubernetes/policy/" + name);
  std::stringstream text;
  text << in.rdbuf();
  EXPECT_FALSE(text.str().empty()) << name;
  return text.str();
}

// A path of this test process alone, short enough for a socket.
inline std::string PathOf(absl::string_view name) {
  return absl::StrCat("/tmp/planb_", getpid(), "_", name);
}

// Not thread-safe.
class Guarded {
 public:
  explicit Guarded(const std::string& policy, ServerOptions options = {}) {
    Write(policy);
    options.metrics_address = "127.0.0.1:0";
    options.authorization = {.policy_file = PathOf("policy.json"),
                             .reload_interval = absl::Milliseconds(10)};
    auto started = Server::Start(std::move(options));
    EXPECT_TRUE(started.ok()) << started.status();
    server_ = *std::move(started);
  }
  ~Guarded() {
    server_.reset();  // or it would miss the file
    unlink(PathOf("policy.json").c_str());
  }

  Server& operator*() { return *server_; }

  static void Write(const std::string& policy) {
    const std::string path = PathOf("policy.json");
    std::ofstream(path + ".new") << policy;
    EXPECT_EQ(std::rename((path + ".new").c_str(), path.c_str()), 0);
  }

  // The metrics page.
  std::string Metrics() const {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(server_->metrics_port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&address),
                      sizeof(address)),
              0);
    const std::string request = "GET /metrics HTTP/1.0\r\n\r\n";
    EXPECT_EQ(write(fd, request.data(), request.size()),
              static_cast<ssize_t>(request.size()));
    std::string page;
    char part[4096];
    ssize_t got;
    while ((got = read(fd, part, sizeof(part))) > 0) {
      page.append(part, static_cast<size_t>(got));
    }
    close(fd);
    return page;
  }

  testing::AssertionResult Denied(absl::string_view service, int calls) const {
    const std::string page = Metrics();
    const std::string line =
        absl::StrCat("planb_authorization_denied_total{service=\"", service,
                     "\"} ", calls, "\n");
    if (absl::StrContains(page, line)) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "no " << line << " in " << page;
  }

 private:
  std::unique_ptr<Server> server_;
};

// What calls over one channel come to. Not thread-safe.
class Caller {
 public:
  explicit Caller(std::shared_ptr<grpc::Channel> channel)
      : channel_(std::move(channel)) {}

  // Sends this header with every call.
  void AlwaysSend(std::string key, std::string value) {
    headers_.emplace_back(std::move(key), std::move(value));
  }

  grpc::StatusCode Lookup() {
    const auto context = Context();
    v1::LookupRequest request;
    request.add_addresses()->set_text("2001:db8::1");
    v1::LookupResponse response;
    return v1::RouteLookup::NewStub(channel_)
        ->Lookup(context.get(), request, &response)
        .error_code();
  }

  // A stream that asks once.
  grpc::StatusCode BatchLookup() {
    const auto context = Context();
    const auto stream =
        v1::RouteLookup::NewStub(channel_)->BatchLookup(context.get());
    v1::BatchLookupRequest request;
    request.set_addresses_v6(std::string(16, '\1'));
    stream->Write(request);
    v1::BatchLookupResponse response;
    const bool answered = stream->Read(&response);
    stream->WritesDone();
    const grpc::StatusCode code = stream->Finish().error_code();
    EXPECT_EQ(answered, code == grpc::StatusCode::OK);
    return code;
  }

  grpc::StatusCode Read() {
    const auto context = Context();
    v1::GetTableRequest request;
    request.set_table("default");
    v1::Table response;
    const auto status = v1::RouteTable::NewStub(channel_)->GetTable(
        context.get(), request, &response);
    generation_ = response.accepted_generation();
    return status.error_code();
  }

  grpc::StatusCode Change() {
    const auto context = Context();
    v1::UpdateRoutesRequest request;
    v1::RouteUpdate& update = *request.add_updates();
    update.set_op(v1::RouteUpdate::OP_UPSERT);
    update.mutable_prefix()->set_text("2001:db8::/32");
    update.set_next_hop_id(++next_hop_);
    v1::UpdateRoutesResponse response;
    return v1::RouteTable::NewStub(channel_)
        ->UpdateRoutes(context.get(), request, &response)
        .error_code();
  }

  grpc::StatusCode StreamChanges() {
    const auto context = Context();
    const auto stream =
        v1::RouteTable::NewStub(channel_)->StreamUpdates(context.get());
    stream->WritesDone();
    v1::StreamUpdatesResponse response;
    while (stream->Read(&response)) continue;
    return stream->Finish().error_code();
  }

  grpc::StatusCode Health() {
    const auto context = Context();
    grpc::health::v1::HealthCheckResponse response;
    return grpc::health::v1::Health::NewStub(channel_)
        ->Check(context.get(), {}, &response)
        .error_code();
  }

  // Of any method.
  grpc::Status Call(const std::string& path) {
    const auto context = Context();
    grpc::CompletionQueue queue;
    const auto call = grpc::GenericStub(channel_).PrepareUnaryCall(
        context.get(), path, {}, &queue);
    call->StartCall();
    grpc::ByteBuffer reply;
    grpc::Status status;
    call->Finish(&reply, &status, this);
    void* tag = nullptr;
    bool ok = false;
    EXPECT_TRUE(queue.Next(&tag, &ok));
    return status;
  }

  // Which Read() saw last.
  uint64_t generation() const { return generation_; }

 private:
  std::unique_ptr<grpc::ClientContext> Context() const {
    auto context = std::make_unique<grpc::ClientContext>();
    context->set_deadline(std::chrono::system_clock::now() +
                          std::chrono::minutes(1));
    for (const auto& [key, value] : headers_) context->AddMetadata(key, value);
    return context;
  }

  const std::shared_ptr<grpc::Channel> channel_;
  std::vector<std::pair<std::string, std::string>> headers_;
  uint64_t generation_ = 0;
  uint32_t next_hop_ = 0;
};

}  // namespace planb::server

#endif  // PLANB_SERVER_TESTING_GUARDED_SERVER_H_
