// SPDX-License-Identifier: Apache-2.0

// A batch is noted before it is sent: its answer may be there before Send
// returns.

#include "client/load/bench_driver.h"

#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <cerrno>

#include "absl/algorithm/container.h"

namespace planb::client {

// Threads that sleep here have the kernel's timer slack, which is 50 us unless
// asked otherwise, set to the least.

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

// So often a thread that sleeps looks whether the window was ended.
constexpr absl::Duration kNap = absl::Milliseconds(50);

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
  if (!failed_) Fail(port_.Finish());
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
  if (!failed_) Fail(port_.Finish());
}

void BenchDriver::SendOnSchedule() {
  open_ = true;
  while (!failed_ && arrivals_.next() < window_.end()) {
    const absl::Time due = arrivals_.next();
    const absl::Time now = port_.Now();
    if (now < due) {
      port_.SleepUntil(std::min(due, now + kNap));
    } else {
      arrivals_.Pop();
      SendOne(due);
    }
  }
  if (!failed_) Fail(port_.CloseSend());
}

void BenchDriver::ReceiveAll() {
  while (ReceiveOne()) continue;
  if (!failed_) Fail(port_.Finish());
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

}  // namespace planb::client
