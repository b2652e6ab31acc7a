// SPDX-License-Identifier: Apache-2.0

// Flags are found wherever they stand, and mistakes are named.

#include "client/planbctl/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/reflection.h"
#include "absl/random/random.h"
#include "client/planbctl/output.h"
#include "client/planbctl/route_diff.h"

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

// Columns line up, and nothing trails.

TEST(TextTable, Aligns) {
  TextTable table({"id", "name"});
  table.AddRow({"1", "first"});
  table.AddRow({"1000", ""});
  EXPECT_EQ(table.ToString(),
            "id    name\n"
            "1     first\n"
            "1000  -\n");
}

TEST(TextTable, WithoutRowsIsNothing) {
  EXPECT_EQ(TextTable({"id", "name"}).ToString(), "");
}

// Applying the differences to one table makes the other.

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<RouteDifference> Diff(const std::vector<Route>& old_routes,
                                  const std::vector<Route>& wanted) {
  std::vector<RouteDifference> differences;
  RouteDiff diff(wanted, [&](const RouteDifference& difference) {
    differences.push_back(difference);
  });
  for (const Route& route : old_routes) diff.Add(route);
  diff.Finish();
  return differences;
}

Route MakeRoute(uint32_t i, NextHopId next_hop) {
  return {*Prefix::Create(Address::V4(i << 8), 24), next_hop};
}

TEST(RouteDiff, FindsEveryKind) {
  EXPECT_THAT(Diff({MakeRoute(1, 1), MakeRoute(2, 2), MakeRoute(3, 3)},
                   {MakeRoute(0, 9), MakeRoute(2, 2), MakeRoute(3, 4),
                    MakeRoute(5, 5)}),
              ElementsAre(RouteDifference{MakeRoute(0, 0).prefix, 0, 9},
                          RouteDifference{MakeRoute(1, 0).prefix, 1, 0},
                          RouteDifference{MakeRoute(3, 0).prefix, 3, 4},
                          RouteDifference{MakeRoute(5, 0).prefix, 0, 5}));
}

TEST(RouteDiff, EmptyTables) {
  EXPECT_THAT(Diff({}, {}), IsEmpty());
  EXPECT_EQ(Diff({MakeRoute(1, 1)}, {}).size(), 1U);
  EXPECT_EQ(Diff({}, {MakeRoute(1, 1)}).size(), 1U);
  EXPECT_THAT(Diff({MakeRoute(1, 1)}, {MakeRoute(1, 1)}), IsEmpty());
}

TEST(RouteDiff, MakesOneTableOfTheOther) {
  absl::BitGen random;
  for (int round = 0; round < 200; ++round) {
    std::map<Prefix, NextHopId> tables[2];
    std::vector<Route> routes[2];
    for (int side : {0, 1}) {
      for (int i = 0; i < 20; ++i) {
        const Route route = MakeRoute(absl::Uniform(random, 0U, 30U),
                                      absl::Uniform(random, 1U, 4U));
        tables[side][route.prefix] = route.next_hop;
      }
      for (const auto& [prefix, next_hop] : tables[side]) {
        routes[side].push_back({prefix, next_hop});
      }
    }
    for (const RouteDifference& difference : Diff(routes[0], routes[1])) {
      EXPECT_NE(difference.old_next_hop, difference.next_hop);
      const auto found = tables[0].find(difference.prefix);
      EXPECT_EQ(found == tables[0].end() ? kNoRoute : found->second,
                difference.old_next_hop);
      tables[0].erase(difference.prefix);
      if (difference.next_hop != kNoRoute) {
        tables[0][difference.prefix] = difference.next_hop;
      }
    }
    EXPECT_EQ(tables[0], tables[1]);
  }
}

}  // namespace

}  // namespace planb::client
