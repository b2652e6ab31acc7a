// What every call needs.

#ifndef PLANB_CLIENT_CALL_H_
#define PLANB_CLIENT_CALL_H_

#include <grpcpp/client_context.h>

#include "absl/time/time.h"
#include "base/monotonic_time.h"

namespace planb::client {

// Lets the call end with DEADLINE_EXCEEDED at `deadline`; never if that is
// InfiniteFuture, which gRPC's clock could not hold.
inline void SetDeadline(grpc::ClientContext& context, absl::Time deadline) {
  if (deadline != absl::InfiniteFuture()) {
    context.set_deadline(ToGrpc(ToMonotonic(deadline)));
  }
}

}  // namespace planb::client

#endif  // PLANB_CLIENT_CALL_H_
