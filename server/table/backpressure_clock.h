// SPDX-License-Identifier: Apache-2.0

// The total time that streams were held up. It includes streams that are held
// up now, so that a stream that is stuck for an hour shows during that hour.

#ifndef PLANB_SERVER_TABLE_BACKPRESSURE_CLOCK_H_
#define PLANB_SERVER_TABLE_BACKPRESSURE_CLOCK_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/monotonic_time.h"

namespace planb::server {

// One thread calls Begin and End, which are wait-free. Any thread may call
// Total; it retries if a change happens meanwhile. A later Total may be
// slightly lower, since a stream counts as held up until End is called, which
// happens shortly after the time that End is given.
//
// The three numbers change together, as in a seqlock: `version_` is odd while
// they are written. Each is stored with release after version_ became odd, so a
// thread that reads a new number (acquire) also sees that version_ changed.
class BackpressureClock {
 public:
  using Nanoseconds = std::chrono::nanoseconds;

  // One more stream is held up from `now` on. REQUIRES: `now` never decreases.
  void Begin(SteadyInstant now) { Change(now, 1); }
  // A stream is no longer held up. REQUIRES: Begin was called for it; `now`
  // never decreases.
  void End(SteadyInstant now) { Change(now, -1); }

  // The total until `now`.
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
  std::atomic<int64_t> held_{0};   // streams held up since then
  std::atomic<int64_t> since_{0};  // of the steady clock
};

}  // namespace planb::server

#endif  // PLANB_SERVER_TABLE_BACKPRESSURE_CLOCK_H_
