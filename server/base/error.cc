// SPDX-License-Identifier: Apache-2.0

#include "server/base/error.h"

#include <grpcpp/support/status.h>

#include <algorithm>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

#ifdef __SANITIZE_THREAD__
// The packaged abseil is built without ThreadSanitizer, which therefore does
// not see the atomic count that owns the payloads of a Status. Without these
// lines the thread that frees the last copy races with the earlier readers.
extern "C" const char* __tsan_default_suppressions() {
  return "race:status_internal::Payload\n"
         "race:absl::*::Status::UnrefNonInlined\n";
}
#endif

namespace planb::server {
namespace {

using google::rpc::BadRequest;
using google::rpc::ErrorInfo;
using google::rpc::QuotaFailure;
using google::rpc::RetryInfo;

template <typename Message>
std::string TypeUrl() {
  return absl::StrCat("type.googleapis.com/",
                      Message::descriptor()->full_name());
}

template <typename Message>
void Attach(const Message& message, absl::Status& status) {
  status.SetPayload(TypeUrl<Message>(),
                    absl::Cord(message.SerializeAsString()));
}

void AttachRetry(absl::Duration after, absl::Status& status) {
  RetryInfo retry;
  const int64_t nanos = absl::ToInt64Nanoseconds(after);
  retry.mutable_retry_delay()->set_seconds(nanos / 1'000'000'000);
  retry.mutable_retry_delay()->set_nanos(
      static_cast<int32_t>(nanos % 1'000'000'000));
  Attach(retry, status);
}

template <typename Message>
Message Detail(const absl::Status& status) {
  Message message;
  const auto payload = status.GetPayload(TypeUrl<Message>());
  if (payload.has_value()) message.ParseFromString(std::string(*payload));
  return message;
}

}  // namespace

absl::Status Error(absl::StatusCode code, absl::string_view reason,
                   absl::string_view message) {
  absl::Status status(code, message);
  ErrorInfo info;
  info.set_reason(std::string(reason));
  info.set_domain("planb");
  Attach(info, status);
  return status;
}

absl::Status FieldError(absl::StatusCode code, absl::string_view reason,
                        absl::string_view field,
                        absl::string_view description) {
  Violations one;
  one.Add(code, reason, field, description);
  return one.ToStatus();
}

absl::Status QuotaError(absl::string_view reason, absl::string_view subject,
                        absl::string_view description,
                        absl::Duration retry_after) {
  absl::Status status = Error(absl::StatusCode::kResourceExhausted, reason,
                              absl::StrCat(subject, ": ", description));
  QuotaFailure quota;
  QuotaFailure::Violation& violation = *quota.add_violations();
  violation.set_subject(std::string(subject));
  violation.set_description(std::string(description));
  Attach(quota, status);
  if (retry_after > absl::ZeroDuration()) AttachRetry(retry_after, status);
  return status;
}

absl::Status UnavailableError(absl::string_view reason,
                              absl::string_view message,
                              absl::Duration retry_after) {
  absl::Status status = Error(absl::StatusCode::kUnavailable, reason, message);
  AttachRetry(retry_after, status);
  return status;
}

absl::Status DrainingError() {
  return Error(absl::StatusCode::kUnavailable, "DRAINING",
               "the server is going down");
}

void Violations::Add(absl::StatusCode code, absl::string_view reason,
                     absl::string_view field, absl::string_view description) {
  if (count_++ == 0) {
    first_ = Error(code, reason, absl::StrCat(field, ": ", description));
  }
  if (count_ > kMaxViolations) return;
  BadRequest one;
  BadRequest::FieldViolation& violation = *one.add_field_violations();
  violation.set_field(std::string(field));
  // A description may quote the request, which can exceed the trailers.
  violation.set_description(std::string(description.substr(0, 200)));
  // Concatenated messages parse as one message with all repeated fields.
  serialized_ += one.SerializeAsString();
}

absl::Status Violations::ToStatus() const {
  if (empty()) return absl::OkStatus();
  absl::Status status = first_;
  if (count_ > 1) {
    status = absl::Status(
        first_.code(),
        absl::StrCat(first_.message(), " (and ", count_ - 1, " more)"));
    Attach(Detail<ErrorInfo>(first_), status);
  }
  BadRequest all;
  all.ParseFromString(serialized_);
  Attach(all, status);
  return status;
}

std::string ErrorReason(const absl::Status& status) {
  return Detail<ErrorInfo>(status).reason();
}

std::string ErrorField(const absl::Status& status) {
  const BadRequest detail = Detail<BadRequest>(status);
  return detail.field_violations_size() == 0
             ? ""
             : detail.field_violations(0).field();
}

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  google::rpc::Status rich;
  rich.set_code(static_cast<int>(status.code()));
  rich.set_message(std::string(status.message()));
  status.ForEachPayload(
      [&rich](absl::string_view type_url, const absl::Cord& payload) {
        google::protobuf::Any& detail = *rich.add_details();
        detail.set_type_url(std::string(type_url));
        detail.set_value(std::string(payload));
      });
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                      rich.message(), rich.SerializeAsString());
}

}  // namespace planb::server
