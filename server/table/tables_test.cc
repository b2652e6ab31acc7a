// SPDX-License-Identifier: Apache-2.0

#include "server/table/tables.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/strings/match.h"
#include "base/monotonic_time.h"
#include "server/base/error.h"
#include "server/table/table_metrics.h"
#include "server/testing/fake_store.h"
#include "server/testing/scrape_text.h"
#include "server/testing/updates.h"

namespace planb::server {
namespace {

UpdateBatch Default(NextHopId next_hop) { return Announce("::/0", next_hop); }

TEST(Tables, DefaultExistsAndCannotBeDeleted) {
  Tables tables({});
  EXPECT_EQ((*tables.Find(""))->name(), "default");
  EXPECT_EQ(tables.Find("")->get(), tables.Find("default")->get());
  EXPECT_EQ(ErrorReason(tables.Delete("default")), "TABLE_PERMANENT");
  EXPECT_EQ(ErrorReason(tables.Delete("")), "TABLE_PERMANENT");
  EXPECT_EQ(ErrorReason(tables.Find("red").status()), "TABLE_NOT_FOUND");
}

TEST(Tables, AreIndependent) {
  Tables tables({});
  const TableRef red = *tables.Create("red");
  const TableRef blue = *tables.Create("blue-2");
  ASSERT_TRUE(red->Apply(Default(1)).ok());
  ASSERT_TRUE(red->Apply(Default(2)).ok());
  ASSERT_TRUE(blue->Apply(Default(3)).ok());
  ASSERT_TRUE(red->AwaitVisible(2).ok());
  ASSERT_TRUE(blue->AwaitVisible(1).ok());
  EXPECT_EQ(red->Read()->fib(Family::kIpv6).Lookup(Address::V6(1)), 2U);
  EXPECT_EQ(blue->Read()->fib(Family::kIpv6).Lookup(Address::V6(1)), 3U);
  EXPECT_EQ(tables.default_table().visible(), 0U);
  std::vector<std::string> names;
  for (const TableRef& table : tables.All()) names.push_back(table->name());
  EXPECT_EQ(names, (std::vector<std::string>{"blue-2", "default", "red"}));
}

TEST(Tables, DeletionEndsAllWaiting) {
  Tables tables({});
  TableRef red = *tables.Create("red");
  ASSERT_TRUE(red->Apply(Default(1)).ok());
  ASSERT_TRUE(red->AwaitVisible(1).ok());
  absl::Status lookup;
  ASSERT_TRUE(red->WhenVisible(9, SteadyAfter(absl::InfiniteDuration()),
                               [&](absl::Status status) { lookup = status; })
                  .ok());
  ASSERT_TRUE(tables.Delete("red").ok());
  EXPECT_EQ(ErrorReason(lookup), "TABLE_NOT_FOUND");
  EXPECT_EQ(ErrorReason(red->AwaitVisible(9)), "TABLE_NOT_FOUND");
  EXPECT_EQ(ErrorReason(red->Apply(Default(2)).status()), "TABLE_NOT_FOUND");
  EXPECT_EQ(ErrorReason(red->history().CheckStart(1, "")), "TABLE_NOT_FOUND");
  // A reference to a deleted table can still look up.
  EXPECT_EQ(red->Read()->fib(Family::kIpv6).Lookup(Address::V6(1)), 1U);
  EXPECT_EQ(ErrorReason(tables.Find("red").status()), "TABLE_NOT_FOUND");
  EXPECT_EQ(ErrorReason(tables.Delete("red")), "TABLE_NOT_FOUND");
  // A new table with the same name has later generations.
  const TableRef again = *tables.Create("red");
  EXPECT_EQ(again->visible(), 2U);
  EXPECT_EQ(ErrorReason(again->history().CheckStart(1, "")),
            "HISTORY_COMPACTED");
  EXPECT_EQ(again->state().routes_v6(), 0U);
}

TEST(Tables, AllTablesShareTheMemoryLimit) {
  TablesOptions options;
  options.memory_limit = 1 << 20;
  Tables tables(options);
  const TableRef red = *tables.Create("red");
  UpdateBatch large;
  large.replacement.emplace();
  for (uint32_t i = 0; i < 5'000; ++i) {
    large.replacement->push_back(
        {Prefix::Truncate(Address::V4(i << 8), 24), i + 1});
  }
  // Not all of them fit.
  uint64_t fit = 0;
  for (int i = 0; i < 20; ++i) {
    const TableRef table = *tables.Create("t" + std::to_string(i));
    const auto outcome = table->Apply(large);
    if (!outcome.ok()) {
      EXPECT_EQ(ErrorReason(outcome.status()), "MEMORY_LIMIT");
    }
    fit += outcome.ok() ? 1 : 0;
  }
  EXPECT_LT(fit, 20U);
}

TEST(Tables, CreationAndDeletionNeedTheStore) {
  FakeStore store;
  Tables tables({}, &store);
  ASSERT_TRUE(tables.Restore().ok());
  EXPECT_EQ(store.created.count("default"), 1U);
  ASSERT_TRUE(tables.Create("red").ok());
  store.Fail(QuotaError("STORE_FULL", "store", "no room"));
  EXPECT_EQ(ErrorReason(tables.Create("blue").status()), "STORE_FULL");
  EXPECT_EQ(ErrorReason(tables.Find("blue").status()), "TABLE_NOT_FOUND");
  EXPECT_EQ(ErrorReason(tables.Delete("red")), "STORE_FULL");
  store.Fail(absl::OkStatus());
  // The table was not deleted and accepts updates.
  EXPECT_TRUE((*tables.Find("red"))->Apply(Default(1)).ok());
  EXPECT_TRUE(tables.Delete("red").ok());
  EXPECT_EQ(store.created.count("red"), 0U);
}

// A store that does not answer holds up a call that creates a table, too.
TEST(Tables, DrainingDoesNotWaitForAStoreThatHangs) {
  FakeStore store;
  Tables tables({}, &store);
  ASSERT_TRUE(tables.Restore().ok());
  ASSERT_TRUE(tables.Create("red").ok());
  store.Hold();
  auto update = tables.default_table().Submit(Default(1));
  store.AwaitCommits(1);
  // Holds its name while it waits for the update.
  auto other = (*tables.Find("red"))->Submit(Default(1));
  store.AwaitCommits(2);
  auto deletion =
      std::async(std::launch::async, [&] { return tables.Delete("red"); });
  const SteadyInstant start = SteadyNow();
  tables.Drain(start);
  EXPECT_LT(ElapsedSince(start), absl::Seconds(10));
  EXPECT_TRUE(absl::IsUnavailable(update.get().status()));
  EXPECT_TRUE(absl::IsUnavailable(other.get().status()));
  deletion.get().IgnoreError();  // the deletion itself is refused or done
  EXPECT_TRUE(absl::IsUnavailable(tables.Create("blue").status()));
}

// It waits for what the store has of its table, which may take a minute.
TEST(Tables, ADeletionHoldsUpCallsOfItsOwnNameAlone) {
  FakeStore store;
  Tables tables({.max_tables = 4}, &store);
  ASSERT_TRUE(tables.Restore().ok());
  for (const char* name : {"red", "green"}) {
    ASSERT_TRUE(tables.Create(name).ok());
  }
  store.Hold();
  auto update = (*tables.Find("red"))->Submit(Default(1));
  store.AwaitCommits(1);
  const auto begin = [](auto call) {
    return std::async(std::launch::async, call);
  };
  auto deletion = begin([&] { return tables.Delete("red"); });
  while ((*tables.Find("red"))->refusal().ok()) std::this_thread::yield();
  auto again = begin([&] { return tables.Create("red").status(); });
  auto others = begin([&] {
    EXPECT_TRUE(tables.Create("blue").ok());
    EXPECT_TRUE(tables.Delete("green").ok());
  });
  EXPECT_EQ(others.wait_for(std::chrono::seconds(60)),
            std::future_status::ready);
  EXPECT_EQ(again.wait_for(std::chrono::milliseconds(20)),
            std::future_status::timeout);
  EXPECT_TRUE(tables.Find("red").ok());
  store.Release();
  EXPECT_TRUE(deletion.get().ok());
  EXPECT_TRUE(update.get().ok());
  EXPECT_TRUE(again.get().ok());
  EXPECT_TRUE((*tables.Find("red"))->Apply(Default(1)).ok());
}

// Another call is about to make the last one.
TEST(Tables, CreationsAtTheSameMomentKeepTheLimit) {
  static std::atomic<int> making = 0;
  static std::atomic<bool> decided;
  making = 0;
  decided = true;
  TablesOptions options = {.max_tables = 2};
  options.table.build_fault = [](uint64_t) {
    if (decided) return absl::OkStatus();
    for (++making; making < 2 && !decided;) std::this_thread::yield();
    return absl::OkStatus();
  };
  Tables tables(options);
  decided = false;
  auto first = std::async(std::launch::async,
                          [&] { return tables.Create("a").status(); });
  while (making == 0) std::this_thread::yield();
  EXPECT_EQ(ErrorReason(tables.Create("b").status()), "TOO_MANY_TABLES");
  decided = true;
  EXPECT_TRUE(first.get().ok());
  EXPECT_EQ(tables.All().size(), 2U);
}

TEST(Tables, AStartTellsOfMoreThanTheLimitAndKeepsThem) {
  const auto warnings = [](size_t limit) {
    FakeStore store;
    store.loaded = {{.name = "default"},
                    {.name = "blue", .id = 1},
                    {.name = "red", .id = 2}};
    Tables tables({.max_tables = limit}, &store);
    testing::internal::CaptureStderr();
    EXPECT_TRUE(tables.Restore().ok());
    const std::string log = testing::internal::GetCapturedStderr();
    EXPECT_EQ(tables.All().size(), 3U);
    EXPECT_EQ(ErrorReason(tables.Create("green").status()), "TOO_MANY_TABLES");
    return log;
  };
  EXPECT_EQ(warnings(3), "");
  const std::string log = warnings(2);
  EXPECT_TRUE(absl::StrContains(log, " warning ")) << log;
  EXPECT_TRUE(absl::StrContains(log, "more tables than --max_tables allows"))
      << log;
  EXPECT_TRUE(absl::StrContains(log, " has=3 limit=2")) << log;
}

TEST(Tables, DrainingWaitsForAStoreThatIsSlow) {
  FakeStore store;
  Tables tables({}, &store);
  ASSERT_TRUE(tables.Restore().ok());
  store.Hold();
  auto update = tables.default_table().Submit(Default(1));
  store.AwaitCommits(1);
  auto drained = std::async(std::launch::async, [&] {
    tables.Drain(SteadyAfter(absl::Seconds(60)));
  });
  EXPECT_EQ(drained.wait_for(std::chrono::milliseconds(20)),
            std::future_status::timeout);
  store.Release();
  drained.get();
  EXPECT_TRUE(update.get().ok());
}

TEST(Tables, LookupsRunDuringCreationAndDeletion) {
  Tables tables({});
  std::atomic<bool> stop{false};
  std::vector<std::thread> readers;
  for (int r = 0; r < 2; ++r) {
    readers.emplace_back([&] {
      while (!stop.load()) {
        const auto table = tables.Find("red");
        if (!table.ok()) continue;
        const NextHopId found =
            (*table)->Read()->fib(Family::kIpv6).Lookup(Address::V6(1));
        ASSERT_LE(found, 1U);
      }
    });
  }
  for (int i = 0; i < 100; ++i) {
    const TableRef red = *tables.Create("red");
    ASSERT_TRUE(red->Apply(Default(1)).ok());
    ASSERT_TRUE(tables.Delete("red").ok());
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
}

TEST(Tables, ADeletedTableIsFreedOnceNoCallUsesIt) {
  Tables tables({});
  const MemoryBudget& budget = *tables.default_table().options().budget;
  const size_t before = budget.used();
  TableRef red = *tables.Create("red");
  ASSERT_TRUE(red->Apply(Default(1)).ok());
  const std::weak_ptr<Table> watch = red;
  ASSERT_TRUE(tables.Delete("red").ok());
  EXPECT_GT(budget.used(), before);
  red.reset();
  // No further call is needed.
  while (!watch.expired()) std::this_thread::yield();
  while (budget.used() > before) std::this_thread::yield();
}

TEST(TableMetrics, ShowTheTable) {
  Tables tables({});
  TableMetrics metrics(tables, "scalar");
  ASSERT_TRUE(tables.default_table().Apply(Announce("2001:db8::/32", 1)).ok());
  ASSERT_TRUE(tables.default_table().AwaitVisible(1).ok());
  const std::string text = ScrapeText(metrics);
  EXPECT_TRUE(
      HasLine(text, "planb_routes{table=\"default\",family=\"ipv6\"} 1"));
  EXPECT_TRUE(
      HasLine(text, "planb_routes{table=\"default\",family=\"ipv4\"} 0"));
  EXPECT_TRUE(
      HasLine(text, "planb_generation{table=\"default\",stage=\"visible\"} 1"));
  EXPECT_TRUE(
      HasLine(text, "planb_intervals{table=\"default\",family=\"ipv6\"} 3"));
  EXPECT_TRUE(
      HasLine(text, "planb_oldest_fib_age_seconds{table=\"default\"} 0"));
  EXPECT_TRUE(HasLine(text, "planb_update_queue_batches 0"));
  EXPECT_TRUE(HasLine(text, "planb_tables 1"));
  EXPECT_TRUE(HasLine(text, "planb_kernel_info{kernel=\"scalar\"} 1"));
}

TEST(TableMetrics, ShowEveryTableUntilItIsDeleted) {
  Tables tables({});
  TableMetrics metrics(tables, "scalar");
  ASSERT_TRUE(tables.Create("blue").ok());
  const std::string line = "planb_next_hops{table=\"blue\"} 0";
  EXPECT_TRUE(HasLine(ScrapeText(metrics), line));
  EXPECT_TRUE(HasLine(ScrapeText(metrics), "planb_tables 2"));
  ASSERT_TRUE(tables.Delete("blue").ok());
  EXPECT_FALSE(HasLine(ScrapeText(metrics), line));
}

TEST(TableMetrics, ShowTheAgeOfARetiredFibThatIsRead) {
  Tables tables({});
  TableMetrics metrics(tables, "scalar");
  Table& table = tables.default_table();
  const auto age = [&] {
    return ValueOf(metrics, "planb_oldest_fib_age_seconds");
  };
  auto reader = std::make_optional<Published<Snapshot>::Reader>(table.Read());
  EXPECT_EQ(age(), 0);
  for (const NextHopId next_hop : {1U, 2U}) {
    ASSERT_TRUE(table.Apply(Announce("10.0.0.0/8", next_hop)).ok());
    ASSERT_TRUE(table.AwaitVisible(next_hop).ok());
  }
  const double first = age();
  EXPECT_GT(first, 0);
  EXPECT_GT(age(), first);
  reader.reset();
  EXPECT_EQ(age(), 0);
}

TEST(TableMetrics, CountAcceptedBatchesThatAreNotVisible) {
  TablesOptions options;
  options.table.build_fault = [](uint64_t generation) {
    return generation == 0 ? absl::OkStatus()
                           : absl::ResourceExhaustedError("told to fail");
  };
  Tables tables(options);
  TableMetrics metrics(tables, "scalar");
  for (const NextHopId next_hop : {1U, 2U, 3U}) {
    ASSERT_TRUE(
        tables.default_table().Apply(Announce("10.0.0.0/8", next_hop)).ok());
  }
  EXPECT_EQ(ValueOf(metrics, "planb_update_queue_batches"), 3);
}

}  // namespace
}  // namespace planb::server
