// SPDX-License-Identifier: Apache-2.0

// The routes of a table inside the caller, without a server. Made to run under
// TSan.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/local_table.h"
#include "lpm/fib/fib.h"
#include "lpm/kernels/kernel.h"
#include "lpm/synthetic/reference_table.h"
#include "lpm/testing/instruction_count.h"

namespace planb::client {
namespace {

// So many prefixes have one next hop in each generation of these tests, so that
// a batch of lookups that sees two generations shows it.
constexpr size_t kPrefixes = 64;

Prefix PrefixOf(size_t i) {
  return Prefix::Truncate(
      Address::V6(absl::MakeUint128(0x2001'0db8'0000'0000 | i << 16, 0)), 48);
}

// An address of each prefix, packed.
std::string Addresses() {
  std::string packed;
  for (size_t i = 0; i < kPrefixes; ++i) {
    packed += PrefixOf(i).address().ToPacked();
  }
  return packed;
}

// All prefixes lead to the next hop `generation` + 1.
GenerationChanges AllTo(uint64_t generation) {
  GenerationChanges changes;
  changes.generation = generation;
  for (size_t i = 0; i < kPrefixes; ++i) {
    changes.routes.push_back(
        {PrefixOf(i), static_cast<NextHopId>(generation + 1)});
  }
  return changes;
}

TEST(LocalRoutes, AnswerABatchFromTheGenerationThatTheyName) {
  LocalRoutes routes;
  ASSERT_TRUE(routes.Apply(AllTo(1)).ok());
  std::atomic<bool> stop = false;
  std::vector<std::thread> readers;
  for (int r = 0; r < 3; ++r) {
    readers.emplace_back([&] {
      const std::string addresses = Addresses();
      uint64_t last = 0;
      while (!stop) {
        std::vector<NextHopId> hops(kPrefixes);
        const uint64_t generation = routes.Lookup(
            Family::kIpv6, addresses.data(), kPrefixes, hops.data());
        EXPECT_GE(generation, last);
        last = generation;
        for (const NextHopId hop : hops) ASSERT_EQ(hop, generation + 1);
        EXPECT_GE(routes.Lookup(PrefixOf(3).address()), generation + 1);
      }
    });
  }
  for (uint64_t generation = 2; generation < 2000; ++generation) {
    ASSERT_TRUE(routes.Apply(AllTo(generation)).ok());
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(routes.generation(), 1999U);
}

// What a version of the routes costs, pinned and given back. This file is
// compiled as what is shipped.
TEST(LocalRoutes, CostFewInstructionsBesideTheSearch) {
  LocalRoutes routes;
  const GenerationChanges changes = AllTo(1);
  ASSERT_TRUE(routes.Apply(changes).ok());
  const auto fib = Fib::Build(Family::kIpv6, changes.routes);
  ASSERT_TRUE(fib.ok());
  const Kernel& kernel = *AvailableKernels().front();
  const std::string addresses = Addresses();
  NextHopId here = kNoRoute, there = kNoRoute;
  const auto lookup = [&] {
    routes.Lookup(Family::kIpv6, addresses.data(), 1, &here);
  };
  const auto search = [&] {
    (*fib)->Lookup(addresses.data(), 1, &there, kernel);
  };
  lookup();
  search();
  EXPECT_EQ(here, there);
  const auto all = CountInstructions(lookup);
  if (!all.ok()) GTEST_SKIP() << all.status();
  const auto searching = CountInstructions(search);
  ASSERT_TRUE(searching.ok());
  EXPECT_LE(*all - *searching, 42U);
  RecordProperty("around", absl::StrCat(*all - *searching));
  const Address address = PrefixOf(0).address();
  const auto one = [&] { here = routes.Lookup(address); };
  one();
  const auto all_of_one = CountInstructions(one);
  ASSERT_TRUE(all_of_one.ok());
  EXPECT_LE(*all_of_one - *searching, 78U);
  RecordProperty("around_one", absl::StrCat(*all_of_one - *searching));
}

TEST(LocalRoutes, ChooseTheMemberOfAFlow) {
  LocalRoutes routes;
  ASSERT_TRUE(routes.Apply(AllTo(1)).ok());
  const uint64_t version = routes.objects_version();
  GenerationChanges groups;
  groups.generation = 2;
  groups.groups = {{.id = 2, .members = {{10, 1}, {11, 1}}}};
  ASSERT_TRUE(routes.Apply(groups).ok());
  EXPECT_GT(routes.objects_version(), version);
  const auto choose = [&] {
    std::vector<uint32_t> hashes(kPrefixes);
    for (size_t i = 0; i < kPrefixes; ++i) hashes[i] = static_cast<uint32_t>(i);
    std::vector<NextHopId> hops(kPrefixes);
    const std::string addresses = Addresses();
    routes.Lookup(Family::kIpv6, addresses.data(), kPrefixes, hashes.data(),
                  hops.data());
    return hops;
  };
  const std::vector<NextHopId> both = choose();
  EXPECT_GT(std::count(both.begin(), both.end(), 10), 0);
  EXPECT_GT(std::count(both.begin(), both.end(), 11), 0);
  groups.generation = 3;
  groups.groups[0].members.push_back({12, 1});
  ASSERT_TRUE(routes.Apply(groups).ok());
  const std::vector<NextHopId> three = choose();
  for (size_t i = 0; i < kPrefixes; ++i) {
    EXPECT_TRUE(three[i] == 12 || three[i] == both[i]);
  }
  EXPECT_EQ(routes.objects_version(), version + 2);
  ASSERT_TRUE(routes.Apply(AllTo(4)).ok());
  EXPECT_EQ(routes.objects_version(), version + 2);
}

TEST(LocalRoutes, AnswerAsTheReferenceAfterRandomChanges) {
  std::mt19937_64 random(1);
  LocalRoutes routes({.prefix_lengths = true});
  std::map<Prefix, NextHopId> expected;
  TableDigest digest;
  for (uint64_t generation = 1; generation < 400; ++generation) {
    GenerationChanges changes;
    changes.generation = generation;
    changes.reset = random() % 50 == 0;
    if (changes.reset) {
      expected.clear();
      digest = TableDigest();
    }
    std::map<Prefix, NextHopId> changed;
    for (uint64_t i = random() % (generation % 100 == 0 ? 3000 : 6); i > 0;
         --i) {
      const bool v6 = random() % 2 == 0;
      const Address address =
          v6 ? Address::V6(absl::MakeUint128(
                   0x2001'0db8'0000'0000 | random() % 256 << 20,
                   random() % 4 << 60))
             : Address::V4(0x0a000000 | static_cast<uint32_t>(random() % 256)
                                            << 12);
      const auto length = static_cast<int>(random() % (v6 ? 70 : 33));
      changed[Prefix::Truncate(address, length)] =
          static_cast<NextHopId>(random() % 4);
    }
    for (const auto& [prefix, hop] : changed) {
      if (changes.reset && hop == kNoRoute) continue;
      changes.routes.push_back({prefix, hop});
      const auto before = expected.find(prefix);
      if (before != expected.end()) {
        digest.Remove(Route{prefix, before->second});
        expected.erase(before);
      }
      if (hop == kNoRoute) continue;
      expected[prefix] = hop;
      digest.Add(Route{prefix, hop});
    }
    changes.digest = digest.ToString();
    ASSERT_TRUE(routes.Apply(changes).ok()) << generation;
    EXPECT_EQ(routes.digest(), changes.digest);
    if (generation % 10 != 0) continue;
    std::vector<Route> all;
    for (const auto& [prefix, hop] : expected) all.push_back({prefix, hop});
    const ReferenceTable reference(all);
    for (const Route& route : all) {
      const Address first = route.prefix.address();
      EXPECT_EQ(routes.Lookup(first), reference.NextHop(first));
      const auto best = reference.Lookup(first);
      ASSERT_TRUE(best.has_value());
      NextHopId next_hop = kNoRoute;
      uint8_t length = 0;
      EXPECT_EQ(
          routes.LookupWithLengths(first.family(), first.ToPacked().data(), 1,
                                   &next_hop, &length),
          generation);
      EXPECT_EQ(next_hop, best->next_hop);
      EXPECT_EQ(length, best->prefix.length());
    }
  }
}

TEST(LocalRoutes, AnswerFromAGenerationWithoutChanges) {
  LocalRoutes routes;
  ASSERT_TRUE(routes.Apply(AllTo(1)).ok());
  const std::string digest = routes.digest();
  GenerationChanges bookmark;
  bookmark.bookmark = true;
  for (const uint64_t generation : {1, 4, 6}) {
    bookmark.generation = generation;
    bookmark.digest = generation == 4 ? digest : "";
    bookmark.complete_since = generation % 4;
    ASSERT_TRUE(routes.Apply(bookmark).ok());
    EXPECT_EQ(routes.complete_since(), generation % 4);
    NextHopId next_hop = kNoRoute;
    EXPECT_EQ(routes.Lookup(Family::kIpv6, Addresses().data(), 1, &next_hop),
              generation);
    EXPECT_EQ(next_hop, 2U);
    EXPECT_EQ(routes.digest(), digest);
  }
  // The first one of a watch that goes on, which may lag, does not say.
  bookmark.complete_since.reset();
  ASSERT_TRUE(routes.Apply(bookmark).ok());
  EXPECT_EQ(routes.complete_since(), 2U);
  ASSERT_TRUE(routes.Apply(AllTo(7)).ok());
  EXPECT_EQ(routes.generation(), 7U);
}

TEST(LocalRoutes, ShareTheirObjectsUntilTheseChange) {
  LocalRoutes routes;
  GenerationChanges changes = AllTo(1);
  changes.next_hops = {{.id = 2, .label = "two"}, {.id = 3, .label = "three"}};
  changes.groups = {{.id = 9, .members = {{2, 1}}}};
  ASSERT_TRUE(routes.Apply(changes).ok());
  const auto first = routes.objects();
  ASSERT_TRUE(routes.Apply(AllTo(2)).ok());
  EXPECT_EQ(routes.objects(), first);
  changes = AllTo(3);
  changes.deleted_next_hops = {2};
  changes.deleted_groups = {9};
  changes.next_hops = {{.id = 3, .label = "other"}};
  ASSERT_TRUE(routes.Apply(changes).ok());
  EXPECT_EQ(first->FindNextHop(2)->label, "two");
  EXPECT_EQ(first->size(), 3U);
  EXPECT_EQ(routes.objects()->FindNextHop(3)->label, "other");
  EXPECT_EQ(routes.objects()->size(), 1U);
  // What is refused is not seen.
  changes = AllTo(4);
  changes.next_hops = {{.id = 3, .label = "refused"}};
  changes.digest = std::string(16, 'x');
  EXPECT_FALSE(routes.Apply(changes).ok());
  EXPECT_EQ(routes.objects()->FindNextHop(3)->label, "other");
}

TEST(NextHopObjects, ACopyWithAChangeCostsTheChange) {
  NextHopObjects objects;
  for (NextHopId id = 1; id <= 100'000; ++id) objects.Set(NextHop{.id = id});
  const auto instructions = CountInstructions([&] {
    NextHopObjects next = objects;
    next.Set(NextHop{.id = 500});
  });
  if (!instructions.ok()) GTEST_SKIP() << instructions.status();
  EXPECT_LT(*instructions, 200'000U);
}

TEST(LocalRoutes, RefuseAnotherDigestAndGoOnAfterAReset) {
  LocalRoutes routes;
  ASSERT_TRUE(routes.Apply(AllTo(1)).ok());
  GenerationChanges wrong = AllTo(2);
  wrong.digest = std::string(16, 'x');
  EXPECT_EQ(routes.Apply(wrong).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(routes.generation(), 1U);
  EXPECT_EQ(routes.Lookup(PrefixOf(0).address()), 2U);
  GenerationChanges bookmark;
  bookmark.generation = 1;
  bookmark.bookmark = true;
  bookmark.digest = std::string(16, 'x');
  EXPECT_EQ(routes.Apply(bookmark).code(), absl::StatusCode::kDataLoss);
  GenerationChanges reset = AllTo(3);
  reset.reset = true;
  EXPECT_TRUE(routes.Apply(reset).ok());
  EXPECT_EQ(routes.Lookup(PrefixOf(0).address()), 4U);
}

}  // namespace
}  // namespace planb::client
