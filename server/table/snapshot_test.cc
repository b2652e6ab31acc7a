// SPDX-License-Identifier: Apache-2.0

#include "server/table/snapshot.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/published.h"
#include "lpm/synthetic/synthetic.h"
#include "lpm/testing/oracle.h"
#include "server/testing/make_snapshot.h"

namespace planb::server {
namespace {

TEST(Snapshot, OfAnEmptyTableFindsNoRoute) {
  const auto snapshot = MakeSnapshot(7, {});
  EXPECT_EQ(snapshot->generation(), 7U);
  EXPECT_FALSE(snapshot->Match(Address::V6(1)).has_value());
  EXPECT_EQ(snapshot->fib(Family::kIpv4).Lookup(Address::V4(1)), kNoRoute);
}

TEST(Snapshot, MatchAndFibAgreeWithTheOracle) {
  const std::vector<Route> routes =
      SyntheticTable({.ipv6_routes = 3000, .ipv4_routes = 2000, .seed = 5});
  const Oracle oracle(routes);
  const auto snapshot = MakeSnapshot(1, routes);
  EXPECT_EQ(snapshot->routes().of(Family::kIpv4).size(), 2000U);
  EXPECT_EQ(snapshot->routes().of(Family::kIpv6).size(), 3000U);
  for (Family family : {Family::kIpv4, Family::kIpv6}) {
    for (const Address& address : SyntheticTrace(routes, family, 3000, 6)) {
      const auto expected = oracle.Lookup(address);
      ASSERT_EQ(snapshot->Match(address), expected) << address.ToString();
      ASSERT_EQ(snapshot->fib(family).Lookup(address),
                expected.has_value() ? expected->next_hop : kNoRoute);
    }
  }
}

TEST(Snapshot, FindsNextHops) {
  NextHop nine;
  nine.id = 9;
  nine.label = "nine";
  const auto snapshot = MakeSnapshot(1, {}, {nine});
  EXPECT_EQ(snapshot->FindNextHop(9)->label, "nine");
  EXPECT_EQ(snapshot->FindNextHop(8), nullptr);
}

// Two words that must be equal, and a count of live objects.
struct Pair {
  explicit Pair(int value) : a(value), b(value) { ++live; }
  ~Pair() {
    a = -1;
    --live;
  }
  int a;
  int b;
  static std::atomic<int> live;
};
std::atomic<int> Pair::live{0};

size_t One(const Pair&) { return 1; }

TEST(Published, ReadsTheLatest) {
  Published<Pair> published(std::make_unique<Pair>(1));
  EXPECT_EQ(published.Read()->a, 1);
  published.Publish(std::make_unique<Pair>(2));
  EXPECT_EQ(published.Read()->a, 2);
  EXPECT_EQ(Pair::live, 1);
}

TEST(Published, KeepsAnObjectThatAReaderHolds) {
  Published<Pair> published(std::make_unique<Pair>(1));
  {
    const auto old = published.Read();
    published.Publish(std::make_unique<Pair>(2));
    published.Publish(std::make_unique<Pair>(3));
    EXPECT_EQ(old->a, 1);
    EXPECT_EQ(published.Reclaim(One), 1U);  // 2 had no reader
    EXPECT_EQ(Pair::live, 2);
  }
  EXPECT_EQ(published.Reclaim(One), 0U);
  EXPECT_EQ(Pair::live, 1);
}

TEST(Published, MovedReaderStillHolds) {
  Published<Pair> published(std::make_unique<Pair>(1));
  auto first = published.Read();
  const auto second = std::move(first);
  published.Publish(std::make_unique<Pair>(2));
  EXPECT_EQ(second->a, 1);
}

TEST(Published, HasRoomForAnyNumberOfReaders) {
  Published<Pair> published(std::make_unique<Pair>(1));
  {
    std::vector<Published<Pair>::Reader> readers;
    for (int i = 0; i < 1000; ++i) {
      readers.push_back(published.Read());
      published.Publish(std::make_unique<Pair>(i + 2));
    }
    EXPECT_EQ(published.Reclaim(One), 1000U);
    for (int i = 0; i < 1000; ++i) {
      EXPECT_EQ(readers[static_cast<size_t>(i)]->a, i + 1);
    }
  }
  EXPECT_EQ(published.Reclaim(One), 0U);
}

// TSan and ASan check the argument in published.h with this test.
TEST(Published, ReadersNeverSeeAFreedOrAnOlderObject) {
  Published<Pair> published(std::make_unique<Pair>(0));
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> reads{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 4; ++i) {
    readers.emplace_back([&] {
      int last = 0;
      while (!stop.load(std::memory_order_relaxed)) {
        const auto pair = published.Read();
        const int a = pair->a;
        ASSERT_EQ(a, pair->b);
        ASSERT_GE(a, last);
        last = a;
        reads.fetch_add(1, std::memory_order_relaxed);
      }
    });
  }
  for (int i = 1; i < 20000 || reads.load() < 10000; ++i) {
    published.Publish(std::make_unique<Pair>(i));
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(published.Reclaim(One), 0U);
  EXPECT_EQ(Pair::live, 1);
}

}  // namespace
}  // namespace planb::server
