// SPDX-License-Identifier: Apache-2.0

// planbctl verify and soak: compare a server's answers with a file; soak does
// so while the server is restarted, upgraded or reconfigured.

#include <cstdio>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/monotonic_time.h"
#include "client/batch_lookup.h"
#include "client/load/soak.h"
#include "client/load/trace.h"
#include "client/planbctl/address_pipeline.h"
#include "client/planbctl/command.h"
#include "client/planbctl/flags.h"
#include "client/planbctl/record.h"
#include "client/planbctl/route_source.h"
#include "client/planbctl/session.h"
#include "client/planbctl/table_objects.h"
#include "lpm/synthetic/reference_table.h"
#include "lpm/synthetic/traffic.h"
#include "planb/client/output.pb.h"

ABSL_FLAG(uint64_t, samples, 1'000'000,
          "Number of sampled addresses, in addition to those at the boundaries "
          "of the routes.");

namespace planb::client {

namespace {

// Maximum of mismatches shown. Further ones are only counted.
constexpr uint64_t kShown = 10;

// Compares answers with a table, and counts.
class Comparison {
 public:
  // Ids that mean the same are equal: `known` has the objects of both.
  Comparison(const ReferenceTable& table, const KnownObjects& known)
      : table_(table), known_(known) {}

  void Compare(const AddressAnswer& answer) {
    if (report_.addresses() == 0) {
      report_.set_first_generation(answer.generation);
    }
    report_.set_last_generation(answer.generation);
    report_.set_addresses(report_.addresses() + 1);
    const NextHopId expected = table_.NextHop(answer.address);
    if (expected == kNoRoute) report_.set_misses(report_.misses() + 1);
    if (known_.Canonical(answer.next_hop) == known_.Canonical(expected)) return;
    report_.set_mismatches(report_.mismatches() + 1);
    if (report_.mismatches() > kShown) return;
    absl::FPrintF(stderr,
                  "planbctl: %s: the server says %d in generation %d, the file "
                  "says %d\n",
                  answer.address.ToString(), answer.next_hop, answer.generation,
                  expected);
  }

  // A prefix that has another route in the file, or a route only in one of
  // both. Lookups do not tell of one that leads where a shorter one leads.
  void Compare(const RouteDifference& difference) {
    report_.set_different_routes(report_.different_routes() + 1);
    if (report_.different_routes() > kShown) return;
    const auto has = [](NextHopId next_hop) {
      return next_hop == kNoRoute ? "no route"
                                  : absl::StrCat("a route to ", next_hop);
    };
    absl::FPrintF(stderr, "planbctl: %s: the server has %s, the file has %s\n",
                  difference.prefix.ToString(), has(difference.old_next_hop),
                  has(difference.next_hop));
  }

  output::Verify& report() { return report_; }

