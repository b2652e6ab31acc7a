// SPDX-License-Identifier: Apache-2.0

// Replaces operator new, for two tests. The memory that compiling takes at its
// peak stays within the bounds. And every allocation fails once: the caller
// gets std::bad_alloc, nothing leaks, existing FIBs stay as they are, and the
// compiler compiles the next generation right.

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "lpm/fib/fib.h"
#include "lpm/fib/fib_bound.h"
#include "lpm/fib/fib_compiler.h"
#include "lpm/kernels/kernel.h"
#include "lpm/routes/route_set.h"
#include "lpm/synthetic/random.h"
#include "lpm/synthetic/synthetic.h"
#include "lpm/testing/bound_tables.h"
#include "lpm/testing/fib_check.h"
#include "lpm/testing/operator_new.h"
#include "lpm/testing/random_tables.h"
#include "lpm/testing/real_tables.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PLANB_COUNTS_MEMORY 0  // blocks are larger than what is asked for
#else
#define PLANB_COUNTS_MEMORY 1
#endif

namespace planb {
namespace {

constexpr size_t kAll = std::numeric_limits<size_t>::max();

// Of all threads: bytes in use, and the most there were.
std::atomic<size_t> allocated = 0, peak = 0;
// Of this thread: how many allocations succeed before one fails, and how many
// blocks there are.
thread_local size_t granted = kAll;
thread_local std::ptrdiff_t blocks = 0;

}  // namespace

void* Allocate(size_t size, size_t alignment) {
  if (granted == 0) throw std::bad_alloc();
  if (granted != kAll) --granted;
  void* const block = std::aligned_alloc(
      alignment,
      (std::max<size_t>(size, 1) + alignment - 1) / alignment * alignment);
  if (block == nullptr) std::abort();
  ++blocks;
  const size_t now = allocated += malloc_usable_size(block);
  if (now > peak) peak = now;
  return block;
}

void Free(void* block) {
  if (block == nullptr) return;
  --blocks;
  allocated -= malloc_usable_size(block);
  std::free(block);
}

namespace {

// The operators count what malloc rounds up to, pages at most for each of the
// few large blocks; and one block is aligned to a huge page.
constexpr size_t kRoundedUp = (size_t{2} << 20) + 40 * 4096;

// The most bytes that `what` has allocated at once, beyond those before it.
template <typename F>
size_t PeakOf(F what) {
  const size_t before = allocated;
  peak = before;
  what();
  return peak - before;
}

class FibBoundPeak : public testing::TestWithParam<BoundTable> {
 protected:
  void SetUp() override {
    if (!PLANB_COUNTS_MEMORY) GTEST_SKIP() << "memory is a sanitizer's";
  }
};

INSTANTIATE_TEST_SUITE_P(Tables, FibBoundPeak, testing::ValuesIn(BoundTables()),
                         testing::PrintToStringParamName());

TEST_P(FibBoundPeak, OfCompiling) {
  const Family family = GetParam().family;
  for (const size_t count : {0, 10, 1000, 20'000, 200'000}) {
    for (const size_t next_hops : {2, 0}) {
      const FibOptions options = {.prefix_lengths = next_hops == 0};
      const std::vector<Route> routes =
          BoundRoutes(GetParam().make(count), next_hops);
      const size_t bound = CompilePeakBound(family, CountLengths(routes),
                                            kDistinctNextHops, options);
      std::unique_ptr<const Fib> fib;
      const size_t build =
          PeakOf([&] { fib = Fib::Build(family, routes, options).value(); });
      EXPECT_LE(build, bound + kRoundedUp) << count << " routes, built";
      const RouteSet set(family, routes);
      FibCompiler compiler(family, options);
      size_t compile = PeakOf([&] { fib = compiler.Compile(set).value(); });
      EXPECT_LE(compile, bound + kRoundedUp) << count << " routes";
      // Again, while the compiler keeps the memory of the first time.
      std::unique_ptr<const Fib> second;
      compile = PeakOf([&] { second = compiler.Compile(set).value(); });
      EXPECT_LE(compile, bound + kRoundedUp) << count << " routes, again";
    }
  }
}

TEST_P(FibBoundPeak, OfUpdates) {
  const Family family = GetParam().family;
  const std::vector<Route> all = BoundRoutes(GetParam().make(20'000), 0);
  const FibOptions options = {.prefix_lengths = true};
  const size_t bound =
      UpdatePeakBound(family, CountLengths(all), kDistinctNextHops, options);
  Random random(5);
  RouteSet set(family);
  FibCompiler compiler(family, options);
  std::unique_ptr<const Fib> fib = compiler.Compile(set).value();
  size_t most = 0;
  for (int i = 0; i < 60; ++i) {
    std::vector<Prefix> changed;
    for (size_t k = size_t{1} << random.Below(11); k > 0; --k) {
      const Route& route = all[random.Below(all.size())];
      if (random.Chance(1, 3)) {
        set.Withdraw(route.prefix);
      } else {
        set.Announce(route.prefix, route.next_hop);
      }
      changed.push_back(route.prefix);
    }
    std::unique_ptr<const Fib> next;
    most = std::max(
        most, PeakOf([&] { next = compiler.Update(set, changed).value(); }));
    fib = std::move(next);
  }
  EXPECT_LE(most, bound);
}

TEST(FibBoundPeakUseful, OnATableLikeTheInternets) {
  if (!PLANB_COUNTS_MEMORY) GTEST_SKIP() << "memory is a sanitizer's";
  const std::vector<Route> routes = SyntheticTable({.ipv6_routes = 259'000});
  const RouteSet set(Family::kIpv6, routes);
  FibCompiler compiler(Family::kIpv6);
  std::unique_ptr<const Fib> fib;
  const size_t bytes = PeakOf([&] { fib = compiler.Compile(set).value(); });
  const size_t bound =
      CompilePeakBound(Family::kIpv6, CountLengths(routes), 64);
  std::cout << "peak " << bytes << ", bound " << bound << ", fib "
            << fib->bytes() << std::endl;
  EXPECT_LE(bytes, bound);
  EXPECT_LE(bound, 60 * bytes);
}

// A host that comes and goes apart from many, each time by one bit more, is
// beside what these have been compiled to. All of that is compiled anew, which
// takes lists of all of it, once at most.
TEST(FibUpdateMemory, AHostApartFromManyIsAddedBesideThem) {
  if (!PLANB_COUNTS_MEMORY) GTEST_SKIP() << "memory is a sanitizer's";
  constexpr uint64_t kHigh = 0x2001'0db8'0000'0000;
  RouteSet routes(Family::kIpv6);
  for (uint64_t n = 0; n < 20'000; ++n) {
    routes.Announce(V6(kHigh, n, 128), static_cast<NextHopId>(1 + n % 7));
  }
  FibCompiler compiler(Family::kIpv6);
  std::unique_ptr<const Fib> fib = compiler.Compile(routes).value();
  constexpr size_t kEdited = 100 * 1024;  // a root among it
  size_t compiled_anew = 0;
  for (int bit = 15; bit < 80; ++bit) {
    const Prefix host = bit < 64
                            ? V6(kHigh, uint64_t{1} << bit, 128)
                            : V6(kHigh | uint64_t{1} << (bit - 64), 7, 128);
    for (const NextHopId next_hop : {NextHopId{9}, kNoRoute}) {
      routes.Exchange(host, next_hop);
      std::unique_ptr<const Fib> updated;
      const size_t took =
          PeakOf([&] { updated = compiler.Update(routes, {host}).value(); });
      compiled_anew += took > kEdited ? 1 : 0;
      fib = std::move(updated);
    }
    if (bit % 8 == 0) {
      ASSERT_EQ(DifferencesAtBoundaries(
                    *fib, std::vector<Route>(routes.begin(), routes.end())),
                "")
          << "bit " << bit;
    }
  }
  EXPECT_EQ(compiler.counters().incremental, 130U);
  EXPECT_LE(compiled_anew, 1U);
}

class FibMeasured : public FibBoundPeak {};

INSTANTIATE_TEST_SUITE_P(Tables, FibMeasured, testing::ValuesIn(BoundTables()),
                         testing::PrintToStringParamName());

TEST_P(FibMeasured, HoldsWhileATableGrows) {
  const Family family = GetParam().family;
  const std::vector<Route> all = BoundRoutes(GetParam().make(20'000), 0);
  const FibOptions options = {.prefix_lengths = true};
  Random random(7);
  RouteSet set(family);
  const auto compiler =
      FibLimitsPeer::Compiler(family, AlwaysPacking(1000), options);
  std::unique_ptr<const Fib> fib = compiler->Compile(set).value();
  bool packed = false;
  for (int i = 0; i < 60; ++i) {
    std::vector<Prefix> changed;
    for (size_t k = size_t{1} << random.Below(11); k > 0; --k) {
      const Route& route = all[random.Below(all.size())];
      if (random.Chance(1, 3)) {
        set.Withdraw(route.prefix);
      } else {
        set.Announce(route.prefix, route.next_hop);
      }
      changed.push_back(route.prefix);
    }
    size_t measured = 0;
    const size_t measuring = PeakOf(
        [&] { measured = MeasuredFibBytes(set, kAll, options).value(); });
    EXPECT_LE(measuring, measured + kRoundedUp);
    std::unique_ptr<const Fib> next;
    const size_t before = compiler->packing_bytes();
    const size_t most =
        PeakOf([&] { next = compiler->Update(set, changed).value(); });
    const size_t packing = std::max(before, compiler->packing_bytes());
    packed |= packing > 0;
    // With the published one, which the next may share memory with, and with
    // what is compiled in steps.
    EXPECT_LE(fib->bytes() + packing + most, measured + kRoundedUp)
        << set.size() << " routes";
    fib = std::move(next);
  }
  EXPECT_TRUE(packed);
}

// Refuses to measure what is more, and takes no more memory for that.
TEST_P(FibMeasured, NoMoreThanIsAllowed) {
  const Family family = GetParam().family;
  const RouteSet set(family, BoundRoutes(GetParam().make(100'000), 0));
  const size_t measured = MeasuredFibBytes(set, kAll).value();
  EXPECT_EQ(MeasuredFibBytes(set, measured).value(), measured);
  for (const size_t most : {measured - 1, measured / 2, measured / 10}) {
    const size_t measuring = PeakOf([&] {
      EXPECT_TRUE(
          absl::IsResourceExhausted(MeasuredFibBytes(set, most).status()));
    });
    EXPECT_LE(measuring, most + kRoundedUp);
  }
}

void ExpectMeasuredUseful(Family family, const std::vector<Route>& routes) {
  const RouteSet set(family, routes);
  FibCompiler compiler(family);
  const std::unique_ptr<const Fib> fib = compiler.Compile(set).value();
  std::unique_ptr<const Fib> second;
  const size_t most = PeakOf([&] { second = compiler.Compile(set).value(); });
  // With the routes, and with the FIB that is published meanwhile.
  const double bytes = static_cast<double>(set.bytes() + fib->bytes() + most);
  const auto ratio = [&](size_t bound) {
    return static_cast<double>(set.bytes() + bound) / bytes;
  };
  const RoutesByLength lengths = CountLengths(routes);
  const double measured = ratio(MeasuredFibBytes(set, kAll).value());
  std::cout << routes.size() << " routes, " << bytes << " bytes: by lengths "
            << ratio(FibBytesBound(family, lengths) +
                     CompilePeakBound(family, lengths))
            << ", measured " << measured << std::endl;
  EXPECT_GE(measured, 1);
  EXPECT_LE(measured, routes.size() < 100'000 ? 3 : 2.5);
}

TEST(FibMeasuredUseful, OnTablesLikeTheInternets) {
  if (!PLANB_COUNTS_MEMORY) GTEST_SKIP() << "memory is a sanitizer's";
  for (const size_t routes : {20'000, 259'000, 1'000'000}) {
    ExpectMeasuredUseful(Family::kIpv6,
                         SyntheticTable({.ipv6_routes = routes}));
  }
  for (const Family family : {Family::kIpv6, Family::kIpv4}) {
    const std::string path = RealTablePath(family);
    if (path.empty()) continue;
    ExpectMeasuredUseful(family, ReadPlainTable(path).value());
  }
}

// The FIB that `make` returns, or nullptr if it ran out of memory after
// `allocations` of them.
template <typename Make>
std::unique_ptr<const Fib> MakeWith(size_t allocations, Make make) {
  granted = allocations;
  std::unique_ptr<const Fib> fib;
  try {
    fib = make();
  } catch (const std::bad_alloc&) {
  }
  granted = kAll;
  return fib;
}

// Small ids take no hash map: Abseil's do not bear exceptions.
std::vector<Route> SmallIdRoutes(Family family) {
  return HardRoutes(family, 200, /*seed=*/1, /*next_hops=*/5);
}

class FibNoMemory : public testing::TestWithParam<Family> {
 protected:
  // The list of kernels is made when it is first asked for, and stays: it is
  // not a block that a test leaves.
  void SetUp() override { ASSERT_FALSE(AvailableKernels().empty()); }
};

INSTANTIATE_TEST_SUITE_P(Families, FibNoMemory,
                         testing::Values(Family::kIpv4, Family::kIpv6),
                         testing::PrintToStringParamName());

TEST_P(FibNoMemory, ABuildThatFailsLeavesNothing) {
  const std::vector<Route> routes = SmallIdRoutes(GetParam());
  std::unique_ptr<const Fib> fib;
  size_t allocations = 0;
  for (; fib == nullptr; ++allocations) {
    const std::ptrdiff_t before = blocks;
    fib = MakeWith(allocations,
                   [&] { return Fib::Build(GetParam(), routes).value(); });
    if (fib == nullptr) {
      ASSERT_EQ(blocks, before) << "a leak after " << allocations;
    }
  }
  EXPECT_GT(allocations, 10U);
  EXPECT_EQ(DifferencesAtBoundaries(*fib, routes), "");
}

TEST_P(FibNoMemory, AfterACompilationThatFailsTheNextOneIsRight) {
  const std::vector<Route> routes = SmallIdRoutes(GetParam());
  const RouteSet set(GetParam(), routes);
  FibCompiler compiler(GetParam());
  std::unique_ptr<const Fib> fib;
  size_t allocations = 0;
  for (; fib == nullptr; ++allocations) {
    fib = MakeWith(allocations, [&] { return compiler.Compile(set).value(); });
  }
  EXPECT_GT(allocations, 10U);
  EXPECT_EQ(DifferencesAtBoundaries(*fib, routes), "");
}

// Each allocation of an update fails in turn, and is then tried again.
TEST_P(FibNoMemory, AfterAnUpdateThatFailsTheNextOneIsRight) {
  const std::vector<Route> all = SmallIdRoutes(GetParam());
  const std::vector<Route> old(all.begin(), all.end() - 20);
  std::vector<Prefix> changed;
  for (size_t i = old.size(); i < all.size(); ++i) {
    changed.push_back(all[i].prefix);
  }
  const RouteSet old_set(GetParam(), old), set(GetParam(), all);
  bool failed = true;
  size_t allocations = 0;
  for (; failed; ++allocations) {
    const std::ptrdiff_t before = blocks;
    {
      FibCompiler compiler(GetParam());
      const auto first = compiler.Compile(old_set).value();
      auto second = MakeWith(
          allocations, [&] { return compiler.Update(set, changed).value(); });
      failed = second == nullptr;
      if (failed) second = compiler.Update(set, changed).value();
      ASSERT_EQ(DifferencesAtBoundaries(*first, old), "") << allocations;
      ASSERT_EQ(DifferencesAtBoundaries(*second, all), "") << allocations;
    }
    ASSERT_EQ(blocks, before) << "a leak after " << allocations;
  }
  EXPECT_GT(allocations, 5U);
}

// The same of the steps in which a table is packed; of later ones, some.
TEST_P(FibNoMemory, AfterAStepThatFailsTheNextOneIsRight) {
  const std::vector<Route> all = SmallIdRoutes(GetParam());
  const RouteSet set(GetParam(), all);
  bool failed = true;
  size_t allocations = 0;
  for (; failed; allocations += 1 + allocations / 16) {
    const std::ptrdiff_t before = blocks;
    {
      const auto compiler =
          FibLimitsPeer::Compiler(GetParam(), AlwaysPacking(150));
      std::unique_ptr<const Fib> fib = compiler->Compile(set).value();
      failed = false;
      granted = allocations;
      while (compiler->counters().packed == 0 && !failed) {
        try {
          fib = compiler->Update(set, {all.back().prefix}).value();
        } catch (const std::bad_alloc&) {
          granted = kAll;
          failed = true;
        }
      }
      granted = kAll;
      ASSERT_EQ(DifferencesAtBoundaries(*fib, all), "") << allocations;
      if (failed) fib = compiler->Update(set, {}).value();
      ASSERT_EQ(DifferencesAtBoundaries(*fib, all), "") << allocations;
    }
    ASSERT_EQ(blocks, before) << "a leak after " << allocations;
  }
  EXPECT_GT(allocations, 20U);
}

}  // namespace
}  // namespace planb
