// SPDX-License-Identifier: Apache-2.0

#include "lpm/io/table_file.h"

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

using ::testing::HasSubstr;

template <typename Item>
void Append(const Item& item, std::string& bytes) {
  AppendItem(item, bytes);
}
void Append(const NextHop& next_hop, std::string& bytes) {
  AppendItem(next_hop, /*attributes=*/true, bytes);
}

// `item` survives a round trip, and no proper prefix of its bytes is an item.
template <typename Item, typename... Form>
void ExpectThereAndBack(const Item& item, Form... form) {
  std::string bytes;
  Append(item, bytes);
  for (size_t cut = 0; cut < bytes.size(); ++cut) {
    ByteCursor cursor(absl::string_view(bytes).substr(0, cut));
    Item read;
    const absl::Status status = ReadItem(cursor, form..., read);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr("past the end"));
  }
  bytes += "next";
  ByteCursor cursor(bytes);
  Item read;
  EXPECT_TRUE(ReadItem(cursor, form..., read).ok());
  EXPECT_TRUE(read == item);
  EXPECT_EQ(cursor.left(), "next");
}

TEST(TableFileItems, RoundTripAndAreRefusedIfCut) {
  TableContents table = SmallTable();
  table.header.attributes = false;  // it is in the preamble
  ExpectThereAndBack(table.header);
  for (const NextHop& next_hop : table.next_hops) {
    ExpectThereAndBack(next_hop, true);
  }
  for (const NextHopGroup& group : table.groups) ExpectThereAndBack(group);
  for (const Route& route : table.routes) {
    ExpectThereAndBack(route, route.prefix.family());
  }
}

template <typename Item, typename... Form>
void ExpectMalformed(const std::string& bytes, const std::string& message,
                     Form... form) {
  ByteCursor cursor(bytes);
  Item item;
  const absl::Status status = ReadItem(cursor, form..., item);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr(message));
}

TEST(TableFileItems, NameTheDefect) {
  const auto hop = [](NextHopId id, const std::string& gateway) {
    return absl::StrCat(Little32(id), Little32(1), U8(gateway.size()), gateway,
                        Little16(0), Little16(0));
  };
  ExpectMalformed<NextHop>(hop(1, "12345"), "a gateway of 5 bytes", false);
  ExpectMalformed<NextHop>(hop(0, ""), "reserved next hop 0", false);
  ExpectMalformed<NextHop>(hop(kUndecided, ""), "reserved next hop 4294967295",
                           false);

  const auto group = [](NextHopId id, NextHopId member) {
    return absl::StrCat(Little32(id), Little16(1), Little32(member),
                        Little32(1), Little16(0));
  };
  ExpectMalformed<NextHopGroup>(group(0, 1), "reserved next hop 0");
  ExpectMalformed<NextHopGroup>(group(1, 0), "reserved next hop 0");

  const auto route = [](NextHopId id, int length, const std::string& bytes) {
    return absl::StrCat(Little32(id), U8(static_cast<uint64_t>(length)), bytes);
  };
  const std::string four = Packed("192.0.2.1");
  const std::string six = Packed("2001:db8::1");
  ExpectMalformed<Route>(route(1, 33, four + four), "length 33", Family::kIpv4);
  ExpectMalformed<Route>(route(1, 129, six + six), "length 129", Family::kIpv6);
  ExpectMalformed<Route>(route(1, 31, four), "is none", Family::kIpv4);
  ExpectMalformed<Route>(route(1, 127, six), "is none", Family::kIpv6);
  ExpectMalformed<Route>(route(0, 0, ""), "reserved next hop 0", Family::kIpv6);
}

NextHop Hop(NextHopId id) { return {.id = id}; }
NextHopGroup Group(NextHopId id) { return {.id = id}; }
Route To(const std::string& prefix, NextHopId id = 1) {
  return {*Prefix::Parse(prefix), id};
}

