// SPDX-License-Identifier: Apache-2.0

#include "server/table/table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/monotonic_time.h"
#include "base/testing/await.h"
#include "server/base/error.h"
#include "server/testing/updates.h"

namespace planb::server {
namespace {

using Op = RouteChange::Op;

// Upserts of so many /64s.
UpdateBatch Upserts(uint64_t count) {
  UpdateBatch batch;
  for (uint64_t i = 0; i < count; ++i) {
    const Address address = Address::V6(absl::MakeUint128(i << 32, 0));
    batch.changes.push_back({Op::kUpsert, Prefix::Truncate(address, 64), 1});
  }
  return batch;
}

TEST(Table, ABatchThatChangesNothingMakesNoGeneration) {
  Table table({});
  ASSERT_TRUE(table.Apply(Announce("::/0", 1)).ok());
  const auto again = table.Apply(Announce("::/0", 1));
  EXPECT_EQ(again->generation, 1U);
  EXPECT_EQ(again->counts.unchanged, 1U);
  EXPECT_EQ(table.state().accepted_generation(), 1U);
}

TEST(Table, ValidateOnlyReportsAndChangesNothing) {
  Table table({});
  UpdateBatch batch = Announce("::/0", 1);
  batch.validate_only = true;
  const auto outcome = table.Apply(batch);
  EXPECT_EQ(outcome->counts.added, 1U);
  EXPECT_EQ(outcome->generation, 0U);
  EXPECT_EQ(table.state().routes_v6(), 0U);
}

// Clocks that tests set: the wall clock, which may jump, and the monotonic one.
absl::Time clock_now = absl::FromUnixSeconds(1'000'000);
absl::Time TestNow() { return clock_now; }
SteadyInstant steady_now;
SteadyInstant TestSteady() { return steady_now; }

void Pass(absl::Duration time) {
  clock_now += time;
  steady_now += absl::ToChronoNanoseconds(time);
}

// With both clocks.
TableOptions Clocked(size_t request_id_window, size_t most_request_ids = 1000) {
  return {.request_id_window = request_id_window,
          .most_request_ids = most_request_ids,
          .wall_clock = TestNow,
          .steady_clock = TestSteady};
}

UpdateBatch Named(absl::string_view id, NextHopId next_hop) {
  UpdateBatch batch = Announce("::/0", next_hop);
  batch.request_id = std::string(id);
  return batch;
}

TEST(Table, ARepeatedRequestGetsItsFirstAnswer) {
  Table table(Clocked(2));
  UpdateBatch batch = Announce("::/0", 1);
  batch.request_id = "a";
  batch.fingerprint = 11;
  EXPECT_EQ(table.Apply(batch)->generation, 1U);
  ASSERT_TRUE(table.Apply(Announce("::/0", 2)).ok());
  // Not applied again, though it would change something.
  const auto again = table.Apply(batch);
  EXPECT_EQ(again->generation, 1U);
  EXPECT_EQ(again->counts.added, 1U);
  EXPECT_EQ(table.state().accepted_generation(), 2U);
  // Refuses another request with the same id.
  batch.fingerprint = 12;
  EXPECT_EQ(ErrorReason(table.Apply(batch).status()), "REQUEST_ID_REUSED");
  // The window has two entries: after two more requests, much later, "a" is
  // dropped.
  Pass(kRequestIdRetention);
  for (const char* id : {"b", "c"}) {
    batch.request_id = id;
    ASSERT_TRUE(table.Apply(batch).ok());
  }
  batch.request_id = "a";
  EXPECT_TRUE(table.Apply(batch).ok());
}

TEST(Table, AYoungIdIsKnownAfterAnyNumberOfOthers) {
  Table table(Clocked(2));
  const auto first = table.Apply(Named("a", 1));
  Pass(kRequestIdRetention - absl::Nanoseconds(1));
  NextHopId next_hop = 1;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(table.Apply(Named(absl::StrCat(i), ++next_hop)).ok());
  }
  const auto again = table.Apply(Named("a", 1));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, *first);
  EXPECT_EQ(table.state().accepted_generation(), 101U);
  Pass(absl::Nanoseconds(1));
  ASSERT_TRUE(table.Apply(Named("last", ++next_hop)).ok());
  EXPECT_EQ(table.Apply(Named("a", 1))->generation, 103U);
}

