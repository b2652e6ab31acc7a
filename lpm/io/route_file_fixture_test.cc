// Small MRT files that other programs wrote (testdata/README.md): every route
// and every next hop in them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lpm/io/route_file.h"

namespace planb {
namespace {

using ::testing::IsEmpty;
using ::testing::UnorderedElementsAreArray;

struct Fixture {
  RouteFileReport report;
  std::vector<std::string> routes;     // "PREFIX via GATEWAY"
  std::vector<std::string> next_hops;  // "GATEWAY: LABEL"
};

Fixture ReadFixture(const std::string& name) {
  RouteCollector sink;
  absl::StatusOr<RouteFileReport> report = ReadRouteFile(
      absl::StrCat("lpm/io/testdata/", name), {.strict = true}, sink);
  EXPECT_TRUE(report.ok()) << report.status();
  if (!report.ok()) return {};
  Fixture fixture;
  fixture.report = *report;
  std::map<NextHopId, std::string> gateways;
  NextHopId next_id = 1;
  for (const NextHop& next_hop : sink.TakeNextHops()) {
    EXPECT_EQ(next_hop.id, next_id++);
    gateways[next_hop.id] = next_hop.gateway->ToString();
    fixture.next_hops.push_back(
        absl::StrCat(next_hop.gateway->ToString(), ": ", next_hop.label));
  }
  for (const Route& route : sink.TakeRoutes()) {
    fixture.routes.push_back(absl::StrCat(route.prefix.ToString(), " via ",
                                          gateways.at(route.next_hop)));
  }
  return fixture;
}

// What both scripts announce, and the paths that win.
const char* const kRoutes[] = {
    "0.0.0.0/0 via 198.51.100.1",
    "192.0.2.0/24 via 198.51.100.2",
    "203.0.113.128/25 via 198.51.100.2",
    "203.0.113.7/32 via 198.51.100.3",
    "::/0 via 2001:db8:ffff::1",
    "2001:db8::/32 via 2001:db8:ffff::1",
    "2001:db8:1::/48 via 2001:db8:ffff::2",
    "2001:db8:1:2::/63 via 2001:db8:ffff::3",
    "2001:db8:1:2::7/128 via 2001:db8:ffff::2",
};

TEST(RouteFileFixture, Bird) {
  const Fixture fixture = ReadFixture("bird.mrt");
  EXPECT_THAT(fixture.routes, UnorderedElementsAreArray(kRoutes));
  EXPECT_THAT(fixture.next_hops, UnorderedElementsAreArray({
                                     "198.51.100.1: AS64500 peer 127.0.0.2",
                                     "198.51.100.2: AS64500 peer ::1",
                                     "198.51.100.3: AS64500 peer ::1",
                                     "2001:db8:ffff::1: AS64500 peer 127.0.0.2",
                                     "2001:db8:ffff::2: AS64500 peer ::1",
                                     "2001:db8:ffff::3: AS64500 peer 127.0.0.2",
                                 }));
  EXPECT_EQ(fixture.report.routes, 9u);
  EXPECT_EQ(fixture.report.next_hops, 6u);
  EXPECT_EQ(fixture.report.malformed, 0u);
  EXPECT_EQ(fixture.report.ignored, 0u);
  EXPECT_FALSE(fixture.report.truncated);
  EXPECT_THAT(fixture.report.problems, IsEmpty());
}

TEST(RouteFileFixture, Gobgp) {
  const Fixture fixture = ReadFixture("gobgp.mrt");
  std::vector<std::string> routes(std::begin(kRoutes), std::end(kRoutes));
  // Its own, of a peer that its table does not have.
  routes.push_back("2001:db8:2::/48 via 2001:db8:ffff::4");
  EXPECT_THAT(fixture.routes, UnorderedElementsAreArray(routes));
  EXPECT_THAT(fixture.next_hops, UnorderedElementsAreArray({
                                     "198.51.100.1: AS64500 peer 127.0.0.2",
                                     "198.51.100.2: AS64500 peer 127.0.0.3",
                                     "198.51.100.3: AS64500 peer 127.0.0.3",
                                     "2001:db8:ffff::1: AS64500 peer 127.0.0.2",
                                     "2001:db8:ffff::2: AS64500 peer 127.0.0.3",
                                     "2001:db8:ffff::3: AS64500 peer 127.0.0.2",
                                     "2001:db8:ffff::4: unknown peer 3",
                                 }));
  EXPECT_EQ(fixture.report.routes, 10u);
  EXPECT_EQ(fixture.report.malformed, 0u);
  EXPECT_EQ(fixture.report.ignored, 0u);
  EXPECT_FALSE(fixture.report.truncated);
}

}  // namespace
}  // namespace planb
