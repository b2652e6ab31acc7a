// Tables read and changed through the client are the server's tables.

#include "client/table_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "absl/time/clock.h"
#include "client/convert.h"
#include "client/status.h"
#include "client/testing/fake_server.h"

namespace planb::client {
namespace {

using ::testing::ElementsAreArray;

// Sorted, and several chunks of the fake server's lists.
std::vector<Route> EightRoutes() {
  std::vector<Route> routes;
  for (uint32_t i = 1; i <= 8; ++i) {
    routes.push_back({*Prefix::Create(Address::V4(i << 24), 8), i});
  }
  return routes;
}

class TableClientTest : public ::testing::Test {
 protected:
  testing::FakeServer server_{{.routes = EightRoutes()}};
  TableClient client_{server_.Channel()};
};

TEST_F(TableClientTest, UpdatesAndDescribes) {
  v1::UpdateRoutesRequest request;
  v1::RouteUpdate* update = request.add_updates();
  update->set_op(v1::RouteUpdate::OP_UPSERT);
  *update->mutable_prefix() = ToProto(*Prefix::Parse("2001:db8::/32"));
  update->set_next_hop_id(9);
  const auto response = client_.UpdateRoutes(request);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->generation(), 2U);
  EXPECT_EQ(response->added(), 1U);
  const auto table = client_.GetTable("");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->routes_v4(), 8U);
  EXPECT_EQ(table->routes_v6(), 1U);
}

TEST_F(TableClientTest, ListsEveryRouteInOrder) {
  std::vector<Route> routes;
  const auto generation = client_.ListRoutes({}, [&](const Route& route) {
    routes.push_back(route);
    return absl::OkStatus();
  });
  ASSERT_TRUE(generation.ok()) << generation.status();
  EXPECT_EQ(*generation, 1U);
  EXPECT_THAT(routes, ElementsAreArray(EightRoutes()));
}

TEST_F(TableClientTest, TheCallerMayEndAList) {
  int seen = 0;
  const auto generation = client_.ListRoutes({}, [&](const Route&) {
    return ++seen < 4 ? absl::OkStatus() : absl::AbortedError("enough");
  });
  EXPECT_EQ(generation.status(), absl::AbortedError("enough"));
  EXPECT_EQ(seen, 4);
}

TEST_F(TableClientTest, ErrorsComeWithReasons) {
  v1::UpdateRoutesRequest update;
  update.set_expected_generation(7);
  EXPECT_EQ(ErrorReason(client_.UpdateRoutes(update).status()),
            "GENERATION_MISMATCH");
  EXPECT_EQ(ErrorReason(client_.GetTable("none").status()), "TABLE_NOT_FOUND");
  v1::ListRoutesRequest list;
  list.set_table("none");
  const auto ignore = [](const Route&) { return absl::OkStatus(); };
  EXPECT_EQ(ErrorReason(client_.ListRoutes(list, ignore).status()),
            "TABLE_NOT_FOUND");
  EXPECT_EQ(
      client_.GetTable("", absl::Now() - absl::Seconds(1)).status().code(),
      absl::StatusCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace planb::client
