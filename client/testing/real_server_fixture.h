// SPDX-License-Identifier: Apache-2.0

// Runs planb_server as a child process. planbctl finds it through its
// environment. The test needs //server:planb_server in its data.

#ifndef PLANB_CLIENT_TESTING_REAL_SERVER_FIXTURE_H_
#define PLANB_CLIENT_TESTING_REAL_SERVER_FIXTURE_H_

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/testing/server_process.h"
#include "client/channel.h"

namespace planb::client::testing {

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

  const std::string target_ = absl::StrCat("unix://", TempPath("real.sock"));
  std::unique_ptr<ServerProcess> server_;
};

}  // namespace planb::client::testing

#endif  // PLANB_CLIENT_TESTING_REAL_SERVER_FIXTURE_H_
