// Columns line up, and nothing trails.

#include "client/planbctl/text_output.h"

#include <gtest/gtest.h>

namespace planb::client {
namespace {

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

}  // namespace
}  // namespace planb::client
