#include "server/log.h"

#include <gtest/gtest.h>

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

TEST(Log, LeavesOutWhatIsBelowItsLevel) {
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

}  // namespace
}  // namespace planb::server
