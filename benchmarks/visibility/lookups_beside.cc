#include "benchmarks/visibility/lookups_beside.h"

#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/internal/raw_logging.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/bench.h"
#include "lpm/synthetic/traffic.h"

namespace planb::visibility {
namespace {

// Enough that the caches do not learn them.
constexpr size_t kAddresses = 1 << 20;
constexpr absl::Duration kWarmUp = absl::Milliseconds(100);

client::Trace MakeTrace(absl::Span<const Route> routes, size_t batch) {
  std::vector<Address> addresses;
  addresses.reserve(kAddresses);
  const absl::Status made = MakeTraffic(
      TraceKind::kMatch, Family::kIpv6, routes, kAddresses,
      /*seed=*/1,
      [&addresses](const Address& address) { addresses.push_back(address); });
  ABSL_RAW_CHECK(made.ok(), "there are routes to draw from");
  return client::Trace(Family::kIpv6, addresses, batch);
}

}  // namespace

LookupsBeside::LookupsBeside(std::shared_ptr<grpc::Channel> channel,
                             absl::Span<const Route> routes,
                             const LookupOptions& options)
    : channel_(std::move(channel)),
      options_(options),
      trace_(MakeTrace(routes, options.batch)) {}

absl::StatusOr<double> LookupsBeside::During(
    absl::FunctionRef<absl::Status()> work) const {
  std::atomic<bool> stop = false;
  client::BenchOptions options = {.depth = options_.depth,
                                  .warmup = kWarmUp,
                                  .duration = absl::Hours(1),
                                  .stop = &stop,
                                  .stall_timeout = absl::Minutes(1)};
  if (options_.cpu >= 0) options.cpus = {options_.cpu};
  absl::StatusOr<client::BenchResult> result;
  std::thread lookups(
      [&] { result = client::RunBench({channel_}, trace_, options); });
  // A little longer: the clock of the lookups starts when they are set up.
  absl::SleepFor(kWarmUp + absl::Milliseconds(20));
  const absl::Status done = work();
  stop = true;
  lookups.join();
  if (!done.ok()) return done;
  if (!result.ok()) return result.status();
  return static_cast<double>(result->counts.lookups) /
         absl::ToDoubleSeconds(result->elapsed);
}

}  // namespace planb::visibility
