// SPDX-License-Identifier: Apache-2.0

// A table that a FIB cannot hold is refused, by a status that names the limit;
// one that just fits is compiled. The limits are far below the format's.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/config.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "lpm/fib/fib.h"
#include "lpm/fib/fib_compiler.h"
#include "lpm/fib/fib_memory.h"
#include "lpm/kernels/layout.h"
#include "lpm/routes/route_set.h"
#include "lpm/testing/fib_check.h"
#include "lpm/testing/random_tables.h"

namespace planb {

namespace {

using Made = FibLimitsPeer::Made;

void ExpectRight(const Made& made, const std::vector<Route>& routes) {
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(DifferencesAtBoundaries(**made, routes), "");
}

void ExpectExhausted(const Made& made, const std::string& message) {
  ASSERT_FALSE(made.ok());
  EXPECT_TRUE(absl::IsResourceExhausted(made.status())) << made.status();
  EXPECT_EQ(made.status().message(),
            absl::StrCat("the IPv6 table needs more than ", message,
                         ", the most that a FIB can hold"));
}

// `limits` hold `routes` but for the last, and not all of them.
void ExpectLimit(const std::vector<Route>& routes, const FibLimits& limits,
                 const std::string& message) {
  const std::vector<Route> fewer(routes.begin(), routes.end() - 1);
  const RouteSet set(Family::kIpv6, routes), fewer_set(Family::kIpv6, fewer);
  ExpectRight(FibLimitsPeer::Build(Family::kIpv6, fewer, limits), fewer);
  ExpectExhausted(FibLimitsPeer::Build(Family::kIpv6, routes, limits), message);

  const auto compiler = FibLimitsPeer::Compiler(Family::kIpv6, limits);
  ExpectExhausted(compiler->Compile(set), message);
  const Made before = compiler->Compile(fewer_set);
  ExpectRight(before, fewer);
  const std::vector<Prefix> last = {routes.back().prefix};
  ExpectExhausted(compiler->Update(set, last), message);
  ExpectExhausted(compiler->Update(set, {}), message);
  ExpectRight(before, fewer);
  ExpectRight(compiler->Update(fewer_set, last), fewer);
}

// A prefix in the n-th of very many /48s, each in a /12 of its own at first.
Prefix InSlash48(uint64_t n, int length) {
  return V6(n << 52 | n >> 12 << 16, 1, length);
}

std::vector<Route> Hosts(size_t count) {
  std::vector<Route> routes;
  for (uint64_t n = 0; n < count; ++n) {
    routes.push_back({InSlash48(n, 128), 1});
  }
  return routes;
}

TEST(FibLimits, Lines) {
  std::vector<Route> routes;
  for (uint64_t n = 0; n < 300; ++n) {
    routes.push_back({InSlash48(n, 40), 1});
  }
  const std::vector<Route> fewer(routes.begin(), routes.end() - 1);
  // There is nothing but lines.
  const Made fib = Fib::Build(Family::kIpv6, fewer);
  ASSERT_TRUE(fib.ok());
  FibLimits limits;
  limits.lines = ((*fib)->bytes() - Fib::own_bytes()) / sizeof(Line);
  ExpectLimit(routes, limits, absl::StrCat(limits.lines, " lines of 64 bytes"));
}

TEST(FibLimits, NoLines) {
  FibLimits limits;
  limits.lines = 0;
  ExpectLimit({R("::/0", 1), R("2001:db8::/32", 2)}, limits,
              "0 lines of 64 bytes");
}

TEST(FibLimits, Descriptors) {
  FibLimits limits;
  limits.descriptors = 99;
  ExpectLimit(Hosts(100), limits, "99 descriptors of prefixes longer than /48");
}

// Two lengths of one next hop count twice.
TEST(FibLimits, NextHopsWithLengths) {
  const std::vector<Route> routes = {
      R("2001:db8::/32", 1), R("2001:db8::/48", 1), R("2001:db9::/48", 1)};
  FibLimits limits;
  limits.next_hops = 1;
  ExpectExhausted(FibLimitsPeer::Build(Family::kIpv6, routes,
                                       {.prefix_lengths = true}, limits),
                  "1 distinct pairs of next hop and prefix length");
  limits.next_hops = 2;
  ExpectRight(FibLimitsPeer::Build(Family::kIpv6, routes,
                                   {.prefix_lengths = true}, limits),
              routes);
}

TEST(FibLimits, NextHopsOfSmallIds) {
  std::vector<Route> routes = Hosts(100);
  for (size_t i = 0; i < routes.size(); ++i) {
    routes[i].next_hop = static_cast<NextHopId>(i + 1);
  }
  FibLimits limits;
  limits.next_hops = 99;
  ExpectLimit(routes, limits, "99 distinct next hops");
}

// As many as take values of four bytes.
TEST(FibLimits, NextHopsOfLargeIds) {
  std::vector<Route> routes;
  for (uint32_t n = 0; n < 40'000; ++n) {
    routes.push_back({V6(uint64_t{n} << 20, 0, 48), kUndecided - 1 - n});
  }
  FibLimits limits;
  limits.next_hops = 39'999;
  ExpectLimit(routes, limits, "39999 distinct next hops");
}

// Updates run into the limits wherever they are at the time. One fails if and
// only if the table does not fit, and the next one is right again.
TEST(FibLimits, AHistoryOfUpdatesFailsOnlyWhereATableDoesNotFit) {
  size_t failed = 0, right = 0, packed = 0;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    const Family family = seed % 3 == 0 ? Family::kIpv4 : Family::kIpv6;
    History history({.family = family,
                     .prefixes = 100,
                     .changes = 10,
                     .next_hops = 20,
                     .first_next_hop = seed % 2 == 0 ? 1 : 1u << 30,
                     .seed = seed});
    FibLimits limits;
    limits.lines = 20 + 10 * seed;
    limits.descriptors = 2 + 2 * seed;
    limits.next_hops = 10 + static_cast<uint32_t>(seed) % 12;
    RouteSet routes(family);
    const auto compiler = FibLimitsPeer::Compiler(family, limits);
    std::vector<std::unique_ptr<const Fib>> versions;
    versions.push_back(compiler->Compile(routes).value());
    std::vector<Route> last;  // the routes of the last version
    for (int batch = 0; batch < 60; ++batch) {
      const std::vector<Prefix> changed =
          MakeChanges(history.NextBatch(), routes);
      const uint64_t full = compiler->counters().full;
      Made made = compiler->Update(routes, changed);
      if (made.ok()) {
        last.assign(routes.begin(), routes.end());
        versions.push_back(*std::move(made));
        packed += compiler->counters().full - full;
        ++right;
      } else {
        ASSERT_TRUE(absl::IsResourceExhausted(made.status()));
        ASSERT_FALSE(
            FibLimitsPeer::Compiler(family, limits)->Compile(routes).ok())
            << made.status();
        ++failed;
      }
      ASSERT_EQ(DifferencesAtBoundaries(*versions.back(), last), "")
          << "seed " << seed << ", batch " << batch;
      if (versions.size() > 4) versions.erase(versions.begin());
    }
  }
  EXPECT_GT(failed, 100U);
  EXPECT_GT(right, 100U);
  EXPECT_GT(packed, 100U);
}

// The pool of lines up to the last line that an entry can name. (Elements are
// bytes here: 2 GiB of lines would show no more.)

constexpr uint32_t kBlock = 256;
constexpr size_t kBlocks = kMaxPayload / kBlock;

void ExpectAllNamed(BlockPool<char>& pool) {
  for (uint32_t i = 0; i < kBlocks; ++i) {
    ASSERT_EQ(pool.Allocate(kBlock), i * kBlock);
  }
  EXPECT_FALSE(pool.overflow());
  pool.Allocate(kBlock);
  EXPECT_TRUE(pool.overflow());
}

// Growing by half must not stop it two thirds of the way.
TEST(BlockPool, GrowsToTheLastName) {
  BlockPool<char> pool(16, kBlock);
  ExpectAllNamed(pool);
}

// Room for changes may be more than there are names.
TEST(BlockPool, UsesNoMemoryBeyondTheLastName) {
  BlockPool<char> pool(16, kBlock);
  constexpr size_t kSize = kMaxPayload + 100 * kBlock;
  const auto memory = std::make_unique_for_overwrite<char[]>(kSize);
  pool.MoveTo(memory.get(), kSize);
  ExpectAllNamed(pool);
}

// A reader may read the memory that the pool was given to work on.
TEST(BlockPool, ABlockPastTheLimitIsNotInMemoryThatWasGiven) {
  BlockPool<char> pool(16, kBlock, 4 * kBlock);
  for (int i = 0; i < 4; ++i) pool.Allocate(kBlock);
  std::vector<char> memory(4 * kBlock, 'x');
  for (uint32_t i = 0; i < 4; ++i) {
    std::fill_n(pool.at(i * kBlock), kBlock, 'x');
  }
  pool.MoveTo(memory.data(), memory.size());
  std::fill_n(pool.at(pool.Allocate(kBlock)), kBlock, 'y');
  EXPECT_TRUE(pool.overflow());
  EXPECT_EQ(memory, std::vector<char>(4 * kBlock, 'x'));
}

#if defined(ABSL_HAVE_ADDRESS_SANITIZER)

// Reads one word of each line of a block.
uint32_t Sum(LinePool& pool, uint32_t first, uint32_t size) {
  uint32_t sum = 0;
  for (uint32_t i = first; i < first + size; ++i) {
    sum += *const_cast<const volatile uint32_t*>(pool.at(i)->words);
  }
  return sum;
}

TEST(PoisonedMemory, ReadsOfWhatIsInNoBlockDie) {
  LinePool pool(16, 8);
  const auto expect_poisoned_around = [&pool](uint32_t block) {
    EXPECT_EQ(Sum(pool, block, 2), 14U);
    EXPECT_EQ(Sum(pool, 0, 1), 7U) << "kernels may read it";
    EXPECT_DEATH(Sum(pool, 1, 1), "use-after-poison");
    EXPECT_DEATH(Sum(pool, block + 2, 1), "use-after-poison");
  };
  const uint32_t given_back = pool.Allocate(4);
  const uint32_t block = pool.Allocate(2);
  for (uint32_t i = 0; i < block + 2; ++i) pool.at(i)->words[0] = 7;
  pool.Free(given_back);
  expect_poisoned_around(block);
  FibArena arena(40, 0, 40, FibArena::Memory::kNow);
  pool.MoveTo(arena.lines(), arena.line_capacity());
  expect_poisoned_around(block);
  // Used again, it can be read.
  const uint32_t again = pool.Allocate(4);
  ASSERT_EQ(again, given_back);
  EXPECT_EQ(Sum(pool, again, 4), 28U);
  pool.Free(again);
  // Grown out of the arena, where older generations stay.
  while (!pool.at_home()) pool.Allocate(8);
  EXPECT_DEATH(Sum(pool, 1, 1), "use-after-poison");
  EXPECT_EQ(Sum(pool, block, 2), 14U);
  EXPECT_EQ(arena.lines()[block].words[0], 7U);
  EXPECT_DEATH(static_cast<void>(*const_cast<const volatile uint32_t*>(
                   arena.lines()[1].words)),
               "use-after-poison");
}

#endif  // defined(ABSL_HAVE_ADDRESS_SANITIZER)

}  // namespace
}  // namespace planb
