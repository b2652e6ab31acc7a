// SPDX-License-Identifier: Apache-2.0

#include "server/observe/status_page.h"

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "absl/flags/commandlineflag.h"
#include "absl/flags/reflection.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/observe/html.h"
#include "server/observe/human.h"

namespace planb::server {
namespace {

using Cell = HtmlPage::Cell;
using Column = HtmlPage::Column;
using Look = HtmlPage::Look;
using Row = HtmlPage::Row;
using prometheus::MetricFamily;

const MetricFamily* Find(const StatusReport& report, const char* name) {
  for (const MetricFamily& family : report.metrics) {
    if (family.name == name) return &family;
  }
  return nullptr;
}

// The sum of a family's counters; 0 without the family.
double Sum(const StatusReport& report, const char* name) {
  double sum = 0;
  if (const MetricFamily* const family = Find(report, name)) {
    for (const auto& metric : family->metric) sum += metric.counter.value;
  }
  return sum;
}

void ShowProcess(const StatusReport& report, HtmlPage& page) {
  page.Heading("Process");
  std::vector<std::pair<std::string, Cell>> facts;
  // Whatever is exported as information: version, compiler, kernel.
  for (const MetricFamily& family : report.metrics) {
    if (!absl::EndsWith(family.name, "_info")) continue;
    for (const auto& metric : family.metric) {
      for (const auto& label : metric.label) {
        facts.emplace_back(label.name, label.value);
      }
    }
  }
  facts.emplace_back("gRPC", grpc::Version());
  facts.emplace_back("started", HumanTime(report.started));
  facts.emplace_back("up", HumanSpan(report.now - report.started));
  facts.emplace_back("process id", absl::StrCat(getpid()));
  page.Facts(facts);
}

Row RowOf(const TableState& table, absl::Time now) {
  const std::string& error = table.builds.last_error;
  const bool lags = table.visible < table.accepted;
  return {table.name,
          error.empty() ? Cell("ok", Look::kGood) : Cell(error, Look::kBad),
          HumanCount(table.routes_v4),
          HumanCount(table.routes_v6),
          HumanCount(table.next_hops),
          HumanCount(table.groups),
          HumanCount(table.accepted),
          Cell(HumanCount(table.visible), lags ? Look::kBad : Look::kText),
          table.store == "none" ? "volatile" : HumanCount(table.persisted),
          HumanBytes(table.fib_bytes),
          HumanBytes(table.retired_fib_bytes),
          HumanBytes(table.rib_bytes),
          HumanBytes(table.history_bytes),
          HumanAgo(now, table.builds.last_at)};
}

void ShowTables(const StatusReport& report, HtmlPage& page) {
  page.Heading("Tables");
  page.Paragraph(Cell("Accepted, visible and persisted are generations."));
  std::vector<Row> rows;
  for (const TableState& table : report.tables) {
    rows.push_back(RowOf(table, report.now));
  }
  page.Table({{"table"},
              {"state"},
              {"IPv4 routes", Look::kNumber},
              {"IPv6 routes", Look::kNumber},
              {"next hops", Look::kNumber},
              {"groups", Look::kNumber},
              {"accepted", Look::kNumber},
              {"visible", Look::kNumber},
              {"persisted", Look::kNumber},
              {"FIB", Look::kNumber},
              {"old FIBs", Look::kNumber},
              {"RIB", Look::kNumber},
              {"history", Look::kNumber},
              {"last rebuild", Look::kNumber}},
             rows, "No tables.");
}

void ShowRebuilds(const StatusReport& report, HtmlPage& page) {
  page.Heading("Recent rebuilds");
  std::vector<Row> rows;
  for (const RebuildRecord& record : report.rebuilds) {
    const bool ok = record.error.empty();
    rows.push_back(
        {HumanTime(record.at), record.table, HumanCount(record.generation),
         !ok           ? "-"
         : record.full ? "full"
                       : "incremental",
         HumanSpan(record.took),
         ok ? Cell("published", Look::kGood) : Cell(record.error, Look::kBad)});
  }
  page.Table({{"when"},
              {"table"},
              {"generation", Look::kNumber},
              {"kind"},
              {"took", Look::kNumber},
              {"result"}},
             rows, "None since the start.");
}

void ShowErrors(const StatusReport& report, HtmlPage& page) {
  page.Heading("Top error reasons");
  struct Error {
    uint64_t count;
    std::string reason;
    std::string of;
  };
  std::vector<Error> errors;
  for (const MetricFamily& family : report.metrics) {
    for (const auto& metric : family.metric) {
      for (const auto& label : metric.label) {
        if (label.name != "reason" || metric.counter.value < 1) continue;
        errors.push_back({static_cast<uint64_t>(metric.counter.value),
                          label.value, family.name});
      }
    }
  }
  for (const auto& [reason, count] : report.refusals) {
    errors.push_back({count, reason, "updates refused"});
  }
  std::sort(errors.begin(), errors.end(),
            [](const Error& a, const Error& b) { return a.count > b.count; });
  constexpr size_t kTop = 12;
  if (errors.size() > kTop) errors.resize(kTop);
  std::vector<Row> rows;
  for (const Error& error : errors) {
    rows.push_back({error.reason, HumanCount(error.count), error.of});
  }
  page.Table({{"reason"}, {"count", Look::kNumber}, {"of"}}, rows,
             "None since the start.");
}

void ShowStreams(const StatusReport& report, HtmlPage& page) {
  page.Heading("Streams");
  std::vector<Row> rows;
  for (const StreamCount& stream : report.streams) {
    const Look look = stream.open < stream.limit ? Look::kText : Look::kBad;
    rows.push_back({stream.kind, Cell(HumanCount(stream.open), look),
                    HumanCount(stream.limit)});
  }
  page.Table({{"kind"}, {"open", Look::kNumber}, {"limit", Look::kNumber}},
             rows, "None.");
}

void ShowStore(const StatusReport& report, HtmlPage& page) {
  page.Heading("Store");
  if (report.tables.empty() || report.tables.front().store == "none") {
    page.Paragraph(Cell("None: tables do not survive the process."));
    return;
  }
  const TableState& any = report.tables.front();
  std::vector<std::pair<std::string, Cell>> facts = {{"kind", any.store},
                                                     {"path", any.store_path}};
  if (const MetricFamily* const commits =
          Find(report, "planb_store_commit_seconds");
      commits != nullptr && !commits->metric.empty()) {
    const auto& histogram = commits->metric.front().histogram;
    const double count = static_cast<double>(histogram.sample_count);
    facts.emplace_back("commits", HumanCount(histogram.sample_count));
    if (count > 0) {
      facts.emplace_back(
          "a commit takes",
          HumanSpan(absl::Seconds(histogram.sample_sum / count)));
    }
  }
  const double failed = Sum(report, "planb_store_errors_total");
  facts.emplace_back(
      "commits refused",
      Cell(HumanCount(static_cast<uint64_t>(std::llround(failed))),
           failed > 0 ? Look::kBad : Look::kText));
  page.Facts(facts);
}

void ShowFlags(const StatusReport& report, HtmlPage& page) {
  page.Heading("Flags");
  std::vector<std::pair<std::string, Cell>> given;
  std::vector<std::pair<std::string, Cell>> others;
  for (const FlagValue& flag : report.flags) {
    (flag.is_default ? others : given)
        .emplace_back(absl::StrCat("--", flag.name),
                      flag.value.empty() ? "(empty)" : flag.value);
  }
  if (given.empty()) page.Paragraph(Cell("All have their defaults."));
  page.Facts(given);
  page.BeginFold(absl::StrCat(others.size(), " flags have their defaults"));
  page.Facts(others);
  page.EndFold();
}

}  // namespace

std::string RenderStatus(const StatusReport& report) {
  HtmlPage page("PlanB Lookup");
  page.Paragraph(
      report.not_ready.empty()
          ? Cell("Ready.", Look::kGood)
          : Cell(absl::StrCat("Not ready: ", report.not_ready), Look::kBad));
  ShowTables(report, page);
  ShowRebuilds(report, page);
  ShowErrors(report, page);
  ShowStreams(report, page);
  ShowStore(report, page);
  ShowProcess(report, page);
  ShowFlags(report, page);
  page.Link("/", "has the other pages");
  return page.Finish();
}

std::vector<FlagValue> FlagsInForce() {
  std::map<std::string, FlagValue> flags;  // by name
  for (const auto& [name, flag] : absl::GetAllFlags()) {
    const std::string file = flag->Filename();
    if (!absl::StrContains(file, "server/") ||
        !absl::EndsWith(file, "_flags.cc")) {
      continue;
    }
    FlagValue value = {std::string(name), flag->CurrentValue(), true};
    value.is_default = value.value == flag->DefaultValue();
    for (const char* secret : {"secret", "password", "token"}) {
      if (absl::StrContains(name, secret)) value.value = "(not shown)";
    }
    flags[value.name] = std::move(value);
  }
  std::vector<FlagValue> sorted;
  for (auto& [name, flag] : flags) sorted.push_back(std::move(flag));
  return sorted;
}

}  // namespace planb::server
