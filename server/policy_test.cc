// SPDX-License-Identifier: Apache-2.0

// Calls to a server under the two shipped policies, that of a sidecar and that
// of a cluster.

#include <google/protobuf/descriptor.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "base/testing/test_certificates.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "planb/v1/route_lookup.grpc.pb.h"
#include "planb/v1/route_table.grpc.pb.h"
#include "server/security/authorization_policy.h"
#include "server/server.h"
#include "server/testing/http_get.h"
#include "server/testing/running_server.h"

namespace planb::server {
namespace {

using grpc::StatusCode;

// The text of a policy in deploy/kubernetes/policy.
std::string Shipped(const std::string& name) {
  std::ifstream in("deploy/kubernetes/policy/" + name);
  std::stringstream text;
  text << in.rdbuf();
  EXPECT_FALSE(text.str().empty()) << name;
  return text.str();
}

// A path that no other process uses, short enough for a socket.
std::string PathOf(absl::string_view name) {
  return absl::StrCat("/tmp/planb_", getpid(), "_", name);
}

// A server under a policy. Not thread-safe.
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
    server_.reset();  // before its file goes
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
    return HttpGet(server_->metrics_port(), "/metrics");
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

// Makes calls over one channel and returns their status. Not thread-safe.
class Caller {
 public:
  explicit Caller(std::shared_ptr<grpc::Channel> channel)
      : channel_(std::move(channel)) {}

  // Adds this header to every later call.
  void AlwaysSend(std::string key, std::string value) {
    headers_.emplace_back(std::move(key), std::move(value));
  }

  StatusCode Lookup() {
    const auto context = Context();
    v1::LookupRequest request;
    request.add_addresses()->set_text("2001:db8::1");
    v1::LookupResponse response;
    return v1::RouteLookup::NewStub(channel_)
        ->Lookup(context.get(), request, &response)
        .error_code();
  }

  // A stream of one batch.
  StatusCode BatchLookup() {
    const auto context = Context();
    const auto stream =
        v1::RouteLookup::NewStub(channel_)->BatchLookup(context.get());
    v1::BatchLookupRequest request;
    request.set_addresses_v6(std::string(16, '\1'));
    stream->Write(request);
    v1::BatchLookupResponse response;
    const bool answered = stream->Read(&response);
    stream->WritesDone();
    const StatusCode code = stream->Finish().error_code();
    EXPECT_EQ(answered, code == StatusCode::OK);
    return code;
  }

  StatusCode Read() {
    const auto context = Context();
    v1::GetTableRequest request;
    request.set_table("default");
    v1::Table response;
    const auto status = v1::RouteTable::NewStub(channel_)->GetTable(
        context.get(), request, &response);
    generation_ = response.accepted_generation();
    return status.error_code();
  }

