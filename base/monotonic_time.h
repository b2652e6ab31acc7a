// SPDX-License-Identifier: Apache-2.0

// The clock that never jumps, for everything that waits or measures. A host
// whose time is corrected, by an hour perhaps, must make nothing late, and no
// duration negative. The wall clock (absl::Time of absl::Now) is for moments
// that are told to others, and for deadlines that callers name: these are
// converted once, when they come in.

#ifndef PLANB_BASE_MONOTONIC_TIME_H_
#define PLANB_BASE_MONOTONIC_TIME_H_

#include <algorithm>
#include <chrono>

#include "absl/time/time.h"

namespace planb {

// Moments of the clock as std::chrono has them, for durations.
using SteadyInstant = std::chrono::steady_clock::time_point;

inline SteadyInstant SteadyNow() { return std::chrono::steady_clock::now(); }

// The moment `wait` from now, which is in the past if that is negative. A wait
// is cut to ten years, so that sums do not overflow: infinity becomes that.
inline SteadyInstant SteadyAfter(absl::Duration wait) {
  constexpr absl::Duration kForever = absl::Hours(24 * 365 * 10);
  return SteadyNow() +
         absl::ToChronoNanoseconds(std::clamp(wait, -kForever, kForever));
}

// Never negative.
inline absl::Duration ElapsedSince(SteadyInstant start) {
  return absl::FromChrono(SteadyNow() - start);
}

// Moments of the clock as absl::Time, which has infinities: times since an
// arbitrary point, not to be compared with absl::Now().
absl::Time MonotonicNow();

// What the clock will show when the wall clock shows `wall`, if that is not set
// until then. The infinite future stays what it is.
absl::Time ToMonotonic(absl::Time wall);

// The same moment, for std::condition_variable. An infinite future is cut to a
// hundred years, an infinite past to the clock's beginning.
SteadyInstant ToSteady(absl::Time monotonic);

}  // namespace planb

#endif  // PLANB_BASE_MONOTONIC_TIME_H_
