// SPDX-License-Identifier: Apache-2.0

// A batch is recorded before it is sent, because its answer may arrive before
// Send returns.

#include "client/load/bench.h"

#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <thread>

#include "absl/algorithm/container.h"
#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/monotonic_time.h"
#include "base/mutex.h"

namespace planb::client {

// Sets the timer slack of threads that sleep, by default 50 us, to the minimum.

void StreamPort::SleepUntil(absl::Time time) {
  thread_local const int slack = prctl(PR_SET_TIMERSLACK, 1UL, 0, 0, 0);
  static_cast<void>(slack);
  const timespec until = absl::ToTimespec(time);
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) ==
         EINTR) {
    continue;
  }
}

namespace {

// Maximum time until a sleeping sender notices the end of the window.
constexpr absl::Duration kSenderNap = absl::Milliseconds(50);

}  // namespace

BenchDriver::BenchDriver(BenchPort& port, const Trace& trace,
                         BenchWindow& window, const DriverOptions& options)
    : port_(port),
      trace_(trace),
      window_(window),
      options_(options),
      arrivals_(options.arrivals, options.start) {}

void BenchDriver::RunClosed() {
  while (!failed_) {
    const absl::Time now = port_.Now();
    const bool sending = now < window_.end();
    const size_t in_flight = sent_ - received_;
    if (sending && in_flight < options_.depth) {
      SendOne(now);
    } else if (in_flight > 0) {
      ReceiveOne();
    } else if (!sending) {
      break;
    }
  }
}

void BenchDriver::RunOpen() {
  open_ = true;
  while (!failed_) {
    const absl::Time due = arrivals_.next();
    const bool sending = due < window_.end();
    const size_t in_flight = sent_ - received_;
    if (sending && in_flight < options_.depth && port_.Now() >= due) {
      arrivals_.Pop();
      SendOne(due);
    } else if (!sending && in_flight == 0) {
      break;
    } else if (!sending || in_flight == options_.depth || port_.Ready()) {
      ReceiveOne();
    }
  }
}

void BenchDriver::SendOnSchedule() {
  open_ = true;
  while (!failed_ && arrivals_.next() < window_.end()) {
    const absl::Time due = arrivals_.next();
    const absl::Time now = port_.Now();
    if (now < due) {
      port_.SleepUntil(std::min(due, now + kSenderNap));
    } else {
      arrivals_.Pop();
      SendOne(due);
    }
  }
  if (!failed_) port_.CloseSend();
}

void BenchDriver::ReceiveAll() {
  while (ReceiveOne()) continue;
}

void BenchDriver::SendOne(absl::Time due) {
  Batch batch = trace_.Get(options_.first + sent_);
  batch.table = options_.table;
  {
    absl::MutexLock lock(&mutex_);
    in_flight_.push_back(due);
    if (window_.Holds(due)) ++counts_.offered;
  }
  ++sent_;
  if (const absl::Status status = port_.Send(batch); !status.ok()) {
    Fail(status);
    return;
  }
  if (!window_.Holds(due)) return;
  const absl::Duration delay = port_.Now() - due;
  absl::MutexLock lock(&mutex_);
  counts_.send_delay.Add(delay);
}

bool BenchDriver::ReceiveOne() {
  const absl::StatusOr<bool> more = port_.Receive(answer_);
  if (more.ok() && !*more) return false;
  const absl::Status& status = more.ok() ? answer_.status : more.status();
  if (!status.ok()) {
    Fail(status);
    return false;
  }
  const size_t index = options_.first + received_++;
  const absl::Time now = port_.Now();
  const auto count = [this](NextHopId id) {
    return static_cast<uint64_t>(absl::c_count(answer_.next_hops, id));
  };
  const bool counts = window_.Holds(now);
  const uint64_t misses = counts ? count(kNoRoute) : 0;
  const uint64_t undecided = counts ? count(kUndecided) : 0;
  const uint64_t mismatches = Mismatches(index);

  absl::MutexLock lock(&mutex_);
  const absl::Time due = in_flight_.front();
  in_flight_.pop_front();
  if (window_.Holds(due)) counts_.latency.Add(now - due);
  if (counts) {
    ++counts_.batches;
    counts_.lookups += answer_.next_hops.size();
    counts_.misses += misses;
    counts_.undecided += undecided;
  }
  counts_.mismatches += mismatches;
  return true;
}

