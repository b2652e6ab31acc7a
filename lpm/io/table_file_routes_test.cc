// Table files among the other route files: detected, read with all they have,
// and never read in part.

#include "lpm/io/table_file_routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "lpm/io/testing/bytes.h"
#include "lpm/io/testing/read.h"
#include "lpm/io/testing/table_bytes.h"
#include "lpm/io/testing/table_read.h"

namespace planb {
namespace {

using ::planb::testing::Bzip2;
using ::planb::testing::Gzip;
using ::planb::testing::ReadAny;
using ::planb::testing::Reading;
using ::planb::testing::SmallTable;
using ::planb::testing::TableContents;
using ::planb::testing::TableFileOf;
using ::planb::testing::WriteTable;
using ::testing::HasSubstr;

std::string Write(const TableContents& contents) {
  absl::Status status;
  std::string octets = WriteTable(contents, &status);
  EXPECT_TRUE(status.ok()) << status;
  return octets;
}

std::string Plain(absl::string_view octets) { return std::string(octets); }

TEST(ReadTableFileRoutes, HandsOnAllThereIs) {
  const TableContents table = SmallTable();
  for (const auto compress : {Plain, Gzip, Bzip2}) {
    for (const size_t piece : {size_t{1}, SIZE_MAX}) {
      const Reading reading = ReadAny(compress(Write(table)), {}, piece);
      EXPECT_TRUE(reading.status.ok()) << reading.status;
      EXPECT_EQ(reading.routes, table.routes);
      EXPECT_EQ(reading.groups, table.groups);
      // Not those two that only routes name.
      EXPECT_TRUE(reading.next_hops == table.next_hops);
      EXPECT_EQ(reading.report.routes, 7u);
      EXPECT_EQ(reading.report.next_hops, 3u);
      EXPECT_EQ(reading.report.groups, 2u);
      EXPECT_EQ(reading.report.malformed, 0u);
      EXPECT_FALSE(reading.report.truncated);
    }
  }
}

// A table may know more of them than their numbers.
TEST(ReadTableFileRoutes, DoesNotDescribeMembersOfGroups) {
  TableContents table;
  table.groups = {{5, {{6, 1}, {7, 1}}, ""}};
  const Reading reading = ReadAny(Write(table));
  EXPECT_TRUE(reading.status.ok()) << reading.status;
  EXPECT_TRUE(reading.next_hops.empty());
}

TEST(ReadTableFileRoutes, RefusesAnIdForTwoThings) {
  TableContents table;
  table.next_hops = {{.id = 5}};
  table.groups = {{.id = 5}};
  const Reading reading = ReadAny(Write(table));
  EXPECT_TRUE(absl::IsDataLoss(reading.status)) << reading.status;
  EXPECT_THAT(reading.status.message(), HasSubstr("F: damaged"));
  EXPECT_THAT(reading.status.message(), HasSubstr("5 is the id of"));
  table.next_hops.clear();
  table.groups = {{5, {{6, 1}}, ""}, {.id = 6}};
  EXPECT_TRUE(absl::IsDataLoss(ReadAny(Write(table)).status));
  table.groups = {{5, {{5, 1}}, ""}};
  EXPECT_EQ(ReadAny(Write(table)).next_hops.size(), 0u);
}

TEST(ReadTableFileRoutes, NeverReadsAPart) {
  const std::string octets = Write(SmallTable());
  const std::string zipped = Gzip(octets);
  for (size_t cut = 8; cut < octets.size(); ++cut) {
    const Reading reading = ReadAny(octets.substr(0, cut));
    EXPECT_TRUE(absl::IsDataLoss(reading.status)) << reading.status;
    EXPECT_THAT(reading.status.message(), HasSubstr("F: damaged table file"));
  }
  // Where enough of it is left to know it by; what is cut off may be only the
  // compression's own checksum.
  for (size_t cut = 40; cut < zipped.size(); ++cut) {
    const Reading reading = ReadAny(zipped.substr(0, cut));
    EXPECT_TRUE(absl::IsDataLoss(reading.status)) << reading.status;
    EXPECT_THAT(reading.status.message(), HasSubstr("F: "));
  }
}

TEST(ReadTableFileRoutes, NamesTheFileOfANewerVersion) {
  const absl::Status status = ReadAny(TableFileOf({}, 2)).status;
  EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("F: a table file of format version"));
}

}  // namespace
}  // namespace planb
