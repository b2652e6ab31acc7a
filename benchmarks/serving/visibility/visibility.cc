// SPDX-License-Identifier: Apache-2.0

// Measures a server: how soon changes are seen, how many a second it takes,
// what lookups lose meanwhile, and the memory it all needs. Prints a line of
// JSON for each repeat of each workload; README.md says what they mean. run.py
// starts servers and calls this.

#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/internal/raw_logging.h"
#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/process_setup.h"
#include "benchmarks/engine/inputs.h"
#include "benchmarks/engine/machine.h"
#include "benchmarks/serving/visibility/update_workloads.h"
#include "client/channel.h"
#include "client/load/bench.h"
#include "client/load/trace.h"
#include "lpm/prefix.h"
#include "lpm/synthetic/traffic.h"

ABSL_FLAG(std::string, server, "", "Where the server listens.");
ABSL_FLAG(std::string, control, "",
          "Where the server takes changes; empty: --server.");
ABSL_FLAG(int32_t, server_pid, 0, "The server's process.");
ABSL_FLAG(std::string, table, "real", "as benchmarks/engine/inputs.h has them");
ABSL_FLAG(std::string, load, "",
          "How to load the table, which must be empty: load_update, "
          "load_stream or load_replace. Empty: the server has it already.");
ABSL_FLAG(std::vector<std::string>, workloads, {},
          "What to do; see README.md.");
ABSL_FLAG(int32_t, repeats, 7, "Repeats of each workload.");
ABSL_FLAG(double, seconds, 1, "How long each repeat takes, at least.");
ABSL_FLAG(double, rate, 200, "Changes a second of the workload \"one\".");
ABSL_FLAG(int32_t, cpu, -1, "The core for changes; -1: any.");
ABSL_FLAG(bool, lookups, true, "Lookups go on beside the changes.");
ABSL_FLAG(int32_t, lookup_cpu, -1, "The core for lookups; -1: any.");
ABSL_FLAG(bool, await, false,
          "Only waits until the server answers lookups from a table that is "
          "not empty, and prints when.");

namespace planb::visibility {
namespace {

// Enough that the caches do not learn them.
constexpr size_t kAddresses = 1 << 20;
constexpr size_t kBatch = 4096;  // addresses
constexpr size_t kDepth = 8;     // batches in flight
constexpr absl::Duration kWarmUp = absl::Milliseconds(100);

// Sent to the child and back: one byte each, and then the outcome.
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

// Looks up from kBegin until kEnd, again and again, until there is no parent.
absl::Status Serve(int in, int out, const std::string& server,
                   absl::Span<const Route> routes) {
  const auto trace = client::MakeTrace(TraceKind::kMatch, Family::kIpv6, routes,
                                       kAddresses, /*seed=*/1, kBatch);
  if (!trace.ok()) return trace.status();
  const auto channel = client::MakeChannel(server, {.own_connection = true});
  if (!channel.ok()) return channel.status();
  for (char command; Take(in, command);) {
    std::atomic<bool> stop = false;
    client::BenchOptions options = {.depth = kDepth,
                                    .warmup = kWarmUp,
                                    .duration = absl::Hours(1),
                                    .stop = &stop,
                                    .stall_timeout = absl::Minutes(1)};
    const int cpu = absl::GetFlag(FLAGS_lookup_cpu);
    if (cpu >= 0) options.cpus = {cpu};
    absl::StatusOr<client::BenchResult> result;
    std::thread lookups(
        [&] { result = client::RunBench({*channel}, *trace, options); });
    // A little longer: the clock of the lookups starts when they are set up.
    absl::SleepFor(kWarmUp + absl::Milliseconds(20));
    const bool parent = Send(out, kWarm) && Take(in, command);
    stop = true;
    lookups.join();
    if (!parent) break;
    Outcome outcome;
    if (result.ok()) {
      // No time has passed if the lookups were not set up before the end.
      const double seconds = absl::ToDoubleSeconds(result->elapsed);
      outcome.lookups_per_second =
          seconds > 0 ? static_cast<double>(result->counts.lookups) / seconds
                      : 0;
    } else {
      std::snprintf(outcome.error, sizeof(outcome.error), "%s",
                    result.status().ToString().c_str());
    }
    if (!Send(out, outcome)) break;
  }
  return absl::OkStatus();
}

// One BatchLookup stream in a closed loop, with addresses random in routes. It
// runs in another process. Within one process gRPC watches all connections in
// any thread that waits, so lookups and changes would slow each other down in
// the client. Thread-compatible.
class LookupsBeside {
 public:
  // Forks. REQUIRES: this process has one thread and has not used gRPC; sorted
  // IPv6 routes, at least one.
  LookupsBeside(const std::string& server, absl::Span<const Route> routes) {
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
    DieWithParent();
    _exit(Serve(down[0], up[1], server, routes).ok() ? 0 : 1);
  }
  LookupsBeside(const LookupsBeside&) = delete;
  LookupsBeside& operator=(const LookupsBeside&) = delete;
  ~LookupsBeside() {
    close(to_child_);
    close(from_child_);
    waitpid(child_, nullptr, 0);
  }

