#include "lpm/io/table_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "lpm/io/testing/bytes.h"

namespace planb {
namespace {

using ::planb::testing::Little16;
using ::planb::testing::Little32;
using ::planb::testing::Packed;
using ::planb::testing::SmallTable;
using ::planb::testing::TableContents;
using ::planb::testing::U8;
using ::testing::HasSubstr;

// As published with the algorithm: what a file holds must not change with a
// version of the library.
TEST(Xxh3, IsTheOneOfTheSpecification) {
  EXPECT_EQ(Xxh3("", 0), 0x2d06800538d394c2u);
  EXPECT_NE(Xxh3("", 1), Xxh3("", 0));
}

TEST(Xxh3, OfAStreamIsThatOfTheWhole) {
  std::string octets;
  for (int i = 0; i < 3000; ++i) octets += static_cast<char>(i * i);
  for (const size_t piece : {size_t{1}, size_t{7}, size_t{1000}}) {
    Xxh3Stream stream;
    EXPECT_EQ(stream.Value(), Xxh3("", 0));
    for (size_t at = 0; at < octets.size(); at += piece) {
      stream.Add(absl::string_view(octets).substr(at, piece));
    }
    EXPECT_EQ(stream.Value(), Xxh3(octets, 0)) << piece;
  }
}

// `item` comes back, and no beginning of its octets is one.
template <typename Item, typename... Family>
void ExpectThereAndBack(const Item& item, Family... family) {
  std::string octets;
  AppendItem(item, octets);
  for (size_t cut = 0; cut < octets.size(); ++cut) {
    OctetCursor cursor(absl::string_view(octets).substr(0, cut));
    Item read;
    const absl::Status status = ReadItem(cursor, family..., read);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr("past the end"));
  }
  octets += "next";
  OctetCursor cursor(octets);
  Item read;
  EXPECT_TRUE(ReadItem(cursor, family..., read).ok());
  EXPECT_TRUE(read == item);
  EXPECT_EQ(cursor.left(), "next");
}

TEST(TableFileItems, ComeBackAndAreNeverCut) {
  const TableContents table = SmallTable();
  ExpectThereAndBack(table.header);
  for (const NextHop& next_hop : table.next_hops) ExpectThereAndBack(next_hop);
  for (const NextHopGroup& group : table.groups) ExpectThereAndBack(group);
  for (const Route& route : table.routes) {
    ExpectThereAndBack(route, route.prefix.family());
  }
}

template <typename Item, typename... Family>
void ExpectMalformed(const std::string& octets, const std::string& message,
                     Family... family) {
  OctetCursor cursor(octets);
  Item item;
  const absl::Status status = ReadItem(cursor, family..., item);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr(message));
}

TEST(TableFileItems, SayWhatIsWrong) {
  const auto hop = [](NextHopId id, const std::string& gateway) {
    return absl::StrCat(Little32(id), Little32(1), U8(gateway.size()), gateway,
                        Little16(0), Little16(0));
  };
  ExpectMalformed<NextHop>(hop(1, "12345"), "a gateway of 5 octets");
  ExpectMalformed<NextHop>(hop(0, ""), "reserved next hop 0");
  ExpectMalformed<NextHop>(hop(kUndecided, ""), "reserved next hop 4294967295");

  const auto group = [](NextHopId id, NextHopId member) {
    return absl::StrCat(Little32(id), Little16(1), Little32(member),
                        Little32(1), Little16(0));
  };
  ExpectMalformed<NextHopGroup>(group(0, 1), "reserved next hop 0");
  ExpectMalformed<NextHopGroup>(group(1, 0), "reserved next hop 0");

  const auto route = [](NextHopId id, int length, const std::string& octets) {
    return absl::StrCat(Little32(id), U8(static_cast<uint64_t>(length)),
                        octets);
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

TEST(TableFileOrder, CountsWhatComesInOrder) {
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

// `item` must not come after what `order` has, and changes nothing.
template <typename Item>
void ExpectRefused(TableFileOrder order, const Item& item,
                   const std::string& message) {
  const TableFileCounts before = order.counts();
  const absl::Status status = order.Accept(item);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr(message));
  EXPECT_EQ(order.counts(), before);
}

TEST(TableFileOrder, RefusesWhatIsOutOfOrder) {
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

TEST(TableFileOrder, NoHopsThenAGroupThenNoHop) {
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

}  // namespace
}  // namespace planb