uint64_t BenchDriver::Mismatches(size_t index) const {
  if (options_.expected == nullptr) return 0;
  const auto expected = trace_.Slice(*options_.expected, index);
  uint64_t mismatches = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (expected[i] != answer_.next_hops[i]) ++mismatches;
  }
  return mismatches;
}

void BenchDriver::Fail(const absl::Status& status) {
  if (status.ok()) return;
  {
    absl::MutexLock lock(&mutex_);
    if (status_.ok() && !window_.abandoned()) status_ = status;
  }
  failed_ = true;
  window_.EndAt(port_.Now());
  port_.Cancel();
}

void BenchDriver::CountUnanswered(absl::Time now) {
  absl::MutexLock lock(&mutex_);
  const auto count = [&](absl::Time due) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!window_.Holds(due)) return;
    ++counts_.unanswered;
    counts_.latency.Add(now - due);
  };
  absl::c_for_each(in_flight_, count);
  in_flight_.clear();
  for (; open_ && arrivals_.next() < window_.end(); arrivals_.Pop()) {
    if (window_.Holds(arrivals_.next())) ++counts_.offered;
    count(arrivals_.next());
  }
}

BenchCounts BenchDriver::counts() const {
  absl::MutexLock lock(&mutex_);
  return counts_;
}

absl::Status BenchDriver::status() const {
  absl::MutexLock lock(&mutex_);
  return status_;
}

// The calling thread supervises: it reads the CPU times at both ends of the
// window, reports progress, ends the window on BenchOptions::stop, and cancels
// streams that do not drain in time.

absl::StatusOr<absl::Duration> CpuTimeOf(pid_t process) {
  clockid_t clock = 0;
  timespec used = {};
  if (clock_getcpuclockid(process, &clock) != 0 ||
      clock_gettime(clock, &used) != 0) {
    return absl::NotFoundError(absl::StrCat("no process ", process));
  }
  return absl::DurationFromTimespec(used);
}

absl::Status RunOn(const std::vector<int>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int cpu : cpus) CPU_SET(static_cast<unsigned>(cpu), &set);
  if (sched_setaffinity(0, sizeof(set), &set) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cannot run on the processors ", absl::StrJoin(cpus, ",")));
  }
  return absl::OkStatus();
}

namespace {

// Maximum time until BenchOptions::stop is noticed.
constexpr absl::Duration kNap = absl::Milliseconds(20);

class Bench {
 public:
  Bench(const Trace& trace, const BenchOptions& options, absl::Time start)
      : trace_(trace),
        options_(options),
        start_(start),
        window_(start + options.warmup,
                start + options.warmup + options.duration) {}

  absl::StatusOr<BenchResult> Run(
      const std::vector<std::shared_ptr<grpc::Channel>>& channels) {
    for (const auto& channel : channels) Add(channel, channels.size());
    for (size_t i = 0; i < channels.size(); ++i) Start(i);
    absl::StatusOr<BenchResult> result = Supervise();
    for (std::thread& thread : threads_) thread.join();
    const absl::Time now = MonotonicNow();
    for (const auto& driver : drivers_) driver->CountUnanswered(now);
    for (const auto& driver : drivers_) {
      if (!driver->status().ok()) return driver->status();
    }
    {
      const MutexLock lock(mutex_);
      if (!pinned_.ok()) return pinned_;
    }
    if (!result.ok()) return result;
    result->counts = Counts();
    if (result->counts.unanswered > 0 && result->counts.batches == 0) {
      return absl::DeadlineExceededError("no batch was answered in time");
    }
    return result;
  }

 private:
  void Add(const std::shared_ptr<grpc::Channel>& channel, size_t streams) {
    const size_t depth = std::max<size_t>(options_.depth, 1);
    const size_t i = ports_.size();
    ports_.push_back(std::make_unique<StreamPort>(
        channel, BatchLookupOptions{.max_in_flight = depth,
                                    .stall_timeout = options_.stall_timeout,
                                    .spin = options_.spin}));
    // A closed loop does not use the schedule.
    const double rate = options_.rate > 0 ? options_.rate : 1;
    drivers_.push_back(std::make_unique<BenchDriver>(
        *ports_.back(), trace_, window_,
        DriverOptions{
            .table = options_.table,
            .depth = depth,
            .first = i * trace_.batches() / streams,
            .arrivals = {.kind = options_.arrivals,
                         .batches_per_second =
                             rate / static_cast<double>(trace_.batch_size()) /
                             static_cast<double>(streams),
                         .stream = i,
                         .streams = streams,
                         .seed = options_.seed},
            .start = start_,
            .expected =
                options_.expected.empty() ? nullptr : &options_.expected}));
  }

