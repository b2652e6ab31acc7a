// SPDX-License-Identifier: Apache-2.0

#include "base/monotonic_time.h"

#include <time.h>

#include <algorithm>

#include "absl/time/clock.h"

namespace planb {

absl::Time MonotonicNow() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return absl::TimeFromTimespec(now);
}

absl::Time ToMonotonic(absl::Time wall) {
  if (wall == absl::InfiniteFuture()) return wall;
  return MonotonicNow() + (wall - absl::Now());
}

SteadyInstant ToSteady(absl::Time monotonic) {
  // Well below the overflow of 64-bit nanoseconds.
  constexpr absl::Duration kLong = absl::Hours(24 * 365 * 100);
  return SteadyInstant(absl::ToChronoNanoseconds(
      std::clamp(monotonic - absl::UnixEpoch(), absl::ZeroDuration(), kLong)));
}

}  // namespace planb
