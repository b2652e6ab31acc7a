// SPDX-License-Identifier: Apache-2.0

// planbctl verify: does the server answer as a file says it should?

#include <cstdio>
#include <string>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/monotonic_time.h"
#include "client/batch_lookup.h"
#include "client/load/probes.h"
#include "client/load/reference_table.h"
#include "client/planbctl/address_pipeline.h"
#include "client/planbctl/command.h"
#include "client/planbctl/flags.h"
#include "client/planbctl/output.h"
#include "client/planbctl/route_source.h"
#include "client/planbctl/session.h"
#include "planb/client/output.pb.h"

namespace planb::client {
namespace {

// Mismatches shown one by one; the rest is counted.
constexpr double kShown = 10;

// Compares answers with a table and keeps count.
class Comparison {
 public:
  explicit Comparison(const ReferenceTable& table) : table_(table) {}

  void Compare(const AddressAnswer& answer) {
    if (report_.addresses() == 0) {
      report_.set_first_generation(static_cast<double>(answer.generation));
    }
    report_.set_last_generation(static_cast<double>(answer.generation));
    report_.set_addresses(report_.addresses() + 1);
    const NextHopId expected = table_.NextHop(answer.address);
    if (expected == kNoRoute) report_.set_misses(report_.misses() + 1);
    if (answer.next_hop == expected) return;
    report_.set_mismatches(report_.mismatches() + 1);
    if (report_.mismatches() > kShown) return;
    absl::FPrintF(stderr,
                  "planbctl: %s: the server says %d in generation %d, the file "
                  "says %d\n",
                  answer.address.ToString(), answer.next_hop, answer.generation,
                  expected);
  }

  output::Verify& report() { return report_; }

 private:
  const ReferenceTable& table_;
  output::Verify report_;
};

void Print(const output::Verify& report) {
  if (absl::GetFlag(FLAGS_json)) {
    absl::PrintF("%s", JsonLine(report));
    return;
  }
  absl::PrintF(
      "%.0f addresses (%.0f sampled, the others at the boundaries of %.0f "
      "routes) in %.2f s, generation %.0f to %.0f: %.0f without a route, %.0f "
      "mismatches\n",
      report.addresses(), report.samples(), report.routes(), report.seconds(),
      report.first_generation(), report.last_generation(), report.misses(),
      report.mismatches());
}

ExitCode Run(const Arguments& arguments) {
  if (arguments.size() != 1) return FailUsage("verify takes one file");
  const auto routes = ReadRoutes(arguments[0]);
  if (!routes.ok()) return FailUsage(routes.status().message());
  const ReferenceTable table(*routes);
  const auto channel = ConnectToServer();
  if (!channel.ok()) return Fail(channel.status());

  const absl::Time start = MonotonicNow();
  const uint64_t samples = absl::GetFlag(FLAGS_samples);
  Comparison comparison(table);
  AddressPipeline pipeline(
      ChannelsTo(ServerTarget(), WithFlags()).value(),
      {.table = absl::GetFlag(FLAGS_table),
       .batch = absl::GetFlag(FLAGS_batch),
       .depth = absl::GetFlag(FLAGS_depth),
       .stall_timeout = absl::GetFlag(FLAGS_timeout),
       // Another server would be another table.
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
  if (!status.ok()) return Fail(status);

  output::Verify& report = comparison.report();
  report.set_routes(static_cast<double>(routes->size()));
  report.set_samples(static_cast<double>(samples));
  report.set_seconds(absl::ToDoubleSeconds(MonotonicNow() - start));
  Print(report);
  return report.mismatches() == 0 ? ExitCode::kOk : ExitCode::kNegative;
}

}  // namespace

const Command kVerifyCommand = {
    .name = "verify",
    .arguments = "FILE",
    .summary = "compare the server's answers with a file of routes",
    .description =
        "Looks up --samples addresses, and the addresses around both ends "
        "of every route of FILE, over a stream, and compares each answer "
        "with FILE by a table that works unlike the server's: a hash map "
        "for each prefix length. The server must hold exactly the routes "
        "of FILE, and they must not change meanwhile. Shows the first "
        "ten mismatches; exits with 1 if there is any.",
    .flags = {"samples", "seed", "batch", "depth"},
    .run = Run,
};

}  // namespace planb::client
