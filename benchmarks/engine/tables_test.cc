#include "benchmarks/engine/tables.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <string>

#include "lpm/testing/real_tables.h"

namespace planb {
namespace {

bool SortedAndDistinct(const std::vector<Route>& routes) {
  return std::is_sorted(routes.begin(), routes.end()) &&
         std::adjacent_find(routes.begin(), routes.end(),
                            [](const Route& a, const Route& b) {
                              return a.prefix == b.prefix;
                            }) == routes.end();
}

size_t LongOnes(const std::vector<Route>& routes) {
  return static_cast<size_t>(
      std::count_if(routes.begin(), routes.end(),
                    [](const Route& r) { return r.prefix.length() > 64; }));
}

TEST(Tables, MadeUp) {
  const auto ipv6 = MakeTable("20000");
  ASSERT_TRUE(ipv6.ok()) << ipv6.status();
  EXPECT_EQ(ipv6->name, "20000");
  EXPECT_EQ(ipv6->family, Family::kIpv6);
  EXPECT_EQ(ipv6->routes.size(), 20'000U);
  const auto ipv4 = MakeTable("ipv4:3000");
  ASSERT_TRUE(ipv4.ok()) << ipv4.status();
  EXPECT_EQ(ipv4->family, Family::kIpv4);
  EXPECT_EQ(ipv4->routes.size(), 3000U);
}

TEST(Tables, LongRoutesReplaceOthers) {
  for (const auto& [name, share] :
       {std::pair("20000+long5", 0.05), std::pair("20000+long50", 0.5)}) {
    const auto table = MakeTable(name);
    ASSERT_TRUE(table.ok()) << table.status();
    EXPECT_EQ(table->routes.size(), 20'000U);
    EXPECT_TRUE(SortedAndDistinct(table->routes));
    EXPECT_NEAR(static_cast<double>(LongOnes(table->routes)) / 20'000, share,
                0.01);
    std::set<int> lengths;
    for (const Route& r : table->routes) lengths.insert(r.prefix.length());
    EXPECT_TRUE(lengths.count(65) == 1 && lengths.count(128) == 1);
  }
}

TEST(Tables, Hosts) {
  for (const auto& [name, in] : {std::pair("hosts64", "2001:db8:0:1::/64"),
                                 std::pair("hosts48", "2001:db8:1::/48"),
                                 std::pair("hosts-spread", "2000::/3")}) {
    const auto table = MakeTable(name);
    ASSERT_TRUE(table.ok()) << table.status();
    EXPECT_EQ(table->routes.size(), 100'000U);
    EXPECT_TRUE(SortedAndDistinct(table->routes));
    for (const Route& route : table->routes) {
      ASSERT_EQ(route.prefix.length(), 128);
      ASSERT_TRUE(Prefix::Parse(in)->Covers(route.prefix));
    }
  }
  const auto both = MakeTable("20000+hosts64");
  EXPECT_EQ(both->routes.size(), 120'000U);
}

TEST(Tables, Max64) {
  const auto table = MakeTable("20000+long5+max64");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(LongOnes(table->routes), 0U);
  EXPECT_NEAR(static_cast<double>(table->routes.size()), 19'000, 200);
}

TEST(Tables, FromFile) {
  const std::string path = testing::TempDir() + "/routes.txt";
  std::ofstream(path) << "10.0.0.0/8 1\n2001:db8::/32 2\n2001:db9::/32 3\n";
  const auto mixed = MakeTable(path);
  ASSERT_TRUE(mixed.ok()) << mixed.status();
  EXPECT_EQ(mixed->family, Family::kIpv6);
  EXPECT_EQ(mixed->routes.size(), 2U);
  std::ofstream(path) << "10.0.0.0/8 1\n11.0.0.0/8 2\n";
  EXPECT_EQ(MakeTable(path)->family, Family::kIpv4);
  EXPECT_EQ(MakeTable(path)->routes.size(), 2U);
}

TEST(Tables, Real) {
  if (RealTablePath(Family::kIpv6).empty()) {
    GTEST_SKIP() << "no real table in PLANB_DATA_DIR";
  }
  const auto ipv6 = MakeTable("real");
  ASSERT_TRUE(ipv6.ok()) << ipv6.status();
  EXPECT_EQ(ipv6->routes, *ReadPlainTable(RealTablePath(Family::kIpv6)));
  const auto ipv4 = MakeTable("ipv4");
  ASSERT_TRUE(ipv4.ok()) << ipv4.status();
  EXPECT_EQ(ipv4->family, Family::kIpv4);
  EXPECT_EQ(ipv4->routes.size(), 1'107'938U);
}

TEST(Tables, NamesThatMeanNothing) {
  for (const char* name : {"", "fast", "20000+fast", "ipv4:20+long5", "20k",
                           "0+long5", "no/such/file"}) {
    EXPECT_FALSE(MakeTable(name).ok()) << name;
  }
}

TEST(NextHops, AreAssigned) {
  Table table = *MakeTable("20000");
  const std::vector<Route> given = table.routes;
  ASSERT_TRUE(AssignNextHops("as-given", table.routes).ok());
  EXPECT_EQ(table.routes, given);
  ASSERT_TRUE(AssignNextHops("random:5", table.routes).ok());
  std::set<NextHopId> ids;
  for (const Route& route : table.routes) ids.insert(route.next_hop);
  EXPECT_EQ(ids, (std::set<NextHopId>{1, 2, 3, 4, 5}));
  for (const char* how : {"random", "random:0", "random:x", "best"}) {
    EXPECT_FALSE(AssignNextHops(how, table.routes).ok()) << how;
  }
}

}  // namespace
}  // namespace planb
