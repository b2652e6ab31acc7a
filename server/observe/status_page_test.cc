// SPDX-License-Identifier: Apache-2.0

// What the page shows, and that nothing shown can be more than text.

#include "server/observe/status_page.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "prometheus/metric_type.h"
#include "server/observe/html.h"
#include "server/observe/human.h"

namespace planb::server {
namespace {

using absl::StrContains;

TEST(EscapeHtml, LeavesTextAndDisarmsTheRest) {
  EXPECT_EQ(EscapeHtml("table-1 äöü €"), "table-1 äöü €");
  EXPECT_EQ(EscapeHtml("<script>alert('x' + \"y\") && z</script>"),
            "&lt;script&gt;alert(&#39;x&#39; + &quot;y&quot;) &amp;&amp; "
            "z&lt;/script&gt;");
  EXPECT_EQ(EscapeHtml(absl::string_view("a\0b\x1b\n", 5)), "a�b�\n");
  EXPECT_EQ(EscapeHtml("\xff<\xc3"), "�&lt;�");
  // An overlong '<', a surrogate, a beginning without an end.
  EXPECT_EQ(EscapeHtml("\xc0\xbc"), "��");
  EXPECT_EQ(EscapeHtml("\xed\xa0\x80"), "���");
  EXPECT_EQ(EscapeHtml("\xe2\x82<"), "��&lt;");
  EXPECT_EQ(EscapeHtml("\xf4\x8f\xbf\xbf"), "\xf4\x8f\xbf\xbf");
  EXPECT_EQ(EscapeHtml("\xf4\x90\x80\x80"), "����");
}

TEST(Human, ReadsWell) {
  EXPECT_EQ(HumanCount(0), "0");
  EXPECT_EQ(HumanCount(999), "999");
  EXPECT_EQ(HumanCount(1000), "1,000");
  EXPECT_EQ(HumanCount(123456), "123,456");
  EXPECT_EQ(HumanCount(1234567), "1,234,567");
  EXPECT_EQ(HumanBytes(0), "0 B");
  EXPECT_EQ(HumanBytes(1023), "1023 B");
  EXPECT_EQ(HumanBytes(1536), "1.5 KiB");
  EXPECT_EQ(HumanBytes(uint64_t{4} << 30), "4.0 GiB");
  EXPECT_EQ(HumanSpan(absl::ZeroDuration()), "0");
  EXPECT_EQ(HumanSpan(absl::Nanoseconds(1234567)), "1.23ms");
  EXPECT_EQ(HumanSpan(absl::Milliseconds(12345)), "12.3s");
  EXPECT_EQ(HumanSpan(absl::Nanoseconds(123456)), "123us");
  EXPECT_EQ(HumanSpan(absl::Nanoseconds(42)), "42ns");
  EXPECT_EQ(HumanSpan(absl::Seconds(86399)), "23h59m");
  EXPECT_EQ(HumanTime(absl::UnixEpoch()), "1970-01-01 00:00:00 UTC");
  EXPECT_EQ(HumanAgo(absl::UnixEpoch(), absl::InfinitePast()), "never");
  EXPECT_EQ(HumanAgo(absl::FromUnixSeconds(90), absl::UnixEpoch()),
            "1m30s ago");
}

StatusReport Plain() {
  StatusReport report;
  report.started = absl::UnixEpoch();
  report.now = absl::UnixEpoch() + absl::Hours(30);
  return report;
}

TEST(StatusPage, ShowsEverySection) {
  StatusReport report = Plain();
  TableState table;
  table.name = "default";
  table.routes_v6 = 258956;
  table.accepted = 12;
  table.visible = 11;
  table.store = "sqlite";
  table.store_path = "/var/lib/planb/planb.db";
  table.builds.last_error = "no memory";
  report.tables.push_back(table);
  report.rebuilds.push_back({.table = "default",
                             .generation = 11,
                             .full = true,
                             .took = absl::Milliseconds(25),
                             .at = absl::UnixEpoch()});
  report.rebuilds.push_back({.table = "blue", .error = "out of luck"});
  prometheus::MetricFamily errors;
  errors.name = "planb_lookup_batch_errors_total";
  errors.type = prometheus::MetricType::Counter;
  for (const auto& [reason, count] :
       {std::pair("BATCH_TOO_LARGE", 3.0), std::pair("NEVER_SEEN", 0.0)}) {
    errors.metric.emplace_back();
    errors.metric.back().label.push_back({"reason", reason});
    errors.metric.back().counter.value = count;
  }
  report.metrics.push_back(errors);
  report.refusals.emplace_back("PREFIX_INVALID", 7);
  report.streams.push_back({"BatchLookup", 2, 10'000});
  report.flags.push_back({"listen", "unix:///run/x.sock", false});
  report.flags.push_back({"simd", "auto", true});

  const std::string html = RenderStatus(report);
  for (const char* shown :
       {"Ready.", "default", "258,956", ">12<", "<td class=\"bad\">11</td>",
        "no memory", "full", "25ms", "out of luck", "BATCH_TOO_LARGE",
        "PREFIX_INVALID", "BatchLookup", "10,000", "planb.db", "1970-01-01",
        "30h", "--listen", "unix:///run/x.sock", "1 flags have"}) {
    EXPECT_TRUE(StrContains(html, shown)) << shown;
  }
  EXPECT_FALSE(StrContains(html, "NEVER_SEEN"));
  // The most frequent first.
  EXPECT_LT(html.find("PREFIX_INVALID"), html.find("BATCH_TOO_LARGE"));
  EXPECT_FALSE(StrContains(html, "<script"));
  EXPECT_FALSE(StrContains(html, "http://"));
}

TEST(StatusPage, SaysWhyItIsNotReady) {
  StatusReport report = Plain();
  report.not_ready = "draining";
  EXPECT_TRUE(StrContains(RenderStatus(report), "Not ready: draining"));
}

TEST(StatusPage, EscapesWhateverItIsGiven) {
  const std::string hostile = "</td><img src=x onerror='alert(1)'>\"\xff";
  StatusReport report = Plain();
  report.not_ready = hostile;
  TableState table;
  table.name = hostile;
  table.store = hostile;
  table.store_path = hostile;
  table.builds.last_error = hostile;
  report.tables.push_back(table);
  report.rebuilds.push_back({.table = hostile, .error = hostile});
  report.refusals.emplace_back(hostile, 1);
  report.streams.push_back({hostile, 1, 2});
  report.flags.push_back({hostile, hostile, false});
  report.flags.push_back({hostile, hostile, true});
  prometheus::MetricFamily info;
  info.name = "x_info";
  info.metric.emplace_back();
  info.metric.back().label.push_back({hostile, hostile});
  info.metric.back().label.push_back({"reason", hostile});
  info.metric.back().counter.value = 1;
  report.metrics.push_back(info);
  const std::string html = RenderStatus(report);
  EXPECT_FALSE(StrContains(html, "<img"));
  EXPECT_FALSE(StrContains(html, "\xff"));
  size_t times = 0;
  const std::string escaped = "&lt;/td&gt;&lt;img src=x onerror=&#39;";
  for (size_t at = 0; (at = html.find(escaped, at)) != std::string::npos;
       ++at) {
    ++times;
  }
  EXPECT_GE(times, 15u);
}

}  // namespace
}  // namespace planb::server
