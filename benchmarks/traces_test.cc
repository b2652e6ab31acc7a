#include "benchmarks/traces.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <set>
#include <vector>

#include "lpm/synthetic/synthetic.h"

namespace planb {
namespace {

constexpr size_t kCount = 20'000;

std::vector<Route> Table() {
  return {{*Prefix::Parse("2001:db8::/32"), 1},
          {*Prefix::Parse("2001:db9::/48"), 2},
          {*Prefix::Parse("2001:dba::/96"), 3}};
}

std::map<int, size_t> CountByRoute(const Trace& trace,
                                   const std::vector<Route>& routes) {
  std::map<int, size_t> counts;
  for (size_t i = 0; i < trace.size(); ++i) {
    int found = -1;
    for (size_t r = 0; r < routes.size(); ++r) {
      if (routes[r].prefix.Contains(trace.address(i))) {
        found = static_cast<int>(r);
      }
    }
    ++counts[found];
  }
  return counts;
}

TEST(Traces, MatchDrawsRoutesEvenly) {
  const auto trace =
      MakeTrace(TraceKind::kMatch, Family::kIpv6, Table(), kCount);
  ASSERT_TRUE(trace.ok());
  EXPECT_EQ(trace->size(), kCount);
  EXPECT_EQ(trace->width(), 16U);
  const auto counts = CountByRoute(*trace, Table());
  EXPECT_EQ(counts.size(), 3U);
  for (const auto& [route, count] : counts) {
    EXPECT_GE(route, 0);
    EXPECT_NEAR(static_cast<double>(count), kCount / 3.0, kCount / 30.0);
  }
}

TEST(Traces, ZipfFavoursTheFirst) {
  const auto trace =
      MakeTrace(TraceKind::kZipf, Family::kIpv6, Table(), kCount);
  ASSERT_TRUE(trace.ok());
  std::multiset<size_t> shares;
  for (const auto& [route, count] : CountByRoute(*trace, Table())) {
    EXPECT_GE(route, 0);
    shares.insert(count);
  }
  // Weights 1, 1/2, 1/3 of 11/6.
  const std::vector<size_t> sorted(shares.begin(), shares.end());
  ASSERT_EQ(sorted.size(), 3U);
  EXPECT_NEAR(static_cast<double>(sorted[0]), kCount * 2 / 11.0, 400);
  EXPECT_NEAR(static_cast<double>(sorted[1]), kCount * 3 / 11.0, 400);
  EXPECT_NEAR(static_cast<double>(sorted[2]), kCount * 6 / 11.0, 400);
}

TEST(Traces, LongTakesOnlyLongOnes) {
  const auto trace =
      MakeTrace(TraceKind::kLong, Family::kIpv6, Table(), kCount);
  ASSERT_TRUE(trace.ok());
  EXPECT_EQ(CountByRoute(*trace, Table()),
            (std::map<int, size_t>{{2, kCount}}));
  const auto none = MakeTrace(TraceKind::kLong, Family::kIpv6,
                              {Table()[0], Table()[1]}, kCount);
  EXPECT_EQ(none.status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(Traces, UniformIsGlobalUnicast) {
  const auto trace = MakeTrace(TraceKind::kUniform, Family::kIpv6, {}, kCount);
  ASSERT_TRUE(trace.ok());
  const Prefix global = *Prefix::Parse("2000::/3");
  std::set<int> slash8s;
  for (size_t i = 0; i < trace->size(); ++i) {
    ASSERT_TRUE(global.Contains(trace->address(i)));
    slash8s.insert(static_cast<unsigned char>(*trace->at(i)));
  }
  EXPECT_EQ(slash8s.size(), 32U);
}

TEST(Traces, RepeatHasSixteen) {
  const std::vector<Route> routes = SyntheticTable({.ipv6_routes = 5000});
  const auto trace =
      MakeTrace(TraceKind::kRepeat, Family::kIpv6, routes, kCount);
  ASSERT_TRUE(trace.ok());
  std::map<Address, size_t> counts;
  for (size_t i = 0; i < trace->size(); ++i) ++counts[trace->address(i)];
  EXPECT_EQ(counts.size(), 16U);
  for (const auto& [address, count] : counts) EXPECT_EQ(count, kCount / 16);
}

TEST(Traces, AreTheSameEachTime) {
  const std::vector<Route> routes = {{*Prefix::Parse("10.0.0.0/8"), 1}};
  for (const char* name : {"match", "uniform", "zipf", "repeat"}) {
    const auto kind = ParseTraceKind(name);
    ASSERT_TRUE(kind.ok());
    EXPECT_EQ(TraceKindName(*kind), name);
    const auto a = MakeTrace(*kind, Family::kIpv4, routes, 1000, 5);
    const auto b = MakeTrace(*kind, Family::kIpv4, routes, 1000, 5);
    const auto c = MakeTrace(*kind, Family::kIpv4, routes, 1000, 6);
    EXPECT_EQ(a->width(), 4U);
    EXPECT_EQ(std::memcmp(a->at(0), b->at(0), 4000), 0);
    EXPECT_NE(std::memcmp(a->at(0), c->at(0), 4000), 0);
  }
}

TEST(Traces, NamesWhatThereIs) {
  const absl::Status refused = ParseTraceKind("fast").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(refused.message().find("zipf"), absl::string_view::npos);
  EXPECT_EQ(MakeTrace(TraceKind::kMatch, Family::kIpv6, {}, 1).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace planb
