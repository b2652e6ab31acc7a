// SPDX-License-Identifier: Apache-2.0

// What every call needs: errors as absl::Status, conversions of messages
// (follow/convert.h), retries, and calls with a deadline.
//
// A gRPC error carries its reason and the wrong fields in a binary trailer. The
// status message contains them as text,
//
//   2 fields are malformed [BAD_ROUTES; updates[17].prefix: host bits are set]
//
// and ErrorReason and RetryDelay return them to programs.

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
#include "follow/convert.h"
#include "planb/v1/route_lookup.pb.h"
#include "planb/v1/route_table.pb.h"
#include "proto/wire/packed_changes.h"

namespace planb::client {

// The same code, and the message with reason and field violations appended as
// above. Omits details that do not parse. A code that gRPC does not define
// becomes UNKNOWN, and CANCELLED becomes UNAVAILABLE: a server that ends
// cancels the calls that still come. REQUIRES: the caller has not cancelled the
// call.
absl::Status FromGrpc(const grpc::Status& status);

// The error of one batch of a stream, in the same form. A code that is not an
// error breaks the contract and becomes INTERNAL.
absl::Status FromBatchError(const v1::BatchError& error);
absl::Status FromUpdateError(const v1::UpdateError& error);

// INTERNAL: the server broke the contract as `how` describes.
absl::Status BrokenContract(absl::string_view how);

// google.rpc.ErrorInfo's reason, such as "TABLE_NOT_FOUND", of a status made
// by the functions above. Empty: the error comes from gRPC, not the server.
std::string ErrorReason(const absl::Status& status);

// How long the server asks to wait before trying again (google.rpc.RetryInfo);
// none if waiting does not help.
std::optional<absl::Duration> RetryDelay(const absl::Status& status);

// The entries of all lists of a batch. A batch costs one credit more.
using wire::CountEntries;

using planb::AddPacked;
using planb::FromProto;
using planb::ToProto;
using planb::ToUpdate;

// The wait before the next attempt doubles each time, up to a bound. Jitter
// keeps the clients of a restarted server from returning all at once.
struct BackoffOptions {
  absl::Duration initial = absl::Milliseconds(10);
  absl::Duration max = absl::Seconds(2);
  // Each wait is drawn uniformly from [1 - jitter, 1] of its full length; 0
  // to 1.
  double jitter = 0.5;
};

// True if another stream may succeed after this error: UNAVAILABLE, or one with
// RetryInfo.
bool IsRetryable(const absl::Status& status);

// True if another watch may succeed after this error: it is retryable, or the
// server has no such history (OUT_OF_RANGE) or no room now.
bool MayWatchAgain(const absl::Status& status);

// Thread-compatible.
class RetryPolicy {
 public:
  // Gives up when attempts have failed for `give_up_after`, with no success in
  // between.
  RetryPolicy(const BackoffOptions& backoff, absl::Duration give_up_after);

  // An attempt failed with `why` at `now`, by MonotonicNow's clock. True: the
  // next one is due at next_attempt(), not before the delay that the server
  // asked for. False: give up.
  bool Failed(const absl::Status& why, absl::Time now);

  // An attempt succeeded, or the server is not needed for now.
  void Succeeded();

  absl::Time next_attempt() const { return next_attempt_; }

 private:
  const BackoffOptions backoff_;
  const absl::Duration give_up_after_;
  absl::BitGen random_;
  // The next wait, without jitter.
  absl::Duration wait_;
  absl::Time failing_since_ = absl::InfiniteFuture();
  absl::Time next_attempt_ = absl::InfinitePast();
};

// Calls by gRPC's synchronous interface.

// Converts a time of MonotonicNow's clock for gRPC. Clamps infinities to the
// range of gpr_timespec.
inline gpr_timespec ToGrpc(absl::Time monotonic) {
  const timespec time = absl::ToTimespec(
      absl::FromChrono(ToSteady(monotonic).time_since_epoch()));
  return {.tv_sec = time.tv_sec,
          .tv_nsec = static_cast<int32_t>(time.tv_nsec),
          .clock_type = GPR_CLOCK_MONOTONIC};
}

// The call ends with DEADLINE_EXCEEDED at `deadline`.
inline void SetDeadline(grpc::ClientContext& context, Deadline deadline) {
  if (deadline.time() != absl::InfiniteFuture()) {
    context.set_deadline(ToGrpc(deadline.time()));
  }
}

// Calls `method` of the stub.
// Errors: the server's, by FromGrpc; DEADLINE_EXCEEDED after `deadline`.
template <typename Stub, typename Request, typename Response>
absl::StatusOr<Response> CallUnary(
    Stub& stub,
    grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                 Response*),
    const Request& request, Deadline deadline) {
  grpc::ClientContext context;
  SetDeadline(context, deadline);
  Response response;
  absl::Status status = FromGrpc((stub.*method)(&context, request, &response));
  if (!status.ok()) return status;
  return response;
}

// Passes every message of a server's stream to `on_message`, which returns an
// absl::Status. An error of `on_message` ends the call.
// Errors: as CallUnary, and those of `on_message`.
template <typename Stub, typename Request, typename Response, typename Handler>
absl::Status CallServerStream(Stub& stub,
                              std::unique_ptr<grpc::ClientReader<Response>> (
                                  Stub::*method)(grpc::ClientContext*,
                                                 const Request&),
                              const Request& request, Deadline deadline,
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
