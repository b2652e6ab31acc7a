// SPDX-License-Identifier: Apache-2.0

#include "server/table/table_metrics.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "server/testing/scrape_text.h"

namespace planb::server {
namespace {

UpdateBatch Announce(const char* prefix, NextHopId next_hop) {
  UpdateBatch batch;
  batch.changes = {
      {RouteChange::Op::kUpsert, *Prefix::Parse(prefix), next_hop}};
  return batch;
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

TEST(TableMetrics, AFibThatIsStillReadGetsOlder) {
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

TEST(TableMetrics, WhatIsAcceptedAndNotBuiltIsQueued) {
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
