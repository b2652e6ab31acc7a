// SPDX-License-Identifier: Apache-2.0

// The google.rpc.Status is kept as a payload of the absl::Status, so that
// ErrorReason and RetryDelay work for errors of calls and of batches.

#include "client/call.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace planb::client {

namespace {

constexpr absl::string_view kPayloadUrl =
    "type.googleapis.com/google.rpc.Status";

// The first detail of type `Detail`, if there is one.
template <typename Detail>
std::optional<Detail> FindDetail(const google::rpc::Status& rich) {
  for (const auto& any : rich.details()) {
    Detail detail;
    if (any.Is<Detail>() && any.UnpackTo(&detail)) return detail;
  }
  return std::nullopt;
}

std::optional<google::rpc::Status> Payload(const absl::Status& status) {
  const absl::optional<absl::Cord> cord = status.GetPayload(kPayloadUrl);
  google::rpc::Status rich;
  if (!cord.has_value() || !rich.ParseFromString(std::string(*cord))) {
    return std::nullopt;
  }
  return rich;
}

// The message, with the details of `rich` in brackets.
absl::Status Describe(absl::StatusCode code, absl::string_view message,
                      const google::rpc::Status& rich) {
  std::vector<std::string> extras;
  const auto add = [&](absl::string_view field, absl::string_view why) {
    // The message may be the first violation already.
    if (absl::StartsWith(message, absl::StrCat(field, ": ", why))) return;
    extras.push_back(why.empty() ? std::string(field)
                                 : absl::StrCat(field, ": ", why));
  };
  if (const auto info = FindDetail<google::rpc::ErrorInfo>(rich)) {
    extras.push_back(info->reason());
  }
  if (const auto bad = FindDetail<google::rpc::BadRequest>(rich)) {
    for (const auto& violation : bad->field_violations()) {
      add(violation.field(), violation.description());
    }
  }
  if (const auto quota = FindDetail<google::rpc::QuotaFailure>(rich)) {
    for (const auto& violation : quota->violations()) {
      add(violation.subject(), violation.description());
    }
  }
  absl::Status status(
      code, extras.empty() ? std::string(message)
                           : absl::StrCat(message, " [",
                                          absl::StrJoin(extras, "; "), "]"));
  if (rich.details_size() > 0) {
    status.SetPayload(kPayloadUrl, absl::Cord(rich.SerializeAsString()));
  }
  return status;
}

// gRPC and absl use the same numbers, up to UNAUTHENTICATED (16).
absl::StatusCode ToCode(int code) {
  return code >= 1 && code <= 16 ? static_cast<absl::StatusCode>(code)
                                 : absl::StatusCode::kUnknown;
}

// An error in band; both streams have the same fields.
template <typename Error>
absl::Status FromInBand(const Error& error) {
  google::rpc::Status rich;
  if (!error.reason().empty()) {
    google::rpc::ErrorInfo info;
    info.set_reason(error.reason());
    info.set_domain("planb");
    rich.add_details()->PackFrom(info);
  }
  if (!error.field().empty()) {
    google::rpc::BadRequest bad;
    bad.add_field_violations()->set_field(error.field());
    rich.add_details()->PackFrom(bad);
  }
  const absl::StatusCode code = ToCode(error.code());
  return Describe(
      code == absl::StatusCode::kUnknown ? absl::StatusCode::kInternal : code,
      error.message(), rich);
}

}  // namespace

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  google::rpc::Status rich;
  if (!rich.ParseFromString(status.error_details())) rich.Clear();
  const absl::StatusCode code = ToCode(status.error_code());
  return Describe(code == absl::StatusCode::kCancelled
                      ? absl::StatusCode::kUnavailable
                      : code,
                  status.error_message(), rich);
}

absl::Status FromBatchError(const v1::BatchError& error) {
  return FromInBand(error);
}

absl::Status FromUpdateError(const v1::UpdateError& error) {
  return FromInBand(error);
}

absl::Status BrokenContract(absl::string_view how) {
  return absl::InternalError(
      absl::StrCat("the server broke its contract: ", how));
}

std::string ErrorReason(const absl::Status& status) {
  const auto rich = Payload(status);
  if (!rich.has_value()) return "";
  const auto info = FindDetail<google::rpc::ErrorInfo>(*rich);
  return info.has_value() ? info->reason() : "";
}

std::optional<absl::Duration> RetryDelay(const absl::Status& status) {
  const auto rich = Payload(status);
  if (!rich.has_value()) return std::nullopt;
  const auto retry = FindDetail<google::rpc::RetryInfo>(*rich);
  if (!retry.has_value()) return std::nullopt;
  return absl::Seconds(retry->retry_delay().seconds()) +
         absl::Nanoseconds(retry->retry_delay().nanos());
}

namespace {

BackoffOptions Normalized(BackoffOptions options) {
  // Zero never grows by doubling: attempts would follow without a pause.
  options.initial = std::max(options.initial, absl::Microseconds(100));
  options.max = std::max(options.max, options.initial);
  options.jitter = std::clamp(options.jitter, 0.0, 1.0);
  return options;
}

}  // namespace

bool IsRetryable(const absl::Status& status) {
  return absl::IsUnavailable(status) || RetryDelay(status).has_value();
}

bool MayWatchAgain(const absl::Status& status) {
  return IsRetryable(status) || absl::IsOutOfRange(status) ||
         absl::IsResourceExhausted(status);
}

RetryPolicy::RetryPolicy(const BackoffOptions& backoff,
                         absl::Duration give_up_after)
    : backoff_(Normalized(backoff)),
      give_up_after_(give_up_after),
      wait_(backoff_.initial) {}

bool RetryPolicy::Failed(const absl::Status& why, absl::Time now) {
  failing_since_ = std::min(failing_since_, now);
  const absl::Time give_up = failing_since_ + give_up_after_;
  if (now >= give_up) return false;
  const absl::Duration full =
      std::exchange(wait_, std::min(wait_ * 2, backoff_.max));
  const absl::Duration wait =
      full * (1 - backoff_.jitter * absl::Uniform(random_, 0.0, 1.0));
  const absl::Duration asked = RetryDelay(why).value_or(absl::ZeroDuration());
  // The last attempt is made at the time to give up.
  next_attempt_ = std::min(now + std::max(wait, asked), give_up);
  return true;
}

void RetryPolicy::Succeeded() {
  wait_ = backoff_.initial;
  failing_since_ = absl::InfiniteFuture();
}

}  // namespace planb::client
