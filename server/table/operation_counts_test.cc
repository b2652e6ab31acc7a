// SPDX-License-Identifier: Apache-2.0

#include "server/table/operation_counts.h"

#include <gtest/gtest.h>

#include "server/table/rib.h"

namespace planb::server {
namespace {

using Op = RouteChange::Op;
using Counts = OperationCounts;

constexpr const char* kPrefixes[] = {"10.0.0.0/8", "10.1.0.0/16",
                                     "192.0.2.0/24", "2001:db8::/32",
                                     "2001:db9::/32"};

RouteChange Change(Op op, int prefix, NextHopId next_hop) {
  return {op, *Prefix::Parse(kPrefixes[prefix]), next_hop};
}

// What the RIB makes of it, counted.
Counts Applied(Rib& rib, const UpdateBatch& batch) {
  const auto change = rib.Apply(batch);
  EXPECT_TRUE(change.ok()) << change.status();
  return AppliedOperations(batch, &change->delta);
}

TEST(OperationCounts, EachKindByWhatItDid) {
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

TEST(OperationCounts, AReplacementUpsertsAndDeletes) {
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

TEST(OperationCounts, WhatIsOnlyValidatedHasNone) {
  UpdateBatch batch;
  batch.changes = {Change(Op::kUpsert, 0, 1)};
  Counts expected;
  expected.counts[Counts::kUpsert] = {0, 1, 0};
  EXPECT_EQ(AppliedOperations(batch, nullptr), expected);
  batch.validate_only = true;
  EXPECT_EQ(AppliedOperations(batch, nullptr), Counts());
  EXPECT_EQ(RefusedOperations(batch), Counts());
}

TEST(OperationCounts, RefusedAsAWhole) {
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
