// Drives one stream of a benchmark, in a closed or in an open loop, and keeps
// its accounts.
//
// In a closed loop a batch is due when another was answered: a server that
// stalls is not asked, and its stall shows in one latency. In an open loop
// batches are due by a schedule, and latency counts from there, whoever made
// the batch wait: a stall shows in every batch that was due during it. No
// arrival is left out, however late.

#ifndef PLANB_CLIENT_LOAD_BENCH_DRIVER_H_
#define PLANB_CLIENT_LOAD_BENCH_DRIVER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/batch_codec.h"
#include "client/load/arrivals.h"
#include "client/load/bench_counts.h"
#include "client/load/bench_port.h"
#include "client/load/trace.h"
#include "lpm/prefix.h"

namespace planb::client {

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

}  // namespace planb::client

#endif  // PLANB_CLIENT_LOAD_BENCH_DRIVER_H_
