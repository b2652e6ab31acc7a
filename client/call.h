// SPDX-License-Identifier: Apache-2.0

// Errors of the server as absl::Status.
//
// A gRPC error carries its reason and the fields at fault in a binary trailer
// that people never see. Here they become part of the message,
//
//   2 fields are malformed [BAD_ROUTES; updates[17].prefix: host bits are set]
//
// and stay readable for programs through ErrorReason and RetryDelay.

#ifndef PLANB_CLIENT_CALL_H_
#define PLANB_CLIENT_CALL_H_

#include <grpc/support/time.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>
#include <grpcpp/support/sync_stream.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/random/random.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/monotonic_time.h"
#include "lpm/prefix.h"
#include "planb/v1/route_lookup.pb.h"
#include "planb/v1/route_table.pb.h"
#include "planb/v1/types.pb.h"

namespace planb::client {

// The same code; the message with reason and field violations appended as
// above. Details that do not parse are left out. OK becomes OK. A code that
// gRPC does not define becomes UNKNOWN.
absl::Status FromGrpc(const grpc::Status& status);

// The error of one batch of a stream, in the same form. A code that is no error
// (the server broke its contract) becomes INTERNAL.
absl::Status FromBatchError(const v1::BatchError& error);
absl::Status FromUpdateError(const v1::UpdateError& error);

// INTERNAL: the server did what the contract rules out; `how` says what.
absl::Status BrokenContract(absl::string_view how);

// google.rpc.ErrorInfo's reason, such as "TABLE_NOT_FOUND", of a status made
// by the functions above; empty if it has none: then no PlanB server spoke,
// but gRPC itself.
std::string ErrorReason(const absl::Status& status);

// How long the server asks to wait before trying again (google.rpc.RetryInfo);
// none if waiting does not help.
std::optional<absl::Duration> RetryDelay(const absl::Status& status);

// Between the engine's values and the contract's messages.

// In the packed form.
v1::Prefix ToProto(const Prefix& prefix);
v1::NextHop ToProto(const NextHop& next_hop);
v1::NextHopGroup ToProto(const NextHopGroup& group);
v1::Route ToProto(const Route& route);

// Errors: INVALID_ARGUMENT, saying what is wrong, for anything but the packed
// form of a well-formed prefix.
absl::StatusOr<Prefix> FromProto(const v1::Prefix& prefix);

// Errors: INVALID_ARGUMENT for a gateway of a wrong size.
absl::StatusOr<NextHop> FromProto(const v1::NextHop& next_hop);

// Any message is a group; weights of 0 become 1.
NextHopGroup FromProto(const v1::NextHopGroup& group);

// Errors: INVALID_ARGUMENT, as of its prefix, or for a next hop that is none.
absl::StatusOr<Route> FromProto(const v1::Route& route);

// When to try again to reach a server, and when to give up.

// How long to wait before the next attempt: twice as long each time, up to a
// bound, and never exactly, so that the clients of a server that restarts do
// not all come back at the same moment.
struct BackoffOptions {
  absl::Duration initial = absl::Milliseconds(10);
  absl::Duration max = absl::Seconds(2);
  // Each wait is drawn uniformly from [1 - jitter, 1] of what is due; 0 to 1.
  double jitter = 0.5;
};

// Thread-compatible.
class Backoff {
 public:
  explicit Backoff(const BackoffOptions& options);

  // The wait before the next attempt, after one that failed. At most
  // options.max.
  absl::Duration Next();

  // After a success: starts anew.
  void Reset() { due_ = options_.initial; }

 private:
  const BackoffOptions options_;
  absl::Duration due_;
  absl::BitGen random_;
};

// Whether another stream may do better than one that ended with `status`:
// UNAVAILABLE, CANCELLED (by the server), or the server asks to come again.
bool IsRetryable(const absl::Status& status);

// Thread-compatible.
class RetryPolicy {
 public:
  // Gives up when attempts have failed for `give_up_after`, with no success in
  // between.
  RetryPolicy(const BackoffOptions& backoff, absl::Duration give_up_after);

  // An attempt failed with `why` at `now`, by a clock that never jumps. True:
  // the next one is due at next_attempt(), no earlier than the server asked
  // for. False: give up.
  bool Failed(const absl::Status& why, absl::Time now);

  // All is well, or the server is not needed for now.
  void Succeeded();

  absl::Time next_attempt() const { return next_attempt_; }

 private:
  const absl::Duration give_up_after_;
  Backoff backoff_;
  absl::Time failing_since_ = absl::InfiniteFuture();
  absl::Time next_attempt_ = absl::InfinitePast();
};

// Calls by gRPC's synchronous interface, with errors as absl::Status: one
// answer, or a stream of them.

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
