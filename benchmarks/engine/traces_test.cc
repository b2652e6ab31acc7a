// A trace holds the addresses of its kind of traffic, packed.

#include "benchmarks/engine/traces.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace planb {
namespace {

const std::vector<Route> kRoutes = {{*Prefix::Parse("10.0.0.0/8"), 1},
                                    {*Prefix::Parse("2001:db8::/32"), 2}};

TEST(Traces, HoldTheTrafficPacked) {
  for (Family family : {Family::kIpv4, Family::kIpv6}) {
    const auto trace = MakeTrace(TraceKind::kMatch, family, kRoutes, 1000, 5);
    ASSERT_TRUE(trace.ok());
    EXPECT_EQ(trace->size(), 1000U);
    EXPECT_EQ(trace->family(), family);
    EXPECT_EQ(trace->width(), static_cast<size_t>(AddressBytes(family)));
    size_t i = 0;
    ASSERT_TRUE(MakeTraffic(TraceKind::kMatch, family, kRoutes, 1000, 5,
                            [&](const Address& address) {
                              ASSERT_EQ(trace->address(i), address);
                              EXPECT_EQ(std::memcmp(trace->at(i),
                                                    address.ToPacked().data(),
                                                    trace->width()),
                                        0);
                              ++i;
                            })
                    .ok());
    EXPECT_EQ(i, 1000U);
  }
}

TEST(Traces, NeedRoutesToDrawFrom) {
  EXPECT_EQ(MakeTrace(TraceKind::kMatch, Family::kIpv6, {}, 1).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace planb
