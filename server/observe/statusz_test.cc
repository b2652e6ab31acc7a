// SPDX-License-Identifier: Apache-2.0

// The JSON parses back into the message that it prints, and the page asks no
// other server for anything.

#include "server/observe/statusz.h"

#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "google/protobuf/util/message_differencer.h"
#include "prometheus/metric_type.h"

namespace planb::server {
namespace {

using absl::StrContains;
using google::protobuf::util::MessageDifferencer;
using prometheus::ClientMetric;
using prometheus::MetricFamily;

statusz::ServerState Parse(const std::string& json) {
  statusz::ServerState state;
  const auto status = google::protobuf::util::JsonStringToMessage(json, &state);
  EXPECT_TRUE(status.ok()) << status.ToString() << "\n" << json;
  return state;
}

// A family of counters that differ in one label.
MetricFamily Counters(
    const char* name, const char* label,
    const std::vector<std::pair<const char*, double>>& values) {
  MetricFamily family;
  family.name = name;
  family.type = prometheus::MetricType::Counter;
  for (const auto& [value, count] : values) {
    ClientMetric& metric = family.metric.emplace_back();
    metric.label.push_back({label, value});
    metric.counter.value = count;
  }
  return family;
}

MetricFamily Histogram(const char* name) {
  MetricFamily family;
  family.name = name;
  family.type = prometheus::MetricType::Histogram;
  ClientMetric::Histogram& histogram = family.metric.emplace_back().histogram;
  histogram.sample_count = 10;
  histogram.sample_sum = 2.5;
  histogram.bucket = {
      {4, 0.1}, {9, 1}, {10, std::numeric_limits<double>::infinity()}};
  return family;
}

TEST(Statusz, JsonParsesBack) {
  statusz::ServerState state;
  state.set_monotonic_seconds(123456.789);
  state.set_not_ready("draining");
  v1::Table& table = *state.add_tables();
  table.set_name("default");
  table.set_accepted_generation(uint64_t{1} << 60);
  table.set_digest(std::string("\0\xff", 2));
  AddRebuild({.table = "default",
              .generation = 11,
              .full = true,
              .took = absl::Milliseconds(25),
              .at = absl::FromUnixSeconds(100)},
             state);
  AddRebuild({.table = "blue", .error = "out of luck"}, state);
  const std::string json = ToJson(state);
  EXPECT_TRUE(MessageDifferencer::Equals(Parse(json), state)) << json;
  EXPECT_EQ(state.rebuilds(0).seconds(), 0.025);
  EXPECT_EQ(state.rebuilds(0).unix_seconds(), 100);
  EXPECT_EQ(state.rebuilds(1).error(), "out of luck");
  // Fields have the names of the contract, and those that are 0 are printed.
  EXPECT_TRUE(StrContains(json, "\"visible_generation\":\"0\"")) << json;
  EXPECT_TRUE(StrContains(json, "\"unix_seconds\":0")) << json;
}

TEST(Statusz, ShowsTheExportedMetrics) {
  MetricFamily info;
  info.name = "planb_kernel_info";
  info.metric.emplace_back().label.push_back({"kernel", "avx2"});
  statusz::ServerState state;
  AddMetrics(
      {info, Counters("planb_lookups_total", "thread", {{"0", 7}, {"1", 5}}),
       Counters("planb_lookup_misses_total", "thread", {{"0", 3}}),
       Counters("planb_lookup_batches_total", "thread", {{"0", 10}}),
       Histogram("planb_lookup_batch_duration_seconds"),
       Histogram("planb_store_commit_seconds"),
       Counters("planb_store_errors_total", "thread", {{"0", 2}}),
       Counters("planb_lookup_batch_errors_total", "reason",
                {{"BATCH_TOO_LARGE", 3}, {"NEVER_SEEN", 0}})},
      state);
  statusz::ErrorCount& refused = *state.add_errors();
  refused.set_reason("PREFIX_INVALID");
  refused.set_count(7);
  state = Parse(ToJson(state));
  ASSERT_EQ(state.process_size(), 1);
  EXPECT_EQ(state.process(0).name(), "kernel");
  EXPECT_EQ(state.process(0).value(), "avx2");
  EXPECT_EQ(state.lookups().addresses(), 12);
  EXPECT_EQ(state.lookups().misses(), 3);
  EXPECT_EQ(state.lookups().batches(), 10);
  EXPECT_EQ(state.lookups().batch_seconds_sum(), 2.5);
  ASSERT_EQ(state.lookups().batch_seconds_size(), 2);  // without infinity
  EXPECT_EQ(state.lookups().batch_seconds(1).seconds(), 1);
  EXPECT_EQ(state.lookups().batch_seconds(1).batches(), 9);
  EXPECT_EQ(state.store().commits(), 10);
  EXPECT_EQ(state.store().commit_seconds_sum(), 2.5);
  EXPECT_EQ(state.store().errors(), 2);
  // The most frequent first, and only errors that occurred.
  ASSERT_EQ(state.errors_size(), 2);
  EXPECT_EQ(state.errors(0).reason(), "PREFIX_INVALID");
  EXPECT_EQ(state.errors(1).reason(), "BATCH_TOO_LARGE");
  EXPECT_EQ(state.errors(1).of(), "planb_lookup_batch_errors_total");
}

// protobuf's printer takes UTF-8 only. A path may be anything.
TEST(Statusz, ReplacesBytesThatAreNoUtf8) {
  for (const auto& [given, printed] :
       std::vector<std::pair<std::string, std::string>>{
           {"table-1 äöü €", "table-1 äöü €"},
           {"</td><img src=x onerror='alert(1)'>\"\xff",
            "</td><img src=x onerror='alert(1)'>\"\ufffd"},
           {std::string("a\0b\x1b\n", 5), std::string("a\0b\x1b\n", 5)},
           {"\xc0\xbc", "\ufffd\ufffd"},              // an overlong '<'
           {"\xed\xa0\x80", "\ufffd\ufffd\ufffd"},    // a surrogate
           {"\xe2\x82<", "\ufffd\ufffd<"},            // no continuation
           {"\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf"},  // the last character
           {"\xf4\x90\x80\x80", "\ufffd\ufffd\ufffd\ufffd"}}) {
    statusz::ServerState state;
    state.set_not_ready(given);
    v1::Table& table = *state.add_tables();
    table.set_store_path(given);
    table.add_available_kernels(given);
    state.add_flags()->set_value(given);
    state = Parse(ToJson(state));
    EXPECT_EQ(state.not_ready(), printed);
    EXPECT_EQ(state.tables(0).store_path(), printed);
    EXPECT_EQ(state.tables(0).available_kernels(0), printed);
    EXPECT_EQ(state.flags(0).value(), printed);
  }
}

TEST(Statusz, PageNeedsNothingElse) {
  const absl::string_view html = StatuszHtml();
  EXPECT_TRUE(absl::StartsWith(html, "<!DOCTYPE html>"));
  EXPECT_TRUE(absl::EndsWith(html, "</html>\n"));
  // No address of another server, nothing that loads, and no way for text to
  // become an element or a program.
  for (const char* absent : {"http:",
                             "https:",
                             "ws:",
                             "wss:",
                             "=\"//",
                             "='//",
                             "('//",
                             "src=",
                             "url(",
                             "@import",
                             "import(",
                             "innerHTML",
                             "outerHTML",
                             "insertAdjacentHTML",
                             "document.write",
                             "eval(",
                             "Function(",
                             " onclick",
                             " onload",
                             " onerror",
                             "style="}) {
    EXPECT_FALSE(StrContains(html, absent)) << absent;
  }
}

TEST(Statusz, PolicyAllowsThePageOnly) {
  const std::string sources = StatuszSources();
  EXPECT_TRUE(StrContains(sources, "script-src 'sha256-")) << sources;
  EXPECT_TRUE(StrContains(sources, "style-src 'sha256-")) << sources;
  EXPECT_TRUE(StrContains(sources, "connect-src 'self';")) << sources;
  EXPECT_FALSE(StrContains(sources, "unsafe")) << sources;
  EXPECT_FALSE(StrContains(sources, "*")) << sources;
}

}  // namespace
}  // namespace planb::server
