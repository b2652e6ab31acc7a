#include "benchmarks/serving/visibility/lookups_beside.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

#include "absl/base/internal/raw_logging.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "benchmarks/serving/rpc/process.h"
#include "client/bench.h"
#include "client/channel.h"
#include "client/trace.h"
#include "lpm/synthetic/traffic.h"

namespace planb::visibility {
namespace {

// Enough that the caches do not learn them.
constexpr size_t kAddresses = 1 << 20;
constexpr absl::Duration kWarmUp = absl::Milliseconds(100);

// What goes to the child and back: an octet each, and then the outcome.
constexpr char kBegin = 'b';
constexpr char kWarm = 'w';
constexpr char kEnd = 'e';
struct Outcome {
  double lookups_per_second = 0;
  char error[256] = "";  // empty: none
};

template <typename T>
bool Send(int pipe, const T& value) {
  return write(pipe, &value, sizeof(value)) ==
         static_cast<ssize_t>(sizeof(value));
}
template <typename T>
bool Take(int pipe, T& value) {
  return read(pipe, &value, sizeof(value)) ==
         static_cast<ssize_t>(sizeof(value));
}

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

// Looks up from kBegin until kEnd, again and again, until there is no parent.
absl::Status Serve(int in, int out, const std::string& server,
                   absl::Span<const Route> routes, const LookupOptions& own) {
  const client::Trace trace = MakeTrace(routes, own.batch);
  const auto channel = client::MakeChannel(server, {.own_connection = true});
  if (!channel.ok()) return channel.status();
  for (char command; Take(in, command);) {
    std::atomic<bool> stop = false;
    client::BenchOptions options = {.depth = own.depth,
                                    .warmup = kWarmUp,
                                    .duration = absl::Hours(1),
                                    .stop = &stop,
                                    .stall_timeout = absl::Minutes(1)};
    if (own.cpu >= 0) options.cpus = {own.cpu};
    absl::StatusOr<client::BenchResult> result;
    std::thread lookups(
        [&] { result = client::RunBench({*channel}, trace, options); });
    // A little longer: their clock starts when they are set up.
    absl::SleepFor(kWarmUp + absl::Milliseconds(20));
    const bool parent = Send(out, kWarm) && Take(in, command);
    stop = true;
    lookups.join();
    if (!parent) break;
    Outcome outcome;
    if (result.ok()) {
      outcome.lookups_per_second = static_cast<double>(result->counts.lookups) /
                                   absl::ToDoubleSeconds(result->elapsed);
    } else {
      std::snprintf(outcome.error, sizeof(outcome.error), "%s",
                    result.status().ToString().c_str());
    }
    if (!Send(out, outcome)) break;
  }
  return absl::OkStatus();
}

}  // namespace

LookupsBeside::LookupsBeside(const std::string& server,
                             absl::Span<const Route> routes,
                             const LookupOptions& options) {
  int down[2], up[2];
  ABSL_RAW_CHECK(pipe(down) == 0 && pipe(up) == 0, "no pipes left");
  child_ = fork();
  ABSL_RAW_CHECK(child_ >= 0, "no processes left");
  to_child_ = down[1];
  from_child_ = up[0];
  if (child_ > 0) {
    close(down[0]);
    close(up[1]);
    return;
  }
  close(down[1]);
  close(up[0]);
  rpc::DieWithParent();
  const absl::Status status = Serve(down[0], up[1], server, routes, options);
  _exit(status.ok() ? 0 : 1);
}

LookupsBeside::~LookupsBeside() {
  close(to_child_);
  close(from_child_);
  waitpid(child_, nullptr, 0);
}

absl::StatusOr<double> LookupsBeside::During(
    absl::FunctionRef<absl::Status()> work) {
  char warm;
  Outcome outcome;
  if (!Send(to_child_, kBegin) || !Take(from_child_, warm)) {
    return absl::AbortedError("the process for lookups ended");
  }
  const absl::Status done = work();
  if (!Send(to_child_, kEnd) || !Take(from_child_, outcome)) {
    return absl::AbortedError("the process for lookups ended");
  }
  if (!done.ok()) return done;
  if (outcome.error[0] == '\0') return outcome.lookups_per_second;
  return absl::AbortedError(absl::StrCat("lookups: ", outcome.error));
}

}  // namespace planb::visibility
