// SPDX-License-Identifier: Apache-2.0

// What a table tells of the operations that came to it: each batch once, when
// it is decided, whoever decided it.

#include <gtest/gtest.h>

#include <mutex>

#include "server/table/table.h"
#include "server/testing/fake_store.h"

namespace planb::server {
namespace {

using Op = RouteChange::Op;
using Counts = OperationCounts;

UpdateBatch Changes(std::initializer_list<std::pair<Op, const char*>> changes) {
  UpdateBatch batch;
  for (const auto& [op, prefix] : changes) {
    const bool goes = op == Op::kDelete || op == Op::kDeleteStrict;
    batch.changes.push_back(
        {op, *Prefix::Parse(prefix), goes ? kNoRoute : NextHopId{7}});
  }
  return batch;
}

// Sums up what it is told, and since when.
class Sum {
 public:
  TableEvents Events() {
    return {.operated = [this](const Counts& counts) {
      const std::lock_guard lock(mutex_);
      for (size_t op = 0; op < Counts::kOps; ++op) {
        for (size_t result = 0; result < Counts::kResults; ++result) {
          sum_.counts[op][result] += counts.counts[op][result];
        }
      }
    }};
  }
  // Since it was taken last.
  Counts Take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(sum_, Counts());
  }

 private:
  std::mutex mutex_;
  Counts sum_;
};

Counts Only(Counts::Op op, Counts::Result result, uint64_t count) {
  Counts counts;
  counts.counts[op][result] = count;
  return counts;
}

TEST(TableEvents, OperationsByWhatTheyDid) {
  Sum sum;
  Table table({.events = sum.Events()});
  ASSERT_TRUE(
      table.Apply(Changes({{Op::kInsert, "::/0"}, {Op::kInsert, "::/1"}}))
          .ok());
  EXPECT_EQ(sum.Take(), Only(Counts::kInsert, Counts::kChanged, 2));
  ASSERT_TRUE(table.Apply(Changes({{Op::kReplace, "::/0"}})).ok());
  EXPECT_EQ(sum.Take(), Only(Counts::kReplace, Counts::kUnchanged, 1));
  // The second cannot be, so the first is not done either.
  ASSERT_FALSE(table
                   .Apply(Changes({{Op::kDeleteStrict, "::/0"},
                                   {Op::kDeleteStrict, "::/2"}}))
                   .ok());
  EXPECT_EQ(sum.Take(), Only(Counts::kDelete, Counts::kRefused, 2));
  UpdateBatch validated = Changes({{Op::kUpsert, "::/3"}});
  validated.validate_only = true;
  ASSERT_TRUE(table.Apply(validated).ok());
  EXPECT_EQ(sum.Take(), Counts());
}

TEST(TableEvents, ARepeatedRequestChangesNothing) {
  Sum sum;
  Table table({.events = sum.Events()});
  UpdateBatch batch = Changes({{Op::kUpsert, "::/0"}});
  batch.request_id = "once";
  ASSERT_TRUE(table.Apply(batch).ok());
  EXPECT_EQ(sum.Take(), Only(Counts::kUpsert, Counts::kChanged, 1));
  ASSERT_TRUE(table.Apply(batch).ok());
  EXPECT_EQ(sum.Take(), Only(Counts::kUpsert, Counts::kUnchanged, 1));
}

TEST(TableEvents, AFrozenTableRefuses) {
  Sum sum;
  Table table({.events = sum.Events()});
  table.Freeze(absl::UnavailableError("closed"));
  ASSERT_FALSE(table.Apply(Changes({{Op::kUpsert, "::/0"}})).ok());
  EXPECT_EQ(sum.Take(), Only(Counts::kUpsert, Counts::kRefused, 1));
}

TEST(TableEvents, WhatTheStoreRefusesIsRefused) {
  Sum sum;
  FakeStore store;
  Table table({.store = &store, .events = sum.Events()});
  ASSERT_TRUE(table.Apply(Changes({{Op::kUpsert, "::/0"}})).ok());
  EXPECT_EQ(sum.Take(), Only(Counts::kUpsert, Counts::kChanged, 1));
  store.Fail(absl::UnavailableError("full"));
  store.Hold();
  auto first = table.Submit(Changes({{Op::kUpsert, "::/1"}}));
  store.AwaitCommits(2);
  auto second = table.Submit(Changes({{Op::kUpsert, "::/2"}}));
  store.Release();
  EXPECT_FALSE(first.get().ok());
  EXPECT_FALSE(second.get().ok());
  EXPECT_EQ(sum.Take(), Only(Counts::kUpsert, Counts::kRefused, 2));
}

}  // namespace
}  // namespace planb::server
