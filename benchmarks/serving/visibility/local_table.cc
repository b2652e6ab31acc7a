// SPDX-License-Identifier: Apache-2.0

// Lookups in a table inside the caller that follows a server, against the
// engine alone over the same routes, in turns.

#include "client/local_table.h"

#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/time/clock.h"
#include "benchmarks/engine/machine.h"
#include "client/channel.h"
#include "client/table_client.h"
#include "lpm/routes/route_set.h"

ABSL_FLAG(std::string, server, "", "address of the server");
ABSL_FLAG(uint32_t, repeats, 9, "turns");

namespace planb::client {
namespace {

constexpr size_t kAddresses = 1 << 20;

// Nanoseconds a lookup, in batches of `batch`.
template <typename Lookup>
double Nanoseconds(size_t batch, const Lookup& lookup) {
  const absl::Time begin = absl::Now();
  const size_t count = batch == 1 ? kAddresses / 16 : kAddresses;
  for (size_t i = 0; i < count; i += batch) lookup(i);
  return absl::ToDoubleNanoseconds(absl::Now() - begin) /
         static_cast<double>(count);
}

int Run() {
  const auto channel = ChannelsTo(absl::GetFlag(FLAGS_server), {}).value()();
  const absl::Time begin = absl::Now();
  const auto table =
      LocalTable::Follow(channel, {}, absl::Now() + absl::Seconds(60));
  const absl::Duration ready = absl::Now() - begin;
  if (!table.ok()) {
    std::fprintf(stderr, "%s\n", table.status().ToString().c_str());
    return 1;
  }
  std::vector<Route> list;
  const auto listed =
      TableClient(channel).ListRoutes({}, [&](const Route& route) {
        if (route.prefix.family() == Family::kIpv6) list.push_back(route);
        return absl::OkStatus();
      });
  if (!listed.ok() || list.empty()) {
    std::fprintf(stderr, "the server has no IPv6 routes\n");
    return 1;
  }
  std::printf("%zu routes, ready after %.0f ms\n", list.size(),
              absl::ToDoubleMilliseconds(ready));
  const RouteSet routes(Family::kIpv6, list);
  FibCompiler compiler(Family::kIpv6);
  const auto fib = compiler.Compile(routes).value();
  const Kernel& kernel = *AvailableKernels().front();
  // Addresses within routes drawn at random.
  std::mt19937_64 random(1);
  std::string trace;
  for (size_t i = 0; i < kAddresses; ++i) {
    const Prefix& prefix = list[random() % list.size()].prefix;
    absl::uint128 bits = absl::MakeUint128(random(), random());
    if (prefix.length() > 0) bits >>= prefix.length() - 1, bits >>= 1;
    trace += Address::V6(prefix.first() | bits).ToPacked();
  }
  std::vector<NextHopId> local(kAddresses), engine(kAddresses);
  for (const size_t batch : {1, 16, 256, 4096}) {
    std::vector<double> ratios, locals, engines;
    for (uint32_t turn = 0; turn <= absl::GetFlag(FLAGS_repeats); ++turn) {
      const double a = Nanoseconds(batch, [&](size_t i) {
        fib->Lookup(&trace[16 * i], batch, &engine[i], kernel);
      });
      const double b = Nanoseconds(batch, [&](size_t i) {
        (*table)
            ->Lookup(Family::kIpv6, &trace[16 * i], batch, &local[i])
            .value();
      });
      if (turn == 0) continue;  // to warm up
      engines.push_back(a);
      locals.push_back(b);
      ratios.push_back(a / b);
    }
    const Percentiles e = PercentilesOf(engines), l = PercentilesOf(locals);
    std::printf(
        "batches of %4zu: engine %.2f ns a lookup, local table %.2f, its rate "
        "%.3f of the engine's\n",
        batch, e.median, l.median, PercentilesOf(ratios).median);
  }
  if (local != engine) {
    std::fprintf(stderr, "wrong answers\n");
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace planb::client

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "Measures lookups in a table inside the caller.");
  absl::ParseCommandLine(argc, argv);
  return planb::client::Run();
}
