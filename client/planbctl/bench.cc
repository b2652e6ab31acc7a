// SPDX-License-Identifier: Apache-2.0

// planbctl bench: measures lookups a second and the latency of batches.

#include "client/load/bench.h"

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "base/cpu_list.h"
#include "client/load/trace.h"
#include "client/planbctl/command.h"
#include "client/planbctl/flags.h"
#include "client/planbctl/record.h"
#include "client/planbctl/route_source.h"
#include "client/planbctl/session.h"
#include "lpm/synthetic/reference_table.h"
#include "lpm/synthetic/traffic.h"
#include "planb/client/output.pb.h"

ABSL_FLAG(uint32_t, connections, 0,
          "Number of connections, which the streams share in turn; 0: one for "
          "each stream.");
ABSL_FLAG(planb::client::Choice<planb::client::ArrivalKind>, arrivals,
          {planb::client::ArrivalKind::kEven},
          "Open loop: even (equal gaps) or poisson (exponential gaps, as of "
          "many independent callers).");
ABSL_FLAG(absl::Duration, warmup, absl::Seconds(1),
          "Time to run before --seconds, without counting.");
ABSL_FLAG(absl::Duration, drain, absl::Seconds(1),
          "Time to wait, after --seconds, for batches that are due and not "
          "answered.");
ABSL_FLAG(bool, spin, false,
          "Wait by polling without a pause. This removes wake-ups from the "
          "latency and keeps a core busy. An open loop then has one thread for "
          "a stream instead of one that sends and one that receives.");
ABSL_FLAG(
    std::string, client_cpus, "",
    "Cores for planbctl: numbers and ranges, such as 1 or 0,2-3. Stream i "
    "runs on the i-th, in turn; other threads run on any of them.");
ABSL_FLAG(int32_t, server_pid, 0,
          "Also report the CPU time of this process, the server.");
ABSL_FLAG(bool, quiet, false,
          "Do not print a line of progress each second to stderr.");
ABSL_FLAG(std::string, addresses, "",
          "Look up the addresses of this file, one a line, over and over.");
ABSL_FLAG(planb::client::Choice<planb::TraceKind>, trace,
          {planb::TraceKind::kUniform},
          "Without --addresses: uniform (random in 2000::/3, or in all of "
          "IPv4), or random in routes of --routes or --synthetic: match (each "
          "as likely), zipf (the k-th most popular with weight 1/k), long (of "
          "those beyond /64), repeat (sixteen addresses over and over).");
ABSL_FLAG(planb::client::Choice<planb::client::AddressForm>, form,
          {planb::client::AddressForm::kFull},
          "full (whole addresses) or upper (the upper halves of IPv6 "
          "addresses, for routes on /64 and shorter).");
ABSL_FLAG(bool, check, false,
          "Compare every answer with the table of --routes or --synthetic. The "
          "server must have the same table, and it must not change.");
ABSL_FLAG(uint64_t, synthetic, 0,
          "Instead of a file: the table that \"generate\" makes with this many "
          "IPv6 routes and the same --ipv4, --seed and --next_hops.");

