#include "lpm/io/table_file_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "lpm/io/testing/bytes.h"
#include "lpm/io/testing/read.h"

namespace planb {
namespace {

using ::planb::testing::ReadTable;
using ::planb::testing::SmallTable;
using ::planb::testing::TableContents;
using ::planb::testing::WriteTable;
using ::testing::HasSubstr;

// Made by testdata/make_corpus.py, which knows TABLE_FILE.md and not this code.
// Whoever has to change it has changed the format: give it another version.
constexpr absl::string_view kReference =
    // Magic number, version.
    "89504c420d0a1a0a"
    "01000000"
    // Header: generation 42, digest, "red".
    "01000000"
    "1d000000"
    "2a00000000000000"
    "000102030405060708090a0b0c0d0e0f"
    "0300726564"
    "9680fab1184621ea"
    // Next hop 7.
    "02000000"
    "23000000"
    "07000000"
    "03000000"
    "10"
    "20010db8000000000000000000000001"
    "040065746830"
    "02007570"
    "4a3d19626fa9b965"
    // Group 8.
    "03000000"
    "1c000000"
    "08000000"
    "0200"
    "07000000"
    "02000000"
    "09000000"
    "01000000"
    "0400626f7468"
    "6f2349989b3084b6"
    // 192.0.2.128/25 to 9.
    "04000000"
    "09000000"
    "09000000"
    "19"
    "c0000280"
    "eabbe37234155835"
    // 2001:db8:2::/47 to 8.
    "05000000"
    "0b000000"
    "08000000"
    "2f"
    "20010db80002"
    "3f6b18311cc26627"
    // Counts and checksum.
    "06000000"
    "28000000"
    "0100000000000000"
    "0100000000000000"
    "0100000000000000"
    "0100000000000000"
    "dd25d41eae751880"
    "515a86b480194d61";

TableContents Reference() {
  TableContents table;
  table.header = {"red", 42,
                  absl::HexStringToBytes("000102030405060708090a0b0c0d0e0f")};
  table.next_hops = {{7, *Address::Parse("2001:db8::1"), "eth0", 3, "up"}};
  table.groups = {{8, {{7, 2}, {9, 1}}, "both"}};
  table.routes = {{*Prefix::Parse("192.0.2.128/25"), 9},
                  {*Prefix::Parse("2001:db8:2::/47"), 8}};
  return table;
}

TEST(TableFileWriter, WritesTheFormatOfTheReference) {
  absl::Status status;
  EXPECT_EQ(absl::BytesToHexString(WriteTable(Reference(), &status)),
            kReference);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(ReadTable(absl::HexStringToBytes(kReference)).contents ==
              Reference());
}

TEST(TableFileWriter, CountsWhatItTookAndGave) {
  const TableContents table = SmallTable();
  uint64_t octets = 0;
  TableFileWriter writer([&](absl::string_view next) {
    octets += next.size();
    return absl::OkStatus();
  });
  ASSERT_TRUE(writer.Begin(table.header).ok());
  for (const NextHop& hop : table.next_hops) ASSERT_TRUE(writer.Add(hop).ok());
  for (const Route& route : table.routes) ASSERT_TRUE(writer.Add(route).ok());
  ASSERT_TRUE(writer.Finish().ok());
  EXPECT_EQ(writer.counts(), (TableFileCounts{3, 0, 3, 4}));
  EXPECT_EQ(writer.octets(), octets);
}

TEST(TableFileWriter, FillsBlocksAndNeverMore) {
  TableContents table;
  for (uint32_t i = 0; i < 20000; ++i) {
    table.routes.push_back({Prefix::Truncate(Address::V4(i << 8), 24), 1 + i});
  }
  std::vector<size_t> sizes;
  TableFileWriter writer([&](absl::string_view next) {
    sizes.push_back(next.size());
    return absl::OkStatus();
  });
  ASSERT_TRUE(writer.Begin(table.header).ok());
  for (const Route& route : table.routes) ASSERT_TRUE(writer.Add(route).ok());
  ASSERT_TRUE(writer.Finish().ok());
  // 8 octets a route, 8192 routes a block; a frame has 16.
  EXPECT_THAT(sizes, ::testing::ElementsAre(12, 16 + 26, 16 + (64 << 10),
                                            16 + (64 << 10),
                                            16 + (20000 - 16384) * 8, 16 + 40));
}

void ExpectRefused(const TableContents& table, const std::string& message) {
  absl::Status status;
  const std::string octets = WriteTable(table, &status);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr(message));
  EXPECT_FALSE(ReadTable(octets).status.ok());
}

TEST(TableFileWriter, RefusesWhatNoReaderWouldTake) {
  TableContents table = SmallTable();
  table.header.digest = "short";
  ExpectRefused(table, "a digest of 5 octets");
  table = SmallTable();
  std::swap(table.routes[0], table.routes[1]);
  ExpectRefused(table, "the route of 0.0.0.0/0 comes after");
  table = SmallTable();
  table.groups.push_back(table.groups[0]);
  ExpectRefused(table, "group 8 comes after group 10");
  table = SmallTable();
  table.routes[0].next_hop = 0;
  ExpectRefused(table, "reserved");
}

TEST(TableFileWriter, TakesItemsOfABlockAndNoLonger) {
  // What is around a label: id, weight, no gateway, two lengths.
  constexpr size_t kAround = 4 + 4 + 1 + 2 + 2;
  TableContents table;
  table.next_hops = {
      {.id = 1, .label = std::string(100, 'a')},
      {.id = 2, .label = std::string(kMaxTableFileBlock - kAround, 'b')},
      {.id = 3}};
  absl::Status status;
  const std::string octets = WriteTable(table, &status);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(ReadTable(octets).contents == table);
  for (const size_t more : {1, 20, 1 << 16, 1 << 20}) {
    TableContents longer = table;
    longer.next_hops[1].label += std::string(more, 'c');
    ExpectRefused(longer, absl::StrCat("an item of ", kMaxTableFileBlock + more,
                                       " octets"));
  }
  table.next_hops.clear();
  table.groups = {{1, std::vector<NextHopGroup::Member>(8191, {5, 1}), ""}};
  EXPECT_TRUE(ReadTable(WriteTable(table, &status)).contents == table);
  table.groups[0].members.push_back({5, 1});
  ExpectRefused(table, "65544 octets");
  table.groups[0].members.resize(65536 + 1, {5, 1});
  ExpectRefused(table, "an item of");
  table.groups.clear();
  table.header.table = std::string(1 << 16, 'n');
  ExpectRefused(table, "an item of");
}

TEST(TableFileWriter, StopsWhereTheOutputDoes) {
  const TableContents table = SmallTable();
  for (int good = 0; good < 7; ++good) {
    int calls = 0;
    TableFileWriter writer([&](absl::string_view) {
      return calls++ < good ? absl::OkStatus() : absl::CancelledError("full");
    });
    (void)writer.Begin(table.header);
    for (const NextHop& hop : table.next_hops) (void)writer.Add(hop);
    for (const NextHopGroup& group : table.groups) (void)writer.Add(group);
    for (const Route& route : table.routes) (void)writer.Add(route);
    EXPECT_TRUE(absl::IsCancelled(writer.Finish())) << good;
    EXPECT_EQ(calls, good + 1);
  }
}

}  // namespace
}  // namespace planb
