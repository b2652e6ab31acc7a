#include "lpm/io/table_file_items.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "lpm/io/testing/bytes.h"
#include "lpm/io/testing/table_bytes.h"

namespace planb {
namespace {

using ::planb::testing::Little16;
using ::planb::testing::Little32;
using ::planb::testing::Packed;
using ::planb::testing::SmallTable;
using ::planb::testing::TableContents;
using ::planb::testing::U8;
using ::testing::HasSubstr;

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

}  // namespace
}  // namespace planb
