// SPDX-License-Identifier: Apache-2.0

#include "server/base/error.h"

#include <grpcpp/support/status.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace planb::server {
namespace {

google::rpc::Status Rich(const grpc::Status& status) {
  google::rpc::Status rich;
  EXPECT_TRUE(rich.ParseFromString(status.error_details()));
  return rich;
}

template <typename Message>
Message Detail(const grpc::Status& status) {
  Message message;
  const google::rpc::Status rich = Rich(status);
  for (const auto& detail : rich.details()) {
    if (detail.UnpackTo(&message)) return message;
  }
  ADD_FAILURE() << "no " << Message::descriptor()->full_name();
  return message;
}

TEST(Error, CarriesReasonAndDomain) {
  const grpc::Status status =
      ToGrpc(Error(absl::StatusCode::kAborted, "LATE", "too late"));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(status.error_message(), "too late");
  EXPECT_EQ(Rich(status).code(), 10);
  const auto info = Detail<google::rpc::ErrorInfo>(status);
  EXPECT_EQ(info.reason(), "LATE");
  EXPECT_EQ(info.domain(), "planb");
}

TEST(Error, OkBecomesOk) { EXPECT_TRUE(ToGrpc(absl::OkStatus()).ok()); }

TEST(QuotaError, NamesLimitAndRetryDelay) {
  const grpc::Status status = ToGrpc(
      QuotaError("FULL", "routes", "the limit is 3", absl::Milliseconds(1500)));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  const auto quota = Detail<google::rpc::QuotaFailure>(status);
  ASSERT_EQ(quota.violations_size(), 1);
  EXPECT_EQ(quota.violations(0).subject(), "routes");
  const auto retry = Detail<google::rpc::RetryInfo>(status);
  EXPECT_EQ(retry.retry_delay().seconds(), 1);
  EXPECT_EQ(retry.retry_delay().nanos(), 500'000'000);
}

TEST(Violations, ListsAtMostSixteenAndCountsAll) {
  Violations violations;
  EXPECT_TRUE(violations.ToStatus().ok());
  for (int i = 0; i < 1000; ++i) {
    violations.Add(absl::StatusCode::kInvalidArgument, "BAD",
                   absl::StrCat("updates[", i, "].prefix"),
                   std::string(5000, 'x'));
  }
  const absl::Status all = violations.ToStatus();
  EXPECT_EQ(ErrorReason(all), "BAD");
  EXPECT_EQ(ErrorField(all), "updates[0].prefix");
  const grpc::Status status = ToGrpc(all);
  const auto bad = Detail<google::rpc::BadRequest>(status);
  ASSERT_EQ(bad.field_violations_size(), 16);
  EXPECT_EQ(bad.field_violations(15).field(), "updates[15].prefix");
  EXPECT_NE(status.error_message().find("(and 999 more)"), std::string::npos);
}

// HTTP/2 trailers hold 8 KB; base64 makes 4 bytes of 3.
TEST(Violations, FitsIntoTrailers) {
  Violations violations;
  for (int i = 0; i < 1000; ++i) {
    violations.Add(absl::StatusCode::kInvalidArgument, "BAD",
                   absl::StrCat("updates[", i, "].prefix"),
                   std::string(500, 'x'));
  }
  EXPECT_LT(ToGrpc(violations.ToStatus()).error_details().size(), 5500U);
}

}  // namespace
}  // namespace planb::server
