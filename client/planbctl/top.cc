// SPDX-License-Identifier: Apache-2.0

// planbctl top: a server's rates, from the metrics that it has for Prometheus.

#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/monotonic_time.h"
#include "client/planbctl/command.h"
#include "client/planbctl/flags.h"
#include "client/planbctl/output.h"
#include "client/planbctl/record.h"
#include "client/planbctl/session.h"
#include "planb/client/output.pb.h"

ABSL_FLAG(std::string, metrics, "127.0.0.1:9464",
          "HOST:PORT of the server's metrics (its --metrics_address).");
ABSL_FLAG(absl::Duration, interval, absl::Seconds(1),
          "Time between two screens, over which rates are taken.");
ABSL_FLAG(uint64_t, rounds, 0, "End after this many screens; 0: on a signal.");

namespace planb::client {
namespace {

// The series of one scrape, by name with labels as Prometheus writes them.
struct Scrape {
  absl::Time at;  // by the monotonic clock
  std::map<std::string, double> series;

  // The sum of the series of this name, with any labels.
  double Sum(absl::string_view name) const {
    double sum = 0;
    for (auto it = series.lower_bound(std::string(name));
         it != series.end() && absl::StartsWith(it->first, name); ++it) {
      if (it->first.size() == name.size() || it->first[name.size()] == '{') {
        sum += it->second;
      }
    }
    return sum;
  }
};

// The body of a reply, or why there is none.
struct Reply {
  int status = 0;
  std::string body;
};

void KeepReply(evhttp_request* request, void* reply) {
  auto& kept = *static_cast<Reply*>(reply);
  if (request == nullptr) return;  // no connection, or no answer in time
  kept.status = evhttp_request_get_response_code(request);
  evbuffer* const body = evhttp_request_get_input_buffer(request);
  kept.body.resize(evbuffer_get_length(body));
  evbuffer_remove(body, kept.body.data(), kept.body.size());
}

// GET http://ADDRESS/metrics. Errors: INVALID_ARGUMENT, UNAVAILABLE.
absl::StatusOr<std::string> GetMetrics(const std::string& address) {
  const size_t colon = address.rfind(':');
  uint32_t port = 0;
  if (colon == std::string::npos || colon == 0 ||
      !absl::SimpleAtoi(address.substr(colon + 1), &port) || port == 0 ||
      port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("--metrics=", address, " is not HOST:PORT"));
  }
  absl::string_view host = absl::string_view(address).substr(0, colon);
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  const std::unique_ptr<event_base, void (*)(event_base*)> base(
      event_base_new(), event_base_free);
  const std::unique_ptr<evhttp_connection, void (*)(evhttp_connection*)>
      connection(evhttp_connection_base_new(base.get(), nullptr,
                                            std::string(host).c_str(),
                                            static_cast<uint16_t>(port)),
                 evhttp_connection_free);
  const timeval timeout = absl::ToTimeval(absl::GetFlag(FLAGS_timeout));
  evhttp_connection_set_timeout_tv(connection.get(), &timeout);
  evhttp_connection_set_max_body_size(connection.get(), 64 << 20);
  Reply reply;
  // Belongs to the connection once it is made.
  evhttp_request* const request = evhttp_request_new(KeepReply, &reply);
  evhttp_add_header(evhttp_request_get_output_headers(request), "Host",
                    address.c_str());
  evhttp_make_request(connection.get(), request, EVHTTP_REQ_GET, "/metrics");
  event_base_dispatch(base.get());
  if (reply.status != 200) {
    return absl::UnavailableError(
        reply.status == 0
            ? absl::StrCat("no metrics from ", address)
            : absl::StrCat(address, " answered with status ", reply.status));
  }
  return std::move(reply.body);
}

absl::StatusOr<Scrape> TakeScrape(const std::string& address) {
  const auto text = GetMetrics(address);
  if (!text.ok()) return text.status();
  Scrape scrape = {.at = MonotonicNow(), .series = {}};
  for (const absl::string_view line : absl::StrSplit(*text, '\n')) {
    const size_t blank = line.rfind(' ');
    double value = 0;
    if (line.empty() || line[0] == '#' || blank == absl::string_view::npos ||
        !absl::SimpleAtod(line.substr(blank + 1), &value)) {
      continue;
    }
    scrape.series.emplace(line.substr(0, blank), value);
  }
  return scrape;
}

// How much a counter grew. One that is lower began again, with its server.
double Growth(double before, double after) {
  return after < before ? after : after - before;
}

// What happened between two scrapes.
class Interval {
 public:
  Interval(const Scrape& before, const Scrape& after)
      : before_(before),
        after_(after),
        seconds_(absl::ToDoubleSeconds(after.at - before.at)) {}

