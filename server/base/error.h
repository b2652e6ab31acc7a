// SPDX-License-Identifier: Apache-2.0

// Errors with details (google.rpc's rich error model). They are payloads of an
// absl::Status until the status is sent over gRPC.

#ifndef PLANB_SERVER_BASE_ERROR_H_
#define PLANB_SERVER_BASE_ERROR_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace grpc {
class Status;
}  // namespace grpc

namespace planb::server {

// An error of `code` with google.rpc.ErrorInfo{reason, domain: "planb"}.
// `reason` is UPPER_SNAKE_CASE and part of the contract.
absl::Status Error(absl::StatusCode code, absl::string_view reason,
                   absl::string_view message);

// The same, with the field at fault as google.rpc.BadRequest.
absl::Status FieldError(absl::StatusCode code, absl::string_view reason,
                        absl::string_view field, absl::string_view description);

// RESOURCE_EXHAUSTED with google.rpc.QuotaFailure. Has RetryInfo if
// `retry_after` is positive: a retry after that time may succeed.
absl::Status QuotaError(absl::string_view reason, absl::string_view subject,
                        absl::string_view description,
                        absl::Duration retry_after = absl::ZeroDuration());

// UNAVAILABLE with RetryInfo.
absl::Status UnavailableError(absl::string_view reason,
                              absl::string_view message,
                              absl::Duration retry_after);

// The error of calls that a draining server refuses: UNAVAILABLE (DRAINING).
absl::Status DrainingError();

// Collects the errors of a list, so that one response reports many of them. At
// most kMaxViolations are listed, because status details are sent in HTTP/2
// trailers, which hold 8 KB. The message has their total. Not thread-safe.
class Violations {
 public:
  static constexpr size_t kMaxViolations = 16;

  // The status has `code` and `reason` of the first violation.
  void Add(absl::StatusCode code, absl::string_view reason,
           absl::string_view field, absl::string_view description);

  bool empty() const { return count_ == 0; }

  // OK if empty.
  absl::Status ToStatus() const;

 private:
  size_t count_ = 0;
  absl::Status first_;
  std::string serialized_;  // google.rpc.BadRequest
};

// The reason of Error(), or "" if `status` has none.
std::string ErrorReason(const absl::Status& status);

// The path of the first field at fault, or "".
std::string ErrorField(const absl::Status& status);

// Converts payloads to details of a google.rpc.Status.
grpc::Status ToGrpc(const absl::Status& status);

}  // namespace planb::server

#endif  // PLANB_SERVER_BASE_ERROR_H_