  StatusCode Change() {
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

  StatusCode StreamChanges() {
    const auto context = Context();
    const auto stream =
        v1::RouteTable::NewStub(channel_)->StreamUpdates(context.get());
    stream->WritesDone();
    v1::StreamUpdatesResponse response;
    while (stream->Read(&response)) continue;
    return stream->Finish().error_code();
  }

  StatusCode Health() {
    const auto context = Context();
    grpc::health::v1::HealthCheckResponse response;
    return grpc::health::v1::Health::NewStub(channel_)
        ->Check(context.get(), {}, &response)
        .error_code();
  }

  // Calls any method, without a message.
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

  // The generation that Read() returned last.
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

// The sidecar's policy, with paths of sockets that this test may use.
class Sidecar : public testing::Test {
 protected:
  static constexpr char kControlFolder[] = "unix:///run/planb-control/";

  static std::string Policy() {
    const std::string text = Shipped("sidecar.json");
    EXPECT_TRUE(absl::StrContains(text, kControlFolder));
    return absl::StrReplaceAll(text, {{kControlFolder, Control()}});
  }
  static std::string Open() {
    return absl::StrCat("unix://", PathOf("open.sock"));
  }
  static std::string Control() {
    return absl::StrCat("unix://", PathOf("control.sock"));
  }
  static ServerOptions Sockets() {
    ServerOptions options;
    options.listen = {Open(), Control(), "127.0.0.1:0"};
    return options;
  }

  Caller Tcp() {
    return Caller(RunningServer::Connect(
        absl::StrCat("127.0.0.1:", (*guarded_).port(2))));
  }

  Guarded guarded_{Policy(), Sockets()};
  Caller open_{RunningServer::Connect(Open())};
  Caller control_{RunningServer::Connect(Control())};
};

TEST_F(Sidecar, AllCallersLookUpAndRead) {
  Caller tcp = Tcp();
  for (Caller* const caller : {&open_, &control_, &tcp}) {
    EXPECT_EQ(caller->Lookup(), StatusCode::OK);
    EXPECT_EQ(caller->BatchLookup(), StatusCode::OK);
    EXPECT_EQ(caller->Health(), StatusCode::OK);
    EXPECT_EQ(caller->Read(), StatusCode::OK);
  }
  for (const char* service : {"lookup", "control", "other"}) {
    EXPECT_TRUE(guarded_.Denied(service, 0));
  }
}

TEST_F(Sidecar, OnlyTheControlSocketAllowsChanges) {
  EXPECT_EQ(open_.Change(), StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(open_.StreamChanges(), StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(Tcp().Change(), StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(open_.Read(), StatusCode::OK);
  EXPECT_EQ(open_.generation(), 0u) << "a denied change was made";
  EXPECT_TRUE(guarded_.Denied("control", 3));
  EXPECT_EQ(control_.Change(), StatusCode::OK);
  EXPECT_EQ(control_.StreamChanges(), StatusCode::OK);
  EXPECT_TRUE(guarded_.Denied("control", 3));
}

TEST_F(Sidecar, ClientCannotClaimAnotherSocket) {
  open_.AlwaysSend("planb-listener", Control());
  EXPECT_EQ(open_.Change(), StatusCode::PERMISSION_DENIED);
  control_.AlwaysSend("planb-listener", "elsewhere");
  EXPECT_EQ(control_.Change(), StatusCode::OK);
}

TEST_F(Sidecar, UnnamedMethodsAreDenied) {
  for (const char* path :
       {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
        "/planb.v1.RouteTable/NoSuchMethod", "/planb.v1.RouteLookups/Lookup",
        "/planb.v1.routelookup/Lookup", "/x", "/"}) {
    const grpc::Status status = open_.Call(path);
    EXPECT_EQ(status.error_code(), StatusCode::PERMISSION_DENIED) << path;
    EXPECT_EQ(status.error_message(),
              "the server's authorization policy does not allow it");
  }
  EXPECT_TRUE(guarded_.Denied("other", 5));
  EXPECT_TRUE(guarded_.Denied("control", 1));
  // A rule for all methods of a service covers methods that do not exist.
  EXPECT_EQ(open_.Call("/planb.v1.RouteLookup/NoSuchMethod").error_code(),
            StatusCode::UNIMPLEMENTED);
}

TEST_F(Sidecar, SurvivesCancelledCalls) {
  const auto stub = v1::RouteTable::NewStub(RunningServer::Connect(Open()));
  const auto lookups = v1::RouteLookup::NewStub(RunningServer::Connect(Open()));
  for (int i = 0; i < 200; ++i) {
    grpc::ClientContext denied, allowed;
    const auto changes = stub->StreamUpdates(&denied);
    const auto stream = lookups->BatchLookup(&allowed);
    stream->Write({});
    denied.TryCancel();
    allowed.TryCancel();
    EXPECT_FALSE(changes->Finish().ok());
    EXPECT_FALSE(stream->Finish().ok());
  }
  EXPECT_EQ(open_.BatchLookup(), StatusCode::OK);
  EXPECT_EQ(open_.Change(), StatusCode::PERMISSION_DENIED);
}

TEST_F(Sidecar, ReloadsThePolicyAndKeepsStreams) {
  grpc::ClientContext context;
  const auto stream = v1::RouteLookup::NewStub(RunningServer::Connect(Open()))
                          ->BatchLookup(&context);
  v1::BatchLookupResponse response;
  ASSERT_TRUE(stream->Write({}));
  ASSERT_TRUE(stream->Read(&response));
  Guarded::Write(R"({"name": "closed", "allow_rules": [
      {"name": "changes", "request": {"paths": ["*/UpdateRoutes"]}}]})");
  const absl::Time deadline = absl::Now() + absl::Minutes(1);
  while (open_.Change() != StatusCode::OK && absl::Now() < deadline) continue;
  EXPECT_EQ(open_.Change(), StatusCode::OK);
  EXPECT_EQ(open_.BatchLookup(), StatusCode::PERMISSION_DENIED);
  EXPECT_TRUE(guarded_.Denied("lookup", 1));
  EXPECT_TRUE(stream->Write({}));
  EXPECT_TRUE(stream->Read(&response));
  // A bad policy is refused and counted.
  Guarded::Write("{");
  while (absl::StrContains(guarded_.Metrics(),
                           "planb_authorization_policy_errors_total 0\n") &&
         absl::Now() < deadline) {
    continue;
  }
  EXPECT_LT(absl::Now(), deadline);
  EXPECT_EQ(open_.Change(), StatusCode::OK);
  EXPECT_EQ(open_.BatchLookup(), StatusCode::PERMISSION_DENIED);
}

// Covers methods that are added later: their names say whether they read.
TEST(SidecarPolicy, NamesEveryMethodThatReadsAndNoOther) {
  const auto policy = AuthorizationPolicy::Parse(Shipped("sidecar.json"));
  ASSERT_TRUE(policy.ok()) << policy.status();
  const auto allows = [&policy](const std::string& path,
                                const std::string& listener) {
    const auto header =
        [&listener](absl::string_view name) -> std::optional<std::string> {
      EXPECT_EQ(name, "planb-listener");
      return listener;
    };
    return policy->Judge({.path = path, .principals = {}, .header = header})
        .allowed;
  };
  const auto* const service =
      google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(
          v1::RouteTable::service_full_name());
  ASSERT_NE(service, nullptr);
  for (int i = 0; i < service->method_count(); ++i) {
    const std::string name = service->method(i)->name();
    const std::string path = absl::StrCat("/planb.v1.RouteTable/", name);
    const bool reads =
        absl::StartsWith(name, "Get") || absl::StartsWith(name, "List") ||
        absl::StartsWith(name, "Watch") || absl::StartsWith(name, "Export") ||
        absl::StartsWith(name, "Explain");
    EXPECT_EQ(allows(path, "unix:///run/planb/planb.sock"), reads) << name;
    EXPECT_TRUE(allows(path, "unix:///run/planb-control/planb.sock")) << name;
  }
}

// The cluster's policy, for clients with certificates of one authority.
class Cluster : public testing::Test {
 protected:
  static std::string Policy() {
    constexpr char kFolder[] = "unix:///run/planb/";
    const std::string text = Shipped("cluster.json");
    EXPECT_TRUE(absl::StrContains(text, kFolder));
    return absl::StrReplaceAll(text, {{kFolder, Local()}});
  }
  static std::string Local() {
    return absl::StrCat("unix://", PathOf("local.sock"));
  }
  ServerOptions Mutual() {
    files_.SetIdentity(authority_.Issue());
    files_.SetAuthority(authority_.certificate());
    ServerOptions options;
    options.listen = {"127.0.0.1:0", Local()};
    options.tls = {
        .cert = files_.cert(), .key = files_.key(), .client_ca = files_.ca()};
    return options;
  }

  Caller As(const std::string& common_name, const std::string& names) {
    const TestIdentity identity =
        authority_.Issue({.common_name = common_name, .names = names});
    const auto credentials =
        grpc::SslCredentials({.pem_root_certs = authority_.certificate(),
                              .pem_private_key = identity.key,
                              .pem_cert_chain = identity.certificate});
    return Caller(grpc::CreateChannel(
        absl::StrCat("127.0.0.1:", (*guarded_).port(0)), credentials));
  }

  TestAuthority authority_;
  TestTlsFiles files_;
  Guarded guarded_{Policy(), Mutual()};
};

TEST_F(Cluster, FunctionsLookUpAndChangeNothing) {
  for (const auto& [common_name, names] :
       std::vector<std::pair<std::string, std::string>>{
           {"f", "URI:spiffe://cluster.local/ns/network-functions/sa/router"},
           {"f", "DNS:router.network-functions.svc.cluster.local"}}) {
    Caller function = As(common_name, names);
    EXPECT_EQ(function.BatchLookup(), StatusCode::OK) << names;
    EXPECT_EQ(function.Lookup(), StatusCode::OK) << names;
    EXPECT_EQ(function.Health(), StatusCode::OK) << names;
    EXPECT_EQ(function.Change(), StatusCode::PERMISSION_DENIED) << names;
    EXPECT_EQ(function.Read(), StatusCode::PERMISSION_DENIED) << names;
  }
  EXPECT_TRUE(guarded_.Denied("control", 4));
}

TEST_F(Cluster, ControllersDoBoth) {
  for (const auto& [common_name, names] :
       std::vector<std::pair<std::string, std::string>>{
           {"c",
            "URI:spiffe://cluster.local/ns/planb-system/sa/"
            "planb-controller"},
           {"c", "DNS:planb-controller.planb-system.svc.cluster.local"},
           {"planb-controller", ""}}) {
    Caller controller = As(common_name, names);
    EXPECT_EQ(controller.Change(), StatusCode::OK) << names;
    EXPECT_EQ(controller.Read(), StatusCode::OK) << names;
    EXPECT_EQ(controller.BatchLookup(), StatusCode::OK) << names;
  }
}

TEST_F(Cluster, OtherNamesOfTheSameAuthorityAreDenied) {
  for (const auto& [common_name, names] :
       std::vector<std::pair<std::string, std::string>>{
           {"someone", ""},
           {"planb-controllers", "DNS:planb-controller"},
           {"f", "URI:spiffe://cluster.local/ns/network-functions"},
           {"f", "URI:spiffe://cluster.local/ns/network-functions2/sa/x"},
           {"spiffe://cluster.local/ns/network-functions/sa/x", ""}}) {
    Caller other = As(common_name, names);
    EXPECT_EQ(other.Health(), StatusCode::OK) << common_name;
    EXPECT_EQ(other.BatchLookup(), StatusCode::PERMISSION_DENIED)
        << common_name;
    EXPECT_EQ(other.Change(), StatusCode::PERMISSION_DENIED) << common_name;
  }
}

// A caller without a certificate has no name. Over the Unix socket `planbctl
// status` and `table list` work without one, as the documents say.
TEST_F(Cluster, LocalCallersSeeTheStateAndNoMore) {
  Caller local(RunningServer::Connect(Local()));
  EXPECT_EQ(local.Health(), StatusCode::OK);
  EXPECT_EQ(local.Read(), StatusCode::OK);
  EXPECT_EQ(local.Lookup(), StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(local.Change(), StatusCode::PERMISSION_DENIED);
  const auto* const service =
      google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(
          v1::RouteTable::service_full_name());
  ASSERT_NE(service, nullptr);
  std::vector<std::string> allowed;
  for (int i = 0; i < service->method_count(); ++i) {
    const std::string name = service->method(i)->name();
    if (local.Call(absl::StrCat("/planb.v1.RouteTable/", name)).error_code() !=
        StatusCode::PERMISSION_DENIED) {
      allowed.push_back(name);
    }
  }
  std::sort(allowed.begin(), allowed.end());
  EXPECT_EQ(allowed, (std::vector<std::string>{"GetTable", "ListReplicas",
                                               "ListTables"}));
}

TEST_F(Cluster, RemoteCallersCannotClaimTheSocket) {
  Caller other = As("someone", "");
  other.AlwaysSend("planb-listener", Local());
  EXPECT_EQ(other.Read(), StatusCode::PERMISSION_DENIED);
}

}  // namespace
}  // namespace planb::server
