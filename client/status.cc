// SPDX-License-Identifier: Apache-2.0

// The whole google.rpc.Status travels on as a payload of the absl::Status, so
// that both kinds of error (a call's and a batch's) answer the same questions.

#include "client/status.h"

#include <vector>

#include "absl/strings/cord.h"
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

// The message, and in brackets what `rich` adds to it.
absl::Status Describe(absl::StatusCode code, absl::string_view message,
                      const google::rpc::Status& rich) {
  std::vector<std::string> extras;
  if (const auto info = FindDetail<google::rpc::ErrorInfo>(rich)) {
    extras.push_back(info->reason());
  }
  if (const auto bad = FindDetail<google::rpc::BadRequest>(rich)) {
    for (const auto& violation : bad->field_violations()) {
      extras.push_back(
          violation.description().empty()
              ? violation.field()
              : absl::StrCat(violation.field(), ": ", violation.description()));
    }
  }
  if (const auto quota = FindDetail<google::rpc::QuotaFailure>(rich)) {
    for (const auto& violation : quota->violations()) {
      extras.push_back(
          absl::StrCat(violation.subject(), ": ", violation.description()));
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

// Both sides number their codes alike, up to UNAUTHENTICATED (16).
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
  return Describe(ToCode(status.error_code()), status.error_message(), rich);
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

}  // namespace planb::client