  double Rate(absl::string_view name) const {
    return Growth(before_.Sum(name), after_.Sum(name)) / seconds_;
  }
  // The bound of the bucket that holds this share of the values; 0 if there are
  // none.
  double Quantile(absl::string_view histogram, double share) const {
    const std::string prefix = absl::StrCat(histogram, "_bucket{le=\"");
    std::map<double, double> counts;
    for (auto it = after_.series.lower_bound(prefix);
         it != after_.series.end() && absl::StartsWith(it->first, prefix);
         ++it) {
      double bound = 0;
      const std::vector<absl::string_view> parts =
          absl::StrSplit(it->first, '"');
      if (!absl::SimpleAtod(parts[1], &bound)) continue;
      counts[bound] += GrowthOf(*it);
    }
    const double all = counts.empty() ? 0 : counts.rbegin()->second;
    for (const auto& [bound, count] : counts) {
      if (all > 0 && count >= share * all) return bound;
    }
    return 0;
  }

  output::Top Describe() const {
    output::Top top;
    top.set_seconds(seconds_);
    top.set_lookups_per_second(Rate("planb_lookups_total"));
    top.set_misses_per_second(Rate("planb_lookup_misses_total"));
    top.set_batches_per_second(Rate("planb_lookup_batches_total"));
    top.set_batch_p50_seconds(
        Quantile("planb_lookup_batch_duration_seconds", 0.5));
    top.set_batch_p99_seconds(
        Quantile("planb_lookup_batch_duration_seconds", 0.99));
    top.set_streams(after_.Sum("planb_lookup_streams"));
    top.set_changes_per_second(Rate("planb_update_operations_total"));
    top.set_rebuilds_per_second(Rate("planb_rebuilds_total"));
    AddErrors("planb_lookup_batch_errors_total{reason=\"", top);
    for (const auto& [name, value] : after_.series) AddTable(name, value, top);
    return top;
  }

 private:
  double GrowthOf(const std::pair<const std::string, double>& series) const {
    const auto old = before_.series.find(series.first);
    return Growth(old == before_.series.end() ? 0 : old->second, series.second);
  }

  void AddErrors(const std::string& prefix, output::Top& top) const {
    for (auto it = after_.series.lower_bound(prefix);
         it != after_.series.end() && absl::StartsWith(it->first, prefix);
         ++it) {
      const double count = GrowthOf(*it);
      if (count <= 0) continue;
      output::Top::Error& error = *top.add_errors();
      error.set_reason(std::string(absl::StripSuffix(
          absl::string_view(it->first).substr(prefix.size()), "\"}")));
      error.set_per_second(count / seconds_);
    }
    std::sort(top.mutable_errors()->begin(), top.mutable_errors()->end(),
              [](const auto& a, const auto& b) {
                return a.per_second() > b.per_second();
              });
  }

  static void AddTable(absl::string_view series, double value,
                       output::Top& top) {
    const bool generation =
        absl::ConsumePrefix(&series, "planb_generation{table=\"");
    if (!generation && !absl::ConsumePrefix(&series, "planb_routes{table=\"")) {
      return;
    }
    const std::vector<absl::string_view> parts = absl::StrSplit(series, '"');
    if (parts.size() < 3) return;
    output::Top::Table* table = nullptr;
    for (output::Top::Table& each : *top.mutable_tables()) {
      if (each.table() == parts[0]) table = &each;
    }
    if (table == nullptr) {
      table = top.add_tables();
      table->set_table(std::string(parts[0]));
    }
    if (!generation) {
      table->set_routes(table->routes() + value);
    } else if (parts[2] == "accepted") {
      table->set_accepted_generation(value);
    } else if (parts[2] == "visible") {
      table->set_visible_generation(value);
    }
  }

