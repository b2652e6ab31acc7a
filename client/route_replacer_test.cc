// A replacement takes effect as a whole, or not at all.

#include "client/route_replacer.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "absl/time/clock.h"
#include "client/status.h"
#include "client/testing/fake_server.h"

namespace planb::client {
namespace {

Route MakeRoute(uint32_t i, NextHopId next_hop) {
  return {*Prefix::Create(Address::V4(i << 8), 24), next_hop};
}

class RouteReplacerTest : public ::testing::Test {
 protected:
  testing::FakeServer server_{
      {.routes = {MakeRoute(1, 1), MakeRoute(2, 2), MakeRoute(3, 3)}}};
};

TEST_F(RouteReplacerTest, ChangesWhatDiffers) {
  RouteReplacer replacer(server_.Channel());
  NextHop next_hop;
  next_hop.id = 7;
  ASSERT_TRUE(replacer.Add(next_hop).ok());
  ASSERT_TRUE(replacer.Add(NextHopGroup{.id = 9, .members = {{7, 1}}}).ok());
  ASSERT_TRUE(replacer.Add(MakeRoute(2, 2)).ok());
  ASSERT_TRUE(replacer.Add(MakeRoute(3, 9)).ok());
  ASSERT_TRUE(replacer.Add(MakeRoute(4, 7)).ok());
  EXPECT_EQ(server_.table().generation(), 1U);
  const auto response = replacer.Finish();
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->generation(), 2U);
  EXPECT_EQ(response->added(), 1U);
  EXPECT_EQ(response->changed(), 1U);
  EXPECT_EQ(response->removed(), 1U);
  EXPECT_EQ(response->unchanged(), 1U);
  const testing::FakeTable table = server_.table();
  EXPECT_EQ(table.routes().size(), 3U);
  EXPECT_FALSE(table.routes().contains(MakeRoute(1, 0).prefix));
  EXPECT_TRUE(table.next_hops().contains(7));
  EXPECT_TRUE(table.groups().contains(9));
}

TEST_F(RouteReplacerTest, NothingGivenEmptiesTheTable) {
  ASSERT_TRUE(RouteReplacer(server_.Channel()).Finish().ok());
  EXPECT_TRUE(server_.table().routes().empty());
}

TEST_F(RouteReplacerTest, SendsChunks) {
  RouteReplacer replacer(server_.Channel());
  constexpr uint32_t kRoutes = 10'000;  // of about 16 octets
  for (uint32_t i = 0; i < kRoutes; ++i) {
    ASSERT_TRUE(replacer.Add(MakeRoute(i, 1)).ok());
  }
  ASSERT_TRUE(replacer.Finish().ok());
  EXPECT_EQ(server_.table().routes().size(), kRoutes);
  EXPECT_GE(server_.batches_read(), 2U);
  EXPECT_LE(server_.batches_read(), 8U);
}

TEST_F(RouteReplacerTest, WithoutFinishNothingChanges) {
  {
    RouteReplacer replacer(server_.Channel());
    for (uint32_t i = 0; i < 10'000; ++i) {
      ASSERT_TRUE(replacer.Add(MakeRoute(i, 1)).ok());
    }
  }
  EXPECT_EQ(server_.table().generation(), 1U);
}

TEST_F(RouteReplacerTest, TheFirstMessageCarriesTheConditions) {
  v1::ReplaceRoutesRequest first;
  first.set_expected_generation(8);
  EXPECT_EQ(
      ErrorReason(RouteReplacer(server_.Channel(), first).Finish().status()),
      "GENERATION_MISMATCH");
  first.set_expected_generation(1);
  first.set_validate_only(true);
  const auto dry = RouteReplacer(server_.Channel(), first).Finish();
  ASSERT_TRUE(dry.ok()) << dry.status();
  EXPECT_EQ(dry->removed(), 3U);
  EXPECT_EQ(server_.table().generation(), 1U);
}

TEST_F(RouteReplacerTest, ARefusalEndsTheAdding) {
  v1::ReplaceRoutesRequest first;
  first.set_table("none");
  RouteReplacer replacer(server_.Channel(), first);
  const absl::Time give_up = absl::Now() + absl::Seconds(20);
  absl::Status status;
  for (uint32_t i = 0; status.ok() && absl::Now() < give_up; ++i) {
    status = replacer.Add(MakeRoute(i, 1));
  }
  EXPECT_EQ(ErrorReason(status), "TABLE_NOT_FOUND") << status;
  EXPECT_EQ(replacer.Finish().status(), status);
}

TEST_F(RouteReplacerTest, EndsByItsDeadline) {
  RouteReplacer replacer(server_.Channel(), {}, absl::Now() - absl::Seconds(1));
  EXPECT_EQ(replacer.Finish().status().code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(server_.table().generation(), 1U);
}

}  // namespace
}  // namespace planb::client