  void Start(size_t stream) {
    if (options_.rate <= 0) {
      StartThread(stream, &BenchDriver::RunClosed);
    } else if (options_.spin) {
      StartThread(stream, &BenchDriver::RunOpen);
    } else {
      StartThread(stream, &BenchDriver::SendOnSchedule);
      StartThread(stream, &BenchDriver::ReceiveAll);
    }
  }

  void StartThread(size_t stream, void (BenchDriver::*run)()) {
    {
      const MutexLock lock(mutex_);
      ++running_;
    }
    threads_.emplace_back([this, stream, run] {
      absl::Status pinned;
      if (!options_.cpus.empty()) {
        pinned = RunOn({options_.cpus[stream % options_.cpus.size()]});
      }
      (drivers_[stream].get()->*run)();
      const MutexLock lock(mutex_);
      if (!pinned.ok()) pinned_ = pinned;
      --running_;
      ended_.notify_all();
    });
  }

  // Returns when every stream has ended or was cancelled.
  absl::StatusOr<BenchResult> Supervise() {
    BenchResult result;
    AwaitEnd([this] { return window_.begin(); });
    const absl::Duration client_before = *CpuTimeOf(0);
    const auto server_before = ServerTime();
    absl::Duration measured = absl::Seconds(1);
    const auto next_second = [&] {
      return std::min(window_.begin() + measured, window_.end());
    };
    while (!AwaitEnd(next_second) && MonotonicNow() < window_.end()) {
      if (options_.progress) options_.progress(measured, Counts());
      measured += absl::Seconds(1);
    }
    result.elapsed = window_.end() - window_.begin();
    result.client_cpu = *CpuTimeOf(0) - client_before;
    const auto server_after = ServerTime();
    if (!AwaitEnd([this] { return window_.end() + options_.drain; })) {
      window_.Abandon();
      for (const auto& port : ports_) port->Cancel();
    }
    if (options_.server.has_value()) {
      if (!server_before.ok()) return server_before.status();
      if (!server_after.ok()) return server_after.status();
      result.server_cpu = *server_after - *server_before;
    }
    return result;
  }

  // Waits until `time`, which may change while this waits. True if all streams
  // ended before.
  bool AwaitEnd(absl::FunctionRef<absl::Time()> time) {
    while (true) {
      if (options_.stop != nullptr && options_.stop->load()) {
        window_.EndAt(MonotonicNow());
      }
      const absl::Duration left = time() - MonotonicNow();
      if (left <= absl::ZeroDuration()) return false;
      MutexLock lock(mutex_);
      const auto until = ToSteady(MonotonicNow() + std::min(left, kNap));
      if (ended_.wait_until(lock, until,
                            [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                              return running_ == 0;
                            })) {
        return true;
      }
    }
  }

  absl::StatusOr<absl::Duration> ServerTime() const {
    return CpuTimeOf(options_.server.value_or(0));
  }

  BenchCounts Counts() const {
    BenchCounts total;
    for (const auto& driver : drivers_) total.Merge(driver->counts());
    return total;
  }

  const Trace& trace_;
  const BenchOptions& options_;
  const absl::Time start_;
  BenchWindow window_;
  std::vector<std::unique_ptr<StreamPort>> ports_;
  std::vector<std::unique_ptr<BenchDriver>> drivers_;
  std::vector<std::thread> threads_;

  Mutex mutex_;
  CondVar ended_;  // signalled when running_ falls
  size_t running_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status pinned_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<BenchResult> RunBench(
    const std::vector<std::shared_ptr<grpc::Channel>>& channels,
    const Trace& trace, const BenchOptions& options) {
  return Bench(trace, options, MonotonicNow()).Run(channels);
}

}  // namespace planb::client
