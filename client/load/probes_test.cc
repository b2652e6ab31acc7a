// Boundaries are probed on both sides, and nothing beyond a family's ends.

#include "client/load/probes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "lpm/synthetic/synthetic.h"

namespace planb::client {
namespace {

using ::testing::UnorderedElementsAre;

std::set<std::string> Boundaries(const char* prefix) {
  std::set<std::string> addresses;
  EXPECT_TRUE(VisitBoundaries({{*Prefix::Parse(prefix), 1}},
                              [&](const Address& address) {
                                addresses.insert(address.ToString());
                                return absl::OkStatus();
                              })
                  .ok());
  return addresses;
}

TEST(VisitBoundaries, BothSidesOfBothEnds) {
  EXPECT_THAT(Boundaries("192.0.2.0/24"),
              UnorderedElementsAre("192.0.1.255", "192.0.2.0", "192.0.2.1",
                                   "192.0.2.255", "192.0.3.0", "192.0.3.1"));
  EXPECT_THAT(Boundaries("2001:db8::1/128"),
              UnorderedElementsAre("2001:db8::", "2001:db8::1", "2001:db8::2",
                                   "2001:db8::3"));
}

TEST(VisitBoundaries, StaysWithinTheFamily) {
  EXPECT_THAT(Boundaries("0.0.0.0/0"),
              UnorderedElementsAre("0.0.0.0", "0.0.0.1", "255.255.255.255"));
  EXPECT_THAT(Boundaries("255.255.255.255/32"),
              UnorderedElementsAre("255.255.255.254", "255.255.255.255"));
  EXPECT_THAT(Boundaries("255.255.255.254/32"),
              UnorderedElementsAre("255.255.255.253", "255.255.255.254",
                                   "255.255.255.255"));
  EXPECT_THAT(Boundaries("::/128"), UnorderedElementsAre("::", "::1", "::2"));
  EXPECT_THAT(Boundaries("8000::/1"),
              UnorderedElementsAre("7fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
                                   "8000::", "8000::1",
                                   "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"));
}

TEST(VisitSamples, CountAndFamiliesAndSeed) {
  const auto routes = SyntheticTable({.ipv6_routes = 100, .ipv4_routes = 100});
  const auto sample = [&](size_t count, uint64_t seed) {
    std::vector<Address> addresses;
    EXPECT_TRUE(VisitSamples(routes, count, seed, [&](const Address& address) {
                  addresses.push_back(address);
                  return absl::OkStatus();
                }).ok());
    return addresses;
  };
  const std::vector<Address> some = sample(200'000, 3);
  EXPECT_EQ(some.size(), 200'000U);
  size_t v4 = 0;
  for (const Address& address : some) {
    if (address.family() == Family::kIpv4) ++v4;
  }
  EXPECT_GT(v4, some.size() / 4);
  EXPECT_LT(v4, some.size() * 3 / 4);
  EXPECT_EQ(sample(1000, 3), sample(1000, 3));
  EXPECT_NE(sample(1000, 3), sample(1000, 4));
}

TEST(VisitSamples, TheReceiverMayEndIt) {
  EXPECT_TRUE(absl::IsAborted(VisitSamples(
      {}, 10, 1, [](const Address&) { return absl::AbortedError("no"); })));
}

}  // namespace
}  // namespace planb::client
