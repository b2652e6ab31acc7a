// SPDX-License-Identifier: Apache-2.0

// A batch that is prepared while others are staged has the effect of one that
// is staged after them.

#include "server/table/update_staging.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace planb::server {
namespace {

using Op = RouteChange::Op;

constexpr uint32_t kPrefixes = 24;
constexpr NextHopId kNextHops = 4;

// The i-th of kPrefixes prefixes of both families.
Prefix At(uint32_t i) {
  if (i % 2 == 0) return Prefix::Truncate(Address::V4(i << 24), 8);
  return Prefix::Truncate(Address::V6(absl::MakeUint128(uint64_t{i} << 48, 0)),
                          i % 3 == 0 ? 128 : 32);
}

class Random {
 public:
  explicit Random(uint64_t seed) : bits_(seed) {}

  uint32_t Below(uint32_t n) { return static_cast<uint32_t>(bits_() % n); }

  // Few prefixes, so that batches often change the same ones.
  UpdateBatch Changes(uint32_t most) {
    UpdateBatch batch;
    std::set<Prefix> seen;
    for (uint32_t n = Below(most) + 1; n > 0; --n) {
      const Prefix prefix = At(Below(kPrefixes));
      if (!seen.insert(prefix).second) continue;
      const bool withdraw = Below(3) == 0;
      batch.changes.push_back({withdraw ? Op::kDelete : Op::kUpsert, prefix,
                               withdraw ? kNoRoute : Below(kNextHops) + 1});
    }
    return batch;
  }

  UpdateBatch Replacement() {
    UpdateBatch batch;
    batch.replacement.emplace();
    for (uint32_t i = 0; i < kPrefixes; ++i) {
      if (Below(2) == 0) continue;
      batch.replacement->push_back({At(i), Below(kNextHops) + 1});
    }
    std::sort(batch.replacement->begin(), batch.replacement->end());
    return batch;
  }

  UpdateBatch Large() {
    UpdateBatch batch = Below(2) == 0 ? Changes(kPrefixes) : Replacement();
    batch.validate_only = Below(10) == 0;
    return batch;
  }

  // What may be staged while a large batch is prepared.
  UpdateBatch Small() {
    UpdateBatch batch = Below(8) == 0 ? Replacement() : Changes(4);
    if (Below(4) == 0) {
      batch.next_hops.push_back(
          {.id = Below(kNextHops) + 1, .label = absl::StrCat("n", Below(3))});
    }
    return batch;
  }