 private:
  const ReferenceTable& table_;
  const KnownObjects& known_;
  output::Verify report_;
};

std::string TextOf(const output::Verify& report) {
  return absl::StrFormat(
      "%d addresses (%d sampled, the others at the boundaries of %d "
      "routes) in %.2f s, generation %d to %d: %d without a route, %d "
      "mismatches; %s\n",
      report.addresses(), report.samples(), report.routes(), report.seconds(),
      report.first_generation(), report.last_generation(), report.misses(),
      report.mismatches(),
      report.has_different_routes()
          ? absl::StrFormat("%d routes differ", report.different_routes())
          : "the routes are not compared");
}

ExitCode RunVerify(const Arguments& arguments) {
  NextHopList objects;
  bool whole = false;
  auto routes = ReadRoutes(arguments[0], &objects, &whole);
  if (!routes.ok()) return FailFile(routes.status());
  const auto channel = ConnectToServer();
  if (!channel.ok()) return Fail(channel.status());
  const TableClient client(*channel);
  const auto known = UseTableIds(client, objects, *routes);
  if (!known.ok()) return Fail(known.status());
  const ReferenceTable table(*routes);

  const absl::Time start = MonotonicNow();
  const uint64_t samples = absl::GetFlag(FLAGS_samples);
  Comparison comparison(table, *known);
  AddressPipeline pipeline(
      ChannelsTo(ServerTarget(), WithFlags()).value(),
      {.table = absl::GetFlag(FLAGS_table),
       .batch = absl::GetFlag(FLAGS_batch),
       .depth = absl::GetFlag(FLAGS_depth),
       .stall_timeout = absl::GetFlag(FLAGS_timeout),
       // Another server may have another table.
       .give_up_after = absl::ZeroDuration()},
      [&](const AddressAnswer& answer) { comparison.Compare(answer); });
  const auto ask = [&](const Address& address) {
    return pipeline.Add(address);
  };
  absl::Status status = VisitBoundaries(*routes, ask);
  if (status.ok()) {
    status = VisitSamples(*routes, samples, absl::GetFlag(FLAGS_seed), ask);
  }
  if (status.ok()) status = pipeline.Finish();
  output::Verify& report = comparison.report();
  if (status.ok()) {
    report.set_different_routes(0);
    status = CompareWithTable(client, *known, *routes,
                              [&](const RouteDifference& difference) {
                                comparison.Compare(difference);
                              });
  }
  // The answers are compared all the same: that is what such a caller is for.
  if (absl::IsPermissionDenied(status) && report.has_different_routes()) {
    absl::FPrintF(
        stderr,
        "planbctl: routes that FILE has not are not looked for, since "
        "this caller may not list routes: %s\n",
        status.message());
    report.clear_different_routes();
    status = absl::OkStatus();
  }
  if (!status.ok()) return Fail(status);

  report.set_routes(routes->size());
  report.set_samples(samples);
  report.set_seconds(absl::ToDoubleSeconds(MonotonicNow() - start));
  Print(report, TextOf(report));
  return whole && report.mismatches() == 0 && report.different_routes() == 0
             ? ExitCode::kOk
             : ExitCode::kNegative;
}

const RegisteredCommand kVerifyCommand({
    .name = "verify",
    .arguments = "FILE",
    .summary = "compare the server's answers with a file of routes",
    .description =
        "Looks up --samples addresses, and the addresses around both ends "
        "of every route of FILE, over a stream. Compares each answer with "
        "FILE by an independent table: a hash map for each prefix length. "
        "Then compares the routes of the table with those of FILE, both ways, "
        "as \"routes diff\" does, or says that this caller may not list them. "
        "The server must hold exactly the routes of FILE, and they must "
        "not change meanwhile. If FILE describes next hops, compares what they "
        "mean (gateway and interface), else their ids. Shows the first ten "
        "mismatches and the first ten routes that differ. Exits with "
        "1 if there is one, or if a part of FILE could not be read.",
    .flags = {"samples", "seed", "batch", "depth", "allow_empty", "next_hop",
              "csv_columns", "attributes"},
    .run = RunVerify,
});

constexpr size_t kTraceAddresses = 1 << 16;

absl::Status CheckFlags() {
  const double rate = absl::GetFlag(FLAGS_rate);
  const double seconds = absl::GetFlag(FLAGS_seconds);
  if (!(rate >= 0 && rate <= 1e12) || !(seconds >= 0 && seconds <= 1e9)) {
    return absl::InvalidArgumentError(
        "--rate and --seconds must be sensible numbers of 0 or more");
  }
  return absl::OkStatus();
}

SoakOptions OptionsFromFlags() {
  SoakOptions options = {
      .streams = absl::GetFlag(FLAGS_streams),
      .duration = absl::Seconds(absl::GetFlag(FLAGS_seconds)),
      .timeout = absl::GetFlag(FLAGS_timeout),
      .stop = &StopRequested()};
  const double rate = absl::GetFlag(FLAGS_rate);
  if (rate > 0) {
    options.period = absl::Seconds(absl::GetFlag(FLAGS_batch) *
                                   static_cast<double>(options.streams) / rate);
  }
  return options;
}

output::Soak Report(const SoakCounts& counts) {
  output::Soak report;
  report.set_seconds(absl::ToDoubleSeconds(counts.elapsed));
  report.set_batches(counts.batches);
  report.set_lookups(counts.lookups);
  report.set_mismatches(counts.mismatches);
  for (const auto& [code, count] : counts.failures) {
    (*report.mutable_failures())[code] = count;
  }
  report.set_disconnects(counts.disconnects);
  report.set_reconnects(counts.reconnects);
  report.set_latency_us_p50(
      absl::ToDoubleMicroseconds(counts.latency.Quantile(0.5)));
  report.set_latency_us_p99(
      absl::ToDoubleMicroseconds(counts.latency.Quantile(0.99)));
  report.set_latency_us_max(absl::ToDoubleMicroseconds(counts.latency.Max()));
  return report;
}

std::string TextOf(const output::Soak& report) {
  std::string failures;
  for (const auto& [code, count] : report.failures()) {
    absl::StrAppendFormat(&failures, " %s %d", code, count);
  }
  return absl::StrFormat(
      "%d batches, %d lookups in %.1f s: %d wrong answers; batches "
      "failed:%s; %d disconnects, %d reconnects; longest wait %.1f ms\n",
      report.batches(), report.lookups(), report.seconds(), report.mismatches(),
      failures.empty() ? " none" : failures, report.disconnects(),
      report.reconnects(), report.latency_us_max() / 1e3);
}

ExitCode RunSoakCommand(const Arguments& arguments) {
  if (const absl::Status flags = CheckFlags(); !flags.ok()) {
    return FailUsage(flags.message());
  }
  NextHopList objects;
  auto routes = ReadRoutes(arguments[0], &objects);
  if (!routes.ok()) return FailUsage(routes.status().message());
  // Soak counts losses of a server that was there at the start. Closes this
  // connection: a draining server would wait for it.
  {
    const auto channel = ConnectToServer();
    if (!channel.ok()) return Fail(channel.status());
    const auto known = UseTableIds(TableClient(*channel), objects, *routes);
    if (!known.ok()) return Fail(known.status());
  }
  const Family family = absl::GetFlag(FLAGS_family).value;
  const auto trace =
      MakeTrace(TraceKind::kMatch, family, *routes, kTraceAddresses,
                absl::GetFlag(FLAGS_seed), absl::GetFlag(FLAGS_batch));
  if (!trace.ok()) return FailUsage(trace.status().message());
  SoakOptions options = OptionsFromFlags();
  options.expected = trace->Expect(ReferenceTable(*routes));
  StopOnSignals();
  const SoakCounts counts =
      RunSoak(ChannelsTo(ServerTarget(), WithFlags()).value(), *trace, options);
  const output::Soak report = Report(counts);
  Print(report, TextOf(report));
  return counts.sound() ? ExitCode::kOk : ExitCode::kNegative;
}

const RegisteredCommand kSoakCommand({
    .name = "soak",
    .arguments = "FILE",
    .summary = "look up steadily, through restarts, and check every answer",
    .description =
        "Looks up random addresses of the routes of FILE for --seconds, "
        "or until SIGTERM or SIGINT, with one batch in flight on each of "
        "--streams. Uses the client library: when a server goes away, "
        "reconnects and sends unanswered batches again. The server may "
        "hold more routes than FILE and change them, but no prefix within "
        "those of FILE may be added or removed.\n\nPrints how many batches "
        "failed and why (a batch fails that has no answer within "
        "--timeout), how many answers differed from FILE, and the longest "
        "wait for an answer: the cost of an upgrade. Exits with 1 if a "
        "batch failed or an answer differed.",
    .flags = {"batch", "streams", "rate", "seconds", "family", "seed",
              "next_hop", "csv_columns", "attributes"},
    .run = RunSoakCommand,
});

}  // namespace
}  // namespace planb::client
