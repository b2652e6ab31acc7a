// SPDX-License-Identifier: Apache-2.0

// A benchmark of BatchLookup streams: a closed loop, which sends the next batch
// as soon as one is answered, or an open one, which sends at a given rate and
// counts latency from when each batch was due.

#ifndef PLANB_CLIENT_LOAD_BENCH_H_
#define PLANB_CLIENT_LOAD_BENCH_H_

#include <grpcpp/channel.h>
#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/load/arrivals.h"
#include "client/load/bench_driver.h"
#include "client/load/trace.h"
#include "lpm/prefix.h"

namespace planb::client {

// The processor's part in a measurement: time used, and where threads run.

// User and system time that all threads of a process, the ended ones too, have
// used so far; 0 is this process. To the nanosecond, unlike /proc/PID/stat,
// which counts in hundredths of seconds.
// Errors: NOT_FOUND if there is no such process.
absl::StatusOr<absl::Duration> CpuTimeOf(pid_t process);

// Keeps the calling thread, and those it starts from now on, on `cpus`.
// Errors: INVALID_ARGUMENT if the machine has none of them for us.
absl::Status RunOn(const std::vector<int>& cpus);

struct BenchOptions {
  // Empty means "default".
  std::string table = {};
  // Batches in flight on each stream; at least 1. In an open loop, what is due
  // beyond that waits, and its waiting counts.
  size_t depth = 4;
  // How long to send before anything counts, and how long to measure then.
  absl::Duration warmup = absl::ZeroDuration();
  absl::Duration duration = absl::Seconds(10);
  // After that: how long to wait for what is due and unanswered.
  absl::Duration drain = absl::Seconds(1);
  // Lookups a second of all streams together, as an open loop; 0: closed loop.
  double rate = 0;
  ArrivalKind arrivals = ArrivalKind::kEven;
  uint64_t seed = 1;
  // Waiting threads poll without a pause. In an open loop, one thread then both
  // sends and receives a stream; else there is one for each.
  bool spin = false;
  // The threads of stream i stay on cpus[i % cpus.size()]. Empty: anywhere.
  std::vector<int> cpus = {};
  // The process whose CPU time is reported as the server's.
  std::optional<pid_t> server = std::nullopt;
  // If not null: true ends the sending before its time. Outlives the run.
  const std::atomic<bool>* stop = nullptr;
  // As in BatchStreamOptions.
  absl::Duration stall_timeout = absl::InfiniteDuration();
  // If not empty: what Trace::Expect says every answer has to be.
  std::vector<NextHopId> expected = {};
  // If set: called every second of the measurement with the time measured and
  // what was counted so far.
  std::function<void(absl::Duration, const BenchCounts&)> progress = nullptr;
};

// What all streams did together.
struct BenchResult {
  // What was measured over: without warm-up and draining.
  absl::Duration elapsed;
  BenchCounts counts;
  // CPU time used in that time: by this process, and by BenchOptions::server.
  absl::Duration client_cpu;
  std::optional<absl::Duration> server_cpu;
};

// Runs one stream on each of `channels`, which may repeat. Streams begin at
// different places of the trace. Takes warmup + duration + drain, at most, and
// what cancelling the streams takes.
// Errors: the first of any stream or batch, which ends the run;
// DEADLINE_EXCEEDED if no batch at all was answered; NOT_FOUND if there is no
// process `server`; INVALID_ARGUMENT if there is no processor of `cpus`.
// REQUIRES: there are channels.
absl::StatusOr<BenchResult> RunBench(
    const std::vector<std::shared_ptr<grpc::Channel>>& channels,
    const Trace& trace, const BenchOptions& options);

}  // namespace planb::client

#endif  // PLANB_CLIENT_LOAD_BENCH_H_
