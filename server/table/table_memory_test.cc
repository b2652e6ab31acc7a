// SPDX-License-Identifier: Apache-2.0

// Replaces operator new. Every allocation of an update fails in turn: the table
// must then be as before or have the whole update, and take further updates.
// And bytes are counted: what admission admits fits.

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "lpm/fib/fib_compiler.h"
#include "lpm/routes/table_digest.h"
#include "lpm/synthetic/synthetic.h"
#include "lpm/testing/operator_new.h"
#include "server/base/error.h"
#include "server/table/table.h"
#include "server/testing/fake_store.h"

namespace planb::server {
namespace {

constexpr size_t kAll = std::numeric_limits<size_t>::max();
// How many allocations of this thread succeed before one fails.
thread_local size_t granted = kAll;
// The same of large ones, of all threads but those that are spared.
constexpr size_t kLarge = 4096;
std::atomic<size_t> granted_large = kAll;
thread_local bool spared = false;
// Of all threads: bytes in use, and the most there were.
std::atomic<size_t> allocated = 0, peak = 0;

}  // namespace
}  // namespace planb::server

namespace planb {

void* Allocate(size_t size, size_t alignment) {
  if (server::granted == 0) throw std::bad_alloc();
  if (server::granted != server::kAll) --server::granted;
  if (size >= server::kLarge && !server::spared) {
    size_t left = server::granted_large;
    while (left != server::kAll && left != 0 &&
           !server::granted_large.compare_exchange_weak(left, left - 1)) {
    }
    if (left == 0) throw std::bad_alloc();
  }
  void* const block =
      std::aligned_alloc(alignment, (size + alignment) / alignment * alignment);
  if (block == nullptr) std::abort();
  const size_t now = server::allocated += malloc_usable_size(block);
  size_t most = server::peak;
  while (now > most && !server::peak.compare_exchange_weak(most, now)) {
  }
  return block;
}

void Free(void* block) {
  if (block != nullptr) server::allocated -= malloc_usable_size(block);
  std::free(block);
}

}  // namespace planb

