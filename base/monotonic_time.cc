#include "base/monotonic_time.h"

#include <time.h>

#include <algorithm>

#include "absl/time/clock.h"

namespace planb::client {
namespace {

// A hundred years of uptime: far from where nanoseconds overflow.
absl::Time Bounded(absl::Time monotonic) {
  constexpr absl::Duration kLong = absl::Hours(24 * 365 * 100);
  return std::clamp(monotonic, absl::UnixEpoch(), absl::UnixEpoch() + kLong);
}

}  // namespace

absl::Time MonotonicNow() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return absl::TimeFromTimespec(now);
}

absl::Time ToMonotonic(absl::Time wall) {
  if (wall == absl::InfiniteFuture()) return wall;
  return MonotonicNow() + (wall - absl::Now());
}

gpr_timespec ToGrpc(absl::Time monotonic) {
  const timespec time = absl::ToTimespec(Bounded(monotonic));
  return {.tv_sec = time.tv_sec,
          .tv_nsec = static_cast<int32_t>(time.tv_nsec),
          .clock_type = GPR_CLOCK_MONOTONIC};
}

std::chrono::steady_clock::time_point ToSteady(absl::Time monotonic) {
  return std::chrono::steady_clock::time_point(
      absl::ToChronoNanoseconds(Bounded(monotonic) - absl::UnixEpoch()));
}

}  // namespace planb::client
