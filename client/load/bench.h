// SPDX-License-Identifier: Apache-2.0

// A benchmark of streams of batches, in a closed or an open loop.
//
// In a closed loop a batch is due when another one was answered: a stall of the
// server shows in one latency. In an open loop batches are due by a schedule,
// and latency counts from the due time: a stall shows in every batch that was
// due during it.

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

// The measured time, between warm-up and draining. Its end may move to an
// earlier time. Thread-safe.
class BenchWindow {
 public:
  BenchWindow(absl::Time begin, absl::Time end)
      : begin_(begin), end_ns_(absl::ToUnixNanos(end)) {}

  absl::Time end() const { return absl::FromUnixNanos(end_ns_); }
  // end() if that came before.
  absl::Time begin() const { return std::min(begin_, end()); }
  bool Holds(absl::Time time) const { return begin_ <= time && time < end(); }

  // No batch is due from `now` on.
  void EndAt(absl::Time now) {
    if (now < end()) end_ns_ = absl::ToUnixNanos(now);
  }

  // Draining took too long: the end of a stream is no failure any more.
  void Abandon() { abandoned_ = true; }
  bool abandoned() const { return abandoned_; }

 private:
  const absl::Time begin_;
  std::atomic<int64_t> end_ns_;
  std::atomic<bool> abandoned_ = false;
};

// The counts of one stream, or of all.
struct BenchCounts {
  // Batches due within the window. In a closed loop: those sent in it.
  uint64_t offered = 0;
  // Of these, not answered when draining ended.
  uint64_t unanswered = 0;
  // Answered within the window, independent of the due time.
  uint64_t batches = 0;
  uint64_t lookups = 0;
  uint64_t misses = 0;     // answered with "no route"
  uint64_t undecided = 0;  // answered with "undecided"
  // Of all answers, also outside the window: those that differ from the
  // expected.
  uint64_t mismatches = 0;
  // For each batch offered, the time from when it was due to its answer, or to
  // the end of draining if it was not answered.
  LatencyHistogram latency;
  // Open loop: for each batch sent, the time from when it was due until it was
  // sent. Includes the wait while too many batches are in flight.
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

// The clock and the stream of a driver. Tests replace both, so that results are
// known to the nanosecond. BatchLookup documents the functions.
class BenchPort {
 public:
  virtual ~BenchPort() = default;

  virtual absl::Time Now() = 0;
  virtual void SleepUntil(absl::Time time) = 0;

  virtual absl::Status Send(const Batch& batch) = 0;
  virtual void CloseSend() = 0;
  virtual bool Ready() = 0;
  virtual absl::StatusOr<bool> Receive(BatchResult& result) = 0;
  virtual void Cancel() = 0;
};

// The monotonic clock and a real stream. As thread-safe as BatchLookup.
class StreamPort : public BenchPort {
 public:
  StreamPort(const std::shared_ptr<grpc::Channel>& channel,
             const BatchLookupOptions& options)
      : stream_(channel, options) {}

  absl::Time Now() override { return MonotonicNow(); }
  // Precise to microseconds if the kernel is.
  void SleepUntil(absl::Time time) override;

  absl::Status Send(const Batch& batch) override {
    return stream_.Send(batch).status();
  }
  void CloseSend() override { stream_.CloseSend(); }
  bool Ready() override { return stream_.Ready(); }
  absl::StatusOr<bool> Receive(BatchResult& result) override {
    return stream_.Receive(result);
  }
  void Cancel() override { stream_.Cancel(); }

 private:
  BatchLookup stream_;
};

struct DriverOptions {
  // Empty means "default".
  std::string table = {};
  // Maximum of batches in flight; at least 1.
  size_t depth = 1;
  // The first batch of the trace to send.
  size_t first = 0;
  // Open loop only: the schedule and its start.
  ArrivalOptions arrivals = {};
  absl::Time start = absl::UnixEpoch();
  // If not null: the expected answers, as by Trace::Expect.
  const std::vector<NextHopId>* expected = nullptr;
};

// Drives one stream and counts. Runs once, in one of the ways below. The first
// error ends the window, and so the other streams.
class BenchDriver {
 public:
  BenchDriver(BenchPort& port, const Trace& trace, BenchWindow& window,
              const DriverOptions& options);

  // Closed loop, one thread.
  void RunClosed();
  // Open loop, with one thread that polls without a pause.
  void RunOpen();
  // Open loop with two threads, which sleep until an arrival or an answer. (A
  // completion queue alone is precise to the millisecond only.)
  void SendOnSchedule();
  void ReceiveAll();

  // After the run: counts the unanswered batches, which have waited until
  // `now`.
  void CountUnanswered(absl::Time now);

  // The results so far. Thread-safe.
  BenchCounts counts() const;
  absl::Status status() const;

 private:
  void SendOne(absl::Time due);
  // False if no result follows.
  bool ReceiveOne();
  // Number of answers in `answer_`, to batch number `index`, that differ from
  // the expected ones.
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
  // Due times of the batches in flight, oldest first.
  std::deque<absl::Time> in_flight_ ABSL_GUARDED_BY(mutex_);
  BenchCounts counts_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

// User and system time used by all threads of a process, also by ended ones. 0
// is this process. Precise to the nanosecond, unlike /proc/PID/stat. Errors:
// NOT_FOUND if there is no such process.
absl::StatusOr<absl::Duration> CpuTimeOf(pid_t process);

// Restricts the calling thread, and threads it starts later, to `cpus`.
// Errors: INVALID_ARGUMENT if this process may use none of them.
absl::Status RunOn(const std::vector<int>& cpus);

struct BenchOptions {
  // Empty means "default".
  std::string table = {};
  // Maximum of batches in flight on each stream; at least 1. In an open loop,
  // further batches that are due wait, and the wait counts as latency.
  size_t depth = 4;
  // Time of sending without counting, and then of measuring.
  absl::Duration warmup = absl::ZeroDuration();
  absl::Duration duration = absl::Seconds(10);
  // Maximum wait after that for batches that are due and unanswered.
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
  // The server's process, to report its CPU time.
  std::optional<pid_t> server = std::nullopt;
  // If not null: true ends the sending early. Outlives the run.
  const std::atomic<bool>* stop = nullptr;
  // As in BatchLookupOptions.
  absl::Duration stall_timeout = absl::InfiniteDuration();
  // If not empty: the expected answers, as by Trace::Expect.
  std::vector<NextHopId> expected = {};
  // If set: called every second of the measurement with the time and the counts
  // so far.
  std::function<void(absl::Duration, const BenchCounts&)> progress = nullptr;
};

// The results of all streams.
struct BenchResult {
  // The measured time, without warm-up and draining.
  absl::Duration elapsed;
  BenchCounts counts;
  // CPU time used in that time by this process, and by BenchOptions::server.
  absl::Duration client_cpu;
  std::optional<absl::Duration> server_cpu;
};

// Runs one stream on each of `channels`, which may repeat. Streams begin at
// different places of the trace. Takes at most warmup + duration + drain.
// Errors: the first error of a stream or batch, which ends the run;
// DEADLINE_EXCEEDED if no batch was answered; NOT_FOUND if there is no process
// `server`; INVALID_ARGUMENT as RunOn.
// REQUIRES: there are channels.
absl::StatusOr<BenchResult> RunBench(
    const std::vector<std::shared_ptr<grpc::Channel>>& channels,
    const Trace& trace, const BenchOptions& options);

}  // namespace planb::client

#endif  // PLANB_CLIENT_LOAD_BENCH_H_
