// The clock that never jumps, for everything that waits: a client whose host
// gets its time corrected (by an hour, at its start, as hosts do) must neither
// give up at once nor sleep for that hour. The wall clock is for deadlines that
// callers name, which are read by it once, when they come in.

#ifndef PLANB_BASE_MONOTONIC_TIME_H_
#define PLANB_BASE_MONOTONIC_TIME_H_

#include <grpc/support/time.h>

#include <chrono>

#include "absl/time/time.h"

namespace planb::client {

// That clock, as a time since an arbitrary point: not to be compared with
// absl::Now().
absl::Time MonotonicNow();

// What it will show when the wall clock shows `wall`, if nobody sets that.
// The infinite future stays what it is.
absl::Time ToMonotonic(absl::Time wall);

// A moment of it, for gRPC and for std::condition_variable. Infinities are cut
// to what these can hold.
gpr_timespec ToGrpc(absl::Time monotonic);
std::chrono::steady_clock::time_point ToSteady(absl::Time monotonic);

}  // namespace planb::client

#endif  // PLANB_BASE_MONOTONIC_TIME_H_
