// Both kinds of metrics, as a scrape sees them.

#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/control_metrics.h"
#include "server/lookup_metrics.h"

namespace planb::server {
namespace {

std::string Scrape(const prometheus::Collectable& metrics) {
  return prometheus::TextSerializer().Serialize(metrics.Collect());
}

testing::AssertionResult Has(const std::string& text, const std::string& line) {
  if (("\n" + text).find("\n" + line + "\n") != std::string::npos) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << "no line \"" << line << "\" in\n"
                                     << text;
}

TEST(LookupMetrics, SumTheShards) {
  LookupMetrics metrics;
  std::vector<std::thread> threads;
  for (int t = 0; t < 100; ++t) {  // more than there are shards
    threads.emplace_back([&] {
      metrics.Answered(16, 3, absl::Microseconds(1));
      metrics.Answered(4, 0, absl::Seconds(11));
      metrics.Failed("ADDRESSES_LENGTH");
      metrics.Failed("NEVER_HEARD_OF");
    });
  }
  for (std::thread& thread : threads) thread.join();
  metrics.StreamOpened();
  metrics.StreamOpened();
  metrics.StreamClosed();
  const std::string text = Scrape(metrics);
  EXPECT_TRUE(Has(text, "planb_lookups_total 2000"));
  EXPECT_TRUE(Has(text, "planb_lookup_misses_total 300"));
  EXPECT_TRUE(Has(text, "planb_lookup_batches_total 200"));
  EXPECT_TRUE(
      Has(text,
          "planb_lookup_batch_errors_total{reason=\"ADDRESSES_LENGTH\"} 100"));
  EXPECT_TRUE(
      Has(text, "planb_lookup_batch_errors_total{reason=\"OTHER\"} 100"));
  // A bound is inclusive, and what is above all bounds is only in +Inf.
  EXPECT_TRUE(Has(
      text, "planb_lookup_batch_duration_seconds_bucket{le=\"1e-06\"} 100"));
  EXPECT_TRUE(
      Has(text, "planb_lookup_batch_duration_seconds_bucket{le=\"10\"} 100"));
  EXPECT_TRUE(
      Has(text, "planb_lookup_batch_duration_seconds_bucket{le=\"+Inf\"} 200"));
  EXPECT_TRUE(Has(text, "planb_lookup_batch_duration_seconds_count 200"));
  EXPECT_TRUE(Has(text, "planb_lookup_streams 1"));
}

TEST(ControlMetrics, CountUpdatesAndRebuilds) {
  ControlMetrics metrics;
  const TableEvents events = metrics.Events();
  events.built(absl::Milliseconds(3), /*full=*/true);
  events.visible(absl::Milliseconds(4));
  events.stored(absl::Milliseconds(1), /*ok=*/false);
  events.build_failed();
  metrics.Updated("accepted");
  metrics.Updated("refused");
  metrics.Updated("refused");
  const std::string text = Scrape(*metrics.collectable());
  EXPECT_TRUE(Has(text, "planb_rebuilds_total{kind=\"full\"} 1"));
  EXPECT_TRUE(Has(text, "planb_rebuilds_total{kind=\"incremental\"} 0"));
  const std::string duration = "planb_rebuild_duration_seconds_bucket{kind=";
  EXPECT_TRUE(Has(text, duration + "\"full\",le=\"0.005\"} 1"));
  EXPECT_TRUE(Has(text, duration + "\"full\",le=\"0.002\"} 0"));
  EXPECT_TRUE(Has(text, "planb_rebuild_failures_total 1"));
  EXPECT_TRUE(Has(text, "planb_store_errors_total 1"));
  EXPECT_TRUE(Has(text, "planb_visibility_seconds_bucket{le=\"0.005\"} 1"));
  EXPECT_TRUE(Has(text, "planb_update_batches_total{result=\"accepted\"} 1"));
  EXPECT_TRUE(Has(text, "planb_update_batches_total{result=\"refused\"} 2"));
  EXPECT_TRUE(Has(text, "planb_update_batches_total{result=\"validated\"} 0"));
}

// The reasons that the contract names for the failure of a batch.
std::vector<std::string> ReasonsOfTheContract() {
  std::ifstream file("proto/planb/v1/route_lookup.proto");
  std::stringstream proto;
  proto << file.rdbuf();
  const std::string text = proto.str();
  const size_t from =
      text.find("for programs:", text.find("message BatchError"));
  const size_t to = text.find("string reason", from);
  std::vector<std::string> reasons;
  if (to == std::string::npos) return reasons;
  std::string word;
  for (const char c : text.substr(from, to - from)) {
    if (absl::ascii_isupper(static_cast<unsigned char>(c)) || c == '_') {
      word += c;
    } else {
      if (word.size() > 5) reasons.push_back(word);  // not "BatchLookup"'s B
      word.clear();
    }
  }
  return reasons;
}

TEST(LookupMetrics, EveryReasonOfTheContractIsASeries) {
  LookupMetrics metrics;
  const std::vector<std::string> reasons = ReasonsOfTheContract();
  EXPECT_GE(reasons.size(), 9U) << absl::StrJoin(reasons, " ");
  for (const std::string& reason : reasons) metrics.Failed(reason);
  const std::string text = Scrape(metrics);
  for (const std::string& reason : reasons) {
    EXPECT_TRUE(
        Has(text, absl::StrCat("planb_lookup_batch_errors_total{reason=\"",
                               reason, "\"} 1")));
  }
  EXPECT_TRUE(Has(text, "planb_lookup_batch_errors_total{reason=\"OTHER\"} 0"));
}

TEST(TableMetrics, ShowTheTable) {
  Tables tables({});
  TableMetrics metrics(tables, "scalar");
  UpdateBatch batch;
  batch.changes = {
      {RouteChange::Op::kUpsert, *Prefix::Parse("2001:db8::/32"), 1}};
  ASSERT_TRUE(tables.default_table().Apply(batch).ok());
  ASSERT_TRUE(tables.default_table().AwaitVisible(1).ok());
  const std::string text = Scrape(metrics);
  EXPECT_TRUE(Has(text, "planb_routes{table=\"default\",family=\"ipv6\"} 1"));
  EXPECT_TRUE(Has(text, "planb_routes{table=\"default\",family=\"ipv4\"} 0"));
  EXPECT_TRUE(
      Has(text, "planb_generation{table=\"default\",stage=\"visible\"} 1"));
  EXPECT_TRUE(
      Has(text, "planb_intervals{table=\"default\",family=\"ipv6\"} 3"));
  EXPECT_TRUE(Has(text, "planb_kernel_info{kernel=\"scalar\"} 1"));
}

}  // namespace
}  // namespace planb::server
