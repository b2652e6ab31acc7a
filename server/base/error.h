// SPDX-License-Identifier: Apache-2.0

// Errors with their particulars: what google.rpc calls the rich error model,
// carried as payloads of an absl::Status until it leaves over gRPC.

#ifndef PLANB_SERVER_BASE_ERROR_H_
#define PLANB_SERVER_BASE_ERROR_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "grpcpp/support/status.h"

namespace planb::server {

// An error of `code` with google.rpc.ErrorInfo{reason, domain: "planb"}.
// `reason` is UPPER_SNAKE_CASE and part of the contract.
absl::Status Error(absl::StatusCode code, absl::string_view reason,
                   absl::string_view message);

// The same, blaming one field of the request, as google.rpc.BadRequest.
absl::Status FieldError(absl::StatusCode code, absl::string_view reason,
                        absl::string_view field, absl::string_view description);

// RESOURCE_EXHAUSTED with google.rpc.QuotaFailure; with RetryInfo if waiting
// `retry_after` > 0 can help.
absl::Status QuotaError(absl::string_view reason, absl::string_view subject,
                        absl::string_view description,
                        absl::Duration retry_after = absl::ZeroDuration());

// What everybody says while the server drains: UNAVAILABLE (DRAINING).
absl::Status DrainingError();

// Gathers what is wrong with a list, so that a caller learns of many mistakes
// at once: at most kMaxViolations are listed (status details travel in HTTP/2
// trailers, 8 KB), the message counts them all. Not thread-safe.
class Violations {
 public:
  static constexpr size_t kMaxViolations = 16;

  // `code` and `reason` of the first violation are those of the whole.
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

// The path of the first field blamed, or "".
std::string ErrorField(const absl::Status& status);

// For the wire: payloads become google.rpc.Status details.
grpc::Status ToGrpc(const absl::Status& status);

}  // namespace planb::server

#endif  // PLANB_SERVER_BASE_ERROR_H_
