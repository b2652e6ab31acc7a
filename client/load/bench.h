// SPDX-License-Identifier: Apache-2.0

// Drives one stream of a benchmark, in a closed or in an open loop, and keeps
// its accounts.
//
// In a closed loop a batch is due when another was answered: a server that
// stalls is not asked, and its stall shows in one latency. In an open loop
// batches are due by a schedule, and latency counts from the due time, not
// from the sending: a stall shows in every batch that was due during it. No
// arrival is left out, however late.

#ifndef PLANB_CLIENT_LOAD_BENCH_H_
#define PLANB_CLIENT_LOAD_BENCH_H_

#include <grpcpp/channel.h>
#include <sys/types.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/monotonic_time.h"
#include "client/batch_codec.h"
#include "client/batch_lookup.h"
#include "client/load/latency_histogram.h"
#include "client/load/trace.h"
#include "lpm/prefix.h"

namespace planb::client {

// The time that counts: without the warm-up before it and the draining after
// it. Its end may still move forward, to now. Thread-safe.
class BenchWindow {
 public:
  BenchWindow(absl::Time begin, absl::Time end)
      : begin_(begin), end_ns_(absl::ToUnixNanos(end)) {}

  absl::Time end() const { return absl::FromUnixNanos(end_ns_); }
  // The same as end() if that came first.
  absl::Time begin() const { return std::min(begin_, end()); }
  bool Holds(absl::Time time) const { return begin_ <= time && time < end(); }

  // Nothing is due from `now` on.
  void EndAt(absl::Time now) {
    if (now < end()) end_ns_ = absl::ToUnixNanos(now);
  }

  // Draining took too long: that streams end now is no failure.
  void Abandon() { abandoned_ = true; }
  bool abandoned() const { return abandoned_; }

 private:
  const absl::Time begin_;
  std::atomic<int64_t> end_ns_;
  std::atomic<bool> abandoned_ = false;
};

// What one stream, or all of them, did.
struct BenchCounts {
  // Batches due within the window. In a closed loop: those sent in it.
  uint64_t offered = 0;
  // Of these, not answered when draining was given up.
  uint64_t unanswered = 0;
  // Answered within the window, whenever they were due.
  uint64_t batches = 0;
  uint64_t lookups = 0;
  uint64_t misses = 0;     // answered with "no route"
  uint64_t undecided = 0;  // answered with "undecided"
  // Of all answers there ever were, those other than expected.
  uint64_t mismatches = 0;
  // One value for each batch offered: from when it was due until its answer
  // was there; until draining was given up, for those unanswered.
  LatencyHistogram latency;
  // Open loop: from when it was due until it had been sent, of each batch sent.
  // Waiting because too many are in flight counts.
  LatencyHistogram send_delay;

  void Merge(const BenchCounts& other) {
    offered += other.offered;
    unanswered += other.unanswered;
    batches += other.batches;
    lookups += other.lookups;
    misses += other.misses;
    undecided += other.undecided;
    mismatches += other.mismatches;
    latency.Merge(other.latency);
    send_delay.Merge(other.send_delay);
  }
};

// What a benchmark's driver acts on: the clock and one stream. Tests put a
// made-up server and a made-up clock in their place, and know to the nanosecond
// what has to come out.
//
// The functions are those of BatchLookup, which documents them.
class BenchPort {
 public:
  virtual ~BenchPort() = default;

  virtual absl::Time Now() = 0;
  virtual void SleepUntil(absl::Time time) = 0;

  virtual absl::Status Send(const Batch& batch) = 0;
  virtual absl::Status CloseSend() = 0;
  virtual bool Ready() = 0;
  virtual absl::StatusOr<bool> Receive(BatchResult& result) = 0;
  virtual absl::Status Finish() = 0;
  virtual void Cancel() = 0;
};

// The monotonic clock and a real stream. As thread-safe as BatchLookup.
class StreamPort : public BenchPort {
 public:
  StreamPort(const std::shared_ptr<grpc::Channel>& channel,
             const BatchLookupOptions& options)
      : stream_(channel, options) {}

  absl::Time Now() override { return MonotonicNow(); }
  // Precise to microseconds, where the kernel can.
  void SleepUntil(absl::Time time) override;

  absl::Status Send(const Batch& batch) override {
    return stream_.Send(batch).status();
  }
  absl::Status CloseSend() override {
    stream_.CloseSend();
    return absl::OkStatus();
  }
  bool Ready() override { return stream_.Ready(); }
  absl::StatusOr<bool> Receive(BatchResult& result) override {
    return stream_.Receive(result);
  }
  // Drops the results that were not received.
  absl::Status Finish() override;
  void Cancel() override { stream_.Cancel(); }

 private:
  BatchLookup stream_;
};

struct DriverOptions {
  // Empty means "default".
  std::string table = {};
  // Batches in flight, at most; at least 1.
  size_t depth = 1;
  // The first batch of the trace to send.
  size_t first = 0;
  // Open loop only: the schedule, and where it starts.
  ArrivalOptions arrivals = {};
  absl::Time start = absl::UnixEpoch();
  // If not null: what Trace::Expect says every answer has to be.
  const std::vector<NextHopId>* expected = nullptr;
};

// Runs once, by one of the ways below. The first error ends the window, and so
// the other streams. Everything passed by reference outlives the driver.
class BenchDriver {
 public:
  BenchDriver(BenchPort& port, const Trace& trace, BenchWindow& window,
              const DriverOptions& options);

  // Closed loop, one thread.
  void RunClosed();
  // Open loop, one thread, which polls without a pause until the next arrival
  // or answer.
  void RunOpen();
  // Open loop, two threads: the one that sends sleeps between arrivals, the one
  // that receives between answers, so both sleep precisely. (A completion queue
  // wakes up for a deadline only to the millisecond.)
  void SendOnSchedule();
  void ReceiveAll();

  // After the run: takes `now` for the time until which everything due but
  // unanswered has waited.
  void CountUnanswered(absl::Time now);

  // How it went until now. Thread-safe.
  BenchCounts counts() const;
  absl::Status status() const;

 private:
  void SendOne(absl::Time due);
  // False if none follows.
  bool ReceiveOne();
  // Answers of `answer_`, to batch number `index`, other than expected.
  uint64_t Mismatches(size_t index) const;
  void Fail(const absl::Status& status);

  BenchPort& port_;
  const Trace& trace_;
  BenchWindow& window_;
  const DriverOptions options_;
  // An error ended the run.
  std::atomic<bool> failed_ = false;

  // The sending thread's.
  bool open_ = false;
  Arrivals arrivals_;
  size_t sent_ = 0;
  // The receiving thread's.
  BatchResult answer_;
  size_t received_ = 0;

  mutable absl::Mutex mutex_;
  // When the batches under way were due, oldest first.
  std::deque<absl::Time> in_flight_ ABSL_GUARDED_BY(mutex_);
  BenchCounts counts_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

// A benchmark of BatchLookup streams: a closed loop, which sends the next batch
// as soon as one is answered, or an open one, which sends at a given rate and
// counts latency from when each batch was due.

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
  // As in BatchLookupOptions.
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
