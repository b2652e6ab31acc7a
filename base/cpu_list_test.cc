// SPDX-License-Identifier: Apache-2.0

#include "base/cpu_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace planb {
namespace {

using ::testing::HasSubstr;

TEST(ParseCpuList, TakesNumbersAndRanges) {
  struct Case {
    const char* text;
    std::vector<int> cpus;
  };
  for (const Case& test : {
           Case{"", {}},
           Case{"0", {0}},
           Case{"3", {3}},
           Case{"0,2", {0, 2}},
           Case{"2-3", {2, 3}},
           Case{"7-7", {7}},
           Case{"0,2-3", {0, 2, 3}},
           Case{"0,2-4,9", {0, 2, 3, 4, 9}},
           Case{"5, 1 - 2", {5, 1, 2}},
           Case{"3,1,3", {3, 1, 3}},
           Case{"1022-1023", {1022, 1023}},
       }) {
    const auto cpus = ParseCpuList(test.text);
    ASSERT_TRUE(cpus.ok()) << cpus.status();
    EXPECT_EQ(*cpus, test.cpus) << test.text;
  }
}

TEST(ParseCpuList, NamesTheWrongItem) {
  struct Case {
    const char* text;
    const char* item;
    const char* expected;
  };
  constexpr char kNumber[] =
      "is no number of a core (0 to 1023) and no range of them such as 2-3";
  constexpr char kUpwards[] = "ends below its start";
  for (const Case& test : {
           Case{"x", "item \"x\"", kNumber},
           Case{"0,x", "item \"x\"", kNumber},
           Case{"0,1-x", "item \"1-x\"", kNumber},
           Case{"1,", "item \"\"", kNumber},
           Case{",1", "item \"\"", kNumber},
           Case{" ", "item \" \"", kNumber},
           Case{"-1", "item \"-1\"", kNumber},
           Case{"+1", "item \"+1\"", kNumber},
           Case{"1-", "item \"1-\"", kNumber},
           Case{"-", "item \"-\"", kNumber},
           Case{"1-2-3", "item \"1-2-3\"", kNumber},
           Case{"0x1", "item \"0x1\"", kNumber},
           Case{"1 2", "item \"1 2\"", kNumber},
           Case{"1024", "item \"1024\"", kNumber},
           Case{"0-99999", "item \"0-99999\"", kNumber},
           Case{"99999999999", "item \"99999999999\"", kNumber},
           Case{"0,2-1", "range \"2-1\"", kUpwards},
       }) {
    const absl::Status status = ParseCpuList(test.text).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << test.text;
    const std::string message(status.message());
    EXPECT_THAT(message, HasSubstr(std::string("\"") + test.text + "\""));
    EXPECT_THAT(message, HasSubstr(test.item));
    EXPECT_THAT(message, HasSubstr(test.expected)) << test.text;
  }
}

}  // namespace
}  // namespace planb