namespace planb::client {
namespace {

// The points of a plot of the distribution.
constexpr double kQuantiles[] = {0,      0.1,    0.25,    0.5,   0.75,
                                 0.9,    0.95,   0.99,    0.995, 0.999,
                                 0.9995, 0.9999, 0.99999, 1};

// Below this share of the offered lookups, the server is overloaded.
constexpr double kCarried = 0.98;

double Microseconds(const LatencyHistogram& histogram, double quantile) {
  return absl::ToDoubleMicroseconds(histogram.Quantile(quantile));
}

void SetParameters(output::Bench& report) {
  report.set_family(AbslUnparseFlag(absl::GetFlag(FLAGS_family)));
  report.set_form(AbslUnparseFlag(absl::GetFlag(FLAGS_form)));
  const std::string addresses = absl::GetFlag(FLAGS_addresses);
  report.set_trace(addresses.empty()
                       ? AbslUnparseFlag(absl::GetFlag(FLAGS_trace))
                       : addresses);
  report.set_batch(absl::GetFlag(FLAGS_batch));
  report.set_depth(absl::GetFlag(FLAGS_depth));
  report.set_streams(absl::GetFlag(FLAGS_streams));
  const uint32_t connections = absl::GetFlag(FLAGS_connections);
  report.set_connections(connections == 0 ? report.streams() : connections);
  const double rate = absl::GetFlag(FLAGS_rate);
  report.set_loop(rate > 0 ? "open" : "closed");
  if (rate > 0) {
    report.set_rate(rate);
    report.set_arrivals(AbslUnparseFlag(absl::GetFlag(FLAGS_arrivals)));
  }
  report.set_warmup_seconds(absl::ToDoubleSeconds(absl::GetFlag(FLAGS_warmup)));
  report.set_drain_seconds(absl::ToDoubleSeconds(absl::GetFlag(FLAGS_drain)));
  report.set_spin(absl::GetFlag(FLAGS_spin));
  report.set_client_cpus(absl::GetFlag(FLAGS_client_cpus));
  report.set_seed(absl::GetFlag(FLAGS_seed));
}

void SetLatencies(const BenchCounts& counts, output::Bench& report) {
  const LatencyHistogram& latency = counts.latency;
  report.set_latency_us_p50(Microseconds(latency, 0.5));
  report.set_latency_us_p90(Microseconds(latency, 0.9));
  report.set_latency_us_p99(Microseconds(latency, 0.99));
  report.set_latency_us_p999(Microseconds(latency, 0.999));
  report.set_latency_us_p9999(Microseconds(latency, 0.9999));
  report.set_latency_us_max(absl::ToDoubleMicroseconds(latency.Max()));
  for (double quantile : kQuantiles) {
    output::Quantile* point = report.add_latency_us();
    point->set_quantile(quantile);
    point->set_value(Microseconds(latency, quantile));
  }
  if (!report.has_rate()) return;
  report.set_send_delay_us_p50(Microseconds(counts.send_delay, 0.5));
  report.set_send_delay_us_p99(Microseconds(counts.send_delay, 0.99));
  report.set_send_delay_us_max(
      absl::ToDoubleMicroseconds(counts.send_delay.Max()));
}

void SetCpu(const BenchResult& result, output::Bench& report) {
  const double millions = static_cast<double>(report.lookups()) * 1e-6;
  report.set_client_cpu_seconds(absl::ToDoubleSeconds(result.client_cpu));
  if (millions > 0) {
    report.set_client_cpu_seconds_per_million(report.client_cpu_seconds() /
                                              millions);
  }
  if (!result.server_cpu.has_value()) return;
  report.set_server_cpu_seconds(absl::ToDoubleSeconds(*result.server_cpu));
  if (millions > 0) {
    report.set_server_cpu_seconds_per_million(report.server_cpu_seconds() /
                                              millions);
  }
}

// The parameters from the flags, and the results.
output::Bench BenchReport(const BenchResult& result) {
  output::Bench report;
  SetParameters(report);
  const BenchCounts& counts = result.counts;
  const double seconds = absl::ToDoubleSeconds(result.elapsed);
  report.set_seconds(seconds);
  report.set_batches(counts.batches);
  report.set_lookups(counts.lookups);
  report.set_misses(counts.misses);
  report.set_undecided(counts.undecided);
  report.set_offered_batches(counts.offered);
  report.set_unanswered_batches(counts.unanswered);
  if (seconds > 0) {  // else stopped before the warm-up's end
    report.set_lookups_per_second(static_cast<double>(report.lookups()) /
                                  seconds);
    report.set_offered_lookups_per_second(
        static_cast<double>(report.offered_batches()) * report.batch() /
        seconds);
  }
  SetLatencies(counts, report);
  SetCpu(result, report);
  if (absl::GetFlag(FLAGS_check)) {
    report.set_mismatches(counts.mismatches);
  }
  return report;
}

// The same as a few lines of text.
std::string BenchText(const output::Bench& report) {
  std::string text = absl::StrFormat(
      "%d lookups in %.2f s: %.4g M lookups/s (%s %s, %s; %d stream(s) over "
      "%d "
      "connection(s), batches of %d, %d in flight)\n",
      report.lookups(), report.seconds(), report.lookups_per_second() * 1e-6,
      report.family(), report.form(), report.trace(), report.streams(),
      report.connections(), report.batch(), report.depth());
  if (report.has_rate()) {
    absl::StrAppendFormat(
        &text, "offered %.4g M lookups/s, %s arrivals%s\n",
        report.offered_lookups_per_second() * 1e-6, report.arrivals(),
        report.lookups_per_second() <
                kCarried * report.offered_lookups_per_second()
            ? ": MORE THAN WAS CARRIED, so latencies grow with --seconds"
            : "");
  }
  absl::StrAppendFormat(
      &text,
      "batch latency in us: p50 %.0f, p90 %.0f, p99 %.0f, p99.9 %.0f, p99.99 "
      "%.0f, max %.0f; %d batches, %d unanswered\n",
      report.latency_us_p50(), report.latency_us_p90(), report.latency_us_p99(),
      report.latency_us_p999(), report.latency_us_p9999(),
      report.latency_us_max(), report.offered_batches(),
      report.unanswered_batches());
  if (report.has_send_delay_us_p50()) {
    absl::StrAppendFormat(
        &text, "of that until sent: p50 %.0f, p99 %.0f, max %.0f\n",
        report.send_delay_us_p50(), report.send_delay_us_p99(),
        report.send_delay_us_max());
  }
  absl::StrAppendFormat(&text, "CPU seconds per million lookups: client %.4f",
                        report.client_cpu_seconds_per_million());
  if (report.has_server_cpu_seconds()) {
    absl::StrAppendFormat(&text, ", server %.4f",
                          report.server_cpu_seconds_per_million());
  }
  absl::StrAppendFormat(&text, "\n%d lookups without a route", report.misses());
  if (report.undecided() > 0) {
    absl::StrAppendFormat(&text, ", %d undecided", report.undecided());
  }
  text += "\n";
  if (report.has_mismatches()) {
    absl::StrAppendFormat(&text, "%d answers differ from the table\n",
                          report.mismatches());
  }
  return text;
}

// The line of progress for a second with so many lookups.
std::string ProgressLine(absl::Duration elapsed, uint64_t lookups,
                         const LatencyHistogram& latency) {
  const std::string done = absl::StrFormat(
      "%.0f s: %.4g M lookups/s; latency so far in us: ",
      absl::ToDoubleSeconds(elapsed), static_cast<double>(lookups) * 1e-6);
  // All answered batches may have been due in the warm-up.
  if (latency.count() == 0) return absl::StrCat(done, "none\n");
  return absl::StrFormat("%sp50 %.0f, p99 %.0f\n", done,
                         Microseconds(latency, 0.5),
                         Microseconds(latency, 0.99));
}

// Number of random addresses: too many for the server's caches.
constexpr size_t kTraceAddresses = 1 << 20;

// More than any stream can carry. Each offered batch is counted by itself.
constexpr double kMaxBatchRate = 2e6;

// The table of --routes or --synthetic; empty if neither is given.
absl::StatusOr<std::vector<Route>> RoutesFromFlags() {
  const std::string path = absl::GetFlag(FLAGS_routes);
  if (!path.empty()) return ReadRoutes(path);
  if (absl::GetFlag(FLAGS_synthetic) == 0 && absl::GetFlag(FLAGS_ipv4) == 0) {
    return std::vector<Route>();
  }
  return MadeUpRoutes(absl::GetFlag(FLAGS_synthetic));
}

absl::StatusOr<Trace> TraceFromFlags(const std::vector<Route>& routes) {
  const Family family = absl::GetFlag(FLAGS_family).value;
  const size_t batch = absl::GetFlag(FLAGS_batch);
  const AddressForm form = absl::GetFlag(FLAGS_form).value;
  const std::string path = absl::GetFlag(FLAGS_addresses);
  if (path.empty()) {
    return MakeTrace(absl::GetFlag(FLAGS_trace).value, family, routes,
                     kTraceAddresses, absl::GetFlag(FLAGS_seed), batch, form);
  }
  const auto addresses = ReadAddressFile(path, family);
  if (!addresses.ok()) return addresses.status();
  return Trace(family, *addresses, batch, form);
}

// Errors: INVALID_ARGUMENT for flags that contradict each other.
absl::Status CheckFlags() {
  if (absl::GetFlag(FLAGS_connections) > absl::GetFlag(FLAGS_streams)) {
    return absl::InvalidArgumentError(
        "--connections cannot be more than --streams");
  }
  if (absl::GetFlag(FLAGS_form).value == AddressForm::kUpper &&
      absl::GetFlag(FLAGS_family).value != Family::kIpv6) {
    return absl::InvalidArgumentError("--form=upper is of --family=ipv6 only");
  }
  const double rate = absl::GetFlag(FLAGS_rate);
  const double seconds = absl::GetFlag(FLAGS_seconds);
  if (!(rate >= 0 && rate <= 1e12) || !(seconds >= 0 && seconds <= 1e9) ||
      absl::GetFlag(FLAGS_warmup) < absl::ZeroDuration() ||
      absl::GetFlag(FLAGS_drain) < absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        "--rate, --seconds, --warmup and --drain must be sensible numbers of 0 "
        "or more");
  }
  if (rate / absl::GetFlag(FLAGS_batch) / absl::GetFlag(FLAGS_streams) >
      kMaxBatchRate) {
    return absl::InvalidArgumentError(
        "--rate is more than two million batches a second on each stream");
  }
  return absl::OkStatus();
}

// A channel for each of --streams, over --connections connections.
absl::StatusOr<std::vector<std::shared_ptr<grpc::Channel>>> Connect() {
  const uint32_t streams = absl::GetFlag(FLAGS_streams);
  uint32_t connections = absl::GetFlag(FLAGS_connections);
  if (connections == 0) connections = streams;
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  for (uint32_t i = 0; i < streams; ++i) {
    if (i >= connections) {
      channels.push_back(channels[i - connections]);
      continue;
    }
    auto channel = ConnectToServer({.own_connection = true});
    if (!channel.ok()) return channel.status();
    channels.push_back(*std::move(channel));
  }
  return channels;
}

BenchOptions OptionsFromFlags() {
  BenchOptions options = {
      .table = absl::GetFlag(FLAGS_table),
      .depth = absl::GetFlag(FLAGS_depth),
      .warmup = absl::GetFlag(FLAGS_warmup),
      .duration = absl::Seconds(absl::GetFlag(FLAGS_seconds)),
      .drain = absl::GetFlag(FLAGS_drain),
      .rate = absl::GetFlag(FLAGS_rate),
      .arrivals = absl::GetFlag(FLAGS_arrivals).value,
      .seed = absl::GetFlag(FLAGS_seed),
      .spin = absl::GetFlag(FLAGS_spin),
      .stop = &StopRequested(),
      .stall_timeout = absl::GetFlag(FLAGS_timeout)};
  if (absl::GetFlag(FLAGS_server_pid) != 0) {
    options.server = absl::GetFlag(FLAGS_server_pid);
  }
  if (!absl::GetFlag(FLAGS_quiet)) {
    options.progress = [before = uint64_t{0}](
                           absl::Duration elapsed,
                           const BenchCounts& so_far) mutable {
      const uint64_t lookups =
          so_far.lookups - std::exchange(before, so_far.lookups);
      std::fputs(ProgressLine(elapsed, lookups, so_far.latency).c_str(),
                 stderr);
    };
  }
  return options;
}

ExitCode Run(const Arguments&) {
  if (const absl::Status flags = CheckFlags(); !flags.ok()) {
    return FailUsage(flags.message());
  }
  auto cpus = ParseCpuList(absl::GetFlag(FLAGS_client_cpus));
  if (!cpus.ok()) {
    return FailUsage(absl::StrCat("--client_cpus: ", cpus.status().message()));
  }
  const auto routes = RoutesFromFlags();
  if (!routes.ok()) return FailUsage(routes.status().message());
  const bool check = absl::GetFlag(FLAGS_check);
  if (routes->empty() &&
      (check || absl::GetFlag(FLAGS_trace).value != TraceKind::kUniform)) {
    return FailUsage(
        "--check and every --trace but uniform need --routes or --synthetic");
  }
  const auto trace = TraceFromFlags(*routes);
  if (!trace.ok()) return FailUsage(trace.status().message());
  BenchOptions options = OptionsFromFlags();
  if (check) options.expected = trace->Expect(ReferenceTable(*routes));
  if (!cpus->empty()) {
    // Before gRPC starts its threads, which inherit the setting.
    if (const absl::Status pinned = RunOn(*cpus); !pinned.ok()) {
      return FailUsage(pinned.message());
    }
    options.cpus = *std::move(cpus);
  }
  const auto channels = Connect();
  if (!channels.ok()) return Fail(channels.status());
  StopOnSignals();
  const auto result = RunBench(*channels, *trace, options);
  if (!result.ok()) return Fail(result.status());
  const output::Bench report = BenchReport(*result);
  Print(report, BenchText(report));
  return result->counts.mismatches == 0 ? ExitCode::kOk : ExitCode::kNegative;
}

const RegisteredCommand kBenchCommand({
    .name = "bench",
    .summary = "measure lookups a second and the latency of batches",
    .description =
        "Sends batches over one or more streams for --seconds, after a "
        "warm-up that does not count. The addresses come from a file, or "
        "are a million random ones of the kind --trace.\n\nWithout --rate "
        "the loop is closed: each stream keeps --depth batches in flight, "
        "so a slow server gets fewer batches. With --rate the loop is "
        "open: batches are due on a fixed schedule. Latency counts from "
        "the time a batch was due, even if the server, the connection, "
        "--depth or planbctl itself delays it. If more is offered than is "
        "carried, the report has both figures, and the run still ends "
        "after --drain. An unanswered batch counts with the time it "
        "waited.\n\nPrints lookups a second, the percentiles of the latency "
        "of batches, and CPU seconds per million lookups. SIGTERM and "
        "SIGINT end the run early with its report. With --check, compares "
        "every answer with a table and exits with 1 if one differs.\n\nThe "
        "assignment of next hops and the choice of addresses change "
        "results by factors: quote both with a result.",
    .flags = {"batch",       "depth",      "streams", "connections", "rate",
              "arrivals",    "seconds",    "warmup",  "drain",       "spin",
              "client_cpus", "server_pid", "quiet",   "addresses",   "trace",
              "family",      "form",       "routes",  "synthetic",   "ipv4",
              "seed",        "next_hops",  "check"},
    .run = Run,
});

}  // namespace
}  // namespace planb::client
