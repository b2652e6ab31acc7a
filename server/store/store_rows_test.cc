// SPDX-License-Identifier: Apache-2.0

#include "server/store/store_rows.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "lpm/synthetic/synthetic.h"

namespace planb::server {
namespace {

TEST(StoreRows, PrefixesComeBack) {
  std::vector<Route> routes =
      SyntheticTable({.ipv6_routes = 2000, .ipv4_routes = 2000});
  for (const char* text :
       {"0.0.0.0/0", "::/0", "::/128", "255.255.255.255/32", "0.0.0.1/32",
        "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128", "::1/128"}) {
    routes.push_back({Prefix::Parse(text).value(), 1});
  }
  for (const Route& route : routes) {
    const PackedAddress address(route.prefix.address());
    const auto prefix =
        UnpackPrefix(static_cast<int64_t>(route.prefix.family()),
                     address.bytes(), route.prefix.length());
    ASSERT_TRUE(prefix.ok()) << prefix.status();
    ASSERT_EQ(*prefix, route.prefix);
  }
}

// As SQLite gives a BLOB without bytes.
TEST(StoreRows, NoBytesAreTheZeroAddress) {
  EXPECT_EQ(UnpackPrefix(4, absl::string_view(), 0).value(),
            Prefix::Parse("0.0.0.0/0").value());
}

// The primary key of routes has to be in the order of prefixes.
TEST(StoreRows, PackedAddressesAreOrderedLikeAddresses) {
  const std::vector<Route> routes =
      SyntheticTable({.ipv6_routes = 5000, .ipv4_routes = 0});
  for (size_t i = 1; i < routes.size(); ++i) {
    const PackedAddress a(routes[i - 1].prefix.address());
    const PackedAddress b(routes[i].prefix.address());
    ASSERT_EQ(a.bytes() < b.bytes(),
              routes[i - 1].prefix.address() < routes[i].prefix.address());
  }
}

TEST(StoreRows, ImpossiblePrefixesAreRefused) {
  const absl::string_view net("\x0a\x01", 2);  // 10.1.0.0
  EXPECT_TRUE(UnpackPrefix(4, net, 16).ok());
  const std::pair<absl::StatusOr<Prefix>, const char*> wrong[] = {
      {UnpackPrefix(5, net, 16), "family 5"},
      {UnpackPrefix(4, net, 15), "10.1.0.0/15"},  // a host bit
      {UnpackPrefix(4, net, 33), "length"},
      {UnpackPrefix(6, net, 129), "length"},
      {UnpackPrefix(6, net, -1), "length"},
      {UnpackPrefix(6, net, 1LL << 32 | 16), "length"},
      {UnpackPrefix(4, absl::string_view("\x0a\0", 2), 16), "0a00"},
      {UnpackPrefix(4, "12345", 32), "3132333435"},
      {UnpackPrefix(6, "12345678901234567", 128), "IPv6 address"},
  };
  for (const auto& [prefix, part] : wrong) {
    EXPECT_EQ(prefix.status().code(), absl::StatusCode::kDataLoss) << part;
    EXPECT_NE(prefix.status().message().find(part), absl::string_view::npos)
        << prefix.status();
  }
}

TEST(StoreRows, ImpossibleNumbersAreRefused) {
  EXPECT_EQ(*UnpackNextHopId(1), 1U);
  EXPECT_EQ(*UnpackNextHopId(0xfffffffe), 0xfffffffeU);
  for (int64_t id :
       {int64_t{0}, int64_t{-1}, int64_t{0xffffffff}, int64_t{1} << 32}) {
    EXPECT_FALSE(UnpackNextHopId(id).ok()) << id;
  }
  EXPECT_EQ(*UnpackWeight(0), 0U);
  EXPECT_EQ(*UnpackWeight(0xffffffff), 0xffffffffU);
  EXPECT_FALSE(UnpackWeight(-1).ok());
  EXPECT_FALSE(UnpackWeight(int64_t{1} << 32).ok());
}

TEST(StoreRows, GatewaysAndMembersComeBack) {
  for (const char* text :
       {"192.0.2.1", "2001:db8::1", "::ffff:1.2.3.4", "::"}) {
    const NextHop hop = {.id = 1, .gateway = Address::Parse(text).value()};
    EXPECT_EQ(ParseGateway(*FormatGateway(hop)).value(), *hop.gateway) << text;
  }
  EXPECT_EQ(FormatGateway({.id = 1}), std::nullopt);
  EXPECT_FALSE(ParseGateway("192.0.2").ok());

  NextHopGroup group;
  EXPECT_EQ(ParseMembers(FormatMembers(group)).value(), group.members);
  group.members = {{7, 1}, {8, 0xffffffff}, {7, 0}};
  EXPECT_EQ(FormatMembers(group), "7*1 8*4294967295 7*0");
  EXPECT_EQ(ParseMembers(FormatMembers(group)).value(), group.members);
  for (const char* text : {"7", "7*", "*1", "7*1 ", "7*1*1", "7*4294967296"}) {
    EXPECT_FALSE(ParseMembers(text).ok()) << text;
  }
}

TEST(StoreRows, ChecksumsCoverEveryField) {
  const StoreRow store = {1, 2, 3, 4};
  for (uint64_t StoreRow::*field :
       {&StoreRow::store_id, &StoreRow::sequence, &StoreRow::generation_floor,
        &StoreRow::tables_sum}) {
    StoreRow other = store;
    ++(other.*field);
    EXPECT_NE(other.Checksum(), store.Checksum());
  }
  const TableRow table = {.id = 1,
                          .name = "a",
                          .generation = 2,
                          .writer_epoch = 3,
                          .digest = "b",
                          .objects_digest = "c",
                          .first_request = 4,
                          .next_request = 5};
  std::vector<TableRow> others(8, table);
  others[0].id++;
  others[1].name = "ab";
  others[2].generation++;
  others[3].writer_epoch++;
  others[4].digest = "";
  others[5].objects_digest = "bc";
  others[6].first_request++;
  others[7].next_request++;
  for (const TableRow& other : others) {
    EXPECT_NE(other.Checksum(), table.Checksum());
  }
  const AnsweredRequest request = {.request_id = "r"};
  std::vector<AnsweredRequest> changed(12, request);
  changed[0].request_id = "s";
  changed[1].fingerprint = 1;
  changed[2].outcome.generation = 1;
  changed[3].outcome.digest = "d";
  changed[4].outcome.accepted += absl::Nanoseconds(1);
  uint64_t ChangeCounts::*counts[] = {&ChangeCounts::added,
                                      &ChangeCounts::changed,
                                      &ChangeCounts::removed,
                                      &ChangeCounts::unchanged,
                                      &ChangeCounts::next_hops_added,
                                      &ChangeCounts::next_hops_changed,
                                      &ChangeCounts::next_hops_removed};
  for (size_t i = 0; i < std::size(counts); ++i) {
    changed[5 + i].outcome.counts.*counts[i] = 1;
  }
  for (const AnsweredRequest& other : changed) {
    EXPECT_NE(RequestChecksum(1, 2, other), RequestChecksum(1, 2, request));
  }
  EXPECT_NE(RequestChecksum(2, 2, request), RequestChecksum(1, 2, request));
  EXPECT_NE(RequestChecksum(1, 3, request), RequestChecksum(1, 2, request));
}

}  // namespace
}  // namespace planb::server
