// SPDX-License-Identifier: Apache-2.0

// The port for probes: its answers in each phase of a server's life, and that
// it serves health alone.

#include <fcntl.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/testing/server_process.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "server/table/tables.h"
#include "server/testing/running_server.h"
#include "server/testing/shared_log.h"

namespace planb::server {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

constexpr char kReflection[] =
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";

HealthCheckRequest For(const std::string& service) {
  HealthCheckRequest request;
  request.set_service(service);
  return request;
}

// A probe's view of a health port.
class Probe {
 public:
  explicit Probe(int port)
      : channel_(RunningServer::Connect(absl::StrCat("127.0.0.1:", port))),
        stub_(Health::NewStub(channel_)) {}

  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  Health::Stub& stub() const { return *stub_; }

  // "SERVING", "NOT_SERVING", or the error.
  std::string Ask(const std::string& service) const {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Minutes(1)));
    HealthCheckResponse response;
    const grpc::Status status = stub_->Check(&context, For(service), &response);
    return status.ok()
               ? HealthCheckResponse::ServingStatus_Name(response.status())
               : absl::StrCat(status.error_code(), status.error_message());
  }

  // True if that is the answer within a minute.
  bool Await(const std::string& service, const std::string& answer) const {
    const absl::Time deadline = absl::Now() + absl::Minutes(1);
    while (Ask(service) != answer) {
      if (absl::Now() > deadline) return false;
      absl::SleepFor(absl::Milliseconds(10));
    }
    return true;
  }

 private:
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<Health::Stub> stub_;
};

ServerOptions WithHealth() {
  ServerOptions options;
  options.health_address = "127.0.0.1:0";
  return options;
}

// How a call without a message ends.
grpc::StatusCode Call(const std::shared_ptr<grpc::Channel>& channel,
                      const std::string& method) {
  grpc::GenericStub stub(channel);
  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  const auto call = stub.PrepareCall(&context, method, &queue);
  void* tag = nullptr;
  bool ok = false;
  call->StartCall(nullptr);
  queue.Next(&tag, &ok);
  call->WritesDone(nullptr);
  queue.Next(&tag, &ok);
  grpc::Status status;
  call->Finish(&status, nullptr);
  queue.Next(&tag, &ok);
  return status.error_code();
}

TEST(HealthListener, ServesHealthAlone) {
  RunningServer running(WithHealth());
  const Probe probe(running.server().health_port());
  for (const char* service :
       {"", "planb.v1.RouteLookup", "planb.v1.RouteTable", "startup"}) {
    EXPECT_EQ(probe.Ask(service), "SERVING") << service;
  }
  for (const char* method :
       {"/planb.v1.RouteTable/UpdateRoutes", "/planb.v1.RouteTable/GetTable",
        "/planb.v1.RouteLookup/Lookup", "/planb.v1.RouteLookup/BatchLookup",
        kReflection}) {
    EXPECT_EQ(Call(probe.channel(), method), grpc::StatusCode::UNIMPLEMENTED)
        << method;
    EXPECT_NE(Call(running.tcp(), method), grpc::StatusCode::UNIMPLEMENTED)
        << method;
  }
}

TEST(HealthListener, EmptyTableIsReadyByDefault) {
  RunningServer lenient(WithHealth());
  EXPECT_EQ(Probe(lenient.server().health_port()).Ask(""), "SERVING");

  ServerOptions options = WithHealth();
  options.empty_table_ready = false;
  RunningServer running(std::move(options));
  const Probe probe(running.server().health_port());
  EXPECT_EQ(probe.Ask("startup"), "SERVING");
  EXPECT_EQ(probe.Ask(""), "NOT_SERVING");
  EXPECT_EQ(probe.Ask("planb.v1.RouteLookup"), "NOT_SERVING");

  grpc::ClientContext context;
  const auto watch = probe.stub().Watch(&context, For(""));
  HealthCheckResponse response;
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);

  running.Announce({{"192.0.2.0/24", 1}});  // and is visible
  EXPECT_EQ(probe.Ask(""), "SERVING");
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);

  v1::UpdateRoutesRequest withdraw;
  v1::RouteUpdate& update = *withdraw.add_updates();
  update.set_op(v1::RouteUpdate::OP_DELETE);
  update.mutable_prefix()->set_text("192.0.2.0/24");
  grpc::ClientContext call;
  v1::UpdateRoutesResponse withdrawn;
  ASSERT_TRUE(running.table().UpdateRoutes(&call, withdraw, &withdrawn).ok());
  EXPECT_EQ(probe.Ask(""), "NOT_SERVING");
  EXPECT_EQ(probe.Ask("startup"), "SERVING");
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  context.TryCancel();
}

