// SPDX-License-Identifier: Apache-2.0

// Real calls to a real server under the policy for sidecars.

#include <google/protobuf/descriptor.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "server/security/authorization_policy.h"
#include "server/testing/guarded_server.h"
#include "server/testing/running_server.h"

namespace planb::server {
namespace {

using grpc::StatusCode;

// The sidecar's policy, with sockets where this test may have them.
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

TEST_F(Sidecar, EveryoneLooksUpAndReads) {
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

TEST_F(Sidecar, ChangesCanBeMadeOverTheControlSocketAlone) {
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

TEST_F(Sidecar, NoClientCanSayThatItCameByAnotherSocket) {
  open_.AlwaysSend("planb-listener", Control());
  EXPECT_EQ(open_.Change(), StatusCode::PERMISSION_DENIED);
  control_.AlwaysSend("planb-listener", "elsewhere");
  EXPECT_EQ(control_.Change(), StatusCode::OK);
}

TEST_F(Sidecar, WhatIsNotNamedIsDenied) {
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
  // What does not exist is allowed to be asked for where all is allowed.
  EXPECT_EQ(open_.Call("/planb.v1.RouteLookup/NoSuchMethod").error_code(),
            StatusCode::UNIMPLEMENTED);
}

TEST_F(Sidecar, SurvivesCallsThatAreGivenUp) {
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

TEST_F(Sidecar, TakesTheNextPolicyAndStreamsGoOn) {
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
  // A bad one is not taken, and that can be seen.
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

// A method that is new is in the policy or has a name of its kind.
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

}  // namespace
}  // namespace planb::server
