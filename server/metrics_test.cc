// SPDX-License-Identifier: Apache-2.0

// The counters of lookups and of updates as a scrape shows them, from several
// threads; and the heap that a flood leaves.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/malloc_trim.h"
#include "server/control/control_metrics.h"
#include "server/lookup/lookup_metrics.h"
#include "server/observe/process_metrics.h"
#include "server/testing/scrape_text.h"

namespace planb::server {
namespace {

using std::chrono::microseconds;
using std::chrono::seconds;

TEST(LookupMetrics, ThreadsAreSummed) {
  LookupMetrics metrics;
  std::vector<std::thread> threads;
  for (int t = 0; t < 100; ++t) {
    threads.emplace_back([&metrics] {
      LookupCounters& counters = metrics.AddThread();
      counters.Answered(16, 3, microseconds(1));
      counters.Answered(4, 0, seconds(11));
      counters.Failed("ADDRESSES_LENGTH");
      counters.Failed("NEVER_HEARD_OF");
      counters.Add(LookupCount::kReceived, 100);
      counters.Add(LookupCount::kSent, 7);
      counters.Add(LookupCount::kStreams, 1);
      counters.Add(LookupCount::kStreams, 1);
      counters.Subtract(LookupCount::kStreams, 1);
      ScrapeText(metrics);  // meanwhile
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::string text = ScrapeText(metrics);
  EXPECT_TRUE(HasLine(text, "planb_lookups_total 2000"));
  EXPECT_TRUE(HasLine(text, "planb_lookup_misses_total 300"));
  EXPECT_TRUE(HasLine(text, "planb_lookup_batches_total 200"));
  EXPECT_TRUE(HasLine(
      text,
      "planb_lookup_batch_errors_total{reason=\"ADDRESSES_LENGTH\"} 100"));
  EXPECT_TRUE(
      HasLine(text, "planb_lookup_batch_errors_total{reason=\"OTHER\"} 100"));
  EXPECT_TRUE(
      HasLine(text, "planb_lookup_bytes_total{direction=\"received\"} 10000"));
  EXPECT_TRUE(
      HasLine(text, "planb_lookup_bytes_total{direction=\"sent\"} 700"));
  EXPECT_TRUE(HasLine(text, "planb_lookup_streams 100"));
}

TEST(LookupMetrics, BoundsAreInclusive) {
  LookupMetrics metrics;
  LookupCounters& counters = metrics.AddThread();
  counters.Answered(16, 0, microseconds(1));
  counters.Answered(17, 0, seconds(11));
  const std::string text = ScrapeText(metrics);
  const std::string duration = "planb_lookup_batch_duration_seconds_";
  EXPECT_TRUE(HasLine(text, duration + "bucket{le=\"1e-06\"} 1"));
  EXPECT_TRUE(HasLine(text, duration + "bucket{le=\"10\"} 1"));
  EXPECT_TRUE(HasLine(text, duration + "bucket{le=\"+Inf\"} 2"));
  EXPECT_TRUE(HasLine(text, duration + "count 2"));
  const std::string size = "planb_lookup_batch_size_";
  EXPECT_TRUE(HasLine(text, size + "bucket{le=\"4\"} 0"));
  EXPECT_TRUE(HasLine(text, size + "bucket{le=\"16\"} 1"));
  EXPECT_TRUE(HasLine(text, size + "bucket{le=\"64\"} 2"));
  EXPECT_TRUE(HasLine(text, size + "bucket{le=\"+Inf\"} 2"));
  EXPECT_TRUE(HasLine(text, size + "sum 33"));
}

double Backpressure(const LookupMetrics& metrics) {
  return ValueOf(metrics, "planb_lookup_backpressure_seconds_total");
}

TEST(LookupMetrics, StreamsCountWhileTheyAreHeld) {
  LookupMetrics metrics;
  LookupCounters& counters = metrics.AddThread();
  EXPECT_EQ(Backpressure(metrics), 0);
  counters.HoldStream();
  while (Backpressure(metrics) == 0) continue;
  counters.ReleaseStream();
  const double total = Backpressure(metrics);
  EXPECT_GT(total, 0);
  EXPECT_EQ(Backpressure(metrics), total);
}

TEST(LookupMetrics, CountersDoNotDecreaseWhileStreamsAreHeldAndReleased) {
  LookupMetrics metrics;
  LookupCounters& counters = metrics.AddThread();
  std::atomic<bool> stop{false};
  std::thread holder([&] {
    while (!stop.load(std::memory_order_relaxed)) {
      counters.HoldStream();
      counters.ReleaseStream();
    }
  });
  double last = 0;
  for (int i = 0; i < 1000; ++i) {
    const double now = Backpressure(metrics);
    EXPECT_GE(now, last);
    last = now;
  }
  stop.store(true);
  holder.join();
}

TEST(ControlMetrics, UpdatesAndRebuildsAreCounted) {
  ControlMetrics metrics;
  const TableEvents events = metrics.Events();
  events.built(absl::Milliseconds(3), /*full=*/true);
  events.visible(absl::Milliseconds(4));
  events.stored(absl::Milliseconds(1), /*ok=*/false);
  events.build_failed();
  OperationCounts operations;
  operations.counts[OperationCounts::kInsert] = {3, 2, 1};
  events.operated(operations);
  metrics.Operated(operations);
  metrics.Updated("accepted");
  metrics.Updated("refused");
  metrics.Updated("refused");
  const std::string text = ScrapeText(*metrics.collectable());
  EXPECT_TRUE(HasLine(text, "planb_rebuilds_total{kind=\"full\"} 1"));
  EXPECT_TRUE(HasLine(text, "planb_rebuilds_total{kind=\"incremental\"} 0"));
  const std::string duration = "planb_rebuild_duration_seconds_bucket{kind=";
  EXPECT_TRUE(HasLine(text, duration + "\"full\",le=\"0.005\"} 1"));
  EXPECT_TRUE(HasLine(text, duration + "\"full\",le=\"0.002\"} 0"));
  EXPECT_TRUE(HasLine(text, "planb_rebuild_failures_total 1"));
  EXPECT_TRUE(HasLine(text, "planb_store_errors_total 1"));
  EXPECT_TRUE(HasLine(text, "planb_visibility_seconds_bucket{le=\"0.005\"} 1"));
  EXPECT_TRUE(
      HasLine(text, "planb_update_batches_total{result=\"accepted\"} 1"));
  EXPECT_TRUE(
      HasLine(text, "planb_update_batches_total{result=\"refused\"} 2"));
  EXPECT_TRUE(
      HasLine(text, "planb_update_batches_total{result=\"validated\"} 0"));
  const std::string op = "planb_update_operations_total{op=";
  EXPECT_TRUE(HasLine(text, op + "\"insert\",result=\"changed\"} 6"));
  EXPECT_TRUE(HasLine(text, op + "\"insert\",result=\"unchanged\"} 4"));
  EXPECT_TRUE(HasLine(text, op + "\"insert\",result=\"refused\"} 2"));
  EXPECT_TRUE(HasLine(text, op + "\"delete\",result=\"refused\"} 0"));
}

// The reasons for a batch's failure that the contract names.
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

TEST(LookupMetrics, EachReasonOfTheContractIsASeries) {
  LookupMetrics metrics;
  const std::vector<std::string> reasons = ReasonsOfTheContract();
  EXPECT_GE(reasons.size(), 9U) << absl::StrJoin(reasons, " ");
  LookupCounters& counters = metrics.AddThread();
  for (const std::string& reason : reasons) counters.Failed(reason);
  const std::string text = ScrapeText(metrics);
  for (const std::string& reason : reasons) {
    EXPECT_TRUE(
        HasLine(text, absl::StrCat("planb_lookup_batch_errors_total{reason=\"",
                                   reason, "\"} 1")));
  }
  EXPECT_TRUE(
      HasLine(text, "planb_lookup_batch_errors_total{reason=\"OTHER\"} 0"));
}

double Resident() {
  return ValueOf(ProcessMetrics(), "process_resident_memory_bytes");
}

TEST(Heap, FreedMemoryIsGivenBack) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers have a heap of their own";
#endif
  constexpr size_t kBytes = 256 << 20;
  constexpr size_t kPiece = 16 << 10;
  std::vector<std::unique_ptr<char[]>> pieces;
  for (size_t i = 0; i < kBytes / kPiece; ++i) {
    pieces.emplace_back(new char[kPiece]());
  }
  const double full = Resident();
  // One piece in 64 stays, so that the end of the heap is in use.
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (i % 64 != 0) pieces[i].reset();
  }
  EXPECT_GT(FreeHeap(), kBytes / 2);
  TidyHeap();
  EXPECT_LT(Resident(), full - kBytes / 2.0);
}

}  // namespace
}  // namespace planb::server
