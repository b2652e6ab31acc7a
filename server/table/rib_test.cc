// SPDX-License-Identifier: Apache-2.0

#include "server/table/rib.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "server/base/error.h"
#include "server/table/update.h"

namespace planb::server {
namespace {

using Op = RouteChange::Op;

Prefix P(absl::string_view text) { return *Prefix::Parse(text); }

UpdateBatch Batch(const std::vector<RouteChange>& changes,
                  const std::vector<NextHop>& next_hops = {}) {
  UpdateBatch batch;
  batch.changes = changes;
  batch.next_hops = next_hops;
  return batch;
}

ChangeCounts Do(Rib& rib, const UpdateBatch& batch) {
  Rib next = rib.Share();
  const auto change = next.Apply(batch);
  EXPECT_TRUE(change.ok()) << change.status();
  rib = std::move(next);
  return change->counts;
}

ChangeCounts Do(Rib& rib, const std::vector<RouteChange>& changes,
                const std::vector<NextHop>& next_hops = {}) {
  return Do(rib, Batch(changes, next_hops));
}

// The status of a batch that is applied to a copy.
absl::Status Try(const Rib& rib, const UpdateBatch& batch) {
  return rib.Share().Apply(batch).status();
}

std::vector<Route> Routes(const Rib& rib) {
  std::vector<Route> routes;
  for (Family family : {Family::kIpv4, Family::kIpv6}) {
    for (const Route& route : rib.routes(family)) routes.push_back(route);
  }
  return routes;
}

TEST(Rib, CountsChanges) {
  Rib rib(RibLimits{});
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
  EXPECT_EQ(Routes(rib), (std::vector<Route>{{P("2001:db8::/32"), 3}}));
  EXPECT_EQ(rib.routes(Family::kIpv4).size(), 0U);
  EXPECT_EQ(rib.lengths(Family::kIpv6)[32], 1U);
}

UpdateBatch Groups(std::vector<NextHopGroup> groups) {
  UpdateBatch batch;
  batch.groups = std::move(groups);
  return batch;
}

TEST(Rib, EnforcesLimits) {
  Rib rib({.max_routes = 2, .max_next_hops = 1});
  Do(rib, {{Op::kUpsert, P("10.0.0.0/8"), 1}, {Op::kUpsert, P("::/0"), 1}});
  const auto full = Try(rib, Batch({{Op::kUpsert, P("11.0.0.0/8"), 1}}));
  EXPECT_TRUE(absl::IsResourceExhausted(full));
  EXPECT_EQ(ErrorReason(full), "TABLE_FULL");
  // A full table accepts a delete with an insert, and a changed next hop.
  Do(rib, {{Op::kDelete, P("::/0"), 0}, {Op::kUpsert, P("11.0.0.0/8"), 1}});
  Do(rib, {{Op::kUpsert, P("11.0.0.0/8"), 2}});
  const auto hops = Try(rib, Batch({}, {{.id = 1}, {.id = 2}}));
  EXPECT_EQ(ErrorReason(hops), "NEXT_HOPS_FULL");
}

TEST(Rib, CanRequireNextHopObjects) {
  Rib rib(RibLimits{});
  UpdateBatch batch = Batch({{Op::kUpsert, P("10.0.0.0/8"), 5}});
  batch.require_next_hops = true;
  EXPECT_TRUE(absl::IsNotFound(Try(rib, batch)));
  batch.next_hops = {{.id = 5}};
  EXPECT_TRUE(Try(rib, batch).ok());
  batch.next_hops.clear();
  Do(rib, {}, {{.id = 5, .label = "five"}});
  EXPECT_TRUE(Try(rib, batch).ok());
  EXPECT_EQ(rib.next_hops().Find(5)->label, "five");
}

TEST(Rib, DigestDependsOnTheContentsOnly) {
  std::mt19937 random(1);
  std::vector<RouteChange> changes;
  for (uint32_t i = 0; i < 1000; ++i) {
    changes.push_back(
        {Op::kUpsert, Prefix::Truncate(Address::V4(i << 12), 20), i % 7 + 1});
  }
  Rib straight(RibLimits{});
  EXPECT_EQ(straight.digest(), std::string(16, '\0'));
  Do(straight, changes);
  // The same routes in another order, one at a time, with changes undone.
  Rib crooked(RibLimits{});
  std::shuffle(changes.begin(), changes.end(), random);
  for (const RouteChange& change : changes) {
    Do(crooked, {{Op::kUpsert, change.prefix, 99}});
    Do(crooked, {{Op::kUpsert, P("::/0"), 3}});
    Do(crooked, {change, {Op::kDelete, P("::/0"), 0}});
  }
  EXPECT_EQ(crooked.digest(), straight.digest());
  Do(crooked, {{Op::kUpsert, changes[0].prefix, 99}});
  EXPECT_NE(crooked.digest(), straight.digest());
  // The same bits in another family give another digest.
  Rib a(RibLimits{}), b(RibLimits{});
  Do(a, {{Op::kUpsert, P("0.0.0.0/0"), 1}});
  Do(b, {{Op::kUpsert, P("::/0"), 1}});
  EXPECT_NE(a.digest(), b.digest());
}

TEST(Rib, AMemberWithoutAWeightGetsThatOfItsNextHop) {
  Rib rib(RibLimits{});
  UpdateBatch batch;
  batch.next_hops = {{.id = 1, .weight = 90}, {.id = 2, .weight = 10}};
  batch.groups = {{.id = 100, .members = {{1, 0}, {2, 5}, {3, 0}}}};
  const auto weights = [&] {
    std::vector<uint32_t> each;
    for (const auto& member : rib.next_hops().FindGroup(100)->members) {
      each.push_back(member.weight);
    }
    return each;
  };
  auto change = rib.Apply(batch);
  ASSERT_TRUE(change.ok()) << change.status();
  EXPECT_EQ(weights(), (std::vector<uint32_t>{90, 5, 1}));
  EXPECT_EQ(change->delta.groups[0].members[0].weight, 90U);
  // A later weight is for the groups that are set later.
  UpdateBatch later;
  later.next_hops = {{.id = 1, .weight = 7}};
  ASSERT_TRUE(rib.Apply(later).ok());
  EXPECT_EQ(weights(), (std::vector<uint32_t>{90, 5, 1}));
  later.next_hops.clear();
  later.groups = batch.groups;
  ASSERT_TRUE(rib.Apply(later).ok());
  EXPECT_EQ(weights(), (std::vector<uint32_t>{7, 5, 1}));
  EXPECT_EQ(rib.Apply(later)->counts.next_hops_changed, 0U);
  UpdateBatch large;
  large.next_hops = {{.id = 1, .weight = 0xffffffff}};
  large.groups = {{.id = 100, .members = {{1, 0}, {3, 0}}}};
  const absl::Status refused = rib.Apply(large).status();
  EXPECT_EQ(ErrorReason(refused), "GROUP_INVALID");
  EXPECT_EQ(ErrorField(refused), "groups[0]");
}

TEST(Rib, DigestCoversEachFieldOfNextHopsAndGroups) {
  const NextHop next_hop = {.id = 1, .interface = "eth0", .label = "l"};
  const NextHopGroup group = {.id = 2, .members = {{1, 1}, {3, 1}}};
  std::vector<UpdateBatch> batches(10);
  for (UpdateBatch& batch : batches) {
    batch.replacement.emplace();
    batch.replace_next_hops = true;
    batch.next_hops = {next_hop};
    batch.groups = {group};
  }
  batches[1].next_hops.clear();
  batches[2].next_hops[0].gateway = Address::V4(1);
  batches[3].next_hops[0].interface = "eth1";
  batches[4].next_hops[0].label = "m";
  batches[5].next_hops[0].weight = 9;
  batches[6].groups.clear();
  batches[7].groups[0].members[1].weight = 2;
  batches[8].groups[0].label = "g";
  batches[9].next_hops[0].attributes = Attributes("a");
  Rib rib(RibLimits{});
  std::vector<std::string> digests;
  std::mt19937 random(4);
  for (int round = 0; round < 100; ++round) {
    const size_t i = random() % batches.size();
    digests.resize(batches.size());
    const auto change = rib.Apply(batches[i]);
    ASSERT_TRUE(change.ok()) << change.status();
    if (digests[i].empty()) digests[i] = rib.digest();
    // The same contents have the same digest after any history.
    ASSERT_EQ(rib.digest(), digests[i]) << i;
    ASSERT_EQ(change->delta.digest, digests[i]);
  }
  std::sort(digests.begin(), digests.end());
  EXPECT_FALSE(digests[0].empty());
  EXPECT_EQ(std::unique(digests.begin(), digests.end()), digests.end());
  UpdateBatch nothing;
  nothing.replacement.emplace();
  nothing.replace_next_hops = true;
  ASSERT_TRUE(rib.Apply(nothing).ok());
  EXPECT_EQ(rib.digest(), std::string(16, '\0'));
}

TEST(Rib, CountsTheBytesOfAttributes) {
  Rib rib(RibLimits{});
  UpdateBatch batch;
  batch.next_hops = {{.id = 1}, {.id = 2}};
  ASSERT_TRUE(rib.Apply(batch).ok());
  const size_t without = rib.bytes();
  EXPECT_FALSE(rib.next_hops().has_attributes());
  batch.next_hops[1].attributes = Attributes(std::string(4000, 'a'));
  const auto change = rib.Apply(batch);
  ASSERT_TRUE(change.ok()) << change.status();
  EXPECT_GE(rib.bytes(), without + 4000);
  EXPECT_LE(rib.bytes(), without + 4200);
  EXPECT_GE(change->delta.bytes(), 4000U);
  EXPECT_TRUE(rib.next_hops().has_attributes());
  EXPECT_TRUE(rib.Share().next_hops().has_attributes());
  batch.next_hops[1].attributes = {};
  ASSERT_TRUE(rib.Apply(batch).ok());
  EXPECT_EQ(rib.bytes(), without);
  EXPECT_FALSE(rib.next_hops().has_attributes());
}

TEST(Rib, AgreesWithAMapOverRandomBatches) {
  std::mt19937 random(2);
  Rib rib(RibLimits{});
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
    ASSERT_EQ(Routes(rib), expected);
    ASSERT_EQ(rib.size(), model.size());
  }
}

TEST(Rib, ADeltaHasEffectiveChangesOnly) {
  Rib rib(RibLimits{});
  Do(rib, {{Op::kUpsert, P("10.0.0.0/8"), 1}, {Op::kUpsert, P("::/0"), 1}});
  const auto change =
      rib.Share().Apply(Batch({{Op::kUpsert, P("10.0.0.0/8"), 1},
                               {Op::kUpsert, P("::/0"), 2},
                               {Op::kDelete, P("11.0.0.0/8"), 0},
                               {Op::kInsert, P("12.0.0.0/8"), 3}}));
  EXPECT_EQ(change->delta.routes,
            (std::vector<Route>{{P("12.0.0.0/8"), 3}, {P("::/0"), 2}}));
  EXPECT_EQ(change->counts.unchanged, 2U);
}

std::vector<Route> RandomTable(std::mt19937& random) {
  std::map<Prefix, NextHopId> table;
  for (uint32_t i = 0; i < random() % 300; ++i) {
    const auto bits = static_cast<uint32_t>(random());
    const Prefix v4 =
        Prefix::Truncate(Address::V4(bits), static_cast<int>(random() % 9));
    const Prefix v6 = Prefix::Truncate(
        Address::V6(absl::MakeUint128(uint64_t{bits} << 32, 0)),
        static_cast<int>(random() % 9));
    table[random() % 2 == 0 ? v4 : v6] =
        static_cast<NextHopId>(random() % 3 + 1);
  }
  std::vector<Route> routes;
  for (const auto& [prefix, hop] : table) routes.push_back({prefix, hop});
  return routes;
}

TEST(Rib, ADeltaOfAReplacementIsTheDifferenceAndVersionsAreIndependent) {
  std::mt19937 random(3);
  Rib rib(RibLimits{});
  for (int round = 0; round < 300; ++round) {
    const std::vector<Route> before = Routes(rib);
    Rib old = rib.Share();
    UpdateBatch batch;
    batch.replacement = RandomTable(random);
    if (round % 2 == 1) {
      // A few differences only.
      std::map<Prefix, NextHopId> few;
      for (const Route& route : before) {
        if (random() % 40 != 0) few[route.prefix] = route.next_hop;
      }
      for (uint32_t i = 0; i < random() % 3 && !batch.replacement->empty();
           ++i) {
        const Route& route =
            (*batch.replacement)[random() % batch.replacement->size()];
        few[route.prefix] = route.next_hop;
      }
      batch.replacement->clear();
      for (const auto& [prefix, hop] : few) {
        batch.replacement->push_back({prefix, hop});
      }
    }
    Rib next = rib.Share();
    const auto change = next.Apply(batch);
    ASSERT_TRUE(change.ok());
    ASSERT_EQ(Routes(next), *batch.replacement);
    ASSERT_EQ(Routes(old), before);
    // The delta, applied to the version before, gives the version after.
    UpdateBatch by_delta;
    for (const Route& route : change->delta.routes) {
      by_delta.changes.push_back(
          {route.next_hop == kNoRoute ? Op::kDeleteStrict : Op::kUpsert,
           route.prefix, route.next_hop});
    }
    const ChangeCounts counts = Do(old, by_delta);
    ASSERT_EQ(counts.unchanged, 0U);
    ASSERT_EQ(change->counts.unchanged + counts.added + counts.changed,
              batch.replacement->size());
    ASSERT_EQ(counts.added, change->counts.added);
    ASSERT_EQ(counts.changed, change->counts.changed);
    ASSERT_EQ(counts.removed, change->counts.removed);
    ASSERT_EQ(Routes(old), *batch.replacement);
    ASSERT_EQ(old.digest(), next.digest());
    ASSERT_EQ(old.lengths(Family::kIpv6), next.lengths(Family::kIpv6));
    rib = std::move(next);
  }
}

TEST(Rib, NextHopsInUseCannotBeDeleted) {
  Rib rib(RibLimits{});
  Do(rib,
     {{Op::kUpsert, P("10.0.0.0/8"), 5},
      {Op::kUpsert, P("::/0"), 5},
      {Op::kUpsert, P("11.0.0.0/8"), 100}},
     {{.id = 5}, {.id = 6}, {.id = 7}});
  Do(rib, Groups({{.id = 100, .members = {{6, 1}}}}));
  UpdateBatch batch;
  batch.deleted_next_hops = {5, 6};
  batch.deleted_groups = {100};
  const absl::Status used = Try(rib, batch);
  EXPECT_EQ(ErrorReason(used), "NEXT_HOP_IN_USE");
  EXPECT_NE(used.message().find("2 routes and 0 groups"), std::string::npos)
      << used;
  batch.deleted_groups.clear();
  batch.deleted_next_hops = {6};
  EXPECT_NE(Try(rib, batch).message().find("0 routes and 1 groups"),
            std::string::npos);
  batch.deleted_next_hops = {7};
  EXPECT_EQ(Do(rib, batch).next_hops_removed, 1U);
  EXPECT_EQ(ErrorReason(Try(rib, batch)), "NEXT_HOP_NOT_FOUND");
  // Together with the last route that uses it.
  batch = Batch({{Op::kDelete, P("11.0.0.0/8"), 0}});
  batch.deleted_groups = {100};
  batch.deleted_next_hops = {6};
  EXPECT_EQ(Do(rib, batch).next_hops_removed, 2U);
}

TEST(Rib, ADeletedGroupMayBecomeAMember) {
  Rib rib({});
  UpdateBatch batch;
  batch.groups = {{.id = 100, .members = {{1, 1}}}};
  Do(rib, batch);
  batch.groups = {{.id = 101, .members = {{100, 1}}}};
  batch.deleted_groups = {100};
  EXPECT_EQ(Do(rib, batch).next_hops_removed, 1U);
  // Not so a next hop: a group would then name one that was taken away.
  batch = {};
  batch.next_hops = {{.id = 7}};
  Do(rib, batch);
  batch = {};
  batch.deleted_next_hops = {7};
  batch.groups = {{.id = 102, .members = {{7, 1}}}};
  EXPECT_EQ(ErrorReason(Try(rib, batch)), "NEXT_HOP_IN_USE");
}

TEST(Rib, UsesAgreeWithAScanOverRandomBatches) {
  Rib rib({});
  // Gets the deltas, which no limit refuses.
  Rib follower({.max_routes = 1, .max_next_hops = 1});
  std::mt19937 random(7);
  const auto below = [&](uint32_t n) {
    return std::uniform_int_distribution<uint32_t>(0, n - 1)(random);
  };
  constexpr NextHopId kHops = 6;
  constexpr NextHopId kFirstGroup = 100;
  for (int round = 0; round < 3000; ++round) {
    UpdateBatch batch;
    if (below(20) == 0) {
      batch.replacement.emplace();
      for (uint32_t i = 0; i < 30; ++i) {
        if (below(2) == 0) continue;
        batch.replacement->push_back(
            {Prefix::Truncate(Address::V4(i << 24), 8), 1 + below(kHops)});
      }
    } else {
      const uint32_t first = below(20);
      const uint32_t end = first + below(10);
      for (uint32_t i = first; i < end; ++i) {
        const bool withdraw = below(3) == 0;
        batch.changes.push_back({withdraw ? Op::kDelete : Op::kUpsert,
                                 Prefix::Truncate(Address::V4(i << 24), 8),
                                 withdraw ? kNoRoute : 1 + below(kHops)});
      }
    }
    if (below(3) == 0) {
      batch.groups = {{.id = kFirstGroup + below(4),
                       .members = {{1 + below(3), 1}, {4 + below(3), 2}}}};
    } else if (below(3) == 0) {
      batch.deleted_groups = {kFirstGroup + below(4)};
    } else if (below(5) == 0) {
      // An id may change its kind.
      batch.next_hops = {{.id = kFirstGroup + below(4), .label = "hop"}};
      batch.replace_next_hops = true;
    }
    Rib next = rib.Share();
    const auto change = next.Apply(batch);
    if (change.ok()) {
      rib = std::move(next);
      const auto applied = follower.Apply(change->delta);
      ASSERT_TRUE(applied.ok()) << applied.status();
      ChangeCounts counts = change->counts;
      counts.unchanged = 0;  // a delta has effective changes only
      ASSERT_EQ(*applied, counts);
      ASSERT_EQ(follower.digest(), rib.digest());
      ASSERT_EQ(Routes(follower), Routes(rib));
    }
    for (NextHopId id = 1; id <= kHops; ++id) {
      NextHopUses expected = {.id = id};
      for (const Route& route : rib.routes(Family::kIpv4)) {
        expected.routes += route.next_hop == id ? 1 : 0;
      }
      for (const NextHopGroup& group : rib.next_hops().groups()) {
        for (const auto& member : group.members) {
          expected.groups += member.next_hop == id ? 1 : 0;
        }
      }
      const NextHopUses uses = rib.next_hops().Uses(id);
      ASSERT_EQ(uses.routes, expected.routes) << "round " << round;
      ASSERT_EQ(uses.groups, expected.groups) << "round " << round;
      ASSERT_EQ(follower.next_hops().Uses(id).routes, expected.routes);
      ASSERT_EQ(follower.next_hops().Uses(id).groups, expected.groups);
    }
  }
}

TEST(Rib, ADeltaThatNoServerMakesIsRefused) {
  Rib rib({});
  Do(rib, {}, {{.id = 5}});
  Do(rib, Groups({{.id = 100, .members = {{6, 1}}}}));
  const Route route = {P("10.0.0.0/8"), 1};
  const Route later = {P("::/0"), 1};
  const NextHopGroup::Member member = {.next_hop = 6, .weight = 1};
  const Delta wrong[] = {
      {.routes = {route, route}},
      {.routes = {later, route}},
      {.next_hops = {{.id = 100}}},
      {.groups = {{.id = 5, .members = {member}}}},
      {.groups = {{.id = 6, .members = {member}}}},
      {.groups = {{.id = 7, .members = {{.next_hop = 100, .weight = 1}}}}},
      {.groups = {{.id = 7, .members = {{.next_hop = 6, .weight = 0}}}}},
  };
  for (const Delta& delta : wrong) {
    const absl::Status refused = rib.Share().Apply(delta).status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  }
  const Delta right = {.routes = {route, later},
                       .groups = {{.id = 7, .members = {member}}},
                       .deleted_next_hops = {5}};
  const auto applied = rib.Share().Apply(right);
  EXPECT_TRUE(applied.ok()) << applied.status();
}

TEST(Rib, ADeltaTakesMemoryForWhatItChangesOnly) {
  Rib rib({});
  UpdateBatch batch;
  for (uint32_t i = 0; i < 100'000; ++i) {
    batch.changes.push_back(
        {Op::kUpsert, Prefix::Truncate(Address::V4(i << 8), 24), 1});
  }
  Do(rib, batch);
  batch.changes[7].next_hop = 2;
  const auto change = rib.Apply(batch);
  ASSERT_TRUE(change.ok());
  ASSERT_EQ(change->delta.routes.size(), 1U);
  EXPECT_LT(change->delta.bytes(), 1000U);
}

using Counts = OperationCounts;

constexpr const char* kPrefixes[] = {"10.0.0.0/8", "10.1.0.0/16",
                                     "192.0.2.0/24", "2001:db8::/32",
                                     "2001:db9::/32"};

RouteChange Change(Op op, int prefix, NextHopId next_hop) {
  return {op, *Prefix::Parse(kPrefixes[prefix]), next_hop};
}

// Applies a batch and returns its operations.
Counts Applied(Rib& rib, const UpdateBatch& batch) {
  const auto change = rib.Apply(batch);
  EXPECT_TRUE(change.ok()) << change.status();
  return change->operations;
}

TEST(OperationCounts, CountEachKindByResult) {
  Rib rib({});
  UpdateBatch first;
  first.changes = {Change(Op::kUpsert, 3, 7), Change(Op::kInsert, 0, 1),
                   Change(Op::kUpsert, 1, 2), Change(Op::kDelete, 2, 0)};
  Counts expected;
  expected.counts[Counts::kUpsert] = {2, 0, 0};
  expected.counts[Counts::kInsert] = {1, 0, 0};
  expected.counts[Counts::kDelete] = {0, 1, 0};
  EXPECT_EQ(Applied(rib, first), expected);

  UpdateBatch second;
  second.changes = {Change(Op::kUpsert, 3, 7), Change(Op::kReplace, 0, 1),
                    Change(Op::kReplace, 1, 9), Change(Op::kUpsert, 2, 3)};
  expected = {};
  expected.counts[Counts::kUpsert] = {1, 1, 0};
  expected.counts[Counts::kReplace] = {1, 1, 0};
  EXPECT_EQ(Applied(rib, second), expected);

  UpdateBatch third;
  third.changes = {Change(Op::kDeleteStrict, 3, 0), Change(Op::kDelete, 4, 0),
                   Change(Op::kDelete, 0, 0)};
  expected = {};
  expected.counts[Counts::kDelete] = {2, 1, 0};
  EXPECT_EQ(Applied(rib, third), expected);
}

TEST(OperationCounts, CountAReplacementAsUpsertsAndDeletes) {
  Rib rib({});
  UpdateBatch batch;
  batch.changes = {Change(Op::kUpsert, 0, 1), Change(Op::kUpsert, 1, 1),
                   Change(Op::kUpsert, 3, 1)};
  Applied(rib, batch);
  UpdateBatch replacement;
  replacement.replacement = std::vector<Route>{
      {*Prefix::Parse(kPrefixes[0]), 1},   // as it was
      {*Prefix::Parse(kPrefixes[1]), 2},   // changed; [3] goes
      {*Prefix::Parse(kPrefixes[2]), 1},   // new
      {*Prefix::Parse(kPrefixes[4]), 1}};  // new
  Counts expected;
  expected.counts[Counts::kUpsert] = {3, 1, 0};
  expected.counts[Counts::kDelete] = {1, 0, 0};
  EXPECT_EQ(Applied(rib, replacement), expected);

  expected = {};
  expected.counts[Counts::kUpsert] = {0, 0, 4};
  EXPECT_EQ(RefusedOperations(replacement), expected);
}

TEST(OperationCounts, AreZeroForAValidatedBatch) {
  UpdateBatch batch;
  batch.changes = {Change(Op::kUpsert, 0, 1)};
  Counts expected;
  expected.counts[Counts::kUpsert] = {0, 1, 0};
  EXPECT_EQ(UnchangedOperations(batch), expected);
  batch.validate_only = true;
  EXPECT_EQ(UnchangedOperations(batch), Counts());
  EXPECT_EQ(RefusedOperations(batch), Counts());
}

TEST(OperationCounts, CountARefusedBatchAsAWhole) {
  Counts counts;
  counts.counts[Counts::kUpsert] = {2, 1, 0};
  counts.counts[Counts::kDelete] = {0, 0, 4};
  Counts expected;
  expected.counts[Counts::kUpsert] = {0, 0, 3};
  expected.counts[Counts::kDelete] = {0, 0, 4};
  EXPECT_EQ(AllRefused(counts), expected);
}

}  // namespace
}  // namespace planb::server
