// SPDX-License-Identifier: Apache-2.0

// The monotonic clock, for all waits and durations. The wall clock may be set,
// for example by an hour; no wait may get longer and no duration negative then.
// The wall clock (absl::Now) is for times that are reported and for deadlines
// that callers give. Such a deadline is converted once, when it arrives.

#ifndef PLANB_BASE_MONOTONIC_TIME_H_
#define PLANB_BASE_MONOTONIC_TIME_H_

#include <algorithm>
#include <chrono>

#include "absl/time/time.h"

namespace planb {

// A time of this clock for std::chrono and CondVar.
using SteadyInstant = std::chrono::steady_clock::time_point;

inline SteadyInstant SteadyNow() { return std::chrono::steady_clock::now(); }

// Now plus `wait`, which may be negative. Waits are cut to ten years, infinite
// ones too, so that sums do not overflow.
inline SteadyInstant SteadyAfter(absl::Duration wait) {
  constexpr absl::Duration kForever = absl::Hours(24 * 365 * 10);
  return SteadyNow() +
         absl::ToChronoNanoseconds(std::clamp(wait, -kForever, kForever));
}

// Never negative.
inline absl::Duration ElapsedSince(SteadyInstant start) {
  return absl::FromChrono(SteadyNow() - start);
}

// Now, as absl::Time, which has infinities. The epoch is arbitrary: do not
// compare it with absl::Now().
absl::Time MonotonicNow();

// The time of this clock at which the wall clock shows `wall`, if it is not set
// before. The infinite future stays infinite.
absl::Time ToMonotonic(absl::Time wall);

// When a call ends at the latest, by the monotonic clock: a wall clock that is
// set does not move it. Never, unless said otherwise.
class Deadline {
 public:
  Deadline() = default;
  // When the wall clock shows `wall`, by what it shows now. If it is set after
  // `wall` was computed, the deadline moves as much: prefer After().
  Deadline(absl::Time wall)  // NOLINT(google-explicit-constructor)
      : time_(ToMonotonic(wall)) {}
  // `wait` from now.
  static Deadline After(absl::Duration wait) {
    Deadline deadline;
    deadline.time_ = MonotonicNow() + wait;
    return deadline;
  }

  // By MonotonicNow's clock; InfiniteFuture() for never.
  absl::Time time() const { return time_; }

 private:
  absl::Time time_ = absl::InfiniteFuture();
};

// The same time, for CondVar. The infinite future is cut to a hundred years
// after the clock's epoch, the infinite past to the epoch.
SteadyInstant ToSteady(absl::Time monotonic);

}  // namespace planb

#endif  // PLANB_BASE_MONOTONIC_TIME_H_
