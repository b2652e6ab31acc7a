// SPDX-License-Identifier: Apache-2.0

// Runs planb_server as a child process. planbctl finds it through its
// environment. The test needs //server:planb_server in its data.

#ifndef PLANB_CLIENT_TESTING_REAL_SERVER_FIXTURE_H_
#define PLANB_CLIENT_TESTING_REAL_SERVER_FIXTURE_H_

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/testing/server_process.h"
#include "client/channel.h"
#include "client/table_client.h"
#include "lpm/prefix.h"

namespace planb::client::testing {

// Writes a file of routes for --routes and returns its path.
inline std::string RoutesFile(const std::vector<Route>& routes) {
  const std::string path = TempPath("routes.txt");
  std::ofstream file(path);
  for (const Route& route : routes) {
    file << route.prefix.ToString() << ' ' << route.next_hop << '\n';
  }
  return path;
}

// A table of many routes with answers by arithmetic.
inline constexpr size_t kRoutes = 200;

// 2001:db8:I::/48 -> I + 1, and 10.0.I.0/24 -> I + 1, for I < kRoutes. The
// upper half of the addresses in 2001:db8:3::/48 does not decide.
inline std::vector<Route> ManyRoutes() {
  std::vector<Route> routes = {{*Prefix::Parse("2001:db8:3::8000:0/112"), 777}};
  for (uint32_t i = 0; i < kRoutes; ++i) {
    const absl::uint128 v6 =
        absl::MakeUint128(0x20010db8'0000'0000ULL | uint64_t{i} << 16, 0);
    routes.push_back({*Prefix::Create(Address::V6(v6), 48), i + 1});
    routes.push_back(
        {*Prefix::Create(Address::V4(0x0a000000U | i << 8), 24), i + 1});
  }
  return routes;
}

// An address of route number i.
inline std::string V6(uint64_t i) {
  return Address::V6(absl::MakeUint128(
                         0x20010db8'0000'0000ULL | (i % kRoutes) << 16, i))
      .ToPacked();
}
inline std::string V4(uint64_t i) {
  return Address::V4(0x0a000001U | static_cast<uint32_t>(i % kRoutes) << 8)
      .ToPacked();
}
inline uint32_t HopOf(uint64_t i) {
  return static_cast<uint32_t>(i % kRoutes) + 1;
}

// The target of a server of ManyRoutes(), in generation 1, for tests that only
// look up. It runs to the end of the program.
inline const std::string& SharedServer() {
  static const std::string target =
      absl::StrCat("unix://", TempPath("shared.sock"));
  static const ServerProcess server(
      {absl::StrCat("--listen=", target), "--store=none", "--metrics_address=",
       absl::StrCat("--routes=", RoutesFile(ManyRoutes())),
       "--max_generation_wait=0s"});
  static const bool serves = server.AwaitServing();
  EXPECT_TRUE(serves) << server.Log();
  return target;
}

class RealServerFixture : public ::testing::Test {
 protected:
  RealServerFixture() { setenv("PLANB_SERVER", target_.c_str(), 1); }

  void SetUp() override { Start("none"); }

  // `store` and `routes` are the values of planb_server's flags, `more` are
  // further flags; the last value of a flag counts.
  void Start(const std::string& store, const std::string& routes = "",
             const std::vector<std::string>& more = {}) {
    std::vector<std::string> flags = {
        absl::StrCat("--listen=", target_), absl::StrCat("--store=", store),
        absl::StrCat("--routes=", routes), "--metrics_address="};
    flags.insert(flags.end(), more.begin(), more.end());
    server_.reset();  // it has the target
    server_ = std::make_unique<ServerProcess>(flags);
    ASSERT_TRUE(server_->AwaitServing()) << server_->Log();
  }
  void Kill() {
    server_->Kill(SIGKILL);
    ASSERT_EQ(server_->Wait(), -SIGKILL);
  }

  std::shared_ptr<grpc::Channel> Channel() const {
    return *MakeChannel(target_, {.own_connection = true});
  }

  // The table "default".
  std::map<Prefix, NextHopId> ServedRoutes() const {
    std::map<Prefix, NextHopId> routes;
    const auto listed =
        TableClient(Channel()).ListRoutes({}, [&](const Route& route) {
          routes[route.prefix] = route.next_hop;
          return absl::OkStatus();
        });
    EXPECT_TRUE(listed.ok()) << listed.status();
    return routes;
  }
  uint64_t Generation() const {
    return TableClient(Channel()).GetTable("")->accepted_generation();
  }

  const std::string target_ = absl::StrCat("unix://", TempPath("real.sock"));
  std::unique_ptr<ServerProcess> server_;
};

}  // namespace planb::client::testing

#endif  // PLANB_CLIENT_TESTING_REAL_SERVER_FIXTURE_H_
