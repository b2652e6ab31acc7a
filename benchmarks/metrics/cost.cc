// What counting costs lookups: servers that count and that do not, asked by the
// same client in turns, within one run.
//
// Three servers in this process, alike but for one option: one counts, two do
// not. What the two that do not count differ by is what this machine cannot
// tell apart. The servers' threads share a core, this thread has another; a
// server that is not asked sleeps.

#include <pthread.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/numbers.h"
#include "base/process_setup.h"
#include "benchmarks/cores.h"
#include "benchmarks/metrics/contender.h"
#include "benchmarks/rpc/process.h"
#include "lpm/synthetic/synthetic.h"
#include "server/lookup_counters.h"

ABSL_FLAG(std::vector<std::string>, batches,
          std::vector<std::string>({"1", "16", "256", "4096", "16384"}),
          "Addresses in a batch.");
ABSL_FLAG(int, repeats, 15, "Turns; each asks every server.");
ABSL_FLAG(int, milliseconds, 200, "Of one server in one turn.");
ABSL_FLAG(uint64_t, count, 0,
          "Batches of one server in one turn, instead of a time and without "
          "warming up: for callgrind.");
ABSL_FLAG(uint64_t, routes, 100'000, "Made-up IPv6 routes.");
ABSL_FLAG(int, server_cpu, -1, "Core of the servers; -1: any.");
ABSL_FLAG(int, client_cpu, -1, "Core of the client; -1: any.");
ABSL_FLAG(std::string, csv, "", "Where every turn is written to; or nowhere.");

namespace planb {
namespace {

using metrics::Contender;
using std::chrono::steady_clock;

constexpr size_t kTrace = 1 << 18;

// The middle, and the least and the most.
struct Spread {
  explicit Spread(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    middle = values[values.size() / 2];
    least = values.front();
    most = values.back();
  }
  double middle, least, most;
};

// By how much, in percent, `a` exceeds `b` in each turn.
Spread Excess(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> percent;
  for (size_t i = 0; i < a.size(); ++i) {
    percent.push_back((a[i] / b[i] - 1) * 100);
  }
  return Spread(percent);
}

std::string Show(const Spread& percent) {
  char text[64];
  std::snprintf(text, sizeof(text), "%+.2f (%+.1f..%+.1f)", percent.middle,
                percent.least, percent.most);
  return text;
}

// What BatchStream calls for each batch, and nothing else: nanoseconds. The
// least of many short tries, which nothing disturbed.
double CountersAlone() {
  server::LookupCounters counters(/*counting=*/true);
  constexpr uint64_t kBatches = 10'000;
  double least = 1e9;
  for (int tries = 0; tries < 200; ++tries) {
    const auto start = steady_clock::now();
    for (uint64_t i = 0; i < kBatches; ++i) {
      const SteadyInstant received = counters.Now();
      counters.Received(100);
      counters.Answered(1 + i % 256, 0, counters.Now() - received);
      counters.Sent(100);
    }
    const std::chrono::nanoseconds took = steady_clock::now() - start;
    least = std::min(least, static_cast<double>(took.count()) / kBatches);
  }
  return least;
}

std::string Trace() {
  const std::vector<Route> routes =
      SyntheticTable({.ipv6_routes = absl::GetFlag(FLAGS_routes)});
  std::string trace;
  for (const Address& address :
       SyntheticTrace(routes, Family::kIpv6, kTrace, /*seed=*/2)) {
    trace += address.ToPacked();
  }
  return trace;
}

void Run() {
  const absl::Status pinned =
      PinThread(pthread_self(), absl::GetFlag(FLAGS_client_cpu));
  if (!pinned.ok()) metrics::Die(pinned);
  FILE* csv = nullptr;
  if (!absl::GetFlag(FLAGS_csv).empty()) {
    csv = std::fopen(absl::GetFlag(FLAGS_csv).c_str(), "w");
    if (csv == nullptr)
      metrics::Die(absl::NotFoundError("cannot write the CSV file"));
    std::fprintf(csv, "addresses,turn,server,ns_per_batch,server_cpu_ns\n");
  }
  const std::string trace = Trace();
  const metrics::ServerChoice choice = {.routes = absl::GetFlag(FLAGS_routes),
                                        .cpu = absl::GetFlag(FLAGS_server_cpu)};
  std::array<Contender, 3> contenders = {
      Contender("counting", choice, /*counting=*/true),
      Contender("plain", choice, /*counting=*/false),
      Contender("plain2", choice, /*counting=*/false)};
  if (absl::GetFlag(FLAGS_count) == 0) {
    std::printf("counting by itself: %.1f ns a batch\n\n", CountersAlone());
  }
  std::printf(
      "| addresses | ns a batch | server CPU, ns | more time, %% | "
      "more server CPU, %% | between two that do not count, %% |\n"
      "| --- | --- | --- | --- | --- | --- |\n");
  const std::chrono::milliseconds duration(absl::GetFlag(FLAGS_milliseconds));
  const uint64_t count = absl::GetFlag(FLAGS_count);
  for (const std::string& text : absl::GetFlag(FLAGS_batches)) {
    size_t batch = 0;
    if (!absl::SimpleAtoi(text, &batch) || batch == 0 || batch > kTrace) {
      metrics::Die(absl::InvalidArgumentError("--batches wants numbers"));
    }
    std::array<std::vector<double>, 3> times, cpus;
    for (int turn = 0; turn < absl::GetFlag(FLAGS_repeats); ++turn) {
      // Everybody is first as often as last.
      for (size_t i = 0; i < contenders.size(); ++i) {
        const size_t who = (i + static_cast<size_t>(turn)) % contenders.size();
        const auto took = contenders[who].Ask(
            trace, {.batch = batch, .duration = duration, .count = count});
        times[who].push_back(took.nanoseconds);
        cpus[who].push_back(took.server_cpu);
        if (csv != nullptr) {
          std::fprintf(csv, "%zu,%d,%s,%.1f,%.1f\n", batch, turn,
                       contenders[who].name(), took.nanoseconds,
                       took.server_cpu);
        }
      }
    }
    std::printf("| %zu | %.0f | %.0f | %s | %s | %s |\n", batch,
                Spread(times[1]).middle, Spread(cpus[1]).middle,
                Show(Excess(times[0], times[1])).c_str(),
                Show(Excess(cpus[0], cpus[1])).c_str(),
                Show(Excess(cpus[2], cpus[1])).c_str());
    std::fflush(stdout);
  }
  if (csv != nullptr) std::fclose(csv);
}

}  // namespace
}  // namespace planb

int main(int argc, char** argv) {
  planb::SetUpProcess();
  absl::SetProgramUsageMessage("What counting costs lookups.");
  absl::ParseCommandLine(argc, argv);
  if (absl::GetFlag(FLAGS_repeats) < 1) return 1;
  planb::Run();
  return 0;
}