TEST(HealthListener, DrainingServerIsUpAndNotReady) {
  ServerOptions options = WithHealth();
  options.initial.generate_v6 = 200'000;
  RunningServer running(std::move(options));
  const Probe probe(running.server().health_port());
  grpc::ClientContext ready_context, startup_context;
  const auto ready = probe.stub().Watch(&ready_context, For(""));
  const auto startup = probe.stub().Watch(&startup_context, For("startup"));
  HealthCheckResponse response;
  ASSERT_TRUE(ready->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  ASSERT_TRUE(startup->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);

  // A client that began to read a long list and stopped delays the drain.
  grpc::ClientContext slow_context;
  v1::ListRoutesResponse routes;
  const auto slow = running.table().ListRoutes(&slow_context, {});
  ASSERT_TRUE(slow->Read(&routes));
  std::thread drain([&] { running.server().Drain(absl::Minutes(10)); });
  ASSERT_TRUE(ready->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(probe.Ask(""), "NOT_SERVING");
  EXPECT_EQ(probe.Ask("startup"), "SERVING");
  slow_context.TryCancel();

  EXPECT_FALSE(ready->Read(&response));
  EXPECT_EQ(ready->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  ASSERT_TRUE(startup->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  EXPECT_FALSE(startup->Read(&response));
  drain.join();
}

TEST(HealthListener, IsUpWhileRoutesAreLoaded) {
  // The server waits at a pipe until the test writes routes to it.
  const std::string pipe = TempPath("routes.fifo");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  ServerProcess process({absl::StrCat("--listen=unix://", TempPath("h.sock")),
                         "--metrics_address=", "--health_address=127.0.0.1:0",
                         "--empty_table_ready=false",
                         absl::StrCat("--routes=", pipe)});
  const int port = process.AwaitPortOf("health");
  ASSERT_NE(port, 0) << process.Log();
  const Probe probe(port);
  EXPECT_EQ(probe.Ask("startup"), "SERVING");
  EXPECT_EQ(probe.Ask(""), "NOT_SERVING");
  EXPECT_EQ(probe.Ask("planb.v1.RouteTable"), "NOT_SERVING");
  std::ofstream(pipe) << "2001:db8::/32 1\n";
  EXPECT_TRUE(probe.Await("", "SERVING")) << process.Log();
  process.Kill(SIGTERM);
  EXPECT_EQ(process.Wait(), 0);
  unlink(pipe.c_str());
}

// Another server writes while this one reads its initial routes, which give
// way. Lookups see what it wrote half a second later.
TEST(HealthListener, IsReadyOnceTheRoutesThatItKeptAreVisible) {
  const std::string pipe = TempPath("late_routes.fifo");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  SharedLog log;
  SharedLog::View view(log);
  Tables other({}, &view);
  ASSERT_TRUE(other.Restore().ok());
  ServerOptions options = WithHealth();
  options.store = std::make_shared<SharedLog::View>(log);
  options.initial.routes_file = pipe;
  options.tables.table.build_fault = [](uint64_t generation) {
    if (generation > 0) absl::SleepFor(absl::Milliseconds(500));
    return absl::OkStatus();
  };
  std::thread writer([&] {
    std::ofstream routes(pipe);  // opens once the server reads
    UpdateBatch batch;
    batch.changes = {
        {RouteChange::Op::kUpsert, Prefix::Parse("2001:db8::/32").value(), 7}};
    EXPECT_TRUE(other.default_table().Apply(batch).ok());
    routes << "2001:db8::/32 9\n";
  });
  RunningServer running(std::move(options));
  EXPECT_EQ(Probe(running.server().health_port()).Ask(""), "SERVING");
  grpc::ClientContext context;
  v1::LookupRequest request;
  request.add_addresses()->set_text("2001:db8::1");
  v1::LookupResponse response;
  ASSERT_TRUE(running.lookup().Lookup(&context, request, &response).ok());
  EXPECT_EQ(response.results(0).next_hop_id(), 7U);
  writer.join();
  unlink(pipe.c_str());
}

TEST(HealthListener, BadAddressesAndBoundPortsAreRefused) {
  const auto start = [](const std::string& address) {
    ServerOptions options;
    options.listen = {"127.0.0.1:0"};
    options.health_address = address;
    return Server::Start(std::move(options)).status();
  };
  for (const char* address : {"unix:///tmp/planb_health.sock", "localhost",
                              ":1", "127.0.0.1:70000"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(start(address))) << address;
  }
  RunningServer first(WithHealth());
  const int port = first.server().health_port();
  EXPECT_TRUE(absl::IsUnavailable(start(absl::StrCat("127.0.0.1:", port))));
}

}  // namespace
}  // namespace planb::server
