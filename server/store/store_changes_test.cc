// SPDX-License-Identifier: Apache-2.0

#include "server/store/store_changes.h"

#include <gtest/gtest.h>

namespace planb::server {
namespace {

Route MakeRoute(const char* prefix, NextHopId next_hop) {
  return {Prefix::Parse(prefix).value(), next_hop};
}

AcceptedBatch Batch(Delta delta) {
  return {.delta = std::make_shared<const Delta>(std::move(delta))};
}

std::vector<Route> Routes(const StoreChanges& changes) {
  std::vector<Route> routes;
  for (const Route* route : changes.routes) routes.push_back(*route);
  return routes;
}

TEST(StoreChanges, LastStateOfEachPrefixInOrder) {
  const AcceptedBatch batches[] = {
      Batch({.generation = 1,
             .routes = {MakeRoute("10.0.0.0/8", 1), MakeRoute("::/0", 1),
                        MakeRoute("0.0.0.0/0", 1)}}),
      Batch({.generation = 2,
             .routes = {MakeRoute("::/0", kNoRoute),
                        MakeRoute("10.0.0.0/8", 2)}}),
      Batch({.generation = 3, .routes = {MakeRoute("::/0", 3)}}),
  };
  const StoreChanges changes = MergeBatches(batches);
  EXPECT_EQ(Routes(changes), (std::vector<Route>{MakeRoute("0.0.0.0/0", 1),
                                                 MakeRoute("10.0.0.0/8", 2),
                                                 MakeRoute("::/0", 3)}));
  EXPECT_EQ(changes.last->generation, 3U);
  EXPECT_EQ(
      Routes(MergeBatches(absl::MakeConstSpan(batches).first(2))),
      (std::vector<Route>{MakeRoute("0.0.0.0/0", 1), MakeRoute("10.0.0.0/8", 2),
                          MakeRoute("::/0", kNoRoute)}));
}

TEST(StoreChanges, LastStateOfObjects) {
  const AcceptedBatch batches[] = {
      Batch({.next_hops = {{.id = 1, .label = "old"}, {.id = 2}},
             .groups = {{.id = 5}},
             .deleted_next_hops = {3}}),
      Batch({.next_hops = {{.id = 1, .label = "new"}, {.id = 3}},
             .deleted_next_hops = {2},
             .deleted_groups = {5}}),
  };
  const StoreChanges changes = MergeBatches(batches);
  ASSERT_EQ(changes.next_hops.size(), 3U);
  EXPECT_EQ(changes.next_hops.at(1)->label, "new");
  EXPECT_EQ(changes.next_hops.at(2), nullptr);
  EXPECT_NE(changes.next_hops.at(3), nullptr);
  ASSERT_EQ(changes.groups.size(), 1U);
  EXPECT_EQ(changes.groups.at(5), nullptr);
}

TEST(StoreChanges, BatchesWithoutDelta) {
  const AcceptedBatch batches[] = {
      {.writer_epoch = 1, .request = AnsweredRequest{.request_id = "a"}},
      {.writer_epoch = 4},
      {.writer_epoch = 4, .request = AnsweredRequest{.request_id = "b"}},
  };
  const StoreChanges changes = MergeBatches(batches);
  EXPECT_EQ(changes.last, nullptr);
  EXPECT_EQ(changes.writer_epoch, 4U);
  ASSERT_EQ(changes.requests.size(), 2U);
  EXPECT_EQ(changes.requests[0]->request_id, "a");
  EXPECT_EQ(changes.requests[1]->request_id, "b");
}

}  // namespace
}  // namespace planb::server
