// SPDX-License-Identifier: Apache-2.0

// What a lookup reads of the FIB: nothing past the end of any allocation, and
// nothing that an older version took with it. Each block that the engine
// allocates ends at a forbidden page, so that a gather or a vector load one
// byte too far is a crash; AddressSanitizer does not look at those.

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "absl/base/internal/raw_logging.h"
#include "lpm/fib/fib.h"
#include "lpm/fib/fib_compiler.h"
#include "lpm/routes/route_set.h"
#include "lpm/testing/fib_check.h"
#include "lpm/testing/oracle.h"
#include "lpm/testing/random_tables.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PLANB_FENCES 0  // operator new is the sanitizer's
#else
#define PLANB_FENCES 1
#include "lpm/testing/operator_new.h"
#endif

namespace planb {
namespace {

thread_local bool fenced = false;
// Bytes in fenced blocks that are not deleted yet.
std::atomic<size_t> fenced_bytes = 0;

// While one lives, each block that its thread allocates by `new` ends right
// before a forbidden page (its size rounded up to its alignment). Once a block
// is deleted, at any time and by any thread, its pages are forbidden for good.
// Slow, and limited to some ten thousand blocks at a time. Do not nest.
class FencedNew {
 public:
  FencedNew() { fenced = true; }
  ~FencedNew() { fenced = false; }
  FencedNew(const FencedNew&) = delete;
  FencedNew& operator=(const FencedNew&) = delete;
};

}  // namespace

#if PLANB_FENCES

namespace {

constexpr size_t kPage = 4096;
// Addresses, not memory. None is given out twice.
constexpr size_t kArena = size_t{1} << 40;

constexpr size_t RoundUp(size_t size, size_t unit) {
  return (size + unit - 1) / unit * unit;
}

char* Arena() {
  static char* const arena = static_cast<char*>(
      mmap(nullptr, kArena, PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  ABSL_RAW_CHECK(arena != MAP_FAILED, "no room for the arena");
  return arena;
}

// Right before each block of the arena.
struct Header {
  char* pages;
  size_t page_bytes;
  size_t size;
};

}  // namespace

void* Allocate(size_t size, size_t alignment) {
  const size_t rounded = RoundUp(std::max<size_t>(size, 1), alignment);
  if (!fenced) {
    void* const block = std::aligned_alloc(alignment, rounded);
    ABSL_RAW_CHECK(block != nullptr, "no memory");
    return block;
  }
  static std::atomic<size_t> used = 0;
  const size_t page_bytes = RoundUp(rounded + sizeof(Header), kPage);
  const size_t at = used.fetch_add(page_bytes + kPage);
  ABSL_RAW_CHECK(at + page_bytes + kPage <= kArena, "the arena is used up");
  char* const pages = Arena() + at;
  ABSL_RAW_CHECK(mprotect(pages, page_bytes, PROT_READ | PROT_WRITE) == 0,
                 "cannot open pages: too many blocks");
  char* const block = pages + page_bytes - rounded;
  const Header header = {pages, page_bytes, size};
  std::memcpy(block - sizeof(Header), &header, sizeof(Header));
  fenced_bytes += size;
  return block;
}

void Free(void* block) {
  if (reinterpret_cast<uintptr_t>(block) -
          reinterpret_cast<uintptr_t>(Arena()) >=
      kArena) {
    std::free(block);
    return;
  }
  // A second deletion finds the pages forbidden.
  Header header;
  std::memcpy(&header, static_cast<char*>(block) - sizeof(Header),
              sizeof(Header));
  fenced_bytes -= header.size;
  ABSL_RAW_CHECK(mmap(header.pages, header.page_bytes, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
                      -1, 0) == header.pages,
                 "cannot close pages");
}

#endif  // PLANB_FENCES

namespace {

class FibFence : public testing::TestWithParam<Family> {};

INSTANTIATE_TEST_SUITE_P(Families, FibFence,
                         testing::Values(Family::kIpv4, Family::kIpv6),
                         testing::PrintToStringParamName());

// Where tables end: at the last address, at the first, and in between.
std::string Differences(const Fib& fib, const std::vector<Route>& routes) {
  std::string differences = DifferencesAtBoundaries(fib, routes);
  const std::vector<Address> uniform = UniformProbes(fib.family(), 2000, 1);
  return differences + PackedProbes(fib.family(), uniform)
                           .Differences(fib, RightAnswers(routes, uniform));
}

TEST_P(FibFence, BuiltAtOnce) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const std::vector<Route> routes =
        seed == 1 ? std::vector<Route>()
                  : HardRoutes(GetParam(), 1 + seed * seed, seed,
                               static_cast<uint32_t>(1 + seed * 37 % 400));
    const size_t before = fenced_bytes;
    std::unique_ptr<const Fib> fib;
    {
      const FencedNew fence;
      fib = Fib::Build(GetParam(), routes, {.prefix_lengths = seed % 2 == 0})
                .value();
    }
    if (PLANB_FENCES) {
      // Or else this test sees little of the FIB.
      EXPECT_GE(fenced_bytes - before + 1024, fib->bytes() / 10 * 9);
    }
    ASSERT_EQ(Differences(*fib, routes), "") << "seed " << seed;
    fib.reset();
    EXPECT_EQ(fenced_bytes.load(), before) << "a leak";
  }
}

TEST_P(FibFence, Updated) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    History history({.family = GetParam(),
                     .prefixes = 20 * seed,
                     .changes = 10,
                     .seed = seed});
    RouteSet routes(GetParam());
    std::vector<std::unique_ptr<const Fib>> versions;
    std::unique_ptr<FibCompiler> compiler;
    std::unique_ptr<const Fib> first;
    {
      const FencedNew fence;
      compiler = std::make_unique<FibCompiler>(
          GetParam(), FibOptions{.prefix_lengths = seed % 2 == 0});
      first = compiler->Compile(routes).value();
    }
    versions.push_back(std::move(first));
    for (int batch = 0; batch < 60; ++batch) {
      const std::vector<Prefix> changed =
          MakeChanges(history.NextBatch(), routes);
      std::unique_ptr<const Fib> fib;
      {
        const FencedNew fence;
        fib = compiler->Update(routes, changed).value();
      }
      versions.push_back(std::move(fib));
      // The oldest goes, and what it alone held.
      if (versions.size() > 4) versions.erase(versions.begin());
      ASSERT_EQ(Differences(*versions.back(), {routes.begin(), routes.end()}),
                "")
          << "seed " << seed << ", batch " << batch;
    }
    compiler.reset();
    versions.erase(versions.begin(), versions.end() - 1);
    ASSERT_EQ(Differences(*versions[0], {routes.begin(), routes.end()}), "")
        << "alone";
    versions.clear();
    EXPECT_EQ(fenced_bytes.load(), 0U) << "a leak";
  }
}

}  // namespace
}  // namespace planb
