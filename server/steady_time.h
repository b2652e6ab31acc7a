// Time for durations: by the clock that never jumps. absl::Time, the wall
// clock's, is for what is told to others as a moment.

#ifndef PLANB_SERVER_STEADY_TIME_H_
#define PLANB_SERVER_STEADY_TIME_H_

#include <chrono>

#include "absl/time/time.h"

namespace planb::server {

using SteadyInstant = std::chrono::steady_clock::time_point;

inline SteadyInstant SteadyNow() { return std::chrono::steady_clock::now(); }

// Never negative, whatever an administrator does to the wall clock meanwhile.
inline absl::Duration ElapsedSince(SteadyInstant start) {
  return absl::FromChrono(SteadyNow() - start);
}

}  // namespace planb::server

#endif  // PLANB_SERVER_STEADY_TIME_H_
