// planbctl bench: how many lookups a second, and how long a batch takes.

#include <atomic>
#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_format.h"
#include "client/bench.h"
#include "client/command.h"
#include "client/flags.h"
#include "client/output.h"
#include "client/reference_table.h"
#include "client/route_source.h"
#include "client/session.h"
#include "client/trace.h"
#include "lpm/synthetic/synthetic.h"
#include "planb/client/output.pb.h"

namespace planb::client {
namespace {

// Addresses made up: enough that the server's caches do not learn them.
constexpr size_t kTraceAddresses = 1 << 20;

// Set by SIGTERM and SIGINT: what was measured until then is still reported.
std::atomic<bool> stop_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void StopOnSignals() {
  for (int number : {SIGTERM, SIGINT}) {
    std::signal(number, [](int) { stop_requested = true; });
  }
}

// The table of --routes or --synthetic; empty if neither is given.
absl::StatusOr<std::vector<Route>> RoutesFromFlags() {
  const std::string path = absl::GetFlag(FLAGS_routes);
  if (!path.empty()) return ReadRoutes(path);
  if (absl::GetFlag(FLAGS_synthetic) == 0 && absl::GetFlag(FLAGS_ipv4) == 0) {
    return std::vector<Route>();
  }
  return MadeUpRoutes(absl::GetFlag(FLAGS_synthetic));
}

absl::StatusOr<std::vector<Address>> AddressesFromFlags(
    const std::vector<Route>& routes) {
  const Family family = absl::GetFlag(FLAGS_family).family;
  const std::string path = absl::GetFlag(FLAGS_addresses);
  if (!path.empty()) return ReadAddressFile(path, family);
  const uint64_t seed = absl::GetFlag(FLAGS_seed);
  if (absl::GetFlag(FLAGS_trace) == TraceChoice::kMatch) {
    return SyntheticTrace(routes, family, kTraceAddresses, seed);
  }
  return UniformAddresses(family, kTraceAddresses, seed);
}

output::Bench Report(const BenchResult& result, const Trace& trace) {
  output::Bench report;
  report.set_family(AbslUnparseFlag(absl::GetFlag(FLAGS_family)));
  report.set_trace(absl::GetFlag(FLAGS_addresses).empty()
                       ? AbslUnparseFlag(absl::GetFlag(FLAGS_trace))
                       : absl::GetFlag(FLAGS_addresses));
  report.set_batch(static_cast<uint32_t>(trace.batch_size()));
  report.set_depth(absl::GetFlag(FLAGS_depth));
  report.set_streams(absl::GetFlag(FLAGS_streams));
  report.set_seconds(absl::ToDoubleSeconds(result.elapsed));
  report.set_batches(static_cast<double>(result.batches));
  report.set_lookups(static_cast<double>(result.lookups));
  report.set_lookups_per_second(report.lookups() / report.seconds());
  report.set_misses(static_cast<double>(result.misses));
  const auto microseconds = [&](double quantile) {
    return absl::ToDoubleMicroseconds(result.latency.Quantile(quantile));
  };
  report.set_latency_us_p50(microseconds(0.5));
  report.set_latency_us_p90(microseconds(0.9));
  report.set_latency_us_p99(microseconds(0.99));
  report.set_latency_us_p999(microseconds(0.999));
  report.set_latency_us_max(absl::ToDoubleMicroseconds(result.latency.Max()));
  if (absl::GetFlag(FLAGS_check)) {
    report.set_mismatches(static_cast<double>(result.mismatches));
  }
  return report;
}

void PrintText(const output::Bench& report) {
  absl::PrintF(
      "%.0f lookups in %.2f s: %.2f M lookups/s (%s, %s; %d stream(s), batches "
      "of %d, %d in flight)\n",
      report.lookups(), report.seconds(), report.lookups_per_second() * 1e-6,
      report.family(), report.trace(), report.streams(), report.batch(),
      report.depth());
  absl::PrintF(
      "batch latency in us: p50 %.0f, p90 %.0f, p99 %.0f, p99.9 %.0f, max "
      "%.0f; %.0f batches\n",
      report.latency_us_p50(), report.latency_us_p90(), report.latency_us_p99(),
      report.latency_us_p999(), report.latency_us_max(), report.batches());
  absl::PrintF("%.0f lookups without a route\n", report.misses());
  if (report.has_mismatches()) {
    absl::PrintF("%.0f answers differ from the table\n", report.mismatches());
  }
}

ExitCode Run(const Arguments& arguments) {
  if (!arguments.empty()) return FailUsage("bench takes no arguments");
  if (absl::GetFlag(FLAGS_batch) == 0 || absl::GetFlag(FLAGS_depth) == 0 ||
      absl::GetFlag(FLAGS_streams) == 0) {
    return FailUsage("--batch, --depth and --streams must be at least 1");
  }
  const auto routes = RoutesFromFlags();
  if (!routes.ok()) return FailUsage(routes.status().message());
  const bool check = absl::GetFlag(FLAGS_check);
  if (routes->empty() &&
      (check || absl::GetFlag(FLAGS_trace) == TraceChoice::kMatch)) {
    return FailUsage("--check and --trace=match need --routes or --synthetic");
  }
  const auto addresses = AddressesFromFlags(*routes);
  if (!addresses.ok()) return FailUsage(addresses.status().message());
  const Trace trace(absl::GetFlag(FLAGS_family).family, *addresses,
                    absl::GetFlag(FLAGS_batch));
  BenchOptions options = {
      .table = absl::GetFlag(FLAGS_table),
      .depth = absl::GetFlag(FLAGS_depth),
      .duration = absl::Seconds(absl::GetFlag(FLAGS_seconds)),
      .stop = &stop_requested,
      .stall_timeout = absl::GetFlag(FLAGS_timeout)};
  if (check) options.expected = trace.Expect(ReferenceTable(*routes));

  std::vector<std::shared_ptr<grpc::Channel>> channels;
  for (uint32_t i = 0; i < absl::GetFlag(FLAGS_streams); ++i) {
    const auto channel = ConnectToServer({.own_connection = true});
    if (!channel.ok()) return Fail(channel.status());
    channels.push_back(*channel);
  }
  StopOnSignals();
  const auto result = RunBench(channels, trace, options);
  if (!result.ok()) return Fail(result.status());
  const output::Bench report = Report(*result, trace);
  if (absl::GetFlag(FLAGS_json)) {
    absl::PrintF("%s", JsonLine(report));
  } else {
    PrintText(report);
  }
  return result->mismatches == 0 ? ExitCode::kOk : ExitCode::kNegative;
}

}  // namespace

const Command kBenchCommand = {
    .name = "bench",
    .arguments = "",
    .summary = "measure lookups a second and the latency of batches",
    .description =
        "Sends batches over one or more streams, each with --depth "
        "batches in flight, for --seconds: a closed loop, in which a slow "
        "server is asked less. The addresses are those of a file, or a "
        "million made up by --trace. Prints lookups a second and the "
        "percentiles of the time from sending a batch to its answer; SIGTERM "
        "and SIGINT end it early with its report. With "
        "--check, every answer is compared with a table; exits with 1 if "
        "one differs.\n\nHow next hops are assigned and which addresses "
        "are asked for moves results by factors: say both when quoting "
        "one.",
    .flags = {"batch", "depth", "streams", "seconds", "addresses", "trace",
              "family", "routes", "synthetic", "ipv4", "seed", "next_hops",
              "check"},
    .run = Run,
};

}  // namespace planb::client
