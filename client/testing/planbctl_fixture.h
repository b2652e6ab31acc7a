// SPDX-License-Identifier: Apache-2.0

// What the tests of planbctl share: a fake server with a few routes, which
// planbctl finds through its environment.

#ifndef PLANB_CLIENT_TESTING_PLANBCTL_FIXTURE_H_
#define PLANB_CLIENT_TESTING_PLANBCTL_FIXTURE_H_

#include <gtest/gtest.h>
#include <stdlib.h>

#include "client/testing/fake_server.h"
#include "client/testing/run_planbctl.h"

namespace planb::client::testing {

class PlanbctlFixture : public ::testing::Test {
 protected:
  PlanbctlFixture() { setenv("PLANB_SERVER", server_.target().c_str(), 1); }

  FakeServer server_{{.routes = {{*Prefix::Parse("2001:db8::/32"), 5},
                                 {*Prefix::Parse("2001:db8:1::/48"), 7},
                                 {*Prefix::Parse("10.0.0.0/8"), 6}}}};
};

}  // namespace planb::client::testing

#endif  // PLANB_CLIENT_TESTING_PLANBCTL_FIXTURE_H_
