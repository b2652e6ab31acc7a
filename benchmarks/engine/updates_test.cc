// SPDX-License-Identifier: Apache-2.0

// What is measured of changing tables is right, and reported.

#include "benchmarks/engine/updates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "benchmarks/engine/changing_table.h"
#include "benchmarks/engine/inputs.h"
#include "benchmarks/engine/machine.h"
#include "lpm/synthetic/synthetic.h"

namespace planb {
namespace {

Table SomeTable() {
  return {.name = "2000", .routes = SyntheticTable({.ipv6_routes = 2000})};
}

Prefix P(absl::string_view text) { return Prefix::Parse(text).value(); }

TEST(ChangingTable, FollowsChangesInBatches) {
  const Table table = SomeTable();
  const auto changes = MakeChurn(ChurnKind::kMixed, table.routes, 3000);
  ASSERT_TRUE(changes.ok());
  ChangingTable changing(table);
  RouteSet expected(table.family, table.routes);
  std::unique_ptr<const Fib> fib = changing.Compile();
  absl::Span<const Route> left = *changes;
  for (size_t size = 1; !left.empty(); size = size % 7 + 1) {
    const auto batch = left.first(std::min(size, left.size()));
    left.remove_prefix(batch.size());
    for (const Route& change : batch) ApplyChange(change, expected);
    ChangeTimes times;
    fib = changing.Change(batch, times);
    EXPECT_GT(times.routes, 0);
    EXPECT_GT(times.update, 0);
  }
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(),
                         changing.routes().begin(), changing.routes().end()));
  const BoundaryCheck check = CheckBoundaries(*fib, expected, *changes);
  EXPECT_GT(check.addresses, 8000U);
  EXPECT_EQ(check.wrong, 0U) << check.first_wrong;
}

TEST(ChangingTable, SaysWhichWayItWent) {
  ChangingTable changing(SomeTable());
  auto fib = changing.Compile();
  ChangeTimes times;
  fib = changing.Change({{P("2000::/3"), 7}}, times);
  EXPECT_EQ(times.way, UpdateWay::kFull);
  fib = changing.Change({{P("3fff:1234::/48"), 7}}, times);
  EXPECT_EQ(times.way, UpdateWay::kIncremental);
  EXPECT_EQ(UpdateWayName(times.way), "incremental");
}

TEST(CheckBoundaries, FindsAWrongRoute) {
  const Table table = SomeTable();
  const auto fib = Fib::Build(table.family, table.routes).value();
  RouteSet routes(table.family, table.routes);
  EXPECT_EQ(CheckBoundaries(*fib, routes).wrong, 0U);
  // The FIB does not know of it.
  routes.Announce(P("3fff:1234::/48"), 77);
  const BoundaryCheck check = CheckBoundaries(*fib, routes);
  EXPECT_GE(check.wrong, 2U);
  EXPECT_NE(check.first_wrong.find("instead of 77"), std::string::npos);
}

TEST(CheckBoundaries, FindsARouteThatShouldBeGone) {
  std::vector<Route> list = {{P("2001:db8::/32"), 1},
                             {P("2001:db8:1::/48"), 2}};
  const auto fib = Fib::Build(Family::kIpv6, list).value();
  const RouteSet routes(Family::kIpv6, absl::MakeSpan(list).first(1));
  EXPECT_EQ(CheckBoundaries(*fib, routes).wrong, 0U);  // no probe is there
  const std::vector<Route> changes = {{P("2001:db8:1::/48"), kNoRoute}};
  EXPECT_GE(CheckBoundaries(*fib, routes, changes).wrong, 2U);
}

class BesideThreadsTest : public testing::Test {
 protected:
  static uint64_t In(double milliseconds) {
    return Ticks() +
           static_cast<uint64_t>(milliseconds * 1e6 * TicksPerNanosecond());
  }