TEST(TableFileOrder, CountsItemsInOrder) {
  TableFileOrder order;
  EXPECT_TRUE(order.Accept(Hop(1)).ok());
  EXPECT_TRUE(order.Accept(Hop(4294967294)).ok());
  EXPECT_TRUE(order.Accept(Group(2)).ok());
  EXPECT_TRUE(order.Accept(To("10.0.0.0/8")).ok());
  EXPECT_TRUE(order.Accept(To("10.0.0.0/9")).ok());
  EXPECT_TRUE(order.Accept(To("10.128.0.0/9")).ok());
  EXPECT_TRUE(order.Accept(To("::/0")).ok());
  EXPECT_EQ(order.counts(), (TableFileCounts{2, 1, 3, 1}));
}

// `order` refuses `item` and does not change.
template <typename Item>
void ExpectRefused(TableFileOrder order, const Item& item,
                   const std::string& message) {
  const TableFileCounts before = order.counts();
  const absl::Status status = order.Accept(item);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr(message));
  EXPECT_EQ(order.counts(), before);
}

TEST(TableFileOrder, RefusesItemsOutOfOrder) {
  TableFileOrder order;
  ASSERT_TRUE(order.Accept(Hop(5)).ok());
  ExpectRefused(order, Hop(5), "next hop 5 comes after next hop 5");
  ExpectRefused(order, Hop(4), "next hop 4 comes after next hop 5");
  ASSERT_TRUE(order.Accept(Group(3)).ok());
  ExpectRefused(order, Group(3), "group 3 comes after group 3");
  ExpectRefused(order, Group(2), "group 2 comes after group 3");
  ExpectRefused(order, Hop(6), "next hop 6 comes after a group");
  ASSERT_TRUE(order.Accept(To("10.0.0.0/8")).ok());
  ExpectRefused(order, To("10.0.0.0/8"), "10.0.0.0/8 comes after");
  ExpectRefused(order, To("10.0.0.0/7"), "10.0.0.0/7 comes after");
  ExpectRefused(order, To("9.255.255.255/32"), "comes after that of 10.0.0.0");
  ExpectRefused(order, Group(4), "group 4 comes after a route");
  ASSERT_TRUE(order.Accept(To("::/0")).ok());
  ExpectRefused(order, To("255.0.0.0/8"), "255.0.0.0/8 comes after");
}

TEST(TableFileOrder, RefusesANextHopAfterAGroup) {
  TableFileOrder order;
  ASSERT_TRUE(order.Accept(To("::/0")).ok());
  ExpectRefused(order, Hop(6), "next hop 6 comes after a route");
}

TEST(TableFileOrder, RefusesReservedIds) {
  for (const NextHopId id : {kNoRoute, kUndecided}) {
    ExpectRefused(TableFileOrder(), Hop(id), "reserved");
    ExpectRefused(TableFileOrder(), Group(id), "reserved");
    ExpectRefused(TableFileOrder(), To("::/0", id), "reserved");
  }
}

// Made by testdata/make_corpus.py, from TABLE_FILE.md and without this code. A
// change of these bytes changes the format and needs another version.
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

// The same, where next hop 7 has the origin AS 64496.
std::string ReferenceWithAttributes() {
  constexpr size_t kHeader = 24, kNextHop = kHeader + 90;
  constexpr size_t kGroup = kNextHop + 102, kEnd = kReference.size() - 112;
  return absl::StrCat("89504c420d0a1a0a", "02000000",
                      kReference.substr(kHeader, kNextHop - kHeader),
                      "02000000"
                      "29000000"
                      "07000000"
                      "03000000"
                      "10"
                      "20010db8000000000000000000000001"
                      "040065746830"
                      "02007570"
                      "040008f0f703"
                      "b87bdac78378decb",
                      kReference.substr(kGroup, kEnd - kGroup),
                      "06000000"
                      "28000000"
                      "0100000000000000"
                      "0100000000000000"
                      "0100000000000000"
                      "0100000000000000"
                      "20beb29c2953e15a"
                      "8a28c5f210c75cef");
}

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

TEST(TableFileWriter, WritesTheReferenceFile) {
  absl::Status status;
  EXPECT_EQ(absl::BytesToHexString(WriteTable(Reference(), &status)),
            kReference);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(ReadTable(absl::HexStringToBytes(kReference)).contents ==
              Reference());
}

