// Errors keep their code, their words, and what the details say.

#include "client/status.h"

#include <gtest/gtest.h>

#include <string>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace planb::client {
namespace {

TEST(FromGrpc, OkIsOk) { EXPECT_TRUE(FromGrpc(grpc::Status::OK).ok()); }

TEST(FromGrpc, PlainErrorKeepsCodeAndMessage) {
  const absl::Status status =
      FromGrpc(grpc::Status(grpc::StatusCode::UNAVAILABLE, "no route to host"));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "no route to host");
  EXPECT_EQ(ErrorReason(status), "");
  EXPECT_FALSE(RetryDelay(status).has_value());
}

TEST(FromGrpc, EveryCodeKeepsItsNumber) {
  for (int code = 1; code <= 16; ++code) {
    const grpc::Status status(static_cast<grpc::StatusCode>(code), "x");
    EXPECT_EQ(static_cast<int>(FromGrpc(status).code()), code);
  }
  const grpc::Status odd(static_cast<grpc::StatusCode>(17), "x");
  EXPECT_EQ(FromGrpc(odd).code(), absl::StatusCode::kUnknown);
}

TEST(FromGrpc, DetailsBecomeReadable) {
  google::rpc::Status rich;
  google::rpc::ErrorInfo info;
  info.set_reason("BAD_ROUTES");
  info.set_domain("planb");
  rich.add_details()->PackFrom(info);
  google::rpc::BadRequest bad;
  auto* violation = bad.add_field_violations();
  violation->set_field("updates[17].prefix");
  violation->set_description("host bits are set");
  bad.add_field_violations()->set_field("updates[18].op");
  rich.add_details()->PackFrom(bad);
  google::rpc::QuotaFailure quota;
  auto* limit = quota.add_violations();
  limit->set_subject("table:default");
  limit->set_description("too many waiters");
  rich.add_details()->PackFrom(quota);
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(2);
  retry.mutable_retry_delay()->set_nanos(500'000'000);
  rich.add_details()->PackFrom(retry);

  const absl::Status status =
      FromGrpc(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "2 bad fields",
                            rich.SerializeAsString()));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "2 bad fields [BAD_ROUTES; updates[17].prefix: host bits are set; "
            "updates[18].op; table:default: too many waiters]");
  EXPECT_EQ(ErrorReason(status), "BAD_ROUTES");
  EXPECT_EQ(RetryDelay(status), absl::Milliseconds(2500));
}

TEST(FromGrpc, GarbageDetailsAreLeftOut) {
  const absl::Status status = FromGrpc(
      grpc::Status(grpc::StatusCode::INTERNAL, "broken", "\xff\xff garbage"));
  EXPECT_EQ(status.message(), "broken");
  EXPECT_EQ(ErrorReason(status), "");
}

TEST(FromBatchError, SaysReasonAndField) {
  v1::BatchError error;
  error.set_code(3);
  error.set_reason("ADDRESSES_LENGTH");
  error.set_field("addresses_v6");
  error.set_message("17 octets are no multiple of 16");
  const absl::Status status = FromBatchError(error);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "17 octets are no multiple of 16 [ADDRESSES_LENGTH; addresses_v6]");
  EXPECT_EQ(ErrorReason(status), "ADDRESSES_LENGTH");
}

TEST(FromUpdateError, SaysReasonAndField) {
  v1::UpdateError error;
  error.set_code(5);
  error.set_reason("ROUTE_NOT_FOUND");
  error.set_field("updates[2].prefix");
  error.set_message("no route");
  const absl::Status status = FromUpdateError(error);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(), "no route [ROUTE_NOT_FOUND; updates[2].prefix]");
  EXPECT_EQ(ErrorReason(status), "ROUTE_NOT_FOUND");
}

TEST(FromBatchError, WithoutACodeIsTheServersFault) {
  v1::BatchError error;
  error.set_message("oops");
  EXPECT_EQ(FromBatchError(error).code(), absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace planb::client
