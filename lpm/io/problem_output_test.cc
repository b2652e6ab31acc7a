#include "lpm/io/problem_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace planb {
namespace {

using ::testing::HasSubstr;

TEST(ProblemOutput, CountsAllAndDescribesTheFirst) {
  ProblemOutput out("F", /*strict=*/false);
  for (uint64_t i = 0; i < 100; ++i) {
    EXPECT_TRUE(out.OnMalformed({i, 0}, "bad").ok());
  }
  out.OnIgnored();
  EXPECT_EQ(out.records().malformed, 100u);
  EXPECT_EQ(out.records().ignored, 1u);
  ASSERT_EQ(out.records().problems.size(), kMaxRouteFileProblems);
  EXPECT_EQ(out.records().problems[15].offset, 15u);
  EXPECT_FALSE(out.records().truncated);
  EXPECT_TRUE(out.OnTruncated({7, 0}, "cut").ok());
  EXPECT_TRUE(out.records().truncated);
}

TEST(ProblemOutput, StrictMakesAProblemAnError) {
  ProblemOutput out("F", /*strict=*/true);
  const absl::Status status = out.OnMalformed({12, 0}, "bad");
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("F: at octet 12: bad"));
  EXPECT_THAT(out.OnTruncated({0, 3}, "cut").message(), HasSubstr("F:3: cut"));
}

TEST(ProblemOutput, TellsAnEndFromACut) {
  ProblemOutput out("F", /*strict=*/false);
  EXPECT_TRUE(out.OnEnd({}, absl::OkStatus(), "").ok());
  EXPECT_FALSE(out.records().truncated);
  EXPECT_TRUE(
      absl::IsUnavailable(out.OnEnd({}, absl::UnavailableError(""), "c")));
  EXPECT_FALSE(out.records().truncated);
  EXPECT_TRUE(out.OnEnd({}, absl::DataLossError("gzip"), "").ok());
  EXPECT_TRUE(out.records().truncated);
}

}  // namespace
}  // namespace planb