  // Runs `workload` while lookups go on, which have begun before. Returns
  // lookups a second during that time. Errors: that of `workload`, else that of
  // the lookups.
  absl::StatusOr<double> During(absl::FunctionRef<absl::Status()> workload) {
    char warm;
    Outcome outcome;
    if (!Send(to_child_, kBegin) || !Take(from_child_, warm)) {
      return absl::AbortedError("the process for lookups ended");
    }
    const absl::Status done = workload();
    if (!Send(to_child_, kEnd) || !Take(from_child_, outcome)) {
      return absl::AbortedError("the process for lookups ended");
    }
    if (!done.ok()) return done;
    if (outcome.error[0] == '\0') return outcome.lookups_per_second;
    return absl::AbortedError(absl::StrCat("lookups: ", outcome.error));
  }

 private:
  pid_t child_ = -1;
  int to_child_ = -1;
  int from_child_ = -1;
};

// Prints one line, {"workload": ..., ...}. Numbers keep six digits or are
// whole.
class Line {
 public:
  Line(absl::string_view workload, absl::string_view repeat)
      : text_(absl::StrFormat(R"({"workload": "%s", "repeat": "%s")", workload,
                              repeat)) {}
  void Add(absl::string_view key, double value) {
    absl::StrAppendFormat(&text_, R"(, "%s": %.6g)", key, value);
  }
  void Add(absl::string_view key, uint64_t value) {
    absl::StrAppend(&text_, ", \"", key, "\": ", value);
  }
  void AddPercentiles(absl::string_view name, std::vector<double> values) {
    if (values.empty()) return;
    const Percentiles p = PercentilesOf(std::move(values));
    const auto add = [&](absl::string_view rank, double value) {
      Add(absl::StrCat(name, "_us_", rank), value);
    };
    add("p50", p.median);
    add("p99", p.p99);
  }
  void AddSeen(const Seen& seen) {
    Add("operations", seen.operations);
    Add("changes", seen.changes);
    Add("seconds", seen.seconds);
    AddPercentiles("commit", seen.commit);
    AddPercentiles("visible", seen.visible);
    AddPercentiles("call", seen.call);
  }
  void Print() const {
    std::printf("%s}\n", text_.c_str());
    std::fflush(stdout);
  }

 private:
  std::string text_;
};

// One server, one table.
class Session {
 public:
  // Without `lookups`, there are none.
  Session(const std::shared_ptr<grpc::Channel>& control,
          const std::shared_ptr<grpc::Channel>& lookup, LookupsBeside* lookups,
          std::vector<Route> routes)
      : target_(control, lookup),
        lookups_(lookups),
        routes_(std::move(routes)) {}

  absl::Status Run() {
    const std::string load = absl::GetFlag(FLAGS_load);
    if (load.empty()) {
      target_.expected = RouteSet(Family::kIpv6, routes_);
    } else if (const absl::Status done = Load(load); !done.ok()) {
      return done;
    }
    if (lookups_ != nullptr) {
      // Connects, and warms caches up: counts for nothing.
      const auto first = lookups_->During([] {
        absl::SleepFor(absl::Milliseconds(100));
        return absl::OkStatus();
      });
      if (!first.ok()) return first.status();
    }
    for (const std::string& name : absl::GetFlag(FLAGS_workloads)) {
      const absl::Status done = Measure(name);
      if (!done.ok()) {
        return {done.code(), absl::StrCat(name, ": ", done.message())};
      }
    }
    return target_.CheckTable();
  }

 private:
  absl::StatusOr<std::unique_ptr<UpdateWorkload>> Make(
      const std::string& name) {
    return MakeUpdateWorkload(name, routes_,
                              {.rate = absl::GetFlag(FLAGS_rate)}, target_);
  }

  absl::Status Load(const std::string& name) {
    const auto state = target_.State();
    if (!state.ok()) return state.status();
    if (state->routes_v6() + state->routes_v4() > 0) {
      return absl::FailedPreconditionError("the table is not empty");
    }
    auto workload = Make(name);
    if (!workload.ok()) return workload.status();
    return Turn(name, "0", **workload, nullptr);
  }

  absl::Status Measure(const std::string& name) {
    auto workload = Make(name);
    if (!workload.ok()) return workload.status();
    Seen all;
    for (int i = 0; i < absl::GetFlag(FLAGS_repeats); ++i) {
      const absl::Status done = Turn(name, absl::StrCat(i), **workload, &all);
      if (!done.ok()) return done;
    }
    Line line(name, "all");
    line.AddSeen(all);
    line.Print();
    return absl::OkStatus();
  }

