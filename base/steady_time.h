// Time for durations: by the clock that never jumps. absl::Time, the wall
// clock's, is for what is told to others as a moment.

#ifndef PLANB_BASE_STEADY_TIME_H_
#define PLANB_BASE_STEADY_TIME_H_

#include <algorithm>
#include <chrono>

#include "absl/time/time.h"

namespace planb::server {

using SteadyInstant = std::chrono::steady_clock::time_point;

inline SteadyInstant SteadyNow() { return std::chrono::steady_clock::now(); }

// The moment `wait` from now, which is long ago if that is negative. Longer
// than anyone waits is cut, so that sums do not overflow: infinity is ten
// years.
inline SteadyInstant SteadyAfter(absl::Duration wait) {
  constexpr absl::Duration kForever = absl::Hours(24 * 365 * 10);
  return SteadyNow() +
         absl::ToChronoNanoseconds(std::clamp(wait, -kForever, kForever));
}

// Never negative, whatever an administrator does to the wall clock meanwhile.
inline absl::Duration ElapsedSince(SteadyInstant start) {
  return absl::FromChrono(SteadyNow() - start);
}

}  // namespace planb::server

#endif  // PLANB_BASE_STEADY_TIME_H_
