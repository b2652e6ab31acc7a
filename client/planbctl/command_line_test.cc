// Flags are found wherever they stand, and mistakes are named.

#include "client/planbctl/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/flags/flag.h"
#include "absl/flags/reflection.h"

ABSL_FLAG(bool, test_bool, false, "");
ABSL_FLAG(int, test_number, 5, "");
ABSL_FLAG(std::string, test_text, "", "");
ABSL_FLAG(int, node, 0, "");  // begins with "no"

namespace planb::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CommandLineTest : public ::testing::Test {
 private:
  absl::FlagSaver saver_;
};

TEST_F(CommandLineTest, FlagsAndWordsInAnyOrder) {
  const auto line =
      ParseCommandLine({"--test_number=7", "lookup", "--test_bool", "::1",
                        "--test_text", "--odd", "-", "--node=3"});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_THAT(line->words, ElementsAre("lookup", "::1", "-"));
  EXPECT_THAT(line->flags,
              ElementsAre("test_number", "test_bool", "test_text", "node"));
  EXPECT_FALSE(line->help);
  EXPECT_EQ(absl::GetFlag(FLAGS_test_number), 7);
  EXPECT_TRUE(absl::GetFlag(FLAGS_test_bool));
  EXPECT_EQ(absl::GetFlag(FLAGS_test_text), "--odd");
  EXPECT_EQ(absl::GetFlag(FLAGS_node), 3);
}

TEST_F(CommandLineTest, BooleansHaveANegativeForm) {
  ASSERT_TRUE(ParseCommandLine({"--test_bool=true"}).ok());
  EXPECT_TRUE(absl::GetFlag(FLAGS_test_bool));
  ASSERT_TRUE(ParseCommandLine({"--notest_bool"}).ok());
  EXPECT_FALSE(absl::GetFlag(FLAGS_test_bool));
}

TEST_F(CommandLineTest, TwoDashesEndFlags) {
  const auto line = ParseCommandLine({"a", "--", "--test_bool", "--", "-h"});
  ASSERT_TRUE(line.ok());
  EXPECT_THAT(line->words, ElementsAre("a", "--test_bool", "--", "-h"));
  EXPECT_THAT(line->flags, IsEmpty());
  EXPECT_FALSE(line->help);
}

TEST_F(CommandLineTest, Help) {
  EXPECT_TRUE(ParseCommandLine({"--help"})->help);
  EXPECT_TRUE(ParseCommandLine({"status", "-h"})->help);
  EXPECT_THAT(ParseCommandLine({})->words, IsEmpty());
}

TEST_F(CommandLineTest, MistakesAreNamed) {
  for (const auto& [word, why] :
       {std::pair("--unknown=1", "unknown flag --unknown"),
        std::pair("--unknown", "unknown flag --unknown"),
        std::pair("--notest_number", "unknown flag --notest_number"),
        std::pair("-test_bool", "unknown flag -test_bool"),
        std::pair("--test_number", "--test_number needs a value"),
        std::pair("--test_number=x", "'x'"),
        std::pair("--test_bool=maybe", "'maybe'")}) {
    const absl::Status status = ParseCommandLine({word}).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << word;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  }
}

}  // namespace
}  // namespace planb::client