 private:
  std::mt19937_64 bits_;
};

std::vector<Route> Routes(const Rib& rib) {
  std::vector<Route> routes;
  for (Family family : {Family::kIpv4, Family::kIpv6}) {
    for (const Route& route : rib.routes(family)) routes.push_back(route);
  }
  return routes;
}

void ExpectSameHead(const UpdateStaging& got, const UpdateStaging& want) {
  const auto head = got.Head(), expected = want.Head();
  EXPECT_EQ(head.generation, expected.generation);
  EXPECT_EQ(Routes(head.rib), Routes(expected.rib));
  EXPECT_EQ(head.rib.digest(), expected.rib.digest());
  for (Family family : {Family::kIpv4, Family::kIpv6}) {
    EXPECT_EQ(head.rib.lengths(family), expected.rib.lengths(family));
  }
  for (NextHopId id = 1; id <= kNextHops; ++id) {
    EXPECT_EQ(head.rib.next_hops().Uses(id).routes,
              expected.rib.next_hops().Uses(id).routes)
        << id;
    EXPECT_EQ(head.rib.next_hops().Has(id), expected.rib.next_hops().Has(id));
  }
}

using Result = absl::StatusOr<UpdateStaging::Staged>;

void ExpectSame(const Result& got, const Result& want) {
  ASSERT_EQ(got.status(), want.status());
  if (!got.ok()) return;
  EXPECT_EQ(got->outcome.generation, want->outcome.generation);
  EXPECT_EQ(got->outcome.counts, want->outcome.counts);
  EXPECT_EQ(got->outcome.digest, want->outcome.digest);
  EXPECT_EQ(got->operations, want->operations);
  EXPECT_EQ(got->stores, want->stores);
  ASSERT_EQ(got->record.delta == nullptr, want->record.delta == nullptr);
  if (got->record.delta == nullptr) return;
  EXPECT_EQ(got->record.delta->routes, want->record.delta->routes);
  EXPECT_EQ(got->record.delta->generation, want->record.delta->generation);
  EXPECT_EQ(got->record.delta->previous, want->record.delta->previous);
  EXPECT_EQ(got->record.delta->digest, want->record.delta->digest);
}

TEST(UpdateStaging, APreparedBatchIsTheOneStagedAfterTheOthers) {
  int rebased = 0;
  for (uint64_t seed = 0; seed < 4'000; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    UpdateStaging::Options options = {.prepared_routes = 1};
    // A table that is sometimes full.
    if (seed % 4 == 0) options.limits.max_routes = 10;
    UpdateStaging prepares(options, {}), plain(options, {});
    const auto stage_both = [&](const UpdateBatch& batch) {
      ExpectSame(prepares.Stage(batch), plain.Stage(batch));
    };
    for (int i = 0; i < 3; ++i) stage_both(random.Small());
    const UpdateBatch large = random.Large();
    if (!prepares.WorthPreparing(large)) continue;
    auto prepared = prepares.Begin(large);
    ASSERT_TRUE(prepared.has_value());
    const uint32_t others = random.Below(4);
    for (uint32_t i = 0; i < others; ++i) stage_both(random.Small());
    UpdateStaging::Prepare(large, *prepared);
    if (random.Below(10) == 0) {
      prepares.Rollback();
      plain.Rollback();
    }
    rebased += prepared->change.ok() && others > 0 ? 1 : 0;
    ExpectSame(prepares.Stage(large, &*prepared), plain.Stage(large));
    ExpectSameHead(prepares, plain);
    stage_both(random.Small());
    ExpectSameHead(prepares, plain);
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(rebased, 1'000);
}

// More prefixes change meanwhile than are noted.
TEST(UpdateStaging, ABatchIsAppliedAnewAfterTooManyOthers) {
  const UpdateStaging::Options options = {.prepared_routes = 1};
  UpdateStaging prepares(options, {}), plain(options, {});
  Random random(1);
  const UpdateBatch large = random.Replacement();
  auto prepared = prepares.Begin(large);
  ASSERT_TRUE(prepared.has_value());
  UpdateStaging::Prepare(large, *prepared);
  UpdateBatch others;
  for (uint32_t i = 0; i < 60'000; ++i) {
    others.changes.push_back(
        {Op::kUpsert, Prefix::Truncate(Address::V4(i << 8), 24), 1});
  }
  ExpectSame(prepares.Stage(others), plain.Stage(others));
  ExpectSame(prepares.Stage(large, &*prepared), plain.Stage(large));
  ExpectSameHead(prepares, plain);
}

TEST(UpdateStaging, WhatDependsOnTheHeadIsNotPrepared) {
  const UpdateStaging staging({.prepared_routes = 1}, {});
  UpdateBatch batch;
  batch.changes = {{Op::kUpsert, At(0), 1}};
  EXPECT_TRUE(staging.WorthPreparing(batch));
  for (Op op : {Op::kInsert, Op::kReplace, Op::kDeleteStrict}) {
    UpdateBatch other = batch;
    other.changes[0].op = op;
    EXPECT_FALSE(staging.WorthPreparing(other));
  }
  UpdateBatch other = batch;
  other.require_next_hops = true;
  EXPECT_FALSE(staging.WorthPreparing(other));
  other = batch;
  other.deleted_next_hops = {1};
  EXPECT_FALSE(staging.WorthPreparing(other));
  EXPECT_FALSE(UpdateStaging({}, {}).WorthPreparing(batch));  // small
}

}  // namespace
}  // namespace planb::server