  const Table table_ = {.name = "t",
                        .routes = SyntheticTable({.ipv6_routes = 2000})};
  ChangingTable changing_{table_};
  Published<Fib> slot_{changing_.Compile()};
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
  const Fib* const fib = &*slot_.Read();
  for (const Load::Kind kind : {Load::kSleep, Load::kSpin}) {
    const uint64_t end = In(5);
    EXPECT_EQ(writer_.Run({"", kind}, end), 0U);
    EXPECT_GE(Ticks(), end);
  }
  EXPECT_EQ(&*slot_.Read(), fib);
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

// A report to a file that can be read back.
class UpdatesTest : public testing::Test {
 protected:
  std::string out() const {
    std::string text;
    std::rewind(out_.get());
    for (int c; (c = std::fgetc(out_.get())) != EOF;) {
      text += static_cast<char>(c);
    }
    return text;
  }

  // True if a line begins with `words`; the spaces between them do not count.
  bool HasRow(std::vector<std::string> words) const {
    for (const absl::string_view line : absl::StrSplit(out(), '\n')) {
      std::vector<std::string> row =
          absl::StrSplit(line, ' ', absl::SkipEmpty());
      row.resize(std::min(row.size(), words.size()));
      if (row == words) return true;
    }
    return false;
  }

  // Expects percentiles of every step of `count` changes of the case.
  void ExpectSteps(const std::vector<std::string>& what, int count) const {
    for (const char* step : {"routes", "update", "retire", "together"}) {
      std::vector<std::string> words = what;
      words.insert(words.end(), {step, absl::StrCat(count)});
      EXPECT_TRUE(HasRow(words)) << absl::StrJoin(words, " ") << out();
    }
  }

  const Table table_ = {.name = "t",
                        .routes = SyntheticTable({.ipv6_routes = 3000})};
  const ChangeOptions options_ = {.warm_up = 20,
                                  .changes = 300,
                                  .batch_sizes = {10, 300},
                                  .batches = 5,
                                  .rounds = 2};
  std::unique_ptr<FILE, int (*)(FILE*)> out_{std::tmpfile(), std::fclose};
  UpdateReport report_{out_.get()};
};

TEST_F(UpdatesTest, OneRouteChanges) {
  MeasureOneRouteChanges(table_, options_, report_);
  for (const char* kind : {"mixed", "covering", "long"}) {
    ExpectSteps({kind}, 300);
  }
  EXPECT_TRUE(report_.all_right()) << out();
}

TEST_F(UpdatesTest, Batches) {
  MeasureBatches(table_, options_, report_);
  ExpectSteps({"batch", "of", "10"}, 5);
  ExpectSteps({"batch", "of", "300"}, 5);
  EXPECT_TRUE(report_.all_right()) << out();
}

TEST_F(UpdatesTest, ShortPrefixes) {
  MeasureShortPrefixes(table_, options_, report_);
  ExpectSteps({"::/0"}, 2 * 3);
  ExpectSteps({"2a00::/12"}, 2 * 3);
  EXPECT_TRUE(report_.all_right()) << out();
}

TEST_F(UpdatesTest, Compile) {
  MeasureCompile(table_, /*repeats=*/3, report_);
  EXPECT_TRUE(HasRow({"t", "3000", "Compile"})) << out();
  EXPECT_TRUE(HasRow({"t", "3000", "Build"})) << out();
  EXPECT_TRUE(report_.all_right()) << out();
}

TEST_F(UpdatesTest, LookupsBeside) {
  const absl::Status status = MeasureLookupsBeside(table_,
                                                   {.reader_cpu = -1,
                                                    .writer_cpu = -1,
                                                    .addresses = 5000,
                                                    .repeats = 2,
                                                    .segment_milliseconds = 5,
                                                    .retries = 0,
                                                    .changes = 250},
                                                   report_);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(HasRow({"idle", "0"})) << out();
  EXPECT_TRUE(HasRow({"most", "by", "100"})) << out();
  EXPECT_TRUE(report_.all_right()) << out();
}

TEST_F(UpdatesTest, SaysWhatIsWrong) {
  const auto fib = Fib::Build(table_.family, table_.routes).value();
  RouteSet routes(table_.family, table_.routes);
  report_.Check(*fib, routes);
  EXPECT_TRUE(report_.all_right());
  routes.Announce(Prefix::Parse("3fff:1234::/48").value(), 77);
  report_.Check(*fib, routes);
  report_.Check(*fib, RouteSet(table_.family, table_.routes));
  EXPECT_FALSE(report_.all_right());
  EXPECT_TRUE(absl::StrContains(out(), "instead of 77")) << out();
}

}  // namespace
}  // namespace planb