namespace planb::server {
namespace {

// An update of everything that an update can have.
UpdateBatch Everything(NextHopId n) {
  UpdateBatch batch;
  for (uint32_t i = 0; i < 300; ++i) {
    batch.changes.push_back({RouteChange::Op::kUpsert,
                             Prefix::Truncate(Address::V4(i << 16), 16), n});
  }
  batch.next_hops = {{.id = n,
                      .interface = "an interface",
                      .label = "a label of some length"}};
  batch.groups = {{.id = 1'000'000 + n, .members = {{n, 1}}, .label = "group"}};
  batch.request_id = absl::StrCat("a request with a long name ", n);
  batch.fingerprint = n;
  batch.writer_epoch = n;
  return batch;
}

// Lets the first, second ... allocation of Submit fail until none does.
void FailEachAllocation(TableOptions options) {
  Table table(std::move(options));
  ASSERT_TRUE(table.Apply(Everything(1)).ok());
  uint64_t accepted = 1;
  size_t failures = 0;
  for (size_t n = 0;; ++n) {
    const auto next = static_cast<NextHopId>(accepted + 1);
    const UpdateBatch batch = Everything(next);
    const std::string digest = table.state().digest();
    bool failed = false;
    try {
      granted = n;
      std::future<Table::Outcome> outcome = table.Submit(batch);
      granted = kAll;
      const Table::Outcome answer = outcome.get();
      if (answer.ok()) {
        ASSERT_EQ(answer->generation, next);
      } else {
        ASSERT_EQ(ErrorReason(answer.status()), "MEMORY_LIMIT");
        failed = true;
        ++failures;
      }
    } catch (const std::bad_alloc&) {
      granted = kAll;
      failed = true;
      ++failures;
    }
    if (failed) {
      ASSERT_EQ(table.state().accepted_generation(), accepted)
          << "allocation " << n;
      ASSERT_EQ(table.state().digest(), digest);
    } else {
      accepted = next;
    }
    // The table goes on, also with the batch that failed.
    const Table::Outcome again = table.Apply(batch);
    ASSERT_TRUE(again.ok()) << "allocation " << n << ": " << again.status();
    ASSERT_EQ(again->generation, next);
    accepted = next;
    ASSERT_TRUE(table.AwaitVisible(next).ok());
    if (!failed) break;
  }
  EXPECT_GT(failures, 20U);
}

TEST(TableMemory, AnUpdateThatFindsNoMemoryChangesNothing) {
  FailEachAllocation({});
}

TEST(TableMemory, AnUpdateThatFindsNoMemoryIsNotStored) {
  FakeStore store;
  FailEachAllocation({.store = &store});
  for (size_t i = 0; i < store.commits.size(); ++i) {
    ASSERT_EQ(store.commits[i].size(), 1U);
    ASSERT_EQ(store.commits[i][0].delta->generation, i + 1);
  }
}

// What another server did is applied by a job. Lets its first, second ... large
// allocation fail, and all after it, until there is memory again.
void ExpectAppliedLater(void (*tell)(Table& table, std::vector<Route> routes)) {
  spared = true;
  std::vector<Route> routes;
  TableDigest digest;
  for (uint32_t i = 0; i < 2'000; ++i) {
    routes.push_back({Prefix::Truncate(Address::V4(i << 12), 20), 1 + i});
    digest.Add(routes.back());
  }
  UpdateBatch small;
  small.changes = {{RouteChange::Op::kUpsert, routes[0].prefix, 7}};
  size_t failures = 0;
  for (bool failed = true; failed; granted_large = kAll) {
    FakeStore store;
    Table table(StoredTable(), {.store = &store});
    granted_large = failures;
    tell(table, routes);
    bool applied = false;
    do {
      absl::SleepFor(absl::Milliseconds(1));
      applied = table.state().accepted_generation() > 0;
    } while (table.replication_error().empty() && !applied);
    failed = !applied;
    if (failed) {
      const absl::Status refused = table.Apply(small).status();
      ASSERT_TRUE(absl::IsResourceExhausted(refused)) << refused;
      ASSERT_EQ(ErrorReason(refused), "MEMORY_LIMIT");
      ++failures;
    }
    granted_large = kAll;
    ASSERT_TRUE(table.AwaitVisible(1, SteadyAfter(absl::Seconds(60))).ok());
    EXPECT_EQ(table.state().digest(), digest.ToString());
    while (!table.replication_error().empty()) {
      absl::SleepFor(absl::Milliseconds(1));
    }
    const Table::Outcome outcome = table.Apply(small);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_EQ(outcome->generation, 2U);
    EXPECT_TRUE(store.stopped.ok()) << store.stopped;
  }
  EXPECT_GT(failures, 1U);
}

TEST(TableMemory, WhatOthersAppendedIsAppliedOnceThereIsMemory) {
  ExpectAppliedLater([](Table& table, std::vector<Route> routes) {
    TableDigest digest;
    for (const Route& route : routes) digest.Add(route);
    table.Follow({.position = 1,
                  .batches = {{.delta = std::make_shared<const Delta>(
                                   Delta{.generation = 1,
                                         .routes = std::move(routes),
                                         .digest = digest.ToString()})}}});
  });
}

TEST(TableMemory, ATableAsAWholeIsAppliedOnceThereIsMemory) {
  ExpectAppliedLater([](Table& table, std::vector<Route> routes) {
    StoredTable whole;
    whole.position = 1;
    whole.generation = 1;
    whole.routes = std::move(routes);
    table.Follow({.whole = std::make_unique<StoredTable>(std::move(whole))});
  });
}

// Withdrawals of what is not there, until it is known that another server has
// announced it. Lets the first, second ... large allocation then fail, and all
// after it.
TEST(TableMemory, BatchesThatCameToChangeSomethingFindRoomOrAreRefused) {
  spared = true;
  // Builds wait, so that what is accepted piles up.
  static std::atomic<bool> waits, waiting;
  constexpr uint32_t kBatches = 300;
  const auto prefix = [](uint32_t i) {
    return Prefix::Truncate(Address::V4(i << 12), 20);
  };
  Delta announced = {.generation = 2, .previous = 1};
  TableDigest digest;
  for (uint32_t i = 0; i <= kBatches; ++i) {
    const Route route = {prefix(i), 7};
    digest.Add(route);
    if (i < kBatches) announced.routes.push_back(route);
  }
  announced.digest = digest.ToString();
  size_t failures = 0;
  for (uint64_t applied = 0; applied < kBatches; ++failures) {
    FakeStore store;
    store.others_write = true;
    waits = waiting = false;
    Table table(StoredTable(), {.store = &store, .build_fault = [](uint64_t) {
                                  waiting = true;
                                  waits.wait(true);
                                  return absl::OkStatus();
                                }});
    waits = true;
    waiting = false;
    UpdateBatch batch;
    batch.changes = {{RouteChange::Op::kUpsert, prefix(kBatches), 7}};
    ASSERT_TRUE(table.Apply(batch).ok());
    while (!waiting) absl::SleepFor(absl::Milliseconds(1));
    store.Hold();
    std::vector<std::future<Table::Outcome>> outcomes;
    for (uint32_t i = 0; i < kBatches; ++i) {
      batch.changes = {{RouteChange::Op::kDelete, prefix(i), kNoRoute}};
      outcomes.push_back(table.Submit(batch));
    }
    // The first of them is with the store: it gets the conflict.
    store.AwaitCommits(2);
    table.Follow(
        {.position = 2,
         .batches = {{.delta = std::make_shared<const Delta>(announced)}}});
    store.Fail(StoreConflict());
    granted_large = failures;
    store.Release();
    applied = 0;
    for (auto& each : outcomes) {
      const Table::Outcome outcome = each.get();
      if (outcome.ok()) {
        ASSERT_EQ(outcome->counts.removed, 1U);
        ++applied;
      } else {
        ASSERT_EQ(ErrorReason(outcome.status()), "MEMORY_LIMIT")
            << outcome.status();
      }
    }
    granted_large = kAll;
    waits = false;
    waits.notify_all();
    // What the other server did is there in any case.
    ASSERT_TRUE(
        table.AwaitVisible(2 + applied, SteadyAfter(absl::Seconds(60))).ok());
    EXPECT_EQ(table.state().routes_v4(), 1 + kBatches - applied);
  }
  EXPECT_GT(failures, 1U);
}

// A table that waits for memory ends all the same.
TEST(TableMemory, ATableThatWaitsForMemoryEnds) {
  spared = true;
  FakeStore store;
  {
    Table table(StoredTable(), {.store = &store});
    granted_large = 0;
    StoredTable whole;
    whole.generation = 1;
    for (uint32_t i = 0; i < 2'000; ++i) {
      whole.routes.push_back(
          {Prefix::Truncate(Address::V4(i << 12), 20), 1 + i});
    }
    table.Follow({.whole = std::make_unique<StoredTable>(std::move(whole))});
    while (table.replication_error().empty()) {
      absl::SleepFor(absl::Milliseconds(1));
    }
    table.Freeze(DrainingError());
  }
  granted_large = kAll;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr size_t kRoutes = 0;
#else
constexpr size_t kRoutes = 300'000;
#endif

// Hosts anywhere: hardly two share a line.
std::vector<Route> Scattered(size_t count) {
  std::vector<Route> routes;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t high = i * 0x9e3779b97f4a7c15;
    const uint64_t low = i * 0xd1342543de82ef95 + 1;
    routes.push_back(
        {Prefix::Truncate(Address::V6(absl::MakeUint128(high, low)), 128),
         static_cast<NextHopId>(1 + i % 7)});
  }
  std::sort(routes.begin(), routes.end());
  return routes;
}

// What a table of these routes takes: them, the FIB, and at the peak of
// compiling the next one.
size_t Taken(const std::vector<Route>& routes, const FibOptions& options = {}) {
  const RouteSet set(Family::kIpv6, routes);
  FibCompiler compiler(Family::kIpv6, options);
  const std::unique_ptr<const Fib> fib = compiler.Compile(set).value();
  const size_t before = allocated;
  peak = before;
  const std::unique_ptr<const Fib> next = compiler.Compile(set).value();
  return set.bytes() + fib->bytes() + (peak - before);
}

UpdateBatch Replacement(std::vector<Route> routes) {
  UpdateBatch batch;
  batch.replacement = std::move(routes);
  return batch;
}

// Takes seconds: it compiles tables whose memory outweighs what else the
// process takes.
TEST(TableMemory, AdmissionMeasuresATableThatItsLengthsWouldRefuse) {
  if (kRoutes == 0) GTEST_SKIP() << "memory is a sanitizer's";
  const std::vector<Route> internet = SyntheticTable({.ipv6_routes = kRoutes});
  const size_t taken = Taken(internet);
  const std::vector<Route> scattered = Scattered(kRoutes);
  ASSERT_GT(Taken(scattered), 3 * taken);

  MemoryBudget budget(taken * 5);
  Table table({.budget = &budget});
  UpdateBatch batch = Replacement(internet);
  batch.validate_only = true;
  ASSERT_TRUE(table.Apply(batch).ok());
  batch.validate_only = false;
  const auto loaded = table.Apply(batch);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_TRUE(table.AwaitVisible(loaded->generation).ok());
  const size_t bound = table.state().memory_bound_bytes();
  EXPECT_GE(bound, taken);
  EXPECT_LE(bound, budget.limit());
  EXPECT_EQ(budget.used(), bound);
  // A few withdrawals do not lower the bound: the FIB keeps its memory.
  UpdateBatch withdrawal;
  withdrawal.changes = {{RouteChange::Op::kDelete, internet[0].prefix}};
  ASSERT_TRUE(table.Apply(withdrawal).ok());
  EXPECT_GE(table.state().memory_bound_bytes(),
            bound - (2 << 20));  // the RIB's part

  // What changes no route needs no measuring.
  UpdateBatch named;
  named.request_id = "named";
  ASSERT_TRUE(table.Apply(named).ok());
  EXPECT_LE(table.state().memory_bound_bytes(), bound + 1000);

  // As many routes that do not share lines are refused, and not by trying.
  const UpdateBatch hostile = Replacement(scattered);
  const auto refused = table.Apply(hostile);
  EXPECT_EQ(ErrorReason(refused.status()), "MEMORY_LIMIT") << refused.status();
  EXPECT_EQ(table.state().routes_v6(), internet.size() - 1);
  EXPECT_LE(budget.used(), budget.limit());

  // A table that is restored under this limit is measured as well.
  StoredTable stored;
  stored.routes = internet;
  MemoryBudget same(taken * 5);
  const Table restored(stored, {.budget = &same});
  EXPECT_LE(same.used(), same.limit());
}

// The server's memory grows by no more than what the table has reserved and
// what the batch, its delta and the history take.
void ExpectWithinItsBound(const FibOptions& fib) {
  if (kRoutes == 0) GTEST_SKIP() << "memory is a sanitizer's";
  const std::vector<Route> routes =
      SyntheticTable({.ipv6_routes = kRoutes / 4});
  MemoryBudget budget(Taken(routes, fib) * 5);
  Table table({.fib = fib}, {.history_bytes = 0, .budget = &budget});
  for (int round = 0; round < 4; ++round) {
    std::vector<Route> next = routes;
    for (Route& route : next) route.next_hop += static_cast<NextHopId>(round);
    const UpdateBatch batch = Replacement(std::move(next));
    const size_t before =
        allocated - table.state().rib_bytes() - table.state().fib_bytes();
    peak = allocated.load();
    const auto applied = table.Apply(batch);
    ASSERT_TRUE(applied.ok()) << applied.status();
    ASSERT_TRUE(table.AwaitVisible(applied->generation).ok());
    // The RIB of the version before, and twice the delta.
    const size_t aside =
        (table.state().rib_bytes() + 2 * sizeof(Route) * routes.size() +
         (size_t{8} << 20));
    EXPECT_LE(peak - before, budget.limit() + aside) << round;
  }
}

TEST(TableMemory, ATableTakesNoMoreThanItsBound) { ExpectWithinItsBound({}); }

TEST(TableMemory, NorDoesOneThatKeepsPrefixLengths) {
  ExpectWithinItsBound({.prefix_lengths = true});
}

}  // namespace
}  // namespace planb::server
