// SPDX-License-Identifier: Apache-2.0

#include "server/control/stream_slots.h"

#include <gtest/gtest.h>

#include <vector>

#include "absl/time/clock.h"
#include "server/base/error.h"

namespace planb::server {
namespace {

class Slots : public testing::Test {
 protected:
  // How many of ten `client` gets. It keeps them.
  int Enter(StreamSlots& slots, const char* client) {
    int entered = 0;
    for (int i = 0; i < 10; ++i) {
      auto slot = slots.Enter(client);
      if (!slot.ok()) {
        EXPECT_EQ(ErrorReason(slot.status()), "TOO_MANY_STREAMS");
        EXPECT_EQ(slot.status().code(), absl::StatusCode::kResourceExhausted);
        continue;
      }
      ++entered;
      kept_.push_back(*std::move(slot));
    }
    return entered;
  }

  prometheus::Gauge gauge_;
  std::vector<StreamSlots::Slot> kept_;
};

TEST_F(Slots, OneClientGetsThreeQuarters) {
  StreamSlots slots("lists", 8, gauge_);
  EXPECT_EQ(Enter(slots, "a"), 6);
  EXPECT_EQ(Enter(slots, "a"), 0);
  EXPECT_EQ(Enter(slots, "b"), 2);
  EXPECT_EQ(Enter(slots, "c"), 0);
  EXPECT_EQ(slots.count(), 8u);
  EXPECT_EQ(gauge_.Value(), 8);
  kept_.clear();
  EXPECT_EQ(slots.count(), 0u);
  EXPECT_EQ(gauge_.Value(), 0);
  EXPECT_EQ(Enter(slots, "c"), 6);
  kept_.clear();
}

TEST_F(Slots, OneClientGetsAllOfAFew) {
  for (const size_t limit : {0u, 1u, 2u, 3u}) {
    StreamSlots slots("lists", limit, gauge_);
    EXPECT_EQ(Enter(slots, "a"), limit);
    kept_.clear();
  }
}

TEST_F(Slots, WaitUntilAllHaveLeft) {
  StreamSlots slots("lists", 1, gauge_);
  slots.AwaitIdle(SteadyAfter(absl::Minutes(1)));
  EXPECT_EQ(Enter(slots, "a"), 1);
  slots.AwaitIdle(SteadyAfter(absl::Milliseconds(1)));
  EXPECT_EQ(slots.count(), 1u);
  kept_.clear();
}

TEST(Client, IsAnAddressWithoutItsPort) {
  EXPECT_EQ(ClientOf("ipv4:192.0.2.1:4711"), ClientOf("ipv4:192.0.2.1:4712"));
  EXPECT_NE(ClientOf("ipv4:192.0.2.1:4711"), ClientOf("ipv4:192.0.2.2:4711"));
  EXPECT_EQ(ClientOf("ipv6:%5B2001:db8::1%5D:4711"),
            ClientOf("ipv6:%5B2001:db8::2:0:0:1%5D:4712"));
  EXPECT_NE(ClientOf("ipv6:%5B2001:db8::1%5D:4711"),
            ClientOf("ipv6:%5B2001:db8:0:1::1%5D:4711"));
  EXPECT_EQ(ClientOf("unix:"), ClientOf("unix:/run/planb/planb.sock"));
  EXPECT_NE(ClientOf("unix:"), ClientOf("ipv4:192.0.2.1:4711"));
}

}  // namespace
}  // namespace planb::server
