#include "lpm/io/table_file_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace planb {
namespace {

using ::testing::HasSubstr;

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
