// SPDX-License-Identifier: Apache-2.0

#include "server/base/log.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/time/clock.h"

namespace planb::server {
namespace {

using testing::internal::CaptureStderr;
using testing::internal::GetCapturedStderr;

TEST(Log, WritesEventAndFields) {
  CaptureStderr();
  Log(LogLevel::kInfo, "table published",
      {{"generation", 7}, {"table", "default"}, {"note", "a \"b\"\n"}});
  const std::string line = GetCapturedStderr();
  EXPECT_NE(line.find("Z info    table published generation=7 table=default "
                      "note=\"a \\\"b\\\"\\n\"\n"),
            std::string::npos)
      << line;
}

TEST(Log, DropsLinesBelowItsLevel) {
  ASSERT_TRUE(SetLogLevel("warning").ok());
  CaptureStderr();
  Log(LogLevel::kInfo, "quiet");
  Log(LogLevel::kError, "loud");
  const std::string lines = GetCapturedStderr();
  EXPECT_EQ(lines.find("quiet"), std::string::npos);
  EXPECT_NE(lines.find("loud"), std::string::npos);
  ASSERT_TRUE(SetLogLevel("info").ok());
  EXPECT_FALSE(SetLogLevel("verbose").ok());
}

// Logs as JSON while a test runs.
class JsonLog : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(SetLogFormat("json").ok()); }
  void TearDown() override { ASSERT_TRUE(SetLogFormat("text").ok()); }
};

// From the event to the end of the line.
std::string EventOf(const std::string& line) {
  const size_t at = line.find(R"("event":)");
  return at == std::string::npos ? line : line.substr(at);
}

TEST_F(JsonLog, WritesOneObjectPerLine) {
  CaptureStderr();
  Log(LogLevel::kWarning, "table published",
      {{"generation", uint64_t{7}}, {"delta", -1}, {"table", "default"}});
  const std::string line = GetCapturedStderr();
  EXPECT_EQ(line.rfind(R"({"time":"20)", 0), 0u) << line;
  EXPECT_NE(line.find(R"(Z","level":"warning","event":)"), std::string::npos)
      << line;
  EXPECT_EQ(EventOf(line), R"("event":"table published","generation":7,)"
                           R"("delta":-1,"table":"default"})"
                           "\n");
}

TEST_F(JsonLog, EscapesAnyBytes) {
  CaptureStderr();
  const std::string hostile("a\"b\\c\n\r\t\0\x1b\x7f", 11);
  Log(LogLevel::kError, "x", {{"value", hostile}});
  Log(LogLevel::kError, "x",
      {{"value", "\xff\xc3\xa4\xc3 \xed\xa0\x80 \xf0\x9f\x98\x80"}});
  Log(LogLevel::kError, "%v {} %Y", {{"{}", "7"}});
  const std::string lines = GetCapturedStderr();
  EXPECT_NE(lines.find(R"({"time":)"), std::string::npos);
  EXPECT_NE(lines.find(R"("value":"a\"b\\c\n\r\t\u0000\u001b\u007f"})"),
            std::string::npos)
      << lines;
  EXPECT_NE(lines.find("\"value\":\"\ufffd\u00e4\ufffd \ufffd\ufffd\ufffd "
                       "\xf0\x9f\x98\x80\"}"),
            std::string::npos)
      << lines;
  EXPECT_NE(lines.find(R"("event":"%v {} %Y","{}":"7"})"), std::string::npos)
      << lines;
}

// A line of gRPC, logged as soon as the limit admits one again.
std::string NextGrpcLine() {
  std::string line;
  while (line.empty()) {
    absl::SleepFor(absl::Milliseconds(5));
    CaptureStderr();
    gpr_log(GPR_ERROR, "it said \"%s\"", "no");
    line = GetCapturedStderr();
  }
  return line;
}

TEST_F(JsonLog, IncludesLinesOfGrpc) {
  gpr_log_verbosity_init();  // the first channel calls it otherwise
  const std::string line = NextGrpcLine();
  EXPECT_NE(line.find(R"("event":"grpc","message":"it said \"no\"")"),
            std::string::npos)
      << line;
}

// Clients can make gRPC log.
TEST(Log, BoundsLinesOfGrpc) {
  for (const char* format : {"text", "json"}) {
    ASSERT_TRUE(SetLogFormat(format).ok());
    CaptureStderr();
    gpr_log_verbosity_init();
    for (int i = 0; i < 5000; ++i) gpr_log(GPR_ERROR, "Alas, %s", "again");
    const std::string lines = GetCapturedStderr();
    ASSERT_TRUE(SetLogFormat("text").ok());
    EXPECT_LT(std::count(lines.begin(), lines.end(), '\n'), 2500) << format;
  }
}

TEST(Log, FormatsLinesOfGrpc) {
  ASSERT_TRUE(SetLogFormat("text").ok());
  gpr_log_verbosity_init();
  const std::string line = NextGrpcLine();
  EXPECT_NE(line.find("Z error   grpc message=\"it said \\\"no\\\"\" file="),
            std::string::npos)
      << line;
  EXPECT_NE(line.find(" not_logged="), std::string::npos) << line;
}

TEST_F(JsonLog, BoundsLinesOfProtobuf) {
  CaptureStderr();
  for (int i = 0; i < 1000; ++i) GOOGLE_LOG(ERROR) << "bad \xff";
  const std::string lines = GetCapturedStderr();
  EXPECT_EQ(lines.find("{\"time\""), 0u) << lines;
  EXPECT_NE(lines.find("\"event\":\"protobuf\",\"message\":\"bad \ufffd\""),
            std::string::npos)
      << lines;
  EXPECT_LT(std::count(lines.begin(), lines.end(), '\n'), 500);
}

TEST(Log, RefusesUnknownFormats) {
  EXPECT_FALSE(LogsJson());
  EXPECT_FALSE(SetLogFormat("xml").ok());
  EXPECT_FALSE(LogsJson());
}

const absl::Time kStart = absl::UnixEpoch() + absl::Hours(1);

TEST(LogLimit, AdmitsItsNumberPerSecond) {
  LogLimit limit(2);
  EXPECT_EQ(limit.Admit(kStart), 0u);
  EXPECT_EQ(limit.Admit(kStart), 0u);
  EXPECT_EQ(limit.Admit(kStart + absl::Milliseconds(999)), std::nullopt);
}

TEST(LogLimit, ReportsLeftOutLinesOnce) {
  LogLimit limit(1);
  EXPECT_EQ(limit.Admit(kStart), 0u);
  for (int i = 0; i < 7; ++i) EXPECT_EQ(limit.Admit(kStart), std::nullopt);
  EXPECT_EQ(limit.Admit(kStart + absl::Seconds(1)), 7u);
  EXPECT_EQ(limit.Admit(kStart + absl::Seconds(2)), 0u);
}

TEST(LogLimit, AdmitsAfterClockIsSetBack) {
  LogLimit limit(1);
  EXPECT_EQ(limit.Admit(kStart), 0u);
  EXPECT_EQ(limit.Admit(kStart - absl::Minutes(30)), 0u);
}

}  // namespace
}  // namespace planb::server
