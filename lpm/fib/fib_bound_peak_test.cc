// SPDX-License-Identifier: Apache-2.0

// What compiling takes at its peak, counted where memory is asked for, stays
// within the bounds.

#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "lpm/fib/fib.h"
#include "lpm/fib/fib_bound.h"
#include "lpm/fib/fib_compiler.h"
#include "lpm/routes/route_set.h"
#include "lpm/synthetic/random.h"
#include "lpm/synthetic/synthetic.h"
#include "lpm/testing/bound_tables.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PLANB_COUNTS_MEMORY 0  // these have an operator new of their own
#else
#define PLANB_COUNTS_MEMORY 1
#endif

namespace planb {
namespace {

std::atomic<size_t> allocated = 0, peak = 0;

[[maybe_unused]] void* Count(void* block) {
  if (block == nullptr) std::abort();
  const size_t now = allocated += malloc_usable_size(block);
  if (now > peak) peak = now;
  return block;
}

[[maybe_unused]] void Uncount(void* block) {
  if (block != nullptr) allocated -= malloc_usable_size(block);
  std::free(block);
}

}  // namespace
}  // namespace planb

#if PLANB_COUNTS_MEMORY
// The other forms call these.
void* operator new(size_t size) { return planb::Count(std::malloc(size)); }
void* operator new(size_t size, std::align_val_t alignment) {
  const auto align = static_cast<size_t>(alignment);
  return planb::Count(
      std::aligned_alloc(align, (size + align - 1) / align * align));
}
void operator delete(void* block) noexcept { planb::Uncount(block); }
void operator delete(void* block, size_t) noexcept { planb::Uncount(block); }
void operator delete(void* block, std::align_val_t) noexcept {
  planb::Uncount(block);
}
void operator delete(void* block, size_t, std::align_val_t) noexcept {
  planb::Uncount(block);
}
#endif

namespace planb {
namespace {

// The operators count what malloc rounds up to, pages at most for each of the
// few large blocks; and one block is aligned to a huge page.
constexpr size_t kRoundedUp = (size_t{2} << 20) + 40 * 4096;

// Bytes beyond what there was before that `what` had allocated at its peak.
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
                         [](const auto& param) { return param.param.name; });

TEST_P(FibBoundPeak, OfCompiling) {
  const Family family = GetParam().family;
  for (const size_t count : {0, 10, 1000, 20'000, 200'000}) {
    for (const size_t next_hops : {2, 0}) {
      const std::vector<Route> routes =
          BoundRoutes(GetParam().make(count), next_hops);
      const size_t bound = CompilePeakBound(family, CountLengths(routes));
      std::unique_ptr<const Fib> fib;
      const size_t build =
          PeakOf([&] { fib = Fib::Build(family, routes).value(); });
      EXPECT_LE(build, bound + kRoundedUp) << count << " routes, built";
      const RouteSet set(family, routes);
      FibCompiler compiler(family);
      size_t compile = PeakOf([&] { fib = compiler.Compile(set).value(); });
      EXPECT_LE(compile, bound + kRoundedUp) << count << " routes";
      // Beside the compiler's own of before.
      std::unique_ptr<const Fib> second;
      compile = PeakOf([&] { second = compiler.Compile(set).value(); });
      EXPECT_LE(compile, bound + kRoundedUp) << count << " routes, again";
      RecordProperty("share_" + std::to_string(count) + "_routes_" +
                         std::to_string(next_hops) + "_next_hops",
                     std::to_string(static_cast<double>(compile) /
                                    static_cast<double>(bound)));
    }
  }
}

TEST_P(FibBoundPeak, OfUpdates) {
  const Family family = GetParam().family;
  const std::vector<Route> all = BoundRoutes(GetParam().make(20'000), 0);
  const size_t bound = UpdatePeakBound(family, CountLengths(all));
  Random random(5);
  RouteSet set(family);
  FibCompiler compiler(family);
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

}  // namespace
}  // namespace planb
