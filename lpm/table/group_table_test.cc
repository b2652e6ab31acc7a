// SPDX-License-Identifier: Apache-2.0

// Shares follow weights, a change moves only the flows that it must move, and
// choices never change.

#include "lpm/table/group_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace planb {
namespace {

using Members = std::vector<NextHopGroup::Member>;

constexpr NextHopId kGroup = 1000;

std::shared_ptr<const GroupTable> TableOf(const Members& members) {
  return GroupTable::Make({{{.id = kGroup, .members = members}}}, nullptr);
}

Members Equals(uint32_t count, NextHopId first = 1) {
  Members members;
  for (uint32_t i = 0; i < count; ++i) {
    members.push_back({.next_hop = first + i});
  }
  return members;
}

// The members that the flows 0, `stride`, 2 * `stride`, ... take. Such hashes
// are poor on purpose.
std::vector<NextHopId> Choices(const Members& members, size_t flows,
                               uint32_t stride = 1) {
  const auto table = TableOf(members);
  std::vector<NextHopId> choices;
  choices.reserve(flows);
  for (uint32_t i = 0; i < flows; ++i) {
    choices.push_back(table->Choose(kGroup, i * stride));
  }
  return choices;
}

// Chi-square of the flows' shares against the weights, divided by the degrees
// of freedom: about 1 if every bucket is an independent draw.
double ChiSquare(const Members& members, const std::vector<NextHopId>& flows) {
  std::map<NextHopId, double> counts;
  for (const NextHopId choice : flows) ++counts[choice];
  double total = 0;
  for (const auto& member : members) total += member.weight;
  double sum = 0;
  double seen = 0;
  for (const auto& member : members) {
    const double buckets = static_cast<double>(GroupTable::kBuckets);
    const double due = member.weight / total * buckets;
    const double got =
        counts[member.next_hop] * buckets / static_cast<double>(flows.size());
    seen += got;
    sum += (got - due) * (got - due) / due;
  }
  EXPECT_NEAR(seen, GroupTable::kBuckets, 1e-6)
      << "a flow took a next hop that is not a member";
  return sum / static_cast<double>(members.size() - 1);
}

// An upper bound for the mean of chi-square over `degrees` degrees of freedom:
// five standard deviations, plus the noise of flows over buckets.
double Bound(double degrees) { return 1.1 + 5 * std::sqrt(2 / degrees); }

constexpr size_t kFlows = size_t{1} << 19;

TEST(GroupTable, ReturnsIdsThatAreNotGroupsUnchanged) {
  const GroupTable none;
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(none.Choose(7, 1), 7u);
  const auto table = TableOf(Equals(3));
  EXPECT_FALSE(table->empty());
  for (const NextHopId id : {kNoRoute, 1u, 999u, 1001u, kUndecided}) {
    EXPECT_EQ(table->Choose(id, 12345), id);
  }
}

TEST(GroupTable, SharesFollowWeights) {
  for (const Members& members :
       {Equals(2), Equals(3), Equals(16), Equals(100, 5000), Equals(256),
        Members{{1, 1}, {2, 2}, {3, 3}, {4, 4}}, Members{{7, 1}, {9, 9}},
        Members{{1, 1}, {2, 100}, {3, 10'000}}}) {
    const double degrees = static_cast<double>(members.size() - 1);
    EXPECT_LT(ChiSquare(members, Choices(members, kFlows)), Bound(degrees))
        << members.size() << " members";
  }
}

// A small bias shows only over many groups.
TEST(GroupTable, SharesHaveNoBias) {
  constexpr uint32_t kGroups = 100;
  const std::vector<uint32_t> weights = {1, 2, 5, 8};
  std::vector<double> shares(weights.size());
  double squares = 0;
  for (uint32_t group = 0; group < kGroups; ++group) {
    Members members;
    for (const uint32_t weight : weights) {
      const auto i = static_cast<uint32_t>(members.size());
      members.push_back({.next_hop = 10 * group + i + 1, .weight = weight});
    }
    const std::vector<NextHopId> flows = Choices(members, kFlows / 4);
    squares += ChiSquare(members, flows);
    for (const NextHopId choice : flows) ++shares[(choice - 1) % 10];
  }
  EXPECT_LT(squares / kGroups, Bound(3. * kGroups));
  EXPECT_GT(squares / kGroups, 2 - Bound(3. * kGroups));
  for (size_t i = 0; i < weights.size(); ++i) {
    const double due = weights[i] / 16.;
    const double deviation =
        std::sqrt(due * (1 - due) / (kGroups * GroupTable::kBuckets));
    EXPECT_NEAR(shares[i] / (kGroups * (kFlows / 4.)), due, 5 * deviation);
  }
}

TEST(GroupTable, PoorHashesAreSpread) {
  const Members members = Equals(8);
  for (const uint32_t stride : {2u, 256u, 1000u, 4096u, 10'007u, 0x9e3779b9u}) {
    const std::vector<NextHopId> flows =
        Choices(members, size_t{1} << 18, stride);
    EXPECT_LT(ChiSquare(members, flows), Bound(7) + 1) << stride;
  }
  // 4096 hashes that differ in the upper bits only: too few for all buckets.
  std::map<NextHopId, int> counts;
  for (const NextHopId choice : Choices(members, 4096, 1u << 20)) {
    ++counts[choice];
  }
  for (const auto& member : members) {
    EXPECT_NEAR(counts[member.next_hop], 512, 120);
  }
}

TEST(GroupTable, LargeWeightsAreExact) {
  const Members half = {{1, 1u << 31}, {2, (1u << 31) - 1}};
  EXPECT_LT(ChiSquare(half, Choices(half, kFlows)), Bound(1));
  const Members four = {{1, 3u << 30}, {2, 1u << 29}, {3, (1u << 29) - 1}};
  EXPECT_LT(ChiSquare(four, Choices(four, kFlows)), Bound(2));
  // A share that is much smaller than a bucket.
  const Members tiny = {{1, 1}, {2, 0xfffffffe}};
  const std::vector<NextHopId> flows = Choices(tiny, kFlows);
  EXPECT_LT(std::count(flows.begin(), flows.end(), 1u), kFlows / 1000);
}

// All groups of the members 1 to 4 with weights up to 3, and from each group
// every change of one member: leave, join, gain or lose weight.
TEST(GroupTable, AChangeMovesOnlyItsOwnFlows) {
  constexpr uint32_t kWeights = 4;  // 0: no member
  constexpr uint32_t kIds = 4;
  constexpr uint32_t kGroups = 256;
  const auto weight_of = [](uint32_t group, uint32_t member) {
    return group >> (2 * member) & 3;
  };
  std::vector<std::vector<NextHopId>> choices(kGroups);
  for (uint32_t group = 1; group < kGroups; ++group) {
    Members members;
    for (uint32_t i = 0; i < kIds; ++i) {
      const uint32_t weight = weight_of(group, i);
      if (weight > 0) members.push_back({.next_hop = i + 1, .weight = weight});
    }
    choices[group] = Choices(members, size_t{1} << 16);
  }
  for (uint32_t before = 1; before < kGroups; ++before) {
    for (uint32_t member = 0; member < kIds; ++member) {
      for (uint32_t weight = 0; weight < kWeights; ++weight) {
        const uint32_t former = weight_of(before, member);
        const uint32_t after =
            before - (former << (2 * member)) + (weight << (2 * member));
        if (after == 0 || weight == former) continue;
        size_t moved = 0;
        size_t astray = 0;
        for (size_t flow = 0; flow < choices[before].size(); ++flow) {
          const NextHopId from = choices[before][flow];
          const NextHopId to = choices[after][flow];
          if (from == to) continue;
          ++moved;
          if ((weight > former ? to : from) != member + 1) ++astray;
        }
        ASSERT_EQ(astray, 0u) << before << " to " << after;
        const bool alone = (before | after) >> (2 * member + 2) == 0 &&
                           ((before | after) & ((1u << 2 * member) - 1)) == 0;
        ASSERT_EQ(moved > 0, !alone) << before << " to " << after;
      }
    }
  }
}

TEST(GroupTable, OneOf256MembersLeavesAndReturns) {
  const Members all = Equals(256);
  const std::vector<NextHopId> before = Choices(all, kFlows);
  Members rest = all;
  rest.erase(rest.begin() + 100);  // next hop 101
  const std::vector<NextHopId> after = Choices(rest, kFlows);
  size_t moved = 0;
  for (size_t flow = 0; flow < kFlows; ++flow) {
    if (before[flow] == 101) {
      ASSERT_NE(after[flow], 101u);
      ++moved;
    } else {
      ASSERT_EQ(after[flow], before[flow]);
    }
  }
  EXPECT_NEAR(static_cast<double>(moved), kFlows / 256., kFlows / 256. * 0.6);
  EXPECT_EQ(Choices(all, kFlows), before);
}

TEST(GroupTable, ChoicesDoNotDependOnOrderOrGroupId) {
  Members members = {{31, 2}, {5, 1}, {1u << 31, 7}, {4294967294, 3}, {6, 0}};
  const std::vector<NextHopId> choices = Choices(members, 10'000);
  std::sort(members.begin(), members.end(), [](const auto& a, const auto& b) {
    return a.next_hop < b.next_hop;
  });
  members[1].weight = 1;  // which 0 means
  ASSERT_EQ(members[1].next_hop, 6u);
  EXPECT_EQ(Choices(members, 10'000), choices);
  std::reverse(members.begin(), members.end());
  EXPECT_EQ(Choices(members, 10'000), choices);
  const auto other =
      GroupTable::Make({{{.id = 7, .members = members}}}, nullptr);
  for (uint32_t flow = 0; flow < 10'000; ++flow) {
    ASSERT_EQ(other->Choose(7, flow), choices[flow]);
  }
}

// Every machine and every release must make the same choices: never record
// other values here.
TEST(GroupTable, ChoicesNeverChange) {
  // Computed by a separate program with floating-point logarithms.
  EXPECT_EQ(
      Choices(Equals(8), 16),
      (std::vector<NextHopId>{4, 6, 7, 7, 4, 2, 2, 6, 2, 7, 6, 6, 4, 8, 1, 2}));
  const Members members = {{1, 1}, {2, 2}, {3, 3}, {1u << 31, 4}, {77, 10}};
  EXPECT_EQ(Choices(members, 16),
            (std::vector<NextHopId>{77, 2, 77, 77, 77, 2, 77, 77, 77, 77, 3, 77,
                                    3, 3, 1, 2}));
  uint64_t digest = 0;
  for (const Members& group : {members, Equals(16), Equals(256, 1u << 20)}) {
    for (const NextHopId choice : Choices(group, 100'000, 0x9e3779b9)) {
      digest = (digest ^ choice) * 0x100000001b3;
    }
  }
  EXPECT_EQ(digest, 15754474508995320225u);
}

TEST(GroupTable, UnchangedGroupsShareTheirBuckets) {
  NextHopGroup a = {.id = 1000, .members = Equals(4)};
  NextHopGroup b = {.id = 1001, .members = Equals(4, 50)};
  const auto before = GroupTable::Make({a, b}, nullptr);
  EXPECT_EQ(before->size(), 2u);
  EXPECT_GE(before->bytes(), 2 * GroupTable::kBuckets);
  EXPECT_LE(before->bytes(), 2 * GroupTable::kGroupBytes);
  // A further group with the members of an existing one.
  NextHopGroup twin = {.id = 1002, .members = a.members, .label = "a twin"};
  std::reverse(twin.members.begin(), twin.members.end());
  const auto twins = GroupTable::Make({a, b, twin}, nullptr);
  EXPECT_LT(twins->bytes(), 3 * GroupTable::kBuckets);
  EXPECT_EQ(twins->Choose(1002, 99), twins->Choose(1000, 99));

  b.members[0].weight = 9;
  auto after = GroupTable::Make({a, b}, before.get());
  EXPECT_GE(after->bytes(before.get()), GroupTable::kBuckets);
  EXPECT_LT(after->bytes(before.get()), 2 * GroupTable::kBuckets);
  const auto afresh = GroupTable::Make({a, b}, nullptr);
  EXPECT_GE(afresh->bytes(before.get()), 2 * GroupTable::kBuckets);
  for (uint32_t flow = 0; flow < 1000; ++flow) {
    ASSERT_EQ(after->Choose(1000, flow), afresh->Choose(1000, flow));
    ASSERT_EQ(after->Choose(1001, flow), afresh->Choose(1001, flow));
  }
  after = GroupTable::Make({b}, after.get());
  EXPECT_EQ(after->Choose(1000, 5), 1000u);
  EXPECT_TRUE(GroupTable::Make({}, after.get())->empty());
}

TEST(GroupTable, ChooseEachAgreesWithChoose) {
  const auto table = GroupTable::Make({{.id = 1000, .members = Equals(5)},
                                       {.id = 1001, .members = Equals(6, 30)}},
                                      nullptr);
  std::vector<NextHopId> ids;
  std::string hashes;
  std::vector<NextHopId> expected;
  for (uint32_t i = 0; i < 500; ++i) {
    const NextHopId choices[] = {kNoRoute, 1000, 1000, 1001, 4, kUndecided};
    const uint32_t hash = i * 0x01234567;
    ids.push_back(choices[i * 7 / 3 % 6]);
    hashes.append(reinterpret_cast<const char*>(&hash), sizeof(hash));
    expected.push_back(table->Choose(ids.back(), hash));
  }
  // At odd addresses.
  hashes.insert(hashes.begin(), '\0');
  std::string answers(1 + ids.size() * sizeof(NextHopId), '\0');
  std::memcpy(&answers[1], ids.data(), answers.size() - 1);
  table->ChooseEach(&hashes[1], ids.size(), &answers[1]);
  EXPECT_EQ(std::memcmp(&answers[1], expected.data(), answers.size() - 1), 0);
}

TEST(GroupTableDeathTest, RefusesTooFewOrTooManyMembers) {
  EXPECT_DEATH(TableOf({}), "members");
  EXPECT_DEATH(TableOf(Equals(257)), "members");
}

}  // namespace
}  // namespace planb
