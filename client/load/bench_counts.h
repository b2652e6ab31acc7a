// What is counted of a benchmark, and over which time.

#ifndef PLANB_CLIENT_LOAD_BENCH_COUNTS_H_
#define PLANB_CLIENT_LOAD_BENCH_COUNTS_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "absl/time/time.h"
#include "client/load/latency_histogram.h"

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

}  // namespace planb::client

#endif  // PLANB_CLIENT_LOAD_BENCH_COUNTS_H_
