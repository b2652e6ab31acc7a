// SPDX-License-Identifier: Apache-2.0

#include "server/base/trace_context.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace planb::server {
namespace {

constexpr char kTrace[] = "4bf92f3577b34da6a3ce929d0e0e4736";
constexpr char kParent[] = "00f067aa0ba902b7";

TEST(TraceParent, ReadsWhatTheRecommendationShows) {
  for (const std::string& valid : {
           absl::StrCat("00-", kTrace, "-", kParent, "-01"),
           absl::StrCat("00-", kTrace, "-", kParent, "-00"),
           absl::StrCat("00-", kTrace, "-", kParent, "-ff"),
           // Of the future: what comes after is not for us.
           absl::StrCat("01-", kTrace, "-", kParent, "-01"),
           absl::StrCat("cc-", kTrace, "-", kParent, "-01-what-comes-then"),
       }) {
    const auto trace = ParseTraceParent(valid);
    ASSERT_TRUE(trace.has_value()) << valid;
    EXPECT_EQ(trace->trace_id, kTrace);
    EXPECT_EQ(trace->parent_id, kParent);
  }
}

TEST(TraceParent, RefusesAllElse) {
  const std::string zeros(32, '0');
  for (const std::string& invalid : {
           std::string(),
           std::string("00"),
           absl::StrCat("00-", kTrace, "-", kParent),
           absl::StrCat("00-", kTrace, "-", kParent, "-1"),
           absl::StrCat("00-", kTrace, "-", kParent, "-01-more"),
           absl::StrCat("00-", kTrace, "-", kParent, "-011"),
           absl::StrCat("01-", kTrace, "-", kParent, "-01x"),
           absl::StrCat("ff-", kTrace, "-", kParent, "-01"),
           absl::StrCat("0g-", kTrace, "-", kParent, "-01"),
           absl::StrCat("00-", zeros, "-", kParent, "-01"),
           absl::StrCat("00-", kTrace, "-", zeros.substr(16), "-01"),
           absl::StrCat("00_", kTrace, "-", kParent, "-01"),
           absl::StrCat("00-", kTrace, "_", kParent, "-01"),
           absl::StrCat("00-", kTrace, "-", kParent, "_01"),
           absl::StrCat("00-", kTrace, "-", kParent, "-0G"),
           absl::StrCat("00-4BF92F3577B34DA6A3CE929D0E0E4736-", kParent, "-01"),
           absl::StrCat("00-", kTrace, "-00f067aa0ba902b\n-01"),
       }) {
    EXPECT_FALSE(ParseTraceParent(invalid).has_value()) << invalid;
  }
}

}  // namespace
}  // namespace planb::server
