// SPDX-License-Identifier: Apache-2.0

// Real calls to a real server under the policy for clusters.

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/testing/test_certificates.h"
#include "server/testing/guarded_server.h"
#include "server/testing/running_server.h"

namespace planb::server {
namespace {

using grpc::StatusCode;

// The cluster's policy, by certificates of one authority.
class Cluster : public testing::Test {
 protected:
  ServerOptions Mutual() {
    files_.SetIdentity(authority_.Issue());
    files_.SetAuthority(authority_.certificate());
    ServerOptions options;
    options.listen = {"127.0.0.1:0",
                      absl::StrCat("unix://", PathOf("local.sock"))};
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
  Guarded guarded_{Shipped("cluster.json"), Mutual()};
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

TEST_F(Cluster, OthersOfTheSameAuthorityGetNothing) {
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

// Who has no certificate has no name: the Unix socket is under the policy too.
TEST_F(Cluster, LocalCallersHaveNoName) {
  Caller local(
      RunningServer::Connect(absl::StrCat("unix://", PathOf("local.sock"))));
  EXPECT_EQ(local.Health(), StatusCode::OK);
  EXPECT_EQ(local.Lookup(), StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(local.Change(), StatusCode::PERMISSION_DENIED);
}

}  // namespace
}  // namespace planb::server
