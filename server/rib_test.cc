#include "server/rib.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "server/error.h"

namespace planb::server {
namespace {

using Op = RouteChange::Op;

Prefix P(absl::string_view text) { return *Prefix::Parse(text); }

// Checks, then applies.
ChangeCounts Do(Rib& rib, const std::vector<RouteChange>& changes,
                const std::vector<NextHop>& next_hops = {}) {
  const auto counts = rib.Check(changes, next_hops, false);
  EXPECT_TRUE(counts.ok()) << counts.status();
  rib.Apply(changes, next_hops);
  return *counts;
}

TEST(Rib, CountsWhatChanges) {
  Rib rib({});
  const auto first = Do(rib, {{Op::kUpsert, P("10.0.0.0/8"), 1},
                              {Op::kInsert, P("2001:db8::/32"), 2},
                              {Op::kDelete, P("::/0"), 0}});
  EXPECT_EQ(first.added, 2U);
  EXPECT_EQ(first.unchanged, 1U);
  const auto second = Do(rib, {{Op::kUpsert, P("10.0.0.0/8"), 1},
                               {Op::kReplace, P("2001:db8::/32"), 3}});
  EXPECT_EQ(second.unchanged, 1U);
  EXPECT_EQ(second.changed, 1U);
  const auto third = Do(rib, {{Op::kDeleteStrict, P("10.0.0.0/8"), 0}});
  EXPECT_EQ(third.removed, 1U);
  EXPECT_EQ(rib.Routes(), (std::vector<Route>{{P("2001:db8::/32"), 3}}));
  EXPECT_EQ(rib.size(Family::kIpv4), 0U);
  EXPECT_EQ(rib.lengths(Family::kIpv6)[32], 1U);
}

TEST(Rib, StrictOperationsSayWhichUpdateIsWrong) {
  Rib rib({});
  Do(rib, {{Op::kUpsert, P("10.0.0.0/8"), 1}});
  const auto exists =
      rib.Check(std::vector<RouteChange>{{Op::kUpsert, P("11.0.0.0/8"), 1},
                                         {Op::kInsert, P("10.0.0.0/8"), 1}},
                {}, false);
  EXPECT_TRUE(absl::IsAlreadyExists(exists.status()));
  EXPECT_EQ(ErrorReason(exists.status()), "ROUTE_EXISTS");
  EXPECT_EQ(ErrorField(exists.status()), "updates[1].prefix");
  for (Op op : {Op::kReplace, Op::kDeleteStrict}) {
    const auto absent = rib.Check(
        std::vector<RouteChange>{{op, P("12.0.0.0/8"), 1}}, {}, false);
    EXPECT_TRUE(absl::IsNotFound(absent.status()));
    EXPECT_EQ(ErrorReason(absent.status()), "ROUTE_NOT_FOUND");
  }
}

TEST(Rib, RefusesAPrefixTwiceInOneBatch) {
  Rib rib({});
  const auto twice =
      rib.Check(std::vector<RouteChange>{{Op::kUpsert, P("10.0.0.0/8"), 1},
                                         {Op::kDelete, P("10.0.0.0/8"), 0}},
                {}, false);
  EXPECT_TRUE(absl::IsInvalidArgument(twice.status()));
  EXPECT_EQ(ErrorReason(twice.status()), "PREFIX_REPEATED");
  EXPECT_EQ(ErrorField(twice.status()), "updates[1].prefix");
}

TEST(Rib, RefusesWhatWouldNotFit) {
  Rib rib({.max_routes = 2, .max_next_hops = 1});
  Do(rib, {{Op::kUpsert, P("10.0.0.0/8"), 1}, {Op::kUpsert, P("::/0"), 1}});
  const auto full = rib.Check(
      std::vector<RouteChange>{{Op::kUpsert, P("11.0.0.0/8"), 1}}, {}, false);
  EXPECT_TRUE(absl::IsResourceExhausted(full.status()));
  EXPECT_EQ(ErrorReason(full.status()), "TABLE_FULL");
  // One out, one in is fine, and so is changing what is there.
  Do(rib, {{Op::kDelete, P("::/0"), 0}, {Op::kUpsert, P("11.0.0.0/8"), 1}});
  Do(rib, {{Op::kUpsert, P("11.0.0.0/8"), 2}});
  const auto hops =
      rib.Check({}, std::vector<NextHop>{{.id = 1}, {.id = 2}}, false);
  EXPECT_EQ(ErrorReason(hops.status()), "NEXT_HOPS_FULL");
}

TEST(Rib, CanInsistOnNextHopObjects) {
  Rib rib({});
  const std::vector<RouteChange> change = {{Op::kUpsert, P("10.0.0.0/8"), 5}};
  const auto unknown = rib.Check(change, {}, true);
  EXPECT_TRUE(absl::IsNotFound(unknown.status()));
  EXPECT_EQ(ErrorField(unknown.status()), "updates[0].next_hop_id");
  EXPECT_TRUE(rib.Check(change, std::vector<NextHop>{{.id = 5}}, true).ok());
  Do(rib, {}, {{.id = 5, .label = "five"}});
  EXPECT_TRUE(rib.Check(change, {}, true).ok());
  EXPECT_EQ(rib.next_hops()->at(5).label, "five");
}

TEST(Rib, DigestDependsOnTheRoutesAndOnNothingElse) {
  std::mt19937 random(1);
  std::vector<RouteChange> changes;
  for (uint32_t i = 0; i < 1000; ++i) {
    changes.push_back(
        {Op::kUpsert, Prefix::Truncate(Address::V4(i << 12), 20), i % 7 + 1});
  }
  Rib straight({});
  EXPECT_EQ(straight.digest(), std::string(16, '\0'));
  Do(straight, changes);
  // In another order, one by one, with detours.
  Rib crooked({});
  std::shuffle(changes.begin(), changes.end(), random);
  for (const RouteChange& change : changes) {
    Do(crooked, {{Op::kUpsert, change.prefix, 99}});
    Do(crooked, {{Op::kUpsert, P("::/0"), 3}});
    Do(crooked, {change, {Op::kDelete, P("::/0"), 0}});
  }
  EXPECT_EQ(crooked.digest(), straight.digest());
  Do(crooked, {{Op::kUpsert, changes[0].prefix, 99}});
  EXPECT_NE(crooked.digest(), straight.digest());
  // The same bits as another family, length or next hop differ.
  Rib a({}), b({});
  Do(a, {{Op::kUpsert, P("0.0.0.0/0"), 1}});
  Do(b, {{Op::kUpsert, P("::/0"), 1}});
  EXPECT_NE(a.digest(), b.digest());
}

// Against the plainest model there is.
TEST(Rib, FollowsAModelThroughRandomBatches) {
  std::mt19937 random(2);
  Rib rib({});
  std::map<Prefix, NextHopId> model;
  for (int round = 0; round < 2000; ++round) {
    std::vector<RouteChange> changes;
    std::map<Prefix, NextHopId> next = model;
    for (uint32_t i = 0; i < random() % 8; ++i) {
      const Prefix prefix = Prefix::Truncate(
          Address::V4(static_cast<uint32_t>(random() % 64) << 26),
          static_cast<int>(random() % 7));
      if (std::any_of(changes.begin(), changes.end(),
                      [&](const auto& c) { return c.prefix == prefix; })) {
        continue;
      }
      if (random() % 2 == 0) {
        changes.push_back({Op::kDelete, prefix, 0});
        next.erase(prefix);
      } else {
        const auto next_hop = static_cast<NextHopId>(random() % 3 + 1);
        changes.push_back({Op::kUpsert, prefix, next_hop});
        next[prefix] = next_hop;
      }
    }
    const ChangeCounts counts = Do(rib, changes);
    EXPECT_EQ(counts.Any(), next != model);
    EXPECT_EQ(next.size(), model.size() + counts.added - counts.removed);
    model = next;
    std::vector<Route> expected;
    for (const auto& [prefix, hop] : model) expected.push_back({prefix, hop});
    ASSERT_EQ(rib.Routes(), expected);
    ASSERT_EQ(rib.size(), model.size());
  }
}

}  // namespace
}  // namespace planb::server