TEST(TableFileWriter, WritesAttributesInAnotherVersion) {
  TableContents table = Reference();
  table.header.attributes = true;
  table.next_hops[0].attributes = Attributes("\x08\xf0\xf7\x03");
  EXPECT_EQ(absl::BytesToHexString(WriteTable(table)),
            ReferenceWithAttributes());
  EXPECT_TRUE(
      ReadTable(absl::HexStringToBytes(ReferenceWithAttributes())).contents ==
      table);
}

TEST(TableFileWriter, CountsItemsAndBytes) {
  const TableContents table = SmallTable();
  uint64_t bytes = 0;
  TableFileWriter writer([&](absl::string_view next) {
    bytes += next.size();
    return absl::OkStatus();
  });
  ASSERT_TRUE(writer.Begin(table.header).ok());
  for (const NextHop& hop : table.next_hops) ASSERT_TRUE(writer.Add(hop).ok());
  for (const Route& route : table.routes) ASSERT_TRUE(writer.Add(route).ok());
  ASSERT_TRUE(writer.Finish().ok());
  EXPECT_EQ(writer.counts(), (TableFileCounts{3, 0, 3, 4}));
  EXPECT_EQ(writer.bytes(), bytes);
}

TEST(TableFileWriter, FillsBlocksToTheLimit) {
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
  // 8 bytes a route, 8192 routes a block; a frame has 16.
  EXPECT_THAT(sizes, ::testing::ElementsAre(12, 16 + 26, 16 + (64 << 10),
                                            16 + (64 << 10),
                                            16 + (20000 - 16384) * 8, 16 + 40));
}

void ExpectRefused(const TableContents& table, const std::string& message) {
  absl::Status status;
  const std::string bytes = WriteTable(table, &status);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr(message));
  EXPECT_FALSE(ReadTable(bytes).status.ok());
}

TEST(TableFileWriter, RefusesItemsThatReadersRefuse) {
  TableContents table = SmallTable();
  table.header.digest = "short";
  ExpectRefused(table, "a digest of 5 bytes");
  table = SmallTable();
  std::swap(table.routes[0], table.routes[1]);
  ExpectRefused(table, "the route of 0.0.0.0/0 comes after");
  table = SmallTable();
  table.groups.push_back(table.groups[0]);
  ExpectRefused(table, "group 8 comes after group 10");
  table = SmallTable();
  table.routes[0].next_hop = 0;
  ExpectRefused(table, "reserved");
  table = SmallTable();
  table.header.attributes = false;
  ExpectRefused(table, "next hop 7 has attributes");
}

TEST(TableFileWriter, TakesItemsUpToTheSizeOfABlock) {
  // The bytes around a label: id, weight, no gateway, two lengths.
  constexpr size_t kAround = 4 + 4 + 1 + 2 + 2;
  TableContents table;
  table.next_hops = {
      {.id = 1, .label = std::string(100, 'a')},
      {.id = 2, .label = std::string(kMaxTableFileBlock - kAround, 'b')},
      {.id = 3}};
  absl::Status status;
  const std::string bytes = WriteTable(table, &status);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(ReadTable(bytes).contents == table);
  for (const size_t more : {1, 20, 1 << 16, 1 << 20}) {
    TableContents longer = table;
    longer.next_hops[1].label += std::string(more, 'c');
    ExpectRefused(longer, absl::StrCat("an item of ", kMaxTableFileBlock + more,
                                       " bytes"));
  }
  table.next_hops.clear();
  table.groups = {{1, std::vector<NextHopGroup::Member>(8191, {5, 1}), ""}};
  EXPECT_TRUE(ReadTable(WriteTable(table, &status)).contents == table);
  table.groups[0].members.push_back({5, 1});
  ExpectRefused(table, "65544 bytes");
  table.groups[0].members.resize(65536 + 1, {5, 1});
  ExpectRefused(table, "an item of");
  table.groups.clear();
  table.header.table = std::string(1 << 16, 'n');
  ExpectRefused(table, "an item of");
}

TEST(TableFileWriter, StopsAtAnErrorOfTheOutput) {
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