TEST(Table, ANewNamedRequestWaitsRatherThanPushAYoungIdOut) {
  Table table(Clocked(1, 3));
  for (NextHopId i = 1; i <= 3; ++i) {
    ASSERT_TRUE(table.Apply(Named(absl::StrCat(i), i)).ok());
  }
  Pass(absl::Seconds(20));
  const absl::Status refused = table.Apply(Named("4", 4)).status();
  EXPECT_EQ(ErrorReason(refused), "TOO_MANY_REQUEST_IDS");
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_TRUE(refused.GetPayload("type.googleapis.com/google.rpc.RetryInfo"));
  EXPECT_EQ(table.Apply(Named("1", 1))->generation, 1U);
  EXPECT_TRUE(table.Apply(Announce("::/0", 4)).ok());  // has no id
  UpdateBatch validated = Named("4", 5);
  validated.validate_only = true;
  EXPECT_TRUE(table.Apply(validated).ok());
  Pass(kRequestIdRetention - absl::Seconds(20));
  EXPECT_TRUE(table.Apply(Named("4", 5)).ok());
  EXPECT_TRUE(table.Apply(Named("5", 6)).ok());
}

// By the clock of the server that had them, they are from another day.
TEST(Table, AWrongClockNeitherForgetsIdsNorHoldsThemForLong) {
  for (const absl::Duration wrong :
       {absl::Hours(24), -absl::Hours(24), kRequestIdRetention}) {
    Table table(Clocked(1, 3));
    const auto first = table.Apply(Named("1", 1));
    clock_now += wrong;
    for (NextHopId i = 2; i <= 3; ++i) {
      ASSERT_TRUE(table.Apply(Named(absl::StrCat(i), i)).ok());
    }
    clock_now -= wrong;
    Pass(kRequestIdRetention - absl::Nanoseconds(1));
    EXPECT_EQ(ErrorReason(table.Apply(Named("4", 4)).status()),
              "TOO_MANY_REQUEST_IDS");
    const auto again = table.Apply(Named("1", 1));
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(*again, *first);
    Pass(2 * kRequestIdRetention);
    for (NextHopId i = 4; i <= 5; ++i) {
      const auto outcome = table.Apply(Named(absl::StrCat(i), i));
      EXPECT_TRUE(outcome.ok()) << outcome.status();
    }
    EXPECT_EQ(table.Apply(Named("4", 4))->generation, 4U);
    EXPECT_EQ(table.Apply(Named("1", 7))->generation, 6U);
  }
}

