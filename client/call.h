// SPDX-License-Identifier: Apache-2.0

// Calls by gRPC's synchronous interface, with errors as absl::Status: one
// answer, or a stream of them.

#ifndef PLANB_CLIENT_CALL_H_
#define PLANB_CLIENT_CALL_H_

#include <grpc/support/time.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/sync_stream.h>

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/monotonic_time.h"
#include "client/status.h"

namespace planb::client {

// A moment of MonotonicNow's clock, for gRPC. Infinities are cut to what gRPC
// can hold.
inline gpr_timespec ToGrpc(absl::Time monotonic) {
  const timespec time = absl::ToTimespec(
      absl::FromChrono(ToSteady(monotonic).time_since_epoch()));
  return {.tv_sec = time.tv_sec,
          .tv_nsec = static_cast<int32_t>(time.tv_nsec),
          .clock_type = GPR_CLOCK_MONOTONIC};
}

// Lets the call end with DEADLINE_EXCEEDED at `deadline`; never if that is
// InfiniteFuture, which gRPC's clock could not hold.
inline void SetDeadline(grpc::ClientContext& context, absl::Time deadline) {
  if (deadline != absl::InfiniteFuture()) {
    context.set_deadline(ToGrpc(ToMonotonic(deadline)));
  }
}

// Calls `method` of the stub.
// Errors: the server's, by FromGrpc; DEADLINE_EXCEEDED after `deadline`.
template <typename Stub, typename Request, typename Response>
absl::StatusOr<Response> CallUnary(
    Stub& stub,
    grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                 Response*),
    const Request& request, absl::Time deadline) {
  grpc::ClientContext context;
  SetDeadline(context, deadline);
  Response response;
  absl::Status status = FromGrpc((stub.*method)(&context, request, &response));
  if (!status.ok()) return status;
  return response;
}

// Hands every message of a server's stream to `on_message`, which returns an
// absl::Status.
// Errors: as CallUnary, and what `on_message` returns, which ends the call.
template <typename Stub, typename Request, typename Response, typename Handler>
absl::Status CallServerStream(Stub& stub,
                              std::unique_ptr<grpc::ClientReader<Response>> (
                                  Stub::*method)(grpc::ClientContext*,
                                                 const Request&),
                              const Request& request, absl::Time deadline,
                              Handler&& on_message) {
  grpc::ClientContext context;
  SetDeadline(context, deadline);
  const std::unique_ptr<grpc::ClientReader<Response>> reader =
      (stub.*method)(&context, request);
  Response message;
  absl::Status ours;
  while (ours.ok() && reader->Read(&message)) ours = on_message(message);
  if (!ours.ok()) context.TryCancel();
  absl::Status status = FromGrpc(reader->Finish());
  return ours.ok() ? status : ours;
}

}  // namespace planb::client

#endif  // PLANB_CLIENT_CALL_H_
