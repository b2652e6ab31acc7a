// Attempts go on until the time is up, and the clock starts at a failure.

#include "client/retry_policy.h"

#include <gtest/gtest.h>

#include "client/status.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace planb::client {
namespace {

constexpr BackoffOptions kExact = {
    .initial = absl::Seconds(1), .max = absl::Seconds(4), .jitter = 0};
const absl::Status kGone = absl::UnavailableError("gone");

absl::Time At(int64_t seconds) { return absl::FromUnixSeconds(seconds); }

TEST(RetryPolicy, WaitsLongerAndGivesUpInTime) {
  RetryPolicy retry(kExact, absl::Seconds(10));
  EXPECT_EQ(retry.next_attempt(), absl::InfinitePast());
  int64_t now = 100;
  for (const int next : {101, 103, 107, 110}) {  // the last is cut short
    ASSERT_TRUE(retry.Failed(kGone, At(now)));
    ASSERT_EQ(retry.next_attempt(), At(next));
    now = next;
  }
  EXPECT_FALSE(retry.Failed(kGone, At(110)));
}

TEST(RetryPolicy, ASuccessStartsItAnew) {
  RetryPolicy retry(kExact, absl::Seconds(10));
  EXPECT_TRUE(retry.Failed(kGone, At(0)));
  EXPECT_TRUE(retry.Failed(kGone, At(9)));
  retry.Succeeded();
  EXPECT_TRUE(retry.Failed(kGone, At(1000)));
  EXPECT_EQ(retry.next_attempt(), At(1001));
}

TEST(RetryPolicy, OnceOrForEver) {
  RetryPolicy once(kExact, absl::ZeroDuration());
  EXPECT_FALSE(once.Failed(kGone, At(0)));
  RetryPolicy ever(kExact, absl::InfiniteDuration());
  for (int64_t now = 0; now < 1000; ++now) {
    EXPECT_TRUE(ever.Failed(kGone, At(now * 3600)));
  }
}

grpc::Status ComeAgain(int seconds) {
  google::rpc::RetryInfo info;
  info.mutable_retry_delay()->set_seconds(seconds);
  google::rpc::Status rich;
  rich.add_details()->PackFrom(info);
  return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "full",
                      rich.SerializeAsString());
}

TEST(RetryPolicy, TheServerMayAskForMoreTime) {
  RetryPolicy retry(kExact, absl::Minutes(1));
  const absl::Status busy = FromGrpc(ComeAgain(30));
  EXPECT_TRUE(IsRetryable(busy));
  EXPECT_TRUE(retry.Failed(busy, At(0)));
  EXPECT_EQ(retry.next_attempt(), At(30));
}

TEST(IsRetryable, WhatAnotherStreamMayMend) {
  EXPECT_TRUE(IsRetryable(kGone));
  EXPECT_TRUE(IsRetryable(absl::CancelledError("")));
  EXPECT_FALSE(IsRetryable(absl::ResourceExhaustedError("")));
  EXPECT_FALSE(IsRetryable(absl::InternalError("")));
  EXPECT_FALSE(IsRetryable(absl::UnimplementedError("")));
}

}  // namespace
}  // namespace planb::client