  // One repeat: lookups alone, then the workload with lookups beside it.
  absl::Status Turn(const std::string& name, const std::string& repeat,
                    UpdateWorkload& workload, Seen* all) {
    const absl::Duration time = absl::Seconds(absl::GetFlag(FLAGS_seconds));
    const pid_t server = absl::GetFlag(FLAGS_server_pid);
    Line line(name, repeat);
    if (lookups_ != nullptr && all != nullptr) {
      const auto idle = lookups_->During([time] {
        absl::SleepFor(time);
        return absl::OkStatus();
      });
      if (!idle.ok()) return idle.status();
      line.Add("idle_lookups_per_second", *idle);
    }
    const auto before = target_.State();
    if (!before.ok()) return before.status();
    const absl::Status reset = ResetPeak(server);
    if (!reset.ok()) return reset;
    const auto resident = MemoryOf(server);
    absl::StatusOr<Seen> seen;
    const auto run = [&] {
      seen = workload.Run(time);
      return seen.status();
    };
    if (lookups_ != nullptr && all != nullptr) {
      const auto storm = lookups_->During(run);
      if (!storm.ok()) return storm.status();
      line.Add("lookups_per_second", *storm);
    } else if (const absl::Status done = run(); !done.ok()) {
      return done;
    }
    const auto memory = MemoryOf(server);
    if (!memory.ok()) return memory.status();
    const auto after = target_.State();
    if (!after.ok()) return after.status();
    line.AddSeen(*seen);
    line.Add("routes", after->routes_v6() + after->routes_v4());
    line.Add("resident_before", resident->resident);
    line.Add("resident_peak", memory->peak);
    line.Add("fib_before", before->fib_bytes());
    line.Add("fib_after", after->fib_bytes());
    line.Add("rib_before", before->rib_bytes());
    line.Add("rib_after", after->rib_bytes());
    line.Add("incremental_builds",
             after->incremental_builds() - before->incremental_builds());
    line.Add("full_builds", after->full_builds() - before->full_builds());
    line.Print();
    if (all != nullptr) all->Add(*seen);
    return absl::OkStatus();
  }

  Target target_;
  LookupsBeside* const lookups_;
  const std::vector<Route> routes_;
};

// Waits until the server answers lookups, of a table with this generation at
// least.
absl::StatusOr<v1::Table> AwaitServing(const std::string& server,
                                       uint64_t generation) {
  const absl::Time deadline = absl::Now() + absl::Minutes(1);
  while (absl::Now() < deadline) {
    // Each with a connection of its own, so that no backoff delays it.
    const auto channel = client::MakeChannel(server, {.own_connection = true});
    if (!channel.ok()) return channel.status();
    if (client::Connect(**channel, deadline).ok()) {
      const Target target(*channel, *channel);
      v1::LookupRequest request;
      request.add_addresses()->set_text("2001:db8::");
      v1::LookupResponse response;
      grpc::ClientContext context;
      if (target.lookup->Lookup(&context, request, &response).ok() &&
          response.generation() >= generation) {
        return target.State();
      }
    }
    absl::SleepFor(absl::Milliseconds(2));
  }
  return absl::DeadlineExceededError("the server does not serve");
}

absl::Status Await(const std::string& server) {
  const auto state = AwaitServing(server, 1);
  if (!state.ok()) return state.status();
  Line line("await", "0");
  line.Add("unix_nanos", static_cast<uint64_t>(absl::GetCurrentTimeNanos()));
  line.Add("routes", state->routes_v6() + state->routes_v4());
  line.Print();
  return absl::OkStatus();
}

absl::Status Main() {
  const std::string server = absl::GetFlag(FLAGS_server);
  if (absl::GetFlag(FLAGS_await)) return Await(server);
  auto routes = MakeIpv6Routes(absl::GetFlag(FLAGS_table));
  if (!routes.ok()) return routes.status();
  std::optional<LookupsBeside> lookups;
  if (absl::GetFlag(FLAGS_lookups) && !absl::GetFlag(FLAGS_workloads).empty()) {
    lookups.emplace(server, *routes);
  }
  // Before gRPC starts its threads, which are to stay there too.
  const absl::Status pinned =
      PinThread(pthread_self(), absl::GetFlag(FLAGS_cpu));
  if (!pinned.ok()) return pinned;
  const auto state = AwaitServing(server, 0);
  if (!state.ok()) return state.status();
  const auto lookup = client::MakeChannel(server, {.own_connection = true});
  if (!lookup.ok()) return lookup.status();
  auto control = lookup;
  if (!absl::GetFlag(FLAGS_control).empty()) {
    control = client::MakeChannel(absl::GetFlag(FLAGS_control),
                                  {.own_connection = true});
    if (!control.ok()) return control.status();
  }
  Session session(*control, *lookup, lookups.has_value() ? &*lookups : nullptr,
                  *std::move(routes));
  return session.Run();
}

}  // namespace
}  // namespace planb::visibility

int main(int argc, char** argv) {
  planb::SetUpProcess();
  planb::DieWithParent();
  absl::SetProgramUsageMessage("Measures a PlanB Lookup server; see README.md");
  absl::ParseCommandLine(argc, argv);
  const absl::Status status = planb::visibility::Main();
  if (status.ok()) return 0;
  std::fprintf(stderr, "visibility: %s\n", status.ToString().c_str());
  return 1;
}
