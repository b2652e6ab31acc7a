#include "benchmarks/engine/changing_table.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "benchmarks/engine/boundary_check.h"
#include "benchmarks/engine/churn.h"
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
  const auto fib = Fib::Build(table.family, table.routes);
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
  const auto fib = Fib::Build(Family::kIpv6, list);
  const RouteSet routes(Family::kIpv6, absl::MakeSpan(list).first(1));
  EXPECT_EQ(CheckBoundaries(*fib, routes).wrong, 0U);  // nobody asks there
  const std::vector<Route> changes = {{P("2001:db8:1::/48"), kNoRoute}};
  EXPECT_GE(CheckBoundaries(*fib, routes, changes).wrong, 2U);
}

}  // namespace
}  // namespace planb