  const Scrape& before_;
  const Scrape& after_;
  const double seconds_;
};

// A number of a rate: 12.3 M, 45.6 k or 7.
std::string Short(double value) {
  if (value >= 1e6) return absl::StrFormat("%.1f M", value * 1e-6);
  if (value >= 1e4) return absl::StrFormat("%.1f k", value * 1e-3);
  return absl::StrFormat("%.0f", value);
}

std::string TextOf(const output::Top& top) {
  std::string text = absl::StrCat(
      Field("lookups",
            absl::StrCat(Short(top.lookups_per_second()), "/s, ",
                         Short(top.misses_per_second()), "/s without a route")),
      Field("batches",
            absl::StrFormat("%s/s on %.0f streams; p50 up to %.0f us, p99 up "
                            "to %.0f us",
                            Short(top.batches_per_second()), top.streams(),
                            top.batch_p50_seconds() * 1e6,
                            top.batch_p99_seconds() * 1e6)),
      Field("changes",
            absl::StrCat(Short(top.changes_per_second()), "/s, ",
                         Short(top.rebuilds_per_second()), "/s rebuilds")),
      "\n");
  TextTable tables({"table", "routes", "accepted", "visible"});
  for (const output::Top::Table& table : top.tables()) {
    tables.AddRow({table.table(), absl::StrFormat("%.0f", table.routes()),
                   absl::StrFormat("%.0f", table.accepted_generation()),
                   absl::StrFormat("%.0f", table.visible_generation())});
  }
  absl::StrAppend(&text, tables.ToString());
  TextTable errors({"failed batches", "a second"});
  constexpr int kShown = 5;
  for (int i = 0; i < std::min(kShown, top.errors_size()); ++i) {
    errors.AddRow({top.errors(i).reason(), Short(top.errors(i).per_second())});
  }
  return absl::StrCat(text, top.errors().empty() ? "" : "\n",
                      errors.ToString());
}

ExitCode Run(const Arguments&) {
  const std::string address = absl::GetFlag(FLAGS_metrics);
  const absl::Duration interval = absl::GetFlag(FLAGS_interval);
  if (interval <= absl::ZeroDuration()) {
    return FailUsage("--interval must be positive");
  }
  StopOnSignals();
  auto before = TakeScrape(address);
  if (absl::IsInvalidArgument(before.status())) {
    return FailUsage(before.status().message());
  }
  if (!before.ok()) return Fail(before.status());
  const bool screen = IsTerminal(stdout);
  const uint64_t rounds = absl::GetFlag(FLAGS_rounds);
  for (uint64_t round = 1; rounds == 0 || round <= rounds; ++round) {
    const absl::Time due = before->at + interval;
    while (MonotonicNow() < due && !StopRequested()) {
      absl::SleepFor(std::min(due - MonotonicNow(), absl::Milliseconds(100)));
    }
    if (StopRequested()) break;
    auto after = TakeScrape(address);
    if (!after.ok()) return Fail(after.status());
    const output::Top top = Interval(*before, *after).Describe();
    // On a terminal each screen replaces the one before.
    const std::string text =
        absl::StrCat(screen ? "\x1b[H\x1b[J" : "", "planbctl top of ", address,
                     "\n\n", TextOf(top), screen ? "" : "\n");
    Print(top, text);
    if (std::fflush(stdout) != 0) break;
    before = std::move(after);
  }
  return ExitCode::kOk;
}

const RegisteredCommand kTopCommand({
    .name = "top",
    .summary = "show a server's rates, latency and errors, live",
    .description =
        "Reads the metrics of a server at each --interval and shows lookups, "
        "batches and their latency, changes, the generation of each table, and "
        "the reasons of failed batches, most frequent first. Latencies are "
        "bounds of the histogram's buckets. On a terminal each screen replaces "
        "the one before. Asks --metrics by HTTP, not --server.",
    .flags = {"metrics", "interval", "rounds"},
    .run = Run,
    .needs_server = false,
});

}  // namespace
}  // namespace planb::client
