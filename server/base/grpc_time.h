// SPDX-License-Identifier: Apache-2.0

// Deadlines for gRPC by the monotonic clock. gRPC's interfaces that take or
// return std::chrono::system_clock use the wall clock, which may jump.

#ifndef PLANB_SERVER_BASE_GRPC_TIME_H_
#define PLANB_SERVER_BASE_GRPC_TIME_H_

#include <grpc/support/time.h>

#include "absl/time/time.h"

namespace planb::server {

// A deadline for gRPC, `wait` from now.
inline gpr_timespec GrpcAfter(absl::Duration wait) {
  return gpr_time_add(
      gpr_now(GPR_CLOCK_MONOTONIC),
      gpr_time_from_nanos(absl::ToInt64Nanoseconds(wait), GPR_TIMESPAN));
}

// The time left until `deadline`, by its own clock; negative if it has passed.
inline absl::Duration TimeUntil(gpr_timespec deadline) {
  const gpr_timespec left =
      gpr_time_sub(deadline, gpr_now(deadline.clock_type));
  return absl::Seconds(left.tv_sec) + absl::Nanoseconds(left.tv_nsec);
}

}  // namespace planb::server

#endif  // PLANB_SERVER_BASE_GRPC_TIME_H_
