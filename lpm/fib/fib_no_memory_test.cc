// SPDX-License-Identifier: Apache-2.0

// Every allocation of the engine fails once: the caller gets std::bad_alloc,
// nothing leaks, FIBs that exist stay as they are, and the compiler compiles
// the next generation right.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "lpm/fib/fib.h"
#include "lpm/fib/fib_compiler.h"
#include "lpm/routes/route_set.h"
#include "lpm/testing/fib_check.h"
#include "lpm/testing/hard_prefixes.h"

namespace planb {
namespace {

constexpr size_t kAll = std::numeric_limits<size_t>::max();

// Of this thread. How many allocations succeed before one fails, and how many
// blocks there are.
thread_local size_t granted = kAll;
thread_local std::ptrdiff_t blocks = 0;

void* Allocate(size_t size, size_t alignment) {
  if (granted == 0) throw std::bad_alloc();
  if (granted != kAll) --granted;
  void* const block = std::aligned_alloc(
      alignment,
      (std::max<size_t>(size, 1) + alignment - 1) / alignment * alignment);
  if (block == nullptr) std::abort();
  ++blocks;
  return block;
}

void Free(void* block) {
  if (block != nullptr) --blocks;
  std::free(block);
}

}  // namespace
}  // namespace planb

// The other forms call these.
void* operator new(size_t size) {
  return planb::Allocate(size, alignof(std::max_align_t));
}
void* operator new(size_t size, std::align_val_t alignment) {
  return planb::Allocate(size, static_cast<size_t>(alignment));
}
void operator delete(void* block) noexcept { planb::Free(block); }
void operator delete(void* block, size_t) noexcept { planb::Free(block); }
void operator delete(void* block, std::align_val_t) noexcept {
  planb::Free(block);
}
void operator delete(void* block, size_t, std::align_val_t) noexcept {
  planb::Free(block);
}

namespace planb {
namespace {

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

std::vector<Route> HardRoutes(Family family, size_t count) {
  std::vector<Route> routes;
  for (const Prefix& prefix : HardPrefixes(family, count, /*seed=*/1)) {
    // Small ids: they take no hash map, and Abseil's do not bear exceptions.
    const auto number = static_cast<NextHopId>(routes.size());
    routes.push_back({prefix, number % 5 + 1});
  }
  return routes;
}

class FibNoMemory : public testing::TestWithParam<Family> {};

INSTANTIATE_TEST_SUITE_P(Families, FibNoMemory,
                         testing::Values(Family::kIpv4, Family::kIpv6),
                         [](const auto& param) {
                           return std::string(FamilyName(param.param));
                         });

TEST_P(FibNoMemory, ABuildThatFailsLeavesNothing) {
  const std::vector<Route> routes = HardRoutes(GetParam(), 200);
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
  const std::vector<Route> routes = HardRoutes(GetParam(), 200);
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
  const std::vector<Route> all = HardRoutes(GetParam(), 200);
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

}  // namespace
}  // namespace planb
