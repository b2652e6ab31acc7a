// SPDX-License-Identifier: Apache-2.0

// How long something was held up, summed over all that was: also what is held
// up just now, so that somebody stuck for an hour shows before the hour is
// over.

#ifndef PLANB_SERVER_TABLE_BACKPRESSURE_CLOCK_H_
#define PLANB_SERVER_TABLE_BACKPRESSURE_CLOCK_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/monotonic_time.h"

namespace planb::server {

// Begin and End are for one thread and wait-free; Total is for any, and repeats
// itself where a change fell in between. It counts on until it hears of an end,
// which is a moment after the clock was looked at: a later Total may be less by
// that moment.
//
// A change is three numbers that belong together. `version_` is odd while they
// are written; each is stored with release, after version_ became odd, so who
// read a new one (acquire) sees that version_ is not what it was before.
class BackpressureClock {
 public:
  using Nanoseconds = std::chrono::nanoseconds;

  // One more is held up, from `now` on. REQUIRES: `now` never decreases.
  void Begin(SteadyInstant now) { Change(now, 1); }
  // One is no longer. REQUIRES: Begin was called for it; `now` as there.
  void End(SteadyInstant now) { Change(now, -1); }

  // The sum until `now`.
  Nanoseconds Total(SteadyInstant now) const {
    for (;;) {
      const uint64_t before = version_.load(std::memory_order_acquire);
      const int64_t total = total_.load(std::memory_order_acquire);
      const int64_t held = held_.load(std::memory_order_acquire);
      const int64_t since = since_.load(std::memory_order_acquire);
      const uint64_t after = version_.load(std::memory_order_relaxed);
      if (before % 2 == 1 || before != after) continue;
      return Nanoseconds(total +
                         held * std::max<int64_t>(0, Count(now) - since));
    }
  }

 private:
  static int64_t Count(SteadyInstant time) {
    return Nanoseconds(time.time_since_epoch()).count();
  }

  void Change(SteadyInstant now, int64_t more) {
    const uint64_t version = version_.load(std::memory_order_relaxed);
    const int64_t held = held_.load(std::memory_order_relaxed);
    const int64_t since = since_.load(std::memory_order_relaxed);
    const int64_t total = total_.load(std::memory_order_relaxed);
    version_.store(version + 1, std::memory_order_relaxed);
    total_.store(total + held * (Count(now) - since),
                 std::memory_order_release);
    held_.store(held + more, std::memory_order_release);
    since_.store(Count(now), std::memory_order_release);
    version_.store(version + 2, std::memory_order_release);
  }

  std::atomic<uint64_t> version_{0};
  std::atomic<int64_t> total_{0};  // nanoseconds, up to `since_`
  std::atomic<int64_t> held_{0};   // how many are, since then
  std::atomic<int64_t> since_{0};  // of the steady clock
};

}  // namespace planb::server

#endif  // PLANB_SERVER_TABLE_BACKPRESSURE_CLOCK_H_
