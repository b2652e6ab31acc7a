// SPDX-License-Identifier: Apache-2.0

// What counting costs lookups: servers that count and that do not, asked by the
// same client in turns, within one run.
//
// Three servers in this process, alike but for one option: one counts, two do
// not. The difference between the two that do not count is the resolution of
// this machine. The servers' threads share a core, this thread has another; a
// server that is not asked sleeps.

#include <grpcpp/channel.h>
#include <grpcpp/grpcpp.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/process_setup.h"
#include "benchmarks/engine/machine.h"
#include "client/batch_lookup.h"
#include "lpm/synthetic/synthetic.h"
#include "server/lookup/lookup_metrics.h"
#include "server/server.h"

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

using client::BatchLookup;
using std::chrono::steady_clock;

constexpr size_t kAddressBytes = 16;

double CpuNanoseconds(clockid_t clock) {
  timespec time = {};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) * 1e9 +
         static_cast<double>(time.tv_nsec);
}

double OthersCpu() {
  return CpuNanoseconds(CLOCK_PROCESS_CPUTIME_ID) -
         CpuNanoseconds(CLOCK_THREAD_CPUTIME_ID);
}

size_t Depth(size_t batch) { return std::clamp<size_t>(32'768 / batch, 3, 64); }

// Ends the program with the reason.
[[noreturn]] void Die(const absl::Status& status) {
  std::fprintf(stderr, "cost: %s\n", std::string(status.message()).c_str());
  std::exit(1);
}

// How one server is asked.
struct Turn {
  size_t batch = 1;  // addresses
  std::chrono::nanoseconds duration{0};
  // If not 0, so many batches instead of a time, and nothing to warm up.
  uint64_t count = 0;
};
// Of one batch.
struct Times {
  double nanoseconds = 0;
  double server_cpu = 0;  // nanoseconds, of all threads but the caller's
};

// A server on a Unix socket and its client. Not thread-safe.
class Contender {
 public:
  Contender(const char* name, bool counting)
      : name_(name),
        path_(absl::StrCat("/tmp/planb_cost_", getpid(), "_", name, ".sock")) {
    server::ServerOptions options;
    options.listen = {absl::StrCat("unix://", path_)};
    options.initial.generate_v6 = absl::GetFlag(FLAGS_routes);
    options.threads.count = 1;
    const int cpu = absl::GetFlag(FLAGS_server_cpu);
    if (cpu >= 0) options.threads.cpus = {cpu};
    options.count_lookups = counting;
    auto started = server::Server::Start(std::move(options));
    if (!started.ok()) Die(started.status());
    server_ = *std::move(started);
    channel_ = grpc::CreateChannel(absl::StrCat("unix://", path_),
                                   grpc::InsecureChannelCredentials());
  }
  ~Contender() {
    server_.reset();
    unlink(path_.c_str());
  }
  Contender(const Contender&) = delete;
  Contender& operator=(const Contender&) = delete;

  const char* name() const { return name_; }

  // Asks for the addresses of `trace`, 16 bytes each, over and over, with as
  // many batches in flight as keep the server busy.
  Times Ask(const std::string& trace, const Turn& turn) {
    BatchLookup stream(channel_, {.max_in_flight = Depth(turn.batch)});
    if (turn.count == 0) {  // to warm up
      Exchange(stream, trace,
               {.batch = turn.batch, .duration = turn.duration / 8});
    }
    const auto start = steady_clock::now();
    const double cpu = OthersCpu();
    const auto batches = static_cast<double>(Exchange(stream, trace, turn));
    const double cpu_used = OthersCpu() - cpu;
    const std::chrono::nanoseconds took = steady_clock::now() - start;
    return {static_cast<double>(took.count()) / batches, cpu_used / batches};
  }

 private:
  // Returns how many batches were answered; none is left in flight.
  static uint64_t Exchange(BatchLookup& stream, const std::string& trace,
                           const Turn& turn) {
    const auto end = steady_clock::now() + turn.duration;
    client::BatchResult result;
    uint64_t sent = 0;
    uint64_t answered = 0;
    size_t at = 0;
    bool more = true;
    while (more || stream.in_flight() > 0) {
      if (more && stream.in_flight() < Depth(turn.batch)) {
        const absl::string_view addresses(trace.data() + at,
                                          turn.batch * kAddressBytes);
        at += addresses.size();
        if (at + addresses.size() > trace.size()) at = 0;
        const auto id = stream.Send({.addresses_v6 = addresses});
        if (!id.ok()) Die(id.status());
        ++sent;
      } else {
        const auto received = stream.Receive(result);
        if (!received.ok()) Die(received.status());
        if (!result.status.ok()) Die(result.status);
        ++answered;
      }
      more = turn.count > 0
                 ? sent < turn.count
                 : more && (answered == 0 || steady_clock::now() < end);
    }
    return answered;
  }

  const char* const name_;
  const std::string path_;
  std::unique_ptr<server::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

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

// What the server's counters cost for each batch: nanoseconds. The least of
// many short tries, which nothing disturbed.
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
  if (!pinned.ok()) Die(pinned);
  FILE* csv = nullptr;
  if (!absl::GetFlag(FLAGS_csv).empty()) {
    csv = std::fopen(absl::GetFlag(FLAGS_csv).c_str(), "w");
    if (csv == nullptr) Die(absl::NotFoundError("cannot write the CSV file"));
    std::fprintf(csv, "addresses,turn,server,ns_per_batch,server_cpu_ns\n");
  }
  const std::string trace = Trace();
  std::array<Contender, 3> contenders = {
      Contender("counting", /*counting=*/true),
      Contender("plain", /*counting=*/false),
      Contender("plain2", /*counting=*/false)};
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
      Die(absl::InvalidArgumentError("--batches wants numbers"));
    }
    std::array<std::vector<double>, 3> times, cpus;
    for (int turn = 0; turn < absl::GetFlag(FLAGS_repeats); ++turn) {
      // Each server is first as often as last.
      for (size_t i = 0; i < contenders.size(); ++i) {
        const size_t which =
            (i + static_cast<size_t>(turn)) % contenders.size();
        const auto took = contenders[which].Ask(
            trace, {.batch = batch, .duration = duration, .count = count});
        times[which].push_back(took.nanoseconds);
        cpus[which].push_back(took.server_cpu);
        if (csv != nullptr) {
          std::fprintf(csv, "%zu,%d,%s,%.1f,%.1f\n", batch, turn,
                       contenders[which].name(), took.nanoseconds,
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
