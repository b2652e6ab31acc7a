// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "benchmarks/serving/visibility/update_workloads.h"
#include "lpm/routes/route_set.h"
#include "lpm/synthetic/synthetic.h"

namespace planb::visibility {
namespace {

std::vector<Route> Table(size_t routes) {
  return SyntheticTable({.ipv6_routes = routes});
}

std::vector<Route> AllOf(const RouteSet& set) {
  return {set.begin(), set.end()};
}

// In all tables a benchmark might have, the smallest too.
class BatchesTest : public testing::TestWithParam<size_t> {};

TEST_P(BatchesTest, NoneRepeatsAPrefixAndAllTogetherUndoThemselves) {
  const std::vector<Route> routes = Table(GetParam());
  for (const size_t size : {1, 100, 3000}) {
    const auto batches = MakeBatches(routes, size, 3, /*seed=*/1);
    ASSERT_TRUE(batches.ok()) << batches.status();
    ASSERT_EQ(batches->size(), 6U);
    RouteSet table(Family::kIpv6, routes);
    size_t changes = 0;
    for (const Batch& batch : *batches) {
      EXPECT_EQ(batch.size(), size);
      absl::flat_hash_set<Prefix> seen;
      for (const Route& change : batch) {
        EXPECT_TRUE(seen.insert(change.prefix).second);
        if (table.Exchange(change.prefix, change.next_hop) != change.next_hop) {
          ++changes;
        }
      }
    }
    EXPECT_EQ(AllOf(table), routes);
    EXPECT_GT(changes, 6 * size * 8 / 10) << "most change something";
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, BatchesTest, testing::Values(1000, 20'000));

TEST(NearTableTest, DiffersInOneOfAHundred) {
  const std::vector<Route> routes = Table(10'000);
  const std::vector<Route> near = NearTable(routes);
  ASSERT_EQ(near.size(), routes.size());
  EXPECT_TRUE(std::is_sorted(near.begin(), near.end()));
  EXPECT_EQ(RouteSet(Family::kIpv6, near).size(), near.size());
  const absl::flat_hash_set<Prefix> prefixes = [&routes] {
    absl::flat_hash_set<Prefix> all;
    for (const Route& route : routes) all.insert(route.prefix);
    return all;
  }();
  const RouteSet before(Family::kIpv6, routes);
  size_t changed = 0, added = 0;
  for (const Route& route : near) {
    const NextHopId was = before.Find(route.prefix);
    if (was == kNoRoute) {
      ++added;
    } else if (was != route.next_hop) {
      ++changed;
    }
  }
  EXPECT_EQ(changed + added, 100U);
  EXPECT_GT(added, 20U);
  EXPECT_GT(changed, 20U);
}

TEST(OtherTableTest, IsAsLargeAndHasNoRouteInCommon) {
  const std::vector<Route> routes = Table(10'000);
  const std::vector<Route> other = OtherTable(routes);
  ASSERT_EQ(other.size(), routes.size());
  EXPECT_TRUE(std::is_sorted(other.begin(), other.end()));
  const RouteSet before(Family::kIpv6, routes);
  for (const Route& route : other) {
    EXPECT_NE(before.Find(route.prefix), route.next_hop);
  }
}

TEST(EncodeTest, AnnouncesAndWithdraws) {
  const Prefix prefix = *Prefix::Parse("2001:db8::/32");
  google::protobuf::RepeatedPtrField<v1::RouteUpdate> updates;
  Encode({{prefix, 7}, {prefix, kNoRoute}}, updates);
  ASSERT_EQ(updates.size(), 2);
  EXPECT_EQ(updates[0].op(), v1::RouteUpdate::OP_UPSERT);
  EXPECT_EQ(updates[0].prefix().address(), prefix.address().ToPacked());
  EXPECT_EQ(updates[0].prefix().length(), 32U);
  EXPECT_EQ(updates[0].next_hop_id(), 7U);
  EXPECT_EQ(updates[1].op(), v1::RouteUpdate::OP_DELETE);
  EXPECT_EQ(updates[1].next_hop_id(), 0U);
}

TEST(EncodeTest, OnlyTheLastMessageOfATableCommits) {
  const std::vector<Route> routes = Table(12'000);
  const auto messages = EncodeTable(routes);
  ASSERT_GT(messages.size(), 1U);
  int sent = 0;
  for (const v1::ReplaceRoutesRequest& message : messages) {
    sent += message.routes_size();
    EXPECT_EQ(message.commit(), &message == &messages.back());
  }
  EXPECT_EQ(sent, 12'000);
  EXPECT_TRUE(EncodeTable({}).back().commit());
}

}  // namespace
}  // namespace planb::visibility
