#include "benchmarks/engine/beside_threads.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "benchmarks/engine/churn.h"
#include "benchmarks/engine/cycles.h"
#include "lpm/synthetic/synthetic.h"

namespace planb {
namespace {

class BesideThreadsTest : public testing::Test {
 protected:
  static uint64_t In(double milliseconds) {
    return Ticks() +
           static_cast<uint64_t>(milliseconds * 1e6 * TicksPerNanosecond());
  }

  const Table table_ = {.name = "t",
                        .routes = SyntheticTable({.ipv6_routes = 2000})};
  ChangingTable changing_{table_};
  EpochSlot<Fib> slot_{changing_.Compile()};
  const std::vector<Route> cycle_ =
      ThereAndBack(changing_.routes().Share(),
                   MakeChurn(ChurnKind::kMixed, table_.routes, 107).value());
  Writer writer_{changing_, slot_, cycle_};
};

TEST_F(BesideThreadsTest, AWholeCycleLeavesTheTableAsItWas) {
  for (int i = 0; i < 21; ++i) writer_.Change(10);
  writer_.Change(10);  // the four left of 214, then ten more
  EXPECT_EQ(writer_.TakeUpdates().size(), 23U);
  for (int i = 0; i < 20; ++i) writer_.Change(10);
  const RouteSet before(table_.family, table_.routes);
  EXPECT_FALSE(std::equal(before.begin(), before.end(),
                          changing_.routes().begin(),
                          changing_.routes().end()));
  writer_.Change(4);
  EXPECT_TRUE(std::equal(before.begin(), before.end(),
                         changing_.routes().begin(), changing_.routes().end()));
}

TEST_F(BesideThreadsTest, KeepsThePace) {
  const Load load = {"", Load::kChange, 10, 5000};
  const size_t done = writer_.Run(load, In(100));
  // However slow the machine, never more than asked for.
  EXPECT_LE(done, 510U);
  EXPECT_GT(done, 0U);
}

TEST_F(BesideThreadsTest, OnlyChangesChangeRoutes) {
  const Fib* const fib = &slot_.current();
  for (const Load::Kind kind : {Load::kSleep, Load::kSpin}) {
    const uint64_t end = In(5);
    EXPECT_EQ(writer_.Run({"", kind}, end), 0U);
    EXPECT_GE(Ticks(), end);
  }
  EXPECT_EQ(&slot_.current(), fib);
  EXPECT_TRUE(writer_.TakeUpdates().empty());
  const size_t empty = writer_.Run({"", Load::kEmpty, 1, 1e5}, In(5));
  EXPECT_GT(empty, 0U);
  EXPECT_EQ(writer_.TakeUpdates().size(), empty);
  EXPECT_EQ(changing_.routes().size(), table_.routes.size());
  EXPECT_GT(writer_.Run({"", Load::kCompile}, In(5)), 0U);
}

TEST_F(BesideThreadsTest, ReadsBesideChanges) {
  const Trace trace =
      *MakeTrace(TraceKind::kMatch, table_.family, table_.routes, 1000);
  Reader reader(slot_, trace, 300, *AvailableKernels().front());
  while (reader.done() < 3000) writer_.Change(1);
  const uint64_t before = reader.done();
  while (reader.done() < before + 3000) writer_.Compile();
  EXPECT_EQ(reader.done() % 300, 0U);
  EXPECT_GT(reader.cpu_seconds(), 0);
}

}  // namespace
}  // namespace planb
