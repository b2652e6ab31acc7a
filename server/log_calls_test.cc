// SPDX-License-Identifier: Apache-2.0

// What the logs say about calls: slow batches and updates, with the
// request id.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/base/log.h"
#include "server/testing/http_get.h"
#include "server/testing/running_server.h"

namespace planb::server {
namespace {

using absl::StrContains;
using testing::internal::CaptureStderr;
using testing::internal::GetCapturedStderr;

ServerOptions WithSlowBatch(absl::Duration threshold) {
  ServerOptions options;
  options.metrics_address = "127.0.0.1:0";
  options.slow_batch = threshold;
  return options;
}

// Sends one batch of two addresses, which is request 77.
void LookUp(RunningServer& running) {
  grpc::ClientContext context;
  const auto stream = running.lookup().BatchLookup(&context);
  v1::BatchLookupRequest request;
  request.set_request_id(77);
  request.set_addresses_v4("abcdefgh");
  v1::BatchLookupResponse response;
  ASSERT_TRUE(stream->Write(request));
  ASSERT_TRUE(stream->Read(&response));
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

std::string Metrics(RunningServer& running) {
  return HttpGet(running.server().metrics_port(), "/metrics");
}

TEST(LogCalls, TellsOfSlowBatches) {
  // Every batch takes longer.
  RunningServer running(WithSlowBatch(absl::Nanoseconds(1)));
  CaptureStderr();
  LookUp(running);
  const std::string log = GetCapturedStderr();
  EXPECT_TRUE(StrContains(log, "slow batch table=default addresses=2 ")) << log;
  EXPECT_TRUE(StrContains(log, " request_id=77 ")) << log;
  EXPECT_TRUE(StrContains(Metrics(running), "\nplanb_slow_batches_total 1\n"));

  CaptureStderr();
  grpc::ClientContext context;
  v1::LookupRequest request;
  request.add_addresses()->set_text("192.0.2.1");
  v1::LookupResponse response;
  EXPECT_TRUE(running.lookup().Lookup(&context, request, &response).ok());
  const std::string unary = GetCapturedStderr();
  EXPECT_TRUE(StrContains(unary, "slow batch table=default addresses=1"))
      << unary;
  EXPECT_TRUE(StrContains(Metrics(running), "\nplanb_slow_batches_total 2\n"));
}

TEST(LogCalls, SaysNothingUnlessToldTo) {
  for (const absl::Duration threshold :
       {absl::ZeroDuration(), absl::Hours(1)}) {
    RunningServer running(WithSlowBatch(threshold));
    CaptureStderr();
    LookUp(running);
    EXPECT_FALSE(StrContains(GetCapturedStderr(), "slow batch"));
    EXPECT_TRUE(
        StrContains(Metrics(running), "\nplanb_slow_batches_total 0\n"));
  }
}

TEST(LogCalls, DoesNotFloodTheLog) {
  RunningServer running(WithSlowBatch(absl::Nanoseconds(1)));
  constexpr int kBatches = 2000;
  CaptureStderr();
  const absl::Time start = absl::Now();
  grpc::ClientContext context;
  const auto stream = running.lookup().BatchLookup(&context);
  v1::BatchLookupRequest request;
  v1::BatchLookupResponse response;
  for (int i = 0; i < kBatches; ++i) {
    ASSERT_TRUE(stream->Write(request));
    ASSERT_TRUE(stream->Read(&response));
  }
  const auto seconds =
      static_cast<size_t>(absl::ToInt64Seconds(absl::Now() - start)) + 2;
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
  const std::string log = GetCapturedStderr();
  size_t lines = 0;
  for (size_t at = 0; (at = log.find("slow batch", at)) != std::string::npos;
       ++at) {
    ++lines;
  }
  EXPECT_GE(lines, 1u);
  EXPECT_LE(lines, 5 * seconds);
  EXPECT_TRUE(
      StrContains(Metrics(running),
                  absl::StrCat("\nplanb_slow_batches_total ", kBatches, "\n")));
}

// gRPC logs each refused call.
TEST(LogCalls, CompressedCallsDoNotFloodTheLog) {
  ASSERT_TRUE(SetLogFormat("text").ok());
  RunningServer running;
  constexpr int kCalls = 1000;
  CaptureStderr();
  const absl::Time start = absl::Now();
  for (int i = 0; i < kCalls; ++i) {
    grpc::ClientContext context;
    context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
    v1::LookupResponse response;
    const grpc::Status status =
        running.lookup().Lookup(&context, {}, &response);
    ASSERT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED)
        << status.error_message();
  }
  const auto seconds =
      static_cast<size_t>(absl::ToInt64Seconds(absl::Now() - start)) + 2;
  const std::string log = GetCapturedStderr();
  const auto lines = std::count(log.begin(), log.end(), '\n');
  EXPECT_TRUE(StrContains(log,
                          R"( grpc message="Compression algorithm \'gzip\' )"
                          R"(is disabled." file=)"))
      << log;
  EXPECT_LE(static_cast<size_t>(lines), 10 * seconds + 10) << log;
}

// Announces a prefix in a table; returns what is logged about it.
std::string Update(RunningServer& running, const std::string& table,
                   const std::string& prefix,
                   const std::string& request_id = "r-1") {
  v1::UpdateRoutesRequest request;
  request.set_table(table);
  request.set_request_id(request_id);
  v1::RouteUpdate& update = *request.add_updates();
  update.set_op(v1::RouteUpdate::OP_UPSERT);
  update.mutable_prefix()->set_text(prefix);
  update.set_next_hop_id(1);
  grpc::ClientContext context;
  v1::UpdateRoutesResponse response;
  CaptureStderr();
  running.table().UpdateRoutes(&context, request, &response);
  return GetCapturedStderr();
}

TEST(LogCalls, TellsOfRefusedUpdates) {
  RunningServer running(WithSlowBatch(absl::ZeroDuration()));
  const std::string missing = Update(running, "no\"ne", "10.0.0.0/8");
  EXPECT_TRUE(StrContains(missing,
                          "update refused method=UpdateRoutes "
                          "table=\"no\\\"ne\" request_id=r-1 "))
      << missing;
  EXPECT_TRUE(StrContains(missing, "reason=TABLE_NOT_FOUND")) << missing;
  const std::string invalid = Update(running, "", "10.0.0.1/8");
  EXPECT_TRUE(StrContains(invalid, "table=default")) << invalid;
  EXPECT_TRUE(StrContains(invalid, "host bits")) << invalid;
  const std::string status =
      HttpGet(running.server().metrics_port(), "/statusz.json");
  EXPECT_TRUE(StrContains(status, "\"reason\":\"TABLE_NOT_FOUND\"")) << status;
  // Accepted updates are logged at level debug only.
  EXPECT_EQ(Update(running, "", "10.0.0.0/8"), "");
  ASSERT_TRUE(SetLogLevel("debug").ok());
  const std::string accepted = Update(running, "", "11.0.0.0/8", "r-2");
  ASSERT_TRUE(SetLogLevel("info").ok());
  EXPECT_TRUE(StrContains(accepted,
                          "update accepted method=UpdateRoutes "
                          "table=default generation="))
      << accepted;
  EXPECT_TRUE(StrContains(accepted, " request_id=r-2\n")) << accepted;
}

}  // namespace
}  // namespace planb::server