// The log does not say when its ids came: they count from the start, as long as
// they leave room for others.
TEST(Table, IdsOfTheLogAreKnownForAWhileAfterAStart) {
  StoredTable stored;
  stored.generation = 100;
  for (uint64_t i = 0; i < 100; ++i) {
    AnsweredRequest request = {.request_id = absl::StrCat(i)};
    request.outcome.generation = i;
    request.outcome.accepted = clock_now + (i % 2) * kRequestIdRetention;
    stored.requests.push_back(request);
  }
  MemoryBudget ids(100'000);
  TableOptions options = Clocked(2, 50);
  Table table(stored, options);
  for (const int i : {99, 98, 97, 76}) {
    const auto again = table.Apply(Named(absl::StrCat(i), 1));
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->generation, i);
  }
  EXPECT_TRUE(table.Apply(Named("74", 1)).ok());
  EXPECT_EQ(table.state().accepted_generation(), 101U);
  Pass(2 * kRequestIdRetention);
  EXPECT_TRUE(table.Apply(Named("new", 2)).ok());
  EXPECT_EQ(table.Apply(Named("97", 3))->generation, 103U);
  options.id_budget = &ids;
  for (AnsweredRequest& request : stored.requests) {
    request.request_id += std::string(5'000, 'x');
  }
  const Table small(stored, options);
  EXPECT_GT(ids.used(), ids.limit() / 3);
  EXPECT_LE(ids.used(), ids.limit() / 2 + 17'000);  // and what is young
}

TEST(Table, RememberedRequestsHaveABudgetOfTheirOwn) {
  MemoryBudget budget, ids(20'000);
  Table table({.request_id_window = 10,
               .budget = &budget,
               .id_budget = &ids,
               .wall_clock = TestNow,
               .steady_clock = TestSteady});
  UpdateBatch batch;
  const size_t none = table.state().memory_bound_bytes();
  const auto apply = [&](int i) {
    batch.request_id = absl::StrCat(std::string(100, 'x'), i);
    return table.Apply(batch).status();
  };
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(apply(i).ok());
  const size_t ten = ids.used();
  EXPECT_GE(ten, 10 * (100 + sizeof(AnsweredRequest)));
  EXPECT_EQ(table.state().memory_bound_bytes(), none);
  EXPECT_EQ(budget.used(), none);
  Pass(kRequestIdRetention);
  for (int i = 10; i < 30; ++i) {
    Pass(kRequestIdRetention / 5);
    ASSERT_TRUE(apply(i).ok());
  }
  // Up to the one that comes next.
  EXPECT_LE(ids.used(), ten / 10 * 11 + 11);
  // Young ones are kept until their budget is full.
  absl::Status status;
  for (int i = 30; status.ok() && i < 200; ++i) status = apply(i);
  EXPECT_EQ(ErrorReason(status), "TOO_MANY_REQUEST_IDS");
  EXPECT_LE(ids.used(), ids.limit());
  batch.request_id.clear();
  EXPECT_TRUE(table.Apply(batch).ok());
}

void EachPrefixOnce(std::vector<RouteChange>& changes) {
  std::sort(changes.begin(), changes.end(),
            [](const auto& a, const auto& b) { return a.prefix < b.prefix; });
  changes.erase(std::unique(changes.begin(), changes.end(),
                            [](const auto& a, const auto& b) {
                              return a.prefix == b.prefix;
                            }),
                changes.end());
}

// Fills a table to the limit of its memory, then withdraws all in a random
// order.
TEST(Table, WithdrawalsAlwaysFit) {
  for (const uint32_t seed : {1, 2, 3, 4}) {
    std::mt19937 random(seed);
    MemoryBudget budget(8 << 20);
    Table table({.budget = &budget});
    std::vector<Prefix> have = {*Prefix::Parse("0.0.0.0/0")};
    const auto announce = [&](size_t count) {
      UpdateBatch batch;
      for (size_t i = 0; i < count; ++i) {
        // Hosts, or nested ones of a few lengths, that mostly lead where the
        // default route leads.
        const auto length = seed % 2 == 0 ? 32 : 8 + 4 * (random() % 7);
        const auto address = static_cast<uint32_t>(random());
        batch.changes.push_back(
            {RouteChange::Op::kUpsert,
             Prefix::Truncate(Address::V4(address), static_cast<int>(length)),
             seed < 3 ? 7U : static_cast<NextHopId>(7 + random() % 2)});
      }
      EachPrefixOnce(batch.changes);
      if (!table.Apply(batch).ok()) return false;
      for (const auto& change : batch.changes) have.push_back(change.prefix);
      return true;
    };
    UpdateBatch first;
    first.changes = {{RouteChange::Op::kUpsert, have[0], 7}};
    ASSERT_TRUE(table.Apply(first).ok());
    for (const size_t count : {2000, 20, 1}) {
      while (have.size() < 1'000'000 && announce(count)) continue;
    }
    ASSERT_LE(budget.used(), budget.limit());
    const size_t full = budget.used();
    const uint64_t routes = table.state().routes_v4();
    // The default goes first: all boundaries count then.
    std::shuffle(have.begin() + 1, have.end(), random);
    size_t most = 0;
    for (size_t at = 0; at < have.size();) {
      UpdateBatch batch;
      const size_t count = at < 100 ? 1 : 1 + random() % 500;
      for (size_t i = 0; i < count && at < have.size(); ++i, ++at) {
        batch.changes.push_back({RouteChange::Op::kDelete, have[at]});
      }
      EachPrefixOnce(batch.changes);
      batch.request_id = absl::StrCat("withdrawal ", at);
      const auto applied = table.Apply(batch);
      ASSERT_TRUE(applied.ok()) << at << ": " << applied.status();
      most = std::max(most, budget.used());
      // The bound falls with the routes.
      if (table.state().routes_v4() < routes / 5) {
        ASSERT_LE(budget.used(), full / 10 * 7);
      }
    }
    EXPECT_LE(most, budget.limit());
    EXPECT_EQ(table.state().routes_v4(), 0U);
    EXPECT_LT(budget.used(), size_t{1} << 20);
  }
}

TEST(Table, ALoweredLimitIsOneForAllChanges) {
  StoredTable stored;
  for (uint32_t i = 0; i < 20; ++i) {
    stored.routes.push_back(
        {Prefix::Truncate(Address::V4(0x0a000000 | i << 16), 16), 1});
  }
  Table table(stored, {.limits = {.max_routes = 5}});
  const auto change = [&](RouteChange::Op op, absl::string_view prefix,
                          NextHopId next_hop) {
    UpdateBatch batch;
    batch.changes = {{op, *Prefix::Parse(prefix), next_hop}};
    return ErrorReason(table.Apply(batch).status());
  };
  EXPECT_EQ(change(RouteChange::Op::kUpsert, "11.0.0.0/16", 1), "TABLE_FULL");
  EXPECT_EQ(change(RouteChange::Op::kUpsert, "10.0.0.0/16", 2), "");
  EXPECT_EQ(change(RouteChange::Op::kDelete, "10.1.0.0/16", 0), "");
  EXPECT_EQ(change(RouteChange::Op::kUpsert, "10.1.0.0/16", 1), "TABLE_FULL");
  UpdateBatch replacement;
  replacement.replacement =
      std::vector<Route>(stored.routes.begin() + 2, stored.routes.end());
  EXPECT_TRUE(table.Apply(replacement).ok());
}

TEST(Table, CloseAwaitsAcceptedBatchesAndFreezeRefusesMore) {
  Table table({});
  absl::Status lookup = absl::UnknownError("not called");
  ASSERT_TRUE(table.Apply(Announce("::/0", 1)).ok());
  ASSERT_TRUE(table
                  .WhenVisible(2, SteadyAfter(absl::InfiniteDuration()),
                               [&lookup](const absl::Status& status) {
                                 lookup = status;
                               })
                  .ok());
  table.Freeze(DrainingError());
  const auto refused = table.Apply(Announce("::/0", 2));
  EXPECT_TRUE(absl::IsUnavailable(refused.status()));
  table.Close(DrainingError(), SteadyAfter(absl::Minutes(1)));
  EXPECT_TRUE(table.AwaitVisible(1).ok());
  EXPECT_EQ(ErrorReason(table.AwaitVisible(2)), "DRAINING");
  EXPECT_EQ(ErrorReason(lookup), "DRAINING");
  EXPECT_EQ(table.state().accepted_generation(), 1U);
}

TEST(Table, IsCompleteSinceTheFirstWordUntilAWriterSaysOtherwise) {
  Table table(Clocked(9));
  const auto say = [&](UpdateBatch batch, std::optional<bool> complete) {
    batch.complete = complete;
    return table.Apply(std::move(batch)).value().generation;
  };
  const auto nanos = [] {
    return static_cast<uint64_t>(absl::ToUnixNanos(clock_now));
  };
  EXPECT_EQ(say({}, false), 0U);  // it is not
  EXPECT_EQ(say(Announce("::/0", 1), std::nullopt), 1U);
  EXPECT_EQ(table.state().complete_since_unix_nanos(), 0U);
  const uint64_t first = nanos();
  EXPECT_EQ(say({}, true), 2U);
  ASSERT_TRUE(table.AwaitVisible(2).ok());
  EXPECT_EQ(table.Read()->complete_since(), first);
  Pass(absl::Seconds(1));
  EXPECT_EQ(say({}, true), 2U);
  EXPECT_EQ(say(Announce("::/0", 2), std::nullopt), 3U);
  EXPECT_EQ(table.state().complete_since_unix_nanos(), first);
  UpdateBatch validated;
  validated.validate_only = true;
  EXPECT_EQ(say(validated, false), 3U);
  EXPECT_EQ(table.state().complete_since_unix_nanos(), first);
  EXPECT_EQ(say(Announce("::/0", 3), false), 4U);
  ASSERT_TRUE(table.AwaitVisible(4).ok());
  EXPECT_EQ(table.Read()->complete_since(), 0U);
  EXPECT_EQ(say(Announce("::/0", 4), true), 5U);
  EXPECT_EQ(table.state().complete_since_unix_nanos(), nanos());
}

// A large batch begins before the word, and is staged after it.
TEST(Table, ALargeBatchKeepsAWordThatCameMeanwhile) {
  UpdateStaging staging({.prepared_routes = 2}, StoredTable());
  const UpdateBatch large = Upserts(3);
  auto prepared = staging.Begin(large);
  UpdateBatch word;
  word.complete = true;
  ASSERT_TRUE(staging.Stage(word).ok());
  const uint64_t since = staging.Head().rib.complete_since();
  EXPECT_NE(since, 0U);
  UpdateStaging::Prepare(large, *prepared);
  const auto staged = staging.Stage(large, &*prepared);
  ASSERT_TRUE(staged.ok());
  EXPECT_EQ(staging.Head().rib.complete_since(), since);
  EXPECT_EQ(staged->record.delta->complete_since, since);
}

TEST(Table, AFailedBuildKeepsTheOldSnapshotAndIsRetried) {
  std::atomic<bool> broken{true};
  std::atomic<int> failures{0};
  std::atomic<int> built{0};
  TableOptions options;
  options.build_fault = [&](uint64_t generation) -> absl::Status {
    if (generation == 0 || !broken.load()) return absl::OkStatus();
    if (failures.load() % 2 == 0) throw std::bad_alloc();
    return absl::InternalError("on purpose");
  };
  options.events.build_failed = [&] { failures.fetch_add(1); };
  options.events.built = [&](absl::Duration, bool) { built.fetch_add(1); };
  Table table(options);
  ASSERT_TRUE(table.Apply(Announce("::/0", 1)).ok());
  while (failures.load() < 2) absl::SleepFor(absl::Milliseconds(1));
  ASSERT_TRUE(table.Apply(Announce("::/1", 2)).ok());
  EXPECT_EQ(table.visible(), 0U);
  EXPECT_NE(table.state().last_build_error(), "");
  EXPECT_GE(table.state().failed_builds(), 1U);
  EXPECT_EQ(table.history().newest(), 0U);
  broken = false;
  ASSERT_TRUE(table.AwaitVisible(2).ok());
  EXPECT_EQ(table.Read()->fib(Family::kIpv6).Lookup(Address::V6(1)), 2U);
  EXPECT_EQ(table.history().newest(), 2U);
  while (built.load() == 0) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_EQ(table.state().last_build_error(), "");
}

// A wall clock that goes back a second each time it is read.
absl::Time ClockThatGoesBack() {
  static std::atomic<int64_t> reads{0};
  return absl::FromUnixSeconds(2'000'000'000 - ++reads);
}

TEST(Table, NoBatchIsVisibleBeforeItIsAcceptedByTheWallClock) {
  Table table({.wall_clock = ClockThatGoesBack});
  for (NextHopId i = 1; i <= 100; ++i) {
    const auto outcome = table.Apply(Announce("::/0", i));
    ASSERT_TRUE(outcome.ok());
    ASSERT_TRUE(table.AwaitVisible(outcome->generation).ok());
    EXPECT_GE(table.PublishedAt(outcome->generation), outcome->accepted);
  }
}

TEST(Table, ARetiredSnapshotLivesAsLongAsItsReader) {
  Table table({});
  {
    const auto old = table.Read();
    ASSERT_TRUE(table.Apply(Announce("::/0", 1)).ok());
    ASSERT_TRUE(table.AwaitVisible(1).ok());
    EXPECT_EQ(old->generation(), 0U);
    EXPECT_GT(table.state().retired_fib_bytes(), 0U);
  }
  EXPECT_EQ(table.state().retired_fib_bytes(), 0U);
}

// In each generation, every route's next hop is the generation's number. A
// reader that finds another next hop has seen a partial update.
TEST(Table, ReadersSeeWholeGenerationsInOrder) {
  constexpr uint32_t kRoutes = 64;
  constexpr uint64_t kGenerations = 400;
  std::atomic<int> builds{0};
  TableOptions options;
  options.events.built = [&](absl::Duration, bool) { builds.fetch_add(1); };
  Table table(options);
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> batches{0};
  std::vector<std::thread> readers;
  for (int r = 0; r < 3; ++r) {
    readers.emplace_back([&] {
      std::string addresses;
      for (uint32_t i = 0; i < kRoutes; ++i) {
        addresses += Address::V4(i << 24 | 5).ToPacked();
      }
      uint64_t last = 0;
      std::vector<NextHopId> found(kRoutes);
      while (!stop.load()) {
        const auto snapshot = table.Read();
        ASSERT_GE(snapshot->generation(), last);
        last = snapshot->generation();
        snapshot->fib(Family::kIpv4)
            .Lookup(addresses.data(), kRoutes, found.data(),
                    *AvailableKernels().front());
        for (NextHopId next_hop : found) ASSERT_EQ(next_hop, last);
        batches.fetch_add(1);
      }
    });
  }
  for (uint64_t g = 1; g <= kGenerations; ++g) {
    UpdateBatch batch;
    for (uint32_t i = 0; i < kRoutes; ++i) {
      batch.changes.push_back({Op::kUpsert,
                               Prefix::Truncate(Address::V4(i << 24), 8),
                               static_cast<NextHopId>(g)});
    }
    ASSERT_EQ(table.Apply(batch)->generation, g);
    if (g % 10 == 0) {
      ASSERT_TRUE(table.AwaitVisible(g).ok());
    }
  }
  ASSERT_TRUE(table.AwaitVisible(kGenerations).ok());
  EXPECT_EQ(table.Read()->generation(), kGenerations);
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_GT(batches.load(), 0U);
  // Builds coalesce: there are at most as many as batches.
  EXPECT_LE(builds.load(), static_cast<int>(kGenerations));
  EXPECT_EQ(table.state().visible_generation(), kGenerations);
  EXPECT_EQ(table.state().retired_fib_bytes(), 0U);
}

// While a large batch is staged, the table's state is read many times.
TEST(Table, ReadingTheStateDoesNotWaitForABatchThatIsBeingStaged) {
  // An attempt during which the machine does not run the reader proves nothing.
  EXPECT_TRUE(SucceedsInThree([] {
    Table table({});
    UpdateBatch large = Upserts(200'000);
    std::atomic<bool> done = false;
    std::atomic<int> reads = 0;
    std::thread reader([&] {
      while (!done) {
        EXPECT_LE(table.state().accepted_generation(), 1U);
        EXPECT_EQ(table.persisted(), 0U);
        ++reads;
      }
    });
    while (reads == 0) std::this_thread::yield();
    const int before = reads;
    EXPECT_TRUE(table.Apply(std::move(large)).ok());
    const int during = reads - before;
    done = true;
    reader.join();
    // One may have waited for the batch, one may have begun before it.
    return during > 2;
  }));
}

// A writer of small batches goes on while a large one is prepared.
TEST(Table, SmallBatchesDoNotWaitForALargeOne) {
  // An attempt during which the machine does not run the writer proves nothing.
  EXPECT_TRUE(SucceedsInThree([] {
    Table table({});
    UpdateBatch large = Upserts(400'000);
    std::atomic<bool> done = false;
    std::atomic<uint64_t> accepted = 0;
    std::thread writer([&] {
      for (uint32_t i = 1; !done; ++i) {
        const auto outcome = table.Apply(Announce("1::/32", i));
        if (outcome.ok()) accepted = outcome->generation;
      }
    });
    while (accepted == 0) std::this_thread::yield();
    const uint64_t before = accepted;
    const auto outcome = table.Apply(std::move(large));
    done = true;
    writer.join();
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    if (!outcome.ok()) return true;
    EXPECT_EQ(outcome->counts.added, 400'000U);
    // One may have waited, one may have begun before.
    return outcome->generation > before + 3;
  }));
}

TEST(Table, ConcurrentWritersGetDistinctGenerations) {
  Table table({});
  constexpr int kWriters = 4;
  constexpr uint32_t kEach = 200;
  std::vector<std::vector<uint64_t>> generations(kWriters);
  std::vector<std::thread> writers;
  for (uint32_t w = 0; w < kWriters; ++w) {
    writers.emplace_back([&, w] {
      for (uint32_t i = 1; i <= kEach; ++i) {
        UpdateBatch batch;
        batch.changes = {
            {Op::kUpsert, Prefix::Truncate(Address::V4(w << 24), 8), i}};
        generations[w].push_back(table.Apply(batch)->generation);
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  std::vector<uint64_t> all;
  for (const auto& mine : generations) {
    EXPECT_TRUE(std::is_sorted(mine.begin(), mine.end()));
    all.insert(all.end(), mine.begin(), mine.end());
  }
  std::sort(all.begin(), all.end());
  ASSERT_EQ(all.size(), size_t{kWriters} * kEach);
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], i + 1);
  ASSERT_TRUE(table.AwaitVisible(all.back()).ok());
  EXPECT_EQ(table.Read()->fib(Family::kIpv4).Lookup(Address::V4(1)), kEach);
}

}  // namespace
}  // namespace planb::server
